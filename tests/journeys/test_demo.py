"""The demonstration does its whole job by itself and leaves nothing behind."""

import os
import subprocess
import sys
from pathlib import Path

from tests.repo import tree
from tests.requirements import requirement


@requirement("A-23", "A-24", "A-33", "A-36", "A-41", "O-05", "O-07", "R-56", "R-64", "S-43", "S-60", "S-68")
def test_demonstration_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, tree.ROOT / "scripts" / "demo.py"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    steps = [
        line.partition(".")[0].strip() for line in ended.stdout.splitlines() if line[:2].strip().isdigit()
    ]
    assert steps == [str(number) for number in range(1, 23)]
    assert ended.stdout.splitlines()[-1].endswith("The temporary folder is gone.")
    assert list(tmp_path.iterdir()) == []
    for honest in (
        "outcome unknown",
        "coverage incomplete",
        "1 pending",
        "both unknown",
        "file is untouched",
        "validation stale",
        "said to be recovering",
        "it ran once",
        "ready_for_review",
    ):
        assert honest in ended.stdout


@requirement("A-03")
def test_demonstration_names_the_step_that_failed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, tree.ROOT / "scripts" / "demo.py"],
        env={**os.environ, "TMPDIR": str(tmp_path), "PATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("FAILED at step 1: ")
    assert list(tmp_path.iterdir()) == []
