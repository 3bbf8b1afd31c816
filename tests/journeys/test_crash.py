"""Kills the real Server at each step between two effects, and reads what it left (O-29, S-14, S-76)."""

import concurrent.futures
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.journeys.installation import Installed
from tests.requirements import requirement
from tests.server import server_process
from tests.server.server_process import TOKEN, ServerProcess
from tests.server.station import hello
from tests.tools import evidence_desk

DEMO: Final = "agent:r1:demo"
ADAPTERS: Final = Path(__file__).parents[2] / "integrations/codex"
WAIT_S: Final = 30
CONVERSATION: Final = "conversation-of-fifty"
DYING_SERVER: Final = """#!{python}
import os, signal, sqlite3, sys
from pathlib import Path
from webcodex.server import main
from webcodex.storage import writer
from sqlalchemy.engine import RootTransaction

armed = Path({armed!r})
count = "SELECT count(*) FROM wc_external_observations"
stored = os.path.join(os.environ["WEBCODEX_DATA"], "webcodex.sqlite3")

def die_if(reports):
    if reports:
        armed.unlink()
        os.kill(os.getpid(), signal.SIGKILL)

def before(transaction):
    if armed.exists():
        die_if(transaction.connection.exec_driver_sql(count).scalar())
    commit(transaction)

def after(group):
    if armed.exists():
        die_if(sqlite3.connect(stored).execute(count).fetchone()[0])
    settle(group)

commit, settle = RootTransaction.commit, writer._settle
if {step!r} == "before":
    RootTransaction.commit = before
else:
    writer._settle = after
sys.exit(main.main())
"""


@contextmanager
def _runner(server: ServerProcess) -> Iterator[ClientConnection]:
    url = server.url.replace("http://", "ws://") + "/api/agents/ws"
    with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=None) as runner:
        runner.send(json.dumps(hello()))
        assert json.loads(runner.recv(WAIT_S))["success"] is True
        yield runner


def _work(server: ServerProcess) -> str:
    status, made = server.call("work_on_project", {"project": DEMO, "instruction": "x"})
    assert status == 200, made
    return str(made["output"]["session_id"])


def _report(session: str) -> dict[str, Any]:
    identity = {"adapter_id": "a" * 64, "event_id": "b" * 64}
    return {"project": DEMO, "session_id": session, **identity, "observed_tool": "Bash"}


@requirement("O-29", "O-16", "O-09", "O-11")
@pytest.mark.parametrize(("step", "was_stored"), [("before", False), ("after", True)])
def test_a_replay_after_a_kill_at_the_commit_gives_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, *, was_stored: bool
) -> None:
    armed, program = tmp_path / "armed", tmp_path / "dying-server"
    program.write_text(DYING_SERVER.format(python=sys.executable, armed=str(armed), step=step))
    program.chmod(0o700)
    monkeypatch.setattr(server_process, "PROGRAM", program)
    with ServerProcess(tmp_path) as server:
        with _runner(server) as runner:
            runner.send(json.dumps({"type": "goodbye", "reason": "done"}))
            session = _work(server)
        armed.touch()
        with pytest.raises((ConnectionError, OSError, http.client.HTTPException)):
            server.call("record_external_observation", _report(session))
        assert not armed.exists()
        server.kill()
        server.start()
        status, replay = server.call("record_external_observation", _report(session))
        assert (status, replay["output"]["inserted"]) == (200, not was_stored)
        _, listed = server.call("list_external_observations", {"project": DEMO, "session_id": session})
        rows = listed["output"]["observations"]
        assert rows == [replay["output"]["observation"]]


@requirement("S-04", "S-14", "S-42", "S-74", "S-76", "R-45")
def test_calls_cut_off_by_a_kill_stay_started_and_a_cut_off_edit_counts_as_a_change(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, concurrent.futures.ThreadPoolExecutor(2) as background:
        with _runner(server) as runner:
            working = background.submit(_work, server)
            _answer(
                runner, _asked(runner, "git_status"), {"available": False, "reason_code": "non_git_project"}
            )
            session = working.result(WAIT_S)
            validating = background.submit(server.call, "run_process", _validation(session))
            asked = _asked(runner, "start_process_job")
            job = evidence_desk.record(asked["body"]["job_id"], "completed", 0)
            _answer(runner, asked, {"job": job, "replayed": False})
            _answer(runner, _asked(runner, "job_snapshot"), {"job": job})
            assert validating.result(WAIT_S)[0] == 200
            assert _validation_status(server, session) == "passed"
            cut_off = [background.submit(server.call, "read_session_handoff", {"session_id": session})]
            _asked(runner, "git_status")
            cut_off += [background.submit(server.call, "edit_project_files", _edit(session))]
            _asked(runner, "edit_project_files")
            server.kill()
            for call in cut_off:
                with pytest.raises((ConnectionError, OSError, http.client.HTTPException)):
                    call.result(WAIT_S)
        server.start()
        assert _validation_status(server, session) == "stale"
        server.call("read_session_summary", {"session_id": session})
        _, summary = server.call("read_session_summary", {"session_id": session})
        told = [(event["kind"], event.get("tool_name")) for event in summary["output"]["events"]]
        assert told[3:] == [
            ("tool_call_started", "read_session_handoff"),
            ("tool_call_started", "edit_project_files"),
            ("tool_call_started", "read_session_summary"),
            ("tool_call_finished", "read_session_summary"),
            ("tool_call_started", "read_session_summary"),
        ]


def _validation(session: str) -> dict[str, Any]:
    return {"project": DEMO, "argv": ["true"], "purpose": "validation", "session_id": session}


def _edit(session: str) -> dict[str, Any]:
    return {"project": DEMO, "edits": evidence_desk.edits("a.py"), "session_id": session}


def _validation_status(server: ServerProcess, session: str) -> object:
    _, shown = server.call("get_session_handoff_state", {"project": DEMO, "session_id": session})
    return shown["output"]["handoff_brief"]["validation"]["status"]


def _asked(runner: ClientConnection, kind: str) -> dict[str, Any]:
    """Returns the next request of that kind; frames of another kind before it are left unanswered."""
    while True:
        frame: dict[str, Any] = json.loads(runner.recv(WAIT_S))
        if frame.get("kind") == kind:
            return frame


def _answer(runner: ClientConnection, request: dict[str, Any], body: dict[str, Any]) -> None:
    answer = {
        "type": "result",
        "request_id": request["request_id"],
        "connection_id": request["connection_id"],
        "runner_instance_id": "i1",
        "duration_ms": 1,
        "command_execution_state": "completed",
        "body": body,
        "error": None,
    }
    runner.send(json.dumps(answer))


def _call(installed: Installed, tool: str, **params: Any) -> dict[str, Any]:
    asked = installed.run("tools", "call", tool, "--params", json.dumps(params), "--json")
    assert asked.returncode == 0, asked.stderr
    answer: dict[str, dict[str, Any]] = json.loads(asked.stdout)
    return answer["output"]


@requirement("A-93", "A-36", "O-27", "A-26")
def test_fifty_hooks_at_once_lose_no_report(installed: Installed) -> None:
    session = _call(installed, "work_on_project", project=installed.project, instruction="fifty")[
        "session_id"
    ]
    words = ("--project", installed.project, "--session", session, "--conversation", CONVERSATION)
    made = installed.run("adapters", "setup", *words)
    assert made.returncode == 0, made.stderr
    config = made.stdout.splitlines()[0].removeprefix("The configuration is in ")
    hook = [
        sys.executable,
        "-I",
        "-S",
        str(ADAPTERS / "external_observation_hook.py"),
        "--config",
        config,
    ]
    runs = [_hook(hook, installed, number) for number in range(50)]
    ended = [run.communicate(timeout=60) for run in runs]
    left_behind = [json.loads(said) for _, said in ended if said]
    assert all(line["refused"] == line["rejected"] == line["skipped"] == 0 for line in left_behind)
    flushed = subprocess.run([*hook, "--flush"], capture_output=True, text=True, check=False, timeout=60)
    assert flushed.returncode == 0, flushed.stderr
    listed = _call(installed, "list_external_observations", project=installed.project, session_id=session)
    assert len(listed["observations"]) == 50
    assert {row["status"] for row in listed["observations"]} == {"unknown"}


def _hook(words: list[str], installed: Installed, number: int) -> subprocess.Popen[str]:
    payload = {
        "session_id": CONVERSATION,
        "transcript_path": None,
        "cwd": str(installed.project_root),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": f"call_{number}",
        "tool_input": {"command": "true"},
        "tool_response": "",
    }
    run = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert run.stdin is not None
    run.stdin.write(json.dumps(payload))
    run.stdin.flush()
    return run
