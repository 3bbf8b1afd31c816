"""What the Runner's tests share."""

from pathlib import Path

import pytest

from tests.runner.place import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A folder of its own for one Runner, named without links."""
    return Place(tmp_path.resolve())


@pytest.fixture
def folder(place: Place) -> Path:
    """A project with two files."""
    made = place.add_project("demo")
    (made / "a.txt").write_text("A")
    (made / "t.txt").write_text("one two two\n")
    return made
