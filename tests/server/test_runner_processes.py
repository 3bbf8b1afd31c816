"""Proves with a real Server, a real Runner and a real repository that the two find each other again."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server.server_process import ServerProcess

PROGRAM = Path(sys.executable).with_name("webcodex-runner")
SOURCE = "def clamp(value: int) -> int:\n    return max(0, value)\n"
FOUND_WITHIN_S = 20.0  # far below the 60 s after which anybody could take the client_id over
DEMO = "agent:desk:demo"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path) as running:
        yield running


@pytest.fixture
def pat(server: ServerProcess) -> str:
    assert server.post("/api/users/create", {"username": "ada"})[0] == 200
    scopes = ["project:read", "runtime:read"]
    status, made = server.post("/api/tokens/create", {"username": "ada", "scopes": scopes})
    assert status == 200, made
    return str(made["token"])


@pytest.fixture
def config(server: ServerProcess, pat: str, tmp_path: Path) -> Path:
    """A Runner of Ada's that holds one Git repository."""
    assert pat
    status, made = server.post("/api/agent-tokens/create", {"username": "ada", "client_id": "desk"})
    assert status == 200, made
    root = tmp_path / "demo"
    root.mkdir()
    (root / "clamp.py").write_text(SOURCE, encoding="utf-8")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "clamp.py")
    git(root, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "Clamp")
    registry = tmp_path / "projects.d"
    registry.mkdir(mode=0o700)
    project_file = registry / "demo.toml"
    project_file.write_text(f'id = "demo"\npath = "{root.resolve()}"\n', encoding="utf-8")
    project_file.chmod(0o600)
    written = tmp_path / "runner.toml"
    written.touch(mode=0o600)
    written.write_text(
        f'server_url = "{server.url}"\ntoken = "{made["token"]}"\nclient_id = "desk"\n'
        f'[policy]\nallowed_roots = ["{tmp_path.resolve()}"]\n',
        encoding="utf-8",
    )
    return written


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", root, *arguments], check=True, timeout=30)


@contextmanager
def runner(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(config.parent)}
    with (config.parent / "runner.log").open("ab") as log:
        process = subprocess.Popen(
            [PROGRAM, "--config", config], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)


def listed(server: ServerProcess, pat: str) -> list[dict[str, Any]]:
    status, answer = server.call("list_projects", {}, pat)
    assert status == 200, answer
    projects: list[dict[str, Any]] = answer["output"]["projects"]
    return projects


def await_contact(server: ServerProcess, pat: str, *, connected: bool) -> None:
    deadline = time.monotonic() + FOUND_WITHIN_S
    while [one["connected"] for one in listed(server, pat)] != [connected]:
        assert time.monotonic() < deadline, (server.folder / "runner.log").read_text(encoding="utf-8")
        time.sleep(0.02)


def assert_reads_the_bytes(server: ServerProcess, pat: str) -> None:
    arguments = {"project": DEMO, "items": [{"path": "clamp.py"}]}
    status, answer = server.call("read_files", arguments, pat)
    assert status == 200, answer
    (item,) = answer["output"]["items"]
    assert item["output"]["text"] == SOURCE
    assert item["output"]["sha256"] == hashlib.sha256(SOURCE.encode()).hexdigest()


@requirement("R-02", "R-30", "R-34", "R-50", "C-15")
def test_killed_runner_is_replaced_at_once_and_outlives_a_killed_server(
    server: ServerProcess, pat: str, config: Path
) -> None:
    assert listed(server, pat) == []
    with runner(config) as first:
        await_contact(server, pat, connected=True)
        (project,) = listed(server, pat)
        assert (project["project"], project["client_id"]) == (DEMO, "desk")
        assert_reads_the_bytes(server, pat)
        first.kill()
        await_contact(server, pat, connected=False)
        status, answer = server.call("read_files", {"project": DEMO, "items": [{"path": "clamp.py"}]}, pat)
        assert (status, answer["output"]["error_kind"]) == (400, "runner_unavailable")
    with runner(config) as second:
        await_contact(server, pat, connected=True)
        assert_reads_the_bytes(server, pat)
        server.kill()
        server.start()
        assert [one["project"] for one in listed(server, pat)] == [DEMO]
        await_contact(server, pat, connected=True)
        assert_reads_the_bytes(server, pat)
        second.send_signal(signal.SIGTERM)
        assert second.wait(15) == 0
        await_contact(server, pat, connected=False)
    assert "wc_agent_" not in server.log() + (config.parent / "runner.log").read_text(encoding="utf-8")
