"""The steps about proven work: guarded edits, validations, a Job over a killed Server, and the outcome."""

import hashlib
import os
import signal
import sys
import time
from typing import Any

import demo_stage
from demo_stage import Stage, expect

SOURCE = "greeting.py"
FIRST = 'def greeting(name):\n    return "hello"\n'
HALF = 'def greeting(name):\n    return "hello, name"\n'
WHOLE = 'def greeting(name):\n    return f"hello, {name}"\n'
TEST = """import unittest
from greeting import greeting

class Greeting(unittest.TestCase):
    def test_names_whom_it_greets(self):
        self.assertEqual(greeting("Ada"), "hello, Ada")
"""
SLIP = "correct-horse-battery-staple"
LONG_JOB = """import pathlib, time
with open("started", "a") as counted: counted.write("once\\n")
print("waiting", flush=True)
until = time.monotonic() + 60
while not pathlib.Path("go").exists() and time.monotonic() < until: time.sleep(0.02)
print("gone on", flush=True)
"""
ENDS_WITHIN_S = 30


def make_repository(stage: Stage) -> str:
    """A Git repository with one commit, whose test fails."""
    stage.repository.mkdir()
    (stage.repository / SOURCE).write_text(FIRST, encoding="utf-8")
    (stage.repository / "test_greeting.py").write_text(TEST, encoding="utf-8")
    (stage.repository / ".gitignore").write_text("__pycache__\n", encoding="utf-8")
    who = ("-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Say hello")):
        demo_stage.finished(["git", "-C", str(stage.repository), *arguments])
    return "Made a small Git repository with one commit and a failing test."


def start(stage: Stage) -> str:
    """Server and Runner run."""
    began = time.monotonic()
    demo_stage.bring_up(stage)
    return (
        f"`webcodex up` started a Server and a Runner for it in {time.monotonic() - began:.1f} s; "
        f"MCP is at {stage.url}/mcp."
    )


def open_session(stage: Stage) -> str:
    """A Workflow Session exists."""
    params = {"project": stage.project, "instruction": "Make the greeting friendlier."}
    stage.session = demo_stage.mcp(stage, "work_on_project", params)["session_id"]
    items = [{"path": SOURCE}]
    (read,) = demo_stage.mcp(stage, "read_files", {"project": stage.project, "items": items})["items"]
    expect(read["output"]["sha256"] == sha(FIRST), "the file was not read")
    return f"Over MCP: began the Workflow Session {stage.session} and read {SOURCE} through the Runner."


def edit_blindly(stage: Stage) -> str:
    """An edit of a file that nobody has read was refused."""
    refused = edit(stage, HALF, before="a state nobody has read")
    output = refused["output"]
    expect(output["error_kind"] == "edit_precondition_failed", f"the edit gave {refused}")
    expect((stage.repository / SOURCE).read_text(encoding="utf-8") == FIRST, "the file has changed")
    return "Tried to edit it with a wrong SHA-256: edit_precondition_failed, and the file is untouched."


def edit_and_fail(stage: Stage) -> str:
    """A first edit is in, and its validation has failed."""
    expect(edit(stage, HALF, before=FIRST)["success"], "the edit was refused")
    expect(validate(stage) == 1, "the test did not fail")
    brief = demo_stage.native_handoff(stage)["handoff_brief"]
    expect(brief["validation"]["status"] == "failed", "the brief does not say that it failed")
    return (
        "Edited it, and ran the test as a validation: exit 1. The brief says:\n"
        f"      validation.status   {brief['validation']['status']}\n"
        f"      progress.state      {brief['progress']['state']}\n"
        f"      next_actions[0]     {brief['next_actions'][0]}"
    )


def edit_and_pass(stage: Stage) -> str:
    """A second edit is in, and its validation has passed."""
    expect(edit(stage, WHOLE, before=HALF)["success"], "the edit was refused")
    stale = demo_stage.native_handoff(stage)["handoff_brief"]["validation"]["status"]
    expect(validate(stage) == 0, "the test did not pass")
    passed = demo_stage.native_handoff(stage)["handoff_brief"]["validation"]["status"]
    expect((stale, passed) == ("stale", "passed"), f"the brief said {stale}, then {passed}")
    return "Edited it again: validation stale. Ran the test again: exit 0, validation passed."


def say(stage: Stage) -> str:
    """A decision is noted, and a secret that slipped in is not."""
    session = {"session_id": stage.session}
    for kind, message in (("decision", "greeting takes a name"), ("note", f"the password is {SLIP}")):
        demo_stage.mcp(stage, "post_session_message", {**session, "kind": kind, "message": message})
    files = [path for path in stage.data.rglob("*") if path.is_file()]
    expect(not any(SLIP.encode() in path.read_bytes() for path in files), "the secret is on the disk")
    return "Noted a decision, and by mistake a password: it is in no answer and in no file of the Server."


def begin_job(stage: Stage) -> str:
    """Server and Runner run as two programs, and a long Job runs."""
    demo_stage.start_server(stage)
    demo_stage.start_runner(stage)
    params = {"project": stage.project, "session_id": stage.session, "argv": [sys.executable, "-c", LONG_JOB]}
    ran = demo_stage.mcp(stage, "run_process", params, budget_s=6)
    expect(not ran["completed"], "the Job has ended")
    stage.job = ran["job"]["job_id"]
    return (
        "Started Server and Runner as two programs, and a process that takes longer than a call may: it was "
        f"handed over as {stage.job}."
    )


def kill_server(stage: Stage) -> str:
    """The Server was killed in the middle of the Job and started again."""
    os.kill(stage.server_pid, signal.SIGKILL)
    demo_stage.start_server(stage)
    params = {
        "project": stage.project,
        "session_id": "~s1",
        "instruction": "Take over from where it stands.",
    }
    resumed = demo_stage.mcp(stage, "work_on_project", params)
    expect(resumed["session_id"] == stage.session, "another Session was resumed")
    until = time.monotonic() + ENDS_WITHIN_S
    while (job := observed(stage)["job"])["state"] == "recovering":
        expect(time.monotonic() < until, "the Runner does not come back")
        time.sleep(0.1)
    told = (job["state"], job["recovered_after_server_restart"])
    expect(told == ("running", True), f"the Job is {told}")
    return (
        "Killed the Server (SIGKILL) and started it again; resumed by ~s1. Until the Runner was back the Job "
        "was said to be recovering; it runs on."
    )


def end_job(stage: Stage) -> str:
    """The Job has ended, and it ran once."""
    (stage.repository / "go").touch()
    until = time.monotonic() + ENDS_WITHIN_S
    while (seen := observed(stage, wait_s=1))["job"]["finished_at"] is None:
        expect(time.monotonic() < until, "the Job does not end")
    expect(seen["job"]["exit_code"] == 0, f"the Job is {seen['job']}")
    runs = (stage.repository / "started").read_text(encoding="utf-8").splitlines()
    expect(len(runs) == 1, f"it was started {len(runs)} times")
    for name in ("go", "started"):
        (stage.repository / name).unlink()
    return f"Let it end: exit 0, its output is {said(seen['log_text'])}, and its counter says it ran once."


def finish(stage: Stage) -> str:
    """The outcome agrees with the brief."""
    params = {"project": stage.project, "session_id": stage.session, "outputs": [SOURCE]}
    done = demo_stage.mcp(stage, "finish_coding_task", params)
    outcome, verdict = done["task_outcome"], done["acceptance"]
    expect(done["task_outputs"]["verified_count"] == 1, "the output is not verified")
    expect(outcome["blocking_reasons"] == [], f"it is blocked by {outcome['blocking_reasons']}")
    return (
        "Asked for the outcome, with the edited file as an output. It says:\n"
        f"      task_outcome                {outcome['status']}: {', '.join(outcome['warning_reasons'])}\n"
        f"      evidence_history            {done['evidence_history']['status']}\n"
        f"      acceptance (advisory)       {verdict['state']}: {', '.join(verdict['reason_codes'])}\n"
        f"      verdict                     {done['verdict']}"
    )


def show(stage: Stage) -> str:
    """A person has looked."""
    page = demo_stage.finished([str(demo_stage.WEBCODEX), "handoff", "~s1"], stage)
    lines = "\n".join(f"      {line}".rstrip() for line in page.splitlines())
    return f"`webcodex handoff ~s1` shows the same to a person:\n{lines}"


def stop(stage: Stage) -> str:
    """Nothing of this runs any more."""
    demo_stage.end(stage)
    left = [pid for pid in stage.pids if demo_stage.is_alive(pid)]
    expect(not left, f"processes are left: {left}")
    return f"Stopped both: none of the {len(stage.pids)} processes is left."


def edit(stage: Stage, content: str, *, before: str) -> dict[str, Any]:
    """Returns the ToolResult of one edit of the source."""
    one = {"path": SOURCE, "op": "write", "expected_sha256": sha(before), "content": content}
    params = {"project": stage.project, "session_id": stage.session, "edits": [one]}
    return demo_stage.tool_result(stage, "edit_project_files", params)


def validate(stage: Stage) -> int | None:
    """Returns the exit code of the test, which ran as a validation."""
    params = {
        "project": stage.project,
        "session_id": stage.session,
        "argv": [sys.executable, "-m", "unittest", "-q"],
        "purpose": "validation",
        "validation_scope": "unit",
    }
    ran = demo_stage.mcp(stage, "run_process", params)
    expect(ran["completed"], "the test did not end in time")
    exit_code: int | None = ran["job"]["exit_code"]
    return exit_code


def observed(stage: Stage, wait_s: int = 0) -> dict[str, Any]:
    """Returns the Job and its whole log."""
    params = {"items": [{"job_id": stage.job}], "wait_secs": wait_s}
    seen: dict[str, Any] = demo_stage.mcp(stage, "observe_jobs", params)["items"][0]
    return seen


def sha(text: str) -> str:
    """Returns the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def said(text: str) -> str:
    """Returns a text in one line."""
    return ", ".join(text.splitlines())


BEGINNING = (make_repository, start, open_session, edit_blindly, edit_and_fail, edit_and_pass, say)
END = (begin_job, kill_server, end_job, finish, show, stop)
