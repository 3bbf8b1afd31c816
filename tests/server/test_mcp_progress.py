"""A client that asked for it hears that its call waits for a Runner, until its answer ends the stream."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.late_runner import LateRunner
from tests.server.mcp_desk import BOOTSTRAP, DEADLINE_S, EVERY_SCOPE, REVISION, Desk, Header
from tests.server.test_mcp_dispatch import UNKNOWN, writes_wait
from tests.tools import house
from webcodex.core import limits
from webcodex.server.mcp_answers import Form
from webcodex.storage import sessions as stored_sessions
from webcodex.tools import ports

EVERY_S = 0.01
DISPATCH_S = 0.5
ENOUGH = 3
WAITING = "Waiting for the Runner"
ACCEPT = "application/json, text/event-stream"
BOTH: Header = ("accept", ACCEPT)
READ = {"project": house.DEMO, "items": [{"path": "a.py"}]}
PLANTED = "planted-7c1e"


@pytest.fixture
def runner() -> LateRunner:
    return LateRunner()


@pytest.fixture
async def desk(tmp_path: Path, runner: LateRunner) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path, runners=runner, progress_every_s=EVERY_S) as made:
        yield made


@pytest.fixture
async def url(desk: Desk) -> AsyncIterator[str]:
    async with desk.listening() as opened:
        yield opened


def _call(
    tool: str, arguments: dict[str, Any], form: Form, known_as: Any, token: str
) -> tuple[bytes, list[tuple[str, str]]]:
    """Returns the body and the headers of a call with a progress token."""
    meta = {} if known_as is None else {"progressToken": known_as}
    params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": meta}
    named: list[Header] = []
    if form is Form.STATELESS:
        params["_meta"] = mcp_desk.envelope(**meta)
        named = mcp_desk.stateless_headers("tools/call", params)
    usual: list[Header] = [("authorization", f"Bearer {token}"), ("content-type", "application/json")]
    headers = [(name, str(value)) for name, value in (*usual, *named)]
    return json.dumps(mcp_desk.message("tools/call", params)).encode(), headers


@asynccontextmanager
async def _asked(
    url: str,
    tool: str,
    arguments: dict[str, Any],
    *headers: Header,
    form: Form = Form.STATELESS,
    known_as: Any = 1,
    token: str = BOOTSTRAP,
) -> AsyncIterator[httpx2.Response]:
    """Sends a call with a progress token and yields its answer, of which only the head has been read."""
    content, usual = _call(tool, arguments, form, known_as, token)
    sent = [*usual, *((name, str(value)) for name, value in headers)]
    async with (
        asyncio.timeout(DEADLINE_S),
        httpx2.AsyncClient(verify=False) as http,
        http.stream("POST", url, content=content, headers=sent) as answer,
    ):
        yield answer


async def _events(answer: httpx2.Response) -> AsyncIterator[dict[str, Any]]:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def _heard(answer: httpx2.Response, runner: LateRunner) -> list[dict[str, Any]]:
    """Lets the Runner answer once enough was told; returns every event."""
    heard = []
    async for event in _events(answer):
        heard.append(event)
        if len(heard) == ENOUGH:
            runner.may_answer.set()
    return heard


async def _is_refused(url: str) -> None:
    """Returns once the Server has had a turn for whatever was sent before."""
    async with _asked(url, "read_files", {}, BOTH) as answer:
        assert answer.status_code == 400


async def _ledger(desk: Desk, session_id: str, kind: str) -> list[Any]:
    events: list[Any] = await desk.house.database.read(
        lambda tx: stored_sessions.newest_events(tx, session_id, 200)
    )
    return [event for event in events if event["kind"] == kind]


async def _finished(desk: Desk, session_id: str) -> Any:
    """Returns the first finished event once it is there."""
    until = asyncio.get_running_loop().time() + DEADLINE_S
    while not (finished := await _ledger(desk, session_id, "tool_call_finished")):
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(EVERY_S)
    return finished[0]


@pytest.mark.parametrize("mode", ["legacy", REVISION])
@requirement("M-21")
async def test_client_of_each_era_hears_of_a_late_runner(url: str, runner: LateRunner, mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        if len(heard) == ENOUGH:
            runner.may_answer.set()

    async with (
        asyncio.timeout(DEADLINE_S),
        httpx2.AsyncClient(verify=False, headers={"authorization": f"Bearer {BOOTSTRAP}"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        done = await client.call_tool("read_files", READ, progress_callback=hear)
        assert isinstance(done, mcp_types.CallToolResult)
        assert done.structured_content is not None
        assert done.structured_content["success"] is True
        assert len(heard) >= ENOUGH
        assert {told[1:] for told in heard} == {(None, WAITING)}
        assert [told[0] for told in heard] == sorted({told[0] for told in heard})
        # The same call is one body again where nothing is waited for.
        assert (await client.call_tool("read_files", READ, progress_callback=hear)).is_error is False


@requirement("M-21", "M-27", "M-30")
async def test_stream_ends_with_the_answer_and_holds_nothing_of_the_request(
    url: str, runner: LateRunner
) -> None:
    for form in Form:
        for known_as in ("t" * 256, "", 0, -(2**53) + 1):
            runner.may_answer.clear()
            wanted = {**READ, "items": [{"path": PLANTED}]}
            async with _asked(url, "read_files", wanted, BOTH, form=form, known_as=known_as) as answer:
                *told, last = await _heard(answer, runner)
            assert len(told) >= ENOUGH
            for event in told:
                progress = event["params"].pop("progress")
                assert progress >= EVERY_S
                assert event == {
                    "jsonrpc": "2.0",
                    "method": "notifications/progress",
                    "params": {"progressToken": known_as, "message": WAITING},
                }
            assert (last["jsonrpc"], last["id"]) == ("2.0", 7)
            assert last["result"]["structuredContent"]["success"] is True
            assert ("resultType" in last["result"]) is (form is Form.STATELESS)
            assert PLANTED not in json.dumps(told)


@pytest.mark.parametrize(
    ("known_as", "accept"),
    [
        (None, ACCEPT),
        (True, ACCEPT),
        (1.5, ACCEPT),
        (2**53, ACCEPT),
        ("t" * 257, ACCEPT),
        (1, "application/json"),
        (1, "*/*"),
        (1, "application/json, text/event-stream;q=0"),
        (1, "text/event-stream; charset=utf-8; q=0.000, application/json"),
    ],
)
@requirement("M-21")
async def test_every_other_request_is_answered_with_one_body(
    url: str, runner: LateRunner, known_as: Any, accept: str
) -> None:
    """Another request, which is told, shows that this one waited just as long."""

    async def one_body() -> tuple[str, Any]:
        async with _asked(url, "read_files", READ, ("accept", accept), known_as=known_as) as answer:
            return answer.headers["content-type"], json.loads(await answer.aread())

    asking = asyncio.create_task(one_body())
    async with asyncio.timeout(DEADLINE_S):
        await runner.was_asked.wait()
    async with _asked(url, "read_files", READ, BOTH) as answer:
        await _heard(answer, runner)
    media_type, body = await asking
    assert media_type == "application/json"
    assert body["result"]["structuredContent"]["success"] is True


@requirement("M-21", "H-07", "S-60")
async def test_every_tool_that_asks_the_runner_says_that_it_waits(
    desk: Desk, url: str, runner: LateRunner
) -> None:
    session_id = await desk.house.session()
    runner.answer = {"available": False, "reason_code": "non_git_project"}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_project_files", {"project": house.DEMO}),
        ("search_project_texts", {"project": house.DEMO, "pattern": "x"}),
        ("get_git_status", {"project": house.DEMO}),
        ("read_workspace_changes", {"project": house.DEMO}),
        ("work_on_project", {"project": house.DEMO, "instruction": "Go on"}),
        ("call_runtime_tool", {"tool": "get_git_status", "arguments": {"project": house.DEMO}}),
        ("read_session_handoff", {"session_id": session_id, "include_workspace": True}),
    ]
    ada = await desk.pat("ada", *EVERY_SCOPE)
    for tool, arguments in calls:
        runner.may_answer.clear()
        async with _asked(url, tool, arguments, BOTH, token=ada) as answer:
            *told, last = await _heard(answer, runner)
        assert {event["params"]["message"] for event in told} == {WAITING}, tool
        assert last["result"]["structuredContent"]["success"] is True, last


@requirement("M-21", "M-28", "C-22")
async def test_refusal_before_the_dispatch_is_one_body_with_its_status(desk: Desk, url: str) -> None:
    bare = await desk.pat("ada")
    cases: list[tuple[str, dict[str, Any], list[Header], str, int]] = [
        ("read_files", READ, [], "wrong", 401),
        ("read_files", READ, [("x-webcodex-mcp-profile", "none")], BOOTSTRAP, 400),
        ("read_files", READ, [("mcp-name", "list_projects")], BOOTSTRAP, 400),
        ("get_session_handoff_state", {}, [], BOOTSTRAP, 400),
        ("read_files", READ, [], bare, 403),
        ("read_files", {"paths": []}, [], BOOTSTRAP, 400),
    ]
    for tool, arguments, headers, token, status in cases:
        async with _asked(url, tool, arguments, BOTH, *headers, token=token) as answer:
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
            assert "error" in json.loads(await answer.aread())


@requirement("M-21", "M-30")
async def test_late_failure_is_the_last_event(url: str, runner: LateRunner) -> None:
    runner.answer = ports.RunnerTimeout()
    async with _asked(url, "read_files", READ, BOTH) as answer:
        *_, last = await _heard(answer, runner)
    assert last["result"]["isError"] is True
    assert last["result"]["structuredContent"]["output"]["error_kind"] == "timeout"


@requirement("M-21")
def test_a_second_is_the_least_between_two_notifications() -> None:
    assert limits.PROGRESS_EVERY_S == 1.0


@requirement("M-21", "M-28")
async def test_deadline_answers_as_the_last_event(tmp_path: Path, runner: LateRunner) -> None:
    async with (
        mcp_desk.opened(tmp_path, runners=runner, progress_every_s=EVERY_S, dispatch_s=DISPATCH_S) as desk,
        desk.listening() as url,
    ):
        async with _asked(url, "read_files", READ, BOTH) as answer:
            *told, last = [event async for event in _events(answer)]
        assert told
        assert (last["id"], last["error"]["code"], set(last["error"])) == (7, -32000, {"code", "message"})
        begun = {"project": house.DEMO, "instruction": "Go on"}
        async with _asked(url, "work_on_project", begun, BOTH) as answer:
            *told, last = [event async for event in _events(answer)]
        assert told
        assert last["result"]["structuredContent"]["output"] == UNKNOWN
    assert runner.was_given_up.is_set()


@requirement("M-21", "S-50")
async def test_client_that_leaves_ends_a_read_and_the_ledger_says_so(
    desk: Desk, url: str, runner: LateRunner
) -> None:
    session_id = await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    wanted = {**READ, "_wc": {"record": session_id}}
    async with _asked(url, "read_files", wanted, BOTH, token=ada) as answer:
        await anext(_events(answer))
    async with asyncio.timeout(DEADLINE_S):
        await runner.was_given_up.wait()
    finished = await _finished(desk, session_id)
    assert (finished["tool_name"], finished["status"]) == ("read_files", "failed")
    assert finished["execution_state"] == "cancelled"
    assert "error_kind" not in finished


@requirement("M-21", "S-50")
async def test_change_goes_on_when_its_client_leaves(desk: Desk, url: str, runner: LateRunner) -> None:
    session_id = await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    begun = {"project": house.DEMO, "instruction": "Go on", "_wc": {"record": session_id}}
    async with _asked(url, "work_on_project", begun, BOTH, token=ada) as answer:
        await anext(_events(answer))
    async with _asked(url, "read_files", READ, BOTH, token=ada) as answer:
        await _heard(answer, runner)
    finished = await _finished(desk, session_id)
    assert (finished["tool_name"], finished["status"]) == ("work_on_project", "succeeded")
    assert not runner.was_given_up.is_set()


@requirement("M-21", "S-50")
async def test_client_that_leaves_before_the_start_is_stored_leaves_no_start_without_end(
    desk: Desk, url: str
) -> None:
    session_id = await desk.house.session()
    ada = await desk.pat("ada", *EVERY_SCOPE)
    wanted = {**READ, "_wc": {"record": session_id}}
    content, headers = _call("read_files", wanted, Form.STATELESS, 1, ada)
    where = httpx2.URL(url)
    headers += [("host", f"{where.host}:{where.port}"), ("accept", ACCEPT)]
    lines = [f"{name}: {value}\r\n" for name, value in [*headers, ("content-length", str(len(content)))]]
    with writes_wait(desk):
        _, writer = await asyncio.open_connection(where.host, where.port)
        writer.write("".join(["POST /mcp HTTP/1.1\r\n", *lines, "\r\n"]).encode())
        writer.write(content)
        await _is_refused(url)
        writer.close()
        await writer.wait_closed()
        await _is_refused(url)
    # Whether its start was stored before or after it was seen to leave is a matter of milliseconds.
    assert (await _finished(desk, session_id))["execution_state"] in {"not_started", "cancelled"}
    assert len(await _ledger(desk, session_id, "tool_call_started")) == 1
