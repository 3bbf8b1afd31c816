"""A real installation for tests: ``webcodex up`` as a process, in a temporary folder, at a free port."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from webcodex.cli import installation as files

WEBCODEX: Final = Path(sys.executable).with_name("webcodex")
READY_S: Final = 90
STOP_S: Final = 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """A running installation of one project."""

    up: subprocess.Popen[str]
    page: str
    url: str
    project: str
    project_root: Path
    files: files.Installation
    variables: Mapping[str, str]

    @property
    def pat(self) -> str:
        """The PAT for ordinary coding."""
        return files.read_secret(self.files.pat_file)

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self.files.directory

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Returns how one command on this installation ended."""
        return finished(words, self.variables)

    def pids(self) -> list[int]:
        """The processes that run for it."""
        running = files.running(self.files)
        assert running is not None
        return [self.up.pid, running.server_pid, running.runner_pid]

    def stopped(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Returns the exit code of ``up`` and what it said, after that signal."""
        self.up.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Returns the exit code of ``up`` and what it said, once it has ended."""
        _, said = self.up.communicate(timeout=STOP_S)
        return self.up.returncode, said


def repository(folder: Path) -> Path:
    """A small Git repository at ``folder``."""
    folder.mkdir(parents=True)
    (folder / "README.md").write_text("# Demo\n\nA line.\n", encoding="utf-8")
    who = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
    for words in (("init", "-q", "-b", "main"), ("add", "."), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", folder, *words], check=True, timeout=30)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """The variables of a user whose home is ``folder`` and whose data directory lies in it."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEBCODEX_")}
    return {**kept, "HOME": str(folder), "WEBCODEX_DATA": str(folder / "data")}


def finished(words: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """How one command ended."""
    return subprocess.run(
        [WEBCODEX, *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@contextlib.contextmanager
def started(folder: Path, *words: str, project: Path | None = None) -> Iterator[Installed]:
    """Runs ``webcodex up`` for ``project`` with its home in ``folder``; nothing of it is left afterwards."""
    folder = folder.resolve()
    root = project or folder / "project"
    if not root.exists():
        repository(root)
    variables = environment(folder)
    up = subprocess.Popen(
        [WEBCODEX, "up", "--project", root, *words],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        page = _page(up)
        labelled = dict(line.strip().partition("  ")[::2] for line in page.splitlines())
        yield Installed(
            up=up,
            page=page,
            url=labelled["MCP"].strip().removesuffix("/mcp"),
            project=labelled["Project"].strip(),
            project_root=root,
            files=files.Installation(directory=folder / "data"),
            variables=variables,
        )
    finally:
        was_running = up.poll() is None
        if was_running:
            up.terminate()
        _, said = up.communicate(timeout=STOP_S)
        assert not was_running or (up.returncode, said) == (0, ""), said


def _page(up: subprocess.Popen[str]) -> str:
    assert up.stdout is not None
    too_late = threading.Timer(READY_S, up.terminate)
    too_late.start()
    read = []
    for line in up.stdout:
        read.append(line)
        if line.startswith("Stop"):
            break
    too_late.cancel()
    assert read, f"up ended with {up.wait(STOP_S)}: {up.stderr.read() if up.stderr else ''}"
    return "".join(read)


@contextlib.contextmanager
def for_examples(folder: Path) -> Iterator[dict[str, str]]:
    """Yields the variables that the examples of the documentation use, while an installation runs.

    ``WEBCODEX_DATA`` (so that ``webcodex`` commands find it), ``WEBCODEX_URL``, ``WEBCODEX_TOKEN`` (the PAT),
    ``PROJECT`` (its canonical id) and ``PROJECT_ROOT``.
    """
    with started(folder, "--addr", "127.0.0.1:0") as found:
        yield {
            "WEBCODEX_DATA": str(found.data_dir),
            "WEBCODEX_URL": found.url,
            "WEBCODEX_TOKEN": found.pat,
            "PROJECT": found.project,
            "PROJECT_ROOT": str(found.project_root),
        }


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Yields an installation that lives as long as the test session; a test leaves it running."""
    with started(tmp_path_factory.mktemp("installed"), "--addr", "127.0.0.1:0") as found:
        yield found
