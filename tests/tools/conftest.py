"""Gives each test a furnished house of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.house import House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = await House(tmp_path).furnish()
    yield made
    made.database.close()
