"""What all tests share: how properties are drawn, and the line that says how the requirements stand."""

import os

import hypothesis
import pytest

from tests import requirements

hypothesis.settings.register_profile(
    "webcodex",
    deadline=None,  # a wall clock says more about the machine than about the code
    derandomize="CI" in os.environ,  # a red run there is caused by the change, not by the draw
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("webcodex")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Adds how many requirements are proven, partly proven and deferred."""
    found = requirements.standing(requirements.defined(), requirements.cited())
    terminalreporter.write_line(found.summary())
