"""Kills a real Runner amid one request of every kind, and reads what a real Server says of each."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.edit_place import create, delete, tree
from tests.runner.place import Place
from tests.server.server_process import TOKEN, ServerProcess
from tests.storage import empty_store
from webcodex.server import settings

RUNNER = Path(sys.executable).with_name("webcodex-runner")
PROJECT = "agent:my-runner:demo"
PATIENCE_S = 30.0
CONNECTIONS = Path("/proc/net/tcp")
READS: Mapping[str, Mapping[str, Any]] = {
    "read_files": {"items": [{"path": "a.txt"}]},
    "list_project_files": {},
    "search_project_texts": {"pattern": "A"},
    "get_git_status": {},
    "read_workspace_changes": {},
}
EDIT = {"edits": [create("n/x", "X"), delete("a.txt", "A")], "idempotency_key": "edit"}
PROCESS = {"argv": ["/bin/sh", "-c", "echo x >> starts"], "idempotency_key": "process"}


@contextlib.contextmanager
def running(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("WEBCODEX_")}
    with (config.parent / "runner.log").open("ab") as log:
        process = subprocess.Popen([RUNNER, "--config", config], env=kept, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.005)


def unread_bytes(pid: int) -> int:
    """Returns how much lies in a process's connections that it has not read yet."""
    held = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in CONNECTIONS.read_text(encoding="utf-8").splitlines()[1:]]
    return sum(int(row[4].partition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in held)


@dataclass(frozen=True)
class Desk:
    """Somebody who calls tools for the one Project."""

    server: ServerProcess
    callers: ThreadPoolExecutor

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        output: dict[str, Any] = self.server.call(tool, {"project": PROJECT, **arguments})[1]["output"]
        return output

    def await_runner(self) -> None:
        def is_connected() -> bool:
            projects = self.server.call("list_projects", {})[1]["output"]["projects"]
            return [project["connected"] for project in projects] == [True]

        until(is_connected)

    def reach(
        self, runner: subprocess.Popen[bytes], tool: str, arguments: Mapping[str, Any]
    ) -> Future[dict[str, Any]]:
        """Returns a call that has reached a Runner which reads nothing."""
        before = unread_bytes(runner.pid)
        call = self.callers.submit(self.ask, tool, arguments)
        until(lambda: unread_bytes(runner.pid) > before)
        return call


@requirement("R-45", "R-50", "R-55", "R-57", "R-60", "S-46")
@pytest.mark.skipif(not CONNECTIONS.exists(), reason="only Linux tells what a stopped process has not read")
def test_a_runner_killed_amid_every_kind_of_request_is_away_for_reads_and_unknown_for_changes(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    folder = place.add_project("demo")
    (folder / "a.txt").write_text("A")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / settings.DATABASE_FILE).write_bytes(empty_store.content())
    with ServerProcess(tmp_path) as server, ThreadPoolExecutor(16) as callers:
        desk, config = Desk(server, callers), place.configure(server_url=server.url, token=TOKEN)
        with running(config) as runner:
            desk.await_runner()
            session = desk.ask("work_on_project", {"instruction": "x"})["session_id"]
            runner.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, runner.pid, os.WSTOPPED)
            reads = [desk.reach(runner, tool, arguments) for tool, arguments in READS.items()]
            edit = desk.reach(runner, "edit_project_files", EDIT)
            process = desk.reach(runner, "run_process", PROCESS)
            finish = desk.reach(runner, "finish_coding_task", {"session_id": session, "outputs": ["a.txt"]})
        for read in reads:
            assert ending(read.result(PATIENCE_S)) == ("runner_unavailable", "wait", False)
        unknown = edit.result(PATIENCE_S)
        assert ending(unknown) == ("edit_outcome_unknown", "reconcile", None)
        assert unknown["paths"] == ["n/x", "a.txt"]
        started = process.result(PATIENCE_S)
        assert ending(started) == ("job_start_outcome_unknown", "reconcile", None)
        (checked,) = finish.result(PATIENCE_S)["task_outputs"]["items"]
        assert (checked["path"], checked["status"]) == ("a.txt", "unavailable")
        assert tree(folder) == {"a.txt": b"A"}
        with running(config):
            desk.await_runner()
            answers = [desk.ask("edit_project_files", EDIT) for _ in range(2)]
            again = desk.ask("run_process", PROCESS)
    assert [answer["replayed"] for answer in answers] == [False, True]
    assert (again["job"]["job_id"], again["job"]["state"]) == (started["job_id"], "lost")
    assert tree(folder) == {"n": None, "n/x": b"X"}


def ending(output: Mapping[str, Any]) -> tuple[str, str, bool | None]:
    """Returns how a refused call ended: its word, what to do about it, and whether anything changed."""
    return output["error_kind"], output["recovery_kind"], output["state_changed"]
