"""Gives the tests the modules of the adapters' kit, which lives outside the package."""

import sys

from tests.adapters import hook_fixture

if str(hook_fixture.SCRIPTS) not in sys.path:
    sys.path.insert(0, str(hook_fixture.SCRIPTS))

from adapter_kit import (  # needs the path
    config,
    json_text,
    limits,
    private_files,
    refusal,
    reports,
    server_client,
)

__all__ = ["config", "json_text", "limits", "private_files", "refusal", "reports", "server_client"]
