"""Gives the tests the modules of the adapters' kit that only Windows has."""

import sys

from tests.adapters import hook_fixture, kit

assert sys.platform == "win32"
assert str(hook_fixture.SCRIPTS) in sys.path, kit.__name__

from adapter_kit import private_files_windows, security_windows, system_windows  # noqa: E402  # as in ``kit``

__all__ = ["private_files_windows", "security_windows", "system_windows"]
