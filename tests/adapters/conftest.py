"""Lets the tests of the adapters run on Windows; each that cannot is skipped with its reason."""

import sys

import pytest

from tests.adapters import windows_skips

if sys.platform == "win32":
    from tests.adapters import windows_modes

    windows_modes.install()
    collect_ignore = [*windows_skips.NOT_COLLECTED]
else:
    collect_ignore = ["test_private_files_windows.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On Windows, skips what cannot run there, and under Wine what Wine does not offer."""
    why: dict[str, str] = {}
    if sys.platform == "win32":
        tests = [item.nodeid for item in items]
        why = windows_skips.reasons(tests, windows_skips.POSIX_ONLY)
        if windows_modes.IS_WINE:
            why |= windows_skips.reasons(tests, windows_skips.NOT_UNDER_WINE)
    for item in items:
        if item.nodeid in why:
            item.add_marker(pytest.mark.skip(reason=why[item.nodeid]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """On Windows, also names the files that are left out as a whole."""
    if sys.platform == "win32":
        for file, why in windows_skips.NOT_COLLECTED.items():
            terminalreporter.write_line(f"left out: {file}: {why}")
