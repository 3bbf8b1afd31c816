"""What all tests share: how properties are drawn, and the line that says how the requirements stand."""

import os
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests import requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.storage.postgres_server import Cluster

hypothesis.settings.register_profile(
    "webcodex",
    deadline=None,  # a wall clock says more about the machine than about the code
    derandomize="CI" in os.environ,  # a red run there is caused by the change, not by the draw
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("webcodex")


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Cluster]":
    """Gives the one PostgreSQL of this run, started for the first test that asks for it."""
    from tests.storage import postgres_server  # noqa: PLC0415 - most runs of a few tests need no PostgreSQL

    folder = tmp_path_factory.getbasetemp()
    with postgres_server.shared(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as cluster:
        yield cluster


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds how many requirements are proven, partly proven and deferred, if a test has counted them."""
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == requirements.SUMMARY:
                terminalreporter.write_line(value)
