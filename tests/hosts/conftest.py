"""The Server, the Runner and the project that most host tests share, and the versions they ran with."""

from collections.abc import Iterator

import pytest

from tests.hosts import machine, packages


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[machine.Machine]:
    """Yields a machine that lives as long as the test session; a test leaves it as it was."""
    with machine.running(tmp_path_factory.mktemp("desk")) as running:
        yield running


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds which version of each client the tests have met."""
    met = ", ".join(f"{name} {version}" for name, version in sorted(packages.pinned().items()))
    terminalreporter.write_line(f"hosts: {met}")
