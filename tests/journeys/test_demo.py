"""The demonstration checks itself, in a step of its own (make demo); here is what it does when it fails."""

import os
import subprocess
import sys
from pathlib import Path

from tests.repo import tree
from tests.requirements import requirement


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
