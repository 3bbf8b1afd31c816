"""One piece of real work, from the first read to the handoff, over a killed Server and a second client."""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.hosts import machine
from tests.requirements import requirement
from webcodex.core import access

ANSWER_S: Final = 30.0
SHORTEST_BUDGET: Final = "6"  # M-38: one second for a process, then its Job goes on
WAIT_S: Final = 20
SECRET: Final = "hunter2hunter2"
INSTRUCTION: Final = "Make clamp respect its upper bound and prove it"
PROJECT: Final = machine.PROJECT
SOURCE: Final = machine.SOURCE
HALF: Final = "def clamp(value: int, most: int) -> int:\n    return max(0, most)\n"
WHOLE: Final = "def clamp(value: int, most: int) -> int:\n    return min(max(0, value), most)\n"
TEST: Final = """import unittest

import clamp


class Clamp(unittest.TestCase):
    def test_bounds(self):
        self.assertEqual([clamp.clamp(value, 5) for value in (-1, 3, 9)], [0, 3, 5])
"""
JOB: Final = """import pathlib, time
with open("started", "a") as counted:
    counted.write("once\\n")
print("waiting", flush=True)
ends = time.monotonic() + 60
while not pathlib.Path("go").exists() and time.monotonic() < ends:
    time.sleep(0.02)
print("gone on", flush=True)
"""


@dataclass
class Worker:
    """One MCP client of one credential."""

    client: Client
    session: str = ""

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Returns the ToolResult of a tool."""
        done = await self.client.call_tool(tool, arguments)
        assert isinstance(done.structured_content, dict), done
        assert done.is_error is not done.structured_content["success"]
        return done.structured_content

    async def done(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Returns the output of a call that succeeded."""
        answer = await self.call(tool, **arguments)
        assert answer["success"] is True, answer
        output = answer["output"]
        assert isinstance(output, dict)
        return output

    async def recorded(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Returns the output of a call that the Session records."""
        output = await self.done(tool, **arguments, _wc={"record": self.session})
        assert output["session_recorded"] is True
        return output

    async def validate(self) -> dict[str, Any]:
        """Returns the Job of one run of the tests, which ends within its call."""
        ran = await self.done(
            "run_process",
            project=PROJECT,
            session_id=self.session,
            argv=[sys.executable, "-m", "unittest", "-q", "test_clamp"],
            purpose="validation",
            validation_scope="unit",
        )
        job: dict[str, Any] = ran["job"]
        return job if ran["completed"] else await self.ended(job["job_id"])

    async def ended(self, job_id: str) -> dict[str, Any]:
        """Returns a Job that has ended, as soon as it has."""
        item: dict[str, Any] = {"job_id": job_id}
        job: dict[str, Any] = {"finished_at": None}
        for _ in range(WAIT_S):
            (seen,) = (await self.done("observe_jobs", items=[item], wait_secs=1))["items"]
            job = seen["job"]
            if job["finished_at"] is not None:
                break
            item["after_observation_token"] = seen["observation_token"]
        assert job["finished_at"] is not None, job
        return job

    async def handoff(self) -> dict[str, Any]:
        """Returns the handoff with the Git facts."""
        return await self.done("read_session_handoff", session_id=self.session)


@contextlib.asynccontextmanager
async def connected(desk: machine.Machine, token: str) -> AsyncIterator[Worker]:
    """Yields a client of the official SDK."""
    headers = {"authorization": f"Bearer {token}", "x-webcodex-mcp-budget-secs": SHORTEST_BUDGET}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=ANSWER_S) as http,
        Client(streamable_http_client(f"{desk.server.url}/mcp", http_client=http)) as client,
    ):
        yield Worker(client=client)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(text: str, before: str) -> list[dict[str, Any]]:
    return [{"path": SOURCE, "op": "write", "expected_sha256": before, "content": text}]


async def look_and_edit(worker: Worker, desk: machine.Machine) -> None:
    """Reads, searches, is refused an edit of what it has not read, and makes a half-right one."""
    made = await worker.done("work_on_project", project=PROJECT, instruction=INSTRUCTION)
    worker.session = made["session_id"]
    (item,) = (await worker.recorded("read_files", project=PROJECT, items=[{"path": SOURCE}]))["items"]
    found = await worker.recorded("search_project_texts", project=PROJECT, pattern="def clamp")
    assert [match["path"] for match in found["matches"]] == [SOURCE]
    edit = {"project": PROJECT, "session_id": worker.session}
    refused = await worker.call("edit_project_files", **edit, edits=write(HALF, sha("never read")))
    output = refused["output"]
    assert (output["error_kind"], output["state_changed"]) == ("edit_precondition_failed", False)
    assert output["failed"] == [
        {"index": 0, "path": SOURCE, "reason": "sha_mismatch", "actual_sha256": item["output"]["sha256"]}
    ]
    assert (desk.root / SOURCE).read_text(encoding="utf-8") == machine.SOURCE_TEXT
    edits = [
        *write(HALF, item["output"]["sha256"]),
        {"path": "test_clamp.py", "op": "create", "expected_sha256": None, "content": TEST},
    ]
    applied = await worker.done("edit_project_files", **edit, edits=edits)
    assert applied["changed_paths"] == [SOURCE, "test_clamp.py"]


async def fail_and_pass(worker: Worker) -> None:
    """Validates, reads in the brief that it failed, mends it and validates again."""
    job = await worker.validate()
    assert (job["state"], job["exit_code"], job["purpose"]) == ("failed", 1, "validation")
    told = await worker.handoff()
    assert told["handoff_brief"]["validation"]["status"] == "failed"
    assert told["handoff_brief"]["progress"]["state"] == "blocked"
    assert told["handoff_brief"]["next_actions"][0] == "Inspect the failed validation and fix its cause."
    assert (told["acceptance"]["state"], "validation_failed" in told["acceptance"]["reason_codes"]) == (
        "blocked",
        True,
    )
    edit = {"project": PROJECT, "session_id": worker.session}
    await worker.done("edit_project_files", **edit, edits=write(WHOLE, sha(HALF)))
    stale = await worker.handoff()
    assert stale["handoff_brief"]["validation"]["status"] == "stale"
    assert (await worker.validate())["exit_code"] == 0


async def say(worker: Worker) -> None:
    """Posts what the next worker has to know, and a secret by mistake."""
    session = {"session_id": worker.session}
    await worker.done("post_session_message", **session, kind="decision", message="clamp takes its bound")
    await worker.done("post_session_message", **session, kind="progress", message="the test passes")
    slip = f"the password is {SECRET}"
    posted = await worker.done("post_session_message", **session, kind="note", message=slip)
    assert posted["message"]["redacted"] is True


async def begin_long_job(worker: Worker) -> str:
    """Returns a Job that was handed over because it takes longer than the call."""
    ran = await worker.done(
        "run_process", project=PROJECT, session_id=worker.session, argv=[sys.executable, "-c", JOB]
    )
    assert (ran["completed"], ran["job"]["state"]) == (False, "running")
    return str(ran["job"]["job_id"])


async def take_over(worker: Worker, desk: machine.Machine, job_id: str) -> None:
    """Resumes by the reference, finds the Job it never started still running, and sees it to its end."""
    resumed = await worker.done("work_on_project", project=PROJECT, instruction="Take over", session_id="~s1")
    assert resumed["continuation"] == "resumed_explicitly"
    worker.session = resumed["session_id"]
    (seen,) = (await worker.done("observe_jobs", items=[{"job_id": job_id}]))["items"]
    assert (seen["job"]["state"], seen["job"]["recovered_after_server_restart"]) == ("running", True)
    busy = (await worker.handoff())["handoff_brief"]
    assert (busy["progress"]["state"], busy["attention"]["blocking_jobs"]) == ("blocked", 1)
    (desk.root / "go").touch()
    job = await worker.ended(job_id)
    (seen,) = (await worker.done("observe_jobs", items=[{"job_id": job_id}]))["items"]
    assert (job["state"], job["exit_code"], seen["log_text"]) == ("completed", 0, "waiting\ngone on\n")
    assert (desk.root / "started").read_text(encoding="utf-8") == "once\n"


async def read_and_finish(worker: Worker, first: str) -> dict[str, Any]:
    """Returns how it stands at the end; what is read before tells the same."""
    assert worker.session == first
    told = await worker.handoff()
    brief, verdict = told["handoff_brief"], told["acceptance"]
    assert brief["task"]["root_instruction"]["excerpt"] == INSTRUCTION
    assert brief["task"]["latest_instruction"]["excerpt"] == "Take over"
    assert [item["excerpt"] for item in brief["task"]["decisions"]["items"]] == ["clamp takes its bound"]
    assert [item["excerpt"] for item in brief["task"]["recent_progress"]["items"]] == ["the test passes"]
    assert (brief["validation"]["status"], brief["validation"]["open_failures"]["items"]) == ("passed", [])
    assert brief["progress"]["changes"]["items"] == [SOURCE, "test_clamp.py"]
    assert (brief["workspace"]["status"], brief["workspace"]["dirty"]) == ("available", True)
    assert (brief["progress"]["state"], brief["basis"]["complete"]) == ("ready_to_continue", True)
    assert (verdict["state"], verdict["reason_codes"]) == ("ready_for_review", ["validation_passed"])
    finished = await worker.done(
        "finish_coding_task", project=PROJECT, session_id=worker.session, outputs=[SOURCE, "absent.txt"]
    )
    facts = finished["facts"]
    assert (facts["validations_passed"], facts["resolved_failures"], facts["executions"]) == (1, 1, 3)
    assert sorted(facts["changed_paths"]) == [SOURCE, "test_clamp.py"]
    assert [(item["path"], item["status"], item["sha256"]) for item in finished["task_outputs"]["items"]] == [
        (SOURCE, "verified", sha(WHOLE)),
        ("absent.txt", "missing", None),
    ]
    assert finished["task_outcome"]["status"] == "fail"
    assert finished["task_outcome"]["blocking_reasons"] == ["outputs_missing"]
    assert (finished["acceptance"]["state"], finished["evidence_history"]["status"]) == (
        "blocked",
        "mixed_resolved",
    )
    again = await worker.done(
        "finish_coding_task", project=PROJECT, session_id=worker.session, outputs=[SOURCE]
    )
    assert (again["task_outcome"]["status"], again["task_outcome"]["blocking"]) == ("warn", False)
    assert again["acceptance"]["reason_codes"] == ["outputs_verified", "validation_passed"]
    assert again["handoff_brief"]["validation"] == brief["validation"]
    return again


def told_alike(over_mcp: dict[str, Any], over_rest: dict[str, Any]) -> bool:
    """Says whether two answers hold the same facts, but for the calls that asked for them."""
    for answer in (over_mcp, over_rest):
        answer["handoff_brief"]["progress"].pop("meaningful_tool_calls")
        answer["task_outputs"].pop("checked_at")
        for item in answer["acceptance"]["evidence"]["items"]:
            if item["kind"] == "task_output":
                item.pop("at")
    return over_mcp == over_rest


@pytest.mark.asyncio
@requirement("H-33", "R-55", "R-60", "R-64", "S-02", "S-23", "S-40", "S-42", "S-60", "S-68", "S-70")
async def test_work_goes_on_over_a_killed_server_and_the_brief_says_what_happened(tmp_path: Path) -> None:
    scopes = [scope.value for scope in access.CODING_SCOPES]
    with machine.running(tmp_path) as desk:
        async with connected(desk, desk.pat(*scopes)) as first:
            await look_and_edit(first, desk)
            await fail_and_pass(first)
            await say(first)
            job_id = await begin_long_job(first)
            await asyncio.to_thread(desk.restart)
        token = desk.pat(*scopes)
        async with connected(desk, token) as second:
            await take_over(second, desk, job_id)
            over_mcp = await read_and_finish(second, first.session)
        asked = {"project": PROJECT, "session_id": first.session, "outputs": [SOURCE]}
        status, over_rest = desk.server.call("finish_coding_task", asked, token)
        assert (status, told_alike(over_mcp, over_rest["output"])) == (200, True)
        stored = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert [path.name for path in stored if SECRET.encode() in path.read_bytes()] == []
        assert SECRET not in desk.server.log()
