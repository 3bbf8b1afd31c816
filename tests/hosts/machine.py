"""A real Server, which can be killed and started again, and a real Runner with one project, as processes."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.journeys import installation
from tests.server.server_process import ServerProcess
from webcodex.server import settings
from webcodex.storage import schema

RUNNER: Final = Path(sys.executable).with_name("webcodex-runner")
USER: Final = "ada"
PROJECT: Final = "agent:desk:demo"
FOUND_WITHIN_S: Final = 30.0
STOP_S: Final = 10.0
SOURCE: Final = "clamp.py"
SOURCE_TEXT: Final = 'def clamp(value: int) -> int:\n    """Größe ≥ 0."""\n    return max(0, value)\n'


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """Where the Server and the Runner of one user run."""

    server: ServerProcess
    root: Path

    def pat(self, *scopes: str) -> str:
        """Returns a new PAT of the user, with exactly these scopes."""
        status, made = self.server.post("/api/tokens/create", {"username": USER, "scopes": list(scopes)})
        assert status == 200, made
        return str(made["token"])

    def restart(self) -> None:
        """Kills the Server as a crash would, starts another one, and waits until the Runner has found it."""
        self.server.kill()
        self.server.start()
        self.await_runner()

    def await_runner(self) -> None:
        """Returns when the project can be read."""
        until = time.monotonic() + FOUND_WITHIN_S
        while not self._is_connected():
            assert time.monotonic() < until, "the Runner did not find the Server"
            time.sleep(0.05)

    def sessions(self) -> int:
        """Returns how many Workflow Sessions of anybody are stored."""
        path = self.server.data_dir / settings.DATABASE_FILE
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as connection:
            (count,) = connection.execute(f"SELECT count(*) FROM {schema.sessions.name}").fetchone()
        return int(count)

    def _is_connected(self) -> bool:
        status, answer = self.server.call("list_projects", {})
        return status == 200 and [one["connected"] for one in answer["output"]["projects"]] == [True]


@contextlib.contextmanager
def running(folder: Path, **variables: str) -> Iterator[Machine]:
    """Runs both in ``folder``, the Server under these variables; nothing of them is left afterwards."""
    folder = folder.resolve()
    root = installation.repository(folder / "demo")
    (root / SOURCE).write_text(SOURCE_TEXT, encoding="utf-8")
    with ServerProcess(folder, environment=variables) as server:
        _made(server, "/api/users/create", {"username": USER})
        token = _made(server, "/api/agent-tokens/create", {"username": USER, "client_id": "desk"})["token"]
        machine = Machine(server=server, root=root)
        with _runner(folder, _configured(folder, root, server.url, token)):
            machine.await_runner()
            yield machine


def _made(server: ServerProcess, path: str, body: Mapping[str, str]) -> Any:
    status, made = server.post(path, body)
    assert status == 200, made
    return made


def _configured(folder: Path, root: Path, url: str, token: str) -> Path:
    registry = folder / "projects.d"
    registry.mkdir(mode=0o700)
    _private(registry / "demo.toml", f'id = "demo"\npath = "{root}"\n')
    return _private(
        folder / "runner.toml",
        f'server_url = "{url}"\ntoken = "{token}"\nclient_id = "desk"\n'
        f'[policy]\nallowed_roots = ["{folder}"]\n',
    )


def _private(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


@contextlib.contextmanager
def _runner(folder: Path, configuration: Path) -> Iterator[None]:
    with (folder / "runner.log").open("ab") as log:
        process = subprocess.Popen(
            [RUNNER, "--config", configuration],
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait(STOP_S)
