"""Starts everything with the README's own command, in a terminal, and stops it as a person does."""

import os
import pty
import select
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from tests.journeys import installation
from tests.requirements import requirement

ROOT: Final = Path(__file__).parents[2]
READY: Final = b"Ctrl-C ends"
CTRL_C: Final = b"\x03"
WITHIN_S: Final = 90


def _seen(terminal: int, *, until: bytes) -> bytes:
    said, ends = b"", time.monotonic() + WITHIN_S
    while until not in said and time.monotonic() < ends:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            read = os.read(terminal, 65_536)
        except OSError:
            return said
        if not read:
            return said
        said += read
    return said


@requirement("C-03", "C-14")
@pytest.mark.skipif(
    not (ROOT / ".venv/.ready-runtime").exists() or Path(sys.prefix) != ROOT / ".venv",
    reason="make start uses the checkout's own .venv",
)
def test_ctrl_c_at_make_start_stops_all_and_make_ends_with_zero(tmp_path: Path) -> None:
    project = installation.repository(tmp_path / "project")
    data = tmp_path / "data"
    words = [
        "make",
        "--no-print-directory",
        "-C",
        str(ROOT),
        "start",
        f"PROJECT={project}",
        "ADDR=127.0.0.1:0",
    ]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ |= {"WEBCODEX_DATA": str(data), "HOME": str(tmp_path)}
        os.execvp(words[0], words)
    said = _seen(terminal, until=READY)
    assert READY in said, said.decode(errors="replace")
    os.write(terminal, CTRL_C)
    _seen(terminal, until=b"\0never")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0
    secrets = [path.read_bytes().strip() for path in (data / "credentials").iterdir()]
    assert secrets
    assert not any(secret in said for secret in secrets)
