"""What the Runner's tests share."""

from pathlib import Path

import pytest

from tests.runner.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder of its own for one Runner, named without links."""
    return Place(tmp_path.resolve())
