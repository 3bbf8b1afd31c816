"""The command line starts fast, and what it starts never outlives it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repo import tree

HEAVY = {
    "alembic",
    "asyncio",
    "httptools",
    "mcp",
    "pydantic",
    "sqlalchemy",
    "starlette",
    "uvicorn",
    "websockets",
}
LOADS = """
import sys
from webcodex.cli import main
try:
    main.main({words!r})
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write(" ".join(sys.modules))
"""
TETHERED = """
import signal, sys
def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    print("begun", *sys.argv[1:], flush=True)
    signal.pause()
"""


def loaded(*words: str) -> set[str]:
    """The modules that one command has loaded at its end."""
    ended = subprocess.run(
        [sys.executable, "-c", LOADS.format(words=list(words))],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return {name.partition(".")[0] for name in ended.stderr.split()}


def tethered(folder: Path) -> subprocess.Popen[str]:
    """A tethered program, not told to begin yet."""
    (folder / "tethered_program.py").write_text(TETHERED, encoding="utf-8")
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "webcodex.cli.tether", "tethered_program", "a", "b"],
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("tools", "--help"),
        ("tools", "read_files", "--help"),
        ("token", "create", "--help"),
        ("project", "add", "--help"),
        ("adapters", "setup", "--help"),
        ("doctor", "--help"),
        ("user", "--help"),
    ],
)
def test_help_loads_no_heavy_library(words: tuple[str, ...]) -> None:
    assert loaded(*words) & HEAVY == set()


def test_up_loads_neither_server_nor_runner_libraries() -> None:
    assert loaded("up", "--help") & (HEAVY - {"asyncio"}) == set()


def test_every_command_of_the_list_exists() -> None:
    script = tree.ROOT / ".venv" / "bin" / "webcodex"
    listed = subprocess.run([script, "--help"], capture_output=True, encoding="utf-8", timeout=60, check=True)
    names = [line.split()[0] for line in listed.stdout.partition("Commands:\n")[2].splitlines()]
    assert names == ["up", "doctor", "project", "session", "handoff", "tools", "adapters", "user", "token"]


def test_tethered_program_begins_when_told_and_ends_with_its_starter(tmp_path: Path) -> None:
    with tethered(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "begun a b\n"
        process.stdin.close()
        assert process.wait(30) == 7


def test_tethered_program_never_begins_without_its_starter(tmp_path: Path) -> None:
    with tethered(tmp_path) as process:
        said, _ = process.communicate(timeout=30)
        assert (process.returncode, said) == (1, "")


def test_tethered_program_ends_on_a_signal_too(tmp_path: Path) -> None:
    with tethered(tmp_path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7
