"""Interrupts an edit by SIGKILL after each of its effects, each time in a folder of its own.

A program, so that it forks from one thread: ``python -m tests.runner.crash_points FOLDER ROAD ...``.
It prints one JSON line for each interruption; what the killed process left lies there for a test.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from tests.runner.edit_place import BY, asked, create, delete, edits_of, replace, write
from tests.runner.place import Place, registered, soon

BEFORE = {"a.txt": b"A", "d.txt": b"D", "r.txt": b"one two\n", "sub": None, "sub/w.txt": b"W"}
AFTER = {
    "a.txt": b"B",
    "n": None,
    "n/m": None,
    "n/m/x.txt": b"X",
    "r.txt": b"1 two\n",
    "sub": None,
    "sub/w.txt": b"V",
}
BODY = asked(
    write("a.txt", "A", "B"),
    create("n/m/x.txt", "X"),
    delete("d.txt", "D"),
    replace("r.txt", "one two\n", ("one", "1", 1)),
    write("sub/w.txt", "W", "V"),
    key="k",
)


def build(root: Path) -> tuple[Place, Path]:
    """Makes a place with the files of `BEFORE`."""
    root.mkdir()
    place = Place(root)
    place.own()
    folder = place.add_project("demo")
    for name, content in BEFORE.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
    return place, folder


def editing(place: Place, folder: Path) -> Iterator[str]:
    yield from edits_of(place).steps(registered(folder), BY, BODY, soon())


def undoing(place: Place, folder: Path) -> Iterator[str]:
    """Edits until somebody else makes the file that was to be created, and goes on into the undo."""
    steps = editing(place, folder)
    for step in steps:
        if step == "changed a.txt":
            (folder / "n" / "m" / "x.txt").write_bytes(b"OTHER")
            break
    yield from steps


def recovering(place: Place, folder: Path) -> Iterator[str]:
    """Leaves an edit open in the middle of its changes, and recovers as the next start does."""
    for step in editing(place, folder):
        if step == "changed d.txt":
            break
    yield from edits_of(place).recovery_steps([registered(folder)])


def sweeping(place: Place, folder: Path) -> Iterator[str]:
    """Leaves an edit right after its commit, and recovers as the next start does."""
    for step in editing(place, folder):
        if step == "committed":
            break
    yield from edits_of(place).recovery_steps([registered(folder)])


ROADS = {road.__name__: road for road in (editing, undoing, recovering, sweeping)}


def interrupted(base: Path, road: Callable[[Place, Path], Iterator[str]], reached: int) -> str | None:
    """Returns the effect after which the edit was killed; None when it ended before."""
    place, folder = build(base / f"{road.__name__}-{reached}")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for number, step in enumerate(road(place, folder), 1):
                if number == reached:
                    os.write(writing, step.encode())
                    os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(3)
    os.close(writing)
    with os.fdopen(reading) as told:
        step = told.read()
    _, status = os.waitpid(child, 0)
    return step if os.WIFSIGNALED(status) else None


def main(base: Path, roads: list[str]) -> None:
    """Prints one line for each effect of each road."""
    for road in (ROADS[name] for name in roads):
        for reached in count(1):
            step = interrupted(base, road, reached)
            if step is None:
                break
            name = f"{road.__name__}-{reached}"
            sys.stdout.write(json.dumps({"road": road.__name__, "folder": name, "step": step}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
