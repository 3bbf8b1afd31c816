"""Measures `search_project_texts` in a tree of 100,000 files against ripgrep, or GNU grep where it is absent.

Both search the same warm tree one after the other in each round, the Runner's search with its process and all
its checks. The other program gets neither of its own filters: every file is searched, hidden ones too.
"""

import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Final

from webcodex.runner import deadline, own_files, private_files, projects, text_search

FILES: Final = 100_000
FILES_IN_A_FOLDER: Final = 25
ROUNDS: Final = 5
PATIENCE_S: Final = 120.0
MEMORY: Final = Path("/dev/shm")
NEEDLE: Final = "needle_in_haystack"
EXPRESSION: Final = r"needle_\w+_hay[a-z]+"
PLANTED: Final = 100

_WORDS: Final = [
    verb + noun
    for verb in ("get", "set", "make", "find", "parse", "value", "index", "node", "list", "config")
    for noun in ("Name", "Path", "Item", "", "_id", "Error", "Result")
]


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        root = Path(made).resolve()
        plant(root)
        own = own_files.OwnFiles(
            config_path=root / "absent",
            config_identity=private_files.Identity(dev=0, ino=0),
            directories=(),
        )
        figures = [
            ("literal", lambda: search(root, own, NEEDLE, "literal"), program(root, NEEDLE, literal=True)),
            (
                "regex",
                lambda: search(root, own, EXPRESSION, "regex"),
                program(root, EXPRESSION, literal=False),
            ),
        ]
        return [_compared(kind, ours, theirs) for kind, ours, theirs in figures]


def plant(root: Path) -> None:
    """Makes the tree: source-like texts of some 2.5 KiB, one in a thousand with the needle."""
    drawn = random.Random(1)
    texts = []
    for _ in range(400):
        lines = [
            " " * 4 * drawn.randrange(3) + " ".join(drawn.choices(_WORDS, k=drawn.randrange(1, 9)))
            for _ in range(drawn.randrange(5, 110))
        ]
        texts.append(("\n".join(lines) + "\n").encode())
    planted = f"the {NEEDLE} is here\n".encode()
    for first in range(0, FILES, FILES_IN_A_FOLDER):
        number = first // FILES_IN_A_FOLDER
        folder = root / f"package{number // 160:02}" / f"module{number // 8 % 20:02}" / f"part{number % 8}"
        folder.mkdir(parents=True)
        holder = os.open(folder, os.O_RDONLY)
        for file in range(first, first + FILES_IN_A_FOLDER):
            descriptor = os.open(f"file_{file:06}.py", os.O_WRONLY | os.O_CREAT, dir_fd=holder)
            os.write(descriptor, texts[file % len(texts)] + planted * (file % (FILES // PLANTED) == 7))
            os.close(descriptor)
        os.close(holder)


def search(root: Path, own: own_files.OwnFiles, pattern: str, mode: str) -> None:
    """Searches as the Runner does; the answer is the planted one."""
    body = {"pattern": pattern, "pattern_mode": mode, "limit": 500, "timeout_secs": int(PATIENCE_S)}
    found = text_search.search(_project(root), own, body, _until())
    assert (len(found["matches"]), found["searched_files"]) == (PLANTED, FILES)


def program(root: Path, pattern: str, *, literal: bool) -> tuple[str, Callable[[], None]]:
    """Returns the name of the other program, and what runs it to the same answer."""
    if shutil.which("rg") is not None:
        name, mode = "ripgrep", "--fixed-strings" if literal else "--"
        argv = ["rg", "--no-config", "--no-ignore", "--hidden", "--line-number", mode, pattern, "."]
    else:
        name, mode = "grep -r", "-F" if literal else "-E"
        argv = ["grep", "-r", "-n", "-I", mode, "-e", pattern, "."]

    def run() -> None:
        ran = subprocess.run(argv, cwd=root, capture_output=True, timeout=PATIENCE_S, check=True)
        assert ran.stdout.count(b"\n") == PLANTED

    return name, run


def _compared(
    kind: str, ours: Callable[[], None], other: tuple[str, Callable[[], None]]
) -> tuple[str, str, str, str]:
    name, theirs = other
    ours()
    theirs()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(ROUNDS)]
    mine, its = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(one / two for one, two in pairs)
    return (
        f"{kind} search of {FILES:,} files",
        f"{mine:.2f} s",
        f"{name}: {its:.2f} s",
        f"{ratio:.1f} times; no target",
    )


def _seconds(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def _project(root: Path) -> projects.Project:
    return projects.Project(
        id="benchmark",
        root=str(root),
        identity=private_files.Identity.of(root.stat()),
        name=None,
        kind=None,
        description=None,
        allow_patch=False,
        disabled=False,
    )


def _until() -> deadline.Deadline:
    return deadline.Deadline(at=time.monotonic() + PATIENCE_S, given_up=Event())


if __name__ == "__main__":
    sys.stdout.writelines(" | ".join(row) + "\n" for row in rows())
