"""Proves on real processes that a Server's crash neither ends, repeats nor forgets a process it started."""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.requirements import requirement
from tests.server.server_process import TOKEN, ServerProcess
from tests.storage import empty_store
from webcodex.server import settings

RUNNER = Path(sys.executable).with_name("webcodex-runner")
PROJECT = "agent:r1:demo"
PATIENCE_S = 30.0
PROGRAM = """
import pathlib, sys, time
with open("starts", "a") as starts:
    starts.write("x")
print("begun", flush=True)
while not pathlib.Path("may_end").exists():
    time.sleep(0.01)
print("ended", flush=True)
pathlib.Path("has_ended").touch()
"""


@contextlib.contextmanager
def runner(folder: Path, server: ServerProcess) -> Iterator[Path]:
    """Runs a Runner with one empty Project, whose root is given."""
    root = folder / "demo"
    root.mkdir()
    (folder / "projects.d").mkdir()
    (folder / "projects.d" / "demo.toml").write_text(f'id = "demo"\npath = "{root}"\n', encoding="utf-8")
    config = folder / "runner.toml"
    lines = [
        f'server_url = "{server.url}"',
        f'token = "{TOKEN}"',
        'client_id = "r1"',
        "[policy]",
        f'allowed_roots = ["{folder}"]',
    ]
    config.write_text("\n".join(lines), encoding="utf-8")
    config.chmod(0o600)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEBCODEX_")}
    with (folder / "runner.log").open("wb") as log:
        process = subprocess.Popen([RUNNER, "--config", config], env=kept, stderr=log)
    try:
        yield root
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)


def output(server: ServerProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    _, answer = server.call(tool, arguments)
    assert answer["success"], answer
    found: dict[str, Any] = answer["output"]
    return found


def until(holds: Any) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


@requirement("R-45", "R-47", "R-48", "R-57", "R-60", "R-64")
def test_a_process_outlives_its_servers_crash_and_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / settings.DATABASE_FILE).write_bytes(empty_store.content())
    with ServerProcess(tmp_path) as server, runner(tmp_path, server) as root:
        until(lambda: [row["connected"] for row in output(server, "list_projects")["projects"]] == [True])
        asked = {"project": PROJECT, "argv": [sys.executable, "-c", PROGRAM], "idempotency_key": "k"}
        with ThreadPoolExecutor(1) as caller:
            call = caller.submit(output, server, "run_process", **asked)
            until((root / "starts").exists)
            until(lambda: [job["state"] for job in output(server, "list_jobs")["jobs"]] == ["running"])
            server.kill()
            assert isinstance(call.exception(PATIENCE_S), (OSError, http.client.HTTPException))
        (root / "may_end").touch()
        until((root / "has_ended").exists)
        server.start()
        (waiting,) = output(server, "list_jobs")["jobs"]
        assert (waiting["state"], waiting["recovered_after_server_restart"]) == ("recovering", True)

        def observed() -> dict[str, Any]:
            items = [{"job_id": waiting["job_id"]}]
            item: dict[str, Any] = output(server, "observe_jobs", items=items, wait_secs=20)["items"][0]
            return item

        until(lambda: not observed()["has_more"])
        item = observed()
        job = item["job"]
        assert (job["state"], job["exit_code"], item["log_text"]) == ("completed", 0, "begun\nended\n")
        again = output(server, "run_process", **asked)
        assert (again["replayed"], again["job"]["job_id"], again["completed"]) == (True, job["job_id"], True)
        assert (root / "starts").read_text(encoding="utf-8") == "x"
