"""Gives each test a furnished house of its own, some on both engines."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.storage import stores
from tests.tools.house import House

ON_BOTH_ENGINES: Final = frozenset(
    {"test_goals", "test_jobs", "test_messages", "test_observations", "test_sessions"}
)
"""One module of each subject that has rules about what is stored."""
ON_SQLITE: Final = frozenset(
    {
        "test_many_long_logs_come_in_parts_that_fit_one_answer",
        "test_reports_leave_events_and_updated_at_alone",
        "test_room_is_made_by_resolved_then_quiet_messages_and_attention_stays",
    }
)
"""Tests of those modules with many calls, which would say the same again."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs the tests of some modules on both engines; of a table of values, SQLite is enough."""
    is_named = metafunc.module.__name__.rpartition(".")[2] in ON_BOTH_ENGINES
    is_table = metafunc.definition.get_closest_marker("parametrize") is not None
    is_short = metafunc.function.__name__ not in ON_SQLITE
    if "house" in metafunc.fixturenames and is_named and is_short and not is_table:
        metafunc.parametrize("house", stores.BOTH, indirect=True)


@pytest.fixture
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    with stores.opener(getattr(request, "param", stores.SQLITE), tmp_path, request) as opened:
        made = await House(tmp_path, opened).furnish()
        yield made
        made.database.close()
