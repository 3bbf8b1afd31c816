"""Proves what a caller learns from a Runner that answers, refuses, is slow, leaves or is away."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server.station import BOOTSTRAP, CAPABILITIES, DEMO, Frame, Peer, Station, hello, token_of
from webcodex.core.json_value import JsonObject
from webcodex.protocol import bounds, calls
from webcodex.storage import projects
from webcodex.tools import ports

READS = (
    "read_files",
    "list_project_files",
    "search_project_texts",
    "git_status",
    "workspace_changes",
    "check_outputs",
    "job_snapshot",
)
CHANGES = ("edit_project_files", "start_process_job", "stop_job", "coding_agent")
FAILURE = {
    "code": "project_root_replaced",
    "message": "The root is another directory.",
    "failure_kind": "conflict",
    "recovery_kind": "user_action",
}


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    made = await Station(tmp_path, {"WEBCODEX_TOKEN": BOOTSTRAP}).start()
    await made.add_user("ada", "r1")
    yield made
    await made.stop()


@pytest.fixture
async def runner(station: Station) -> AsyncIterator[Peer]:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(capabilities={**CAPABILITIES, "coding_agent_runs": True})
        yield peer


def call(
    station: Station, kind: str = "read_files", body: Mapping[str, Any] | None = None, budget_s: float = 5.0
) -> asyncio.Task[JsonObject]:
    asked = station.gateway.call(DEMO, kind, body or {}, budget_s=budget_s, requested_by="someone")
    return asyncio.create_task(asked)


async def outcome(waiting: asyncio.Task[JsonObject]) -> type[BaseException] | JsonObject:
    async with asyncio.timeout(10):
        (ended,) = await asyncio.gather(waiting, return_exceptions=True)
    return type(ended) if isinstance(ended, BaseException) else ended


@requirement("R-41", "R-42")
async def test_request_says_everything_and_its_answer_comes_back(station: Station, runner: Peer) -> None:
    waiting = call(station, body={"items": [{"path": "a.py"}]}, budget_s=2.5)
    request = await runner.next()
    assert request == {
        "type": "request",
        "request_id": request["request_id"],
        "connection_id": runner.connection_id,
        "kind": "read_files",
        "budget_ms": 2500,
        "project_id": "demo",
        "requested_by": "someone",
        "created_at": station.now,
        "body": {"items": [{"path": "a.py"}]},
    }
    await runner.answer(request, {"items": [1]})
    assert await waiting == {"items": [1]}


@requirement("R-42")
async def test_answers_find_their_requests_in_any_order(station: Station, runner: Peer) -> None:
    waiting = [call(station, body={"number": number}) for number in range(20)]
    requests = [await runner.next() for _ in waiting]
    for request in reversed(requests):
        await runner.answer(request, request["body"])
    assert await asyncio.gather(*waiting) == [{"number": number} for number in range(20)]


@requirement("R-42")
async def test_refusal_keeps_its_code_and_its_words(station: Station, runner: Peer) -> None:
    waiting = call(station)
    await runner.answer(await runner.next(), None, error=FAILURE, command_execution_state="not_started")
    with pytest.raises(ports.RunnerRefused) as raised:
        await waiting
    refused = raised.value
    assert refused.code == "project_root_replaced"
    assert (refused.failure_kind, refused.recovery_kind) == ("conflict", "user_action")


@requirement("R-42", "R-50")
@pytest.mark.parametrize(
    ("kind", "state", "expected"),
    [
        ("read_files", "timed_out", ports.RunnerTimeout),
        ("read_files", "outcome_unknown", ports.RunnerRefused),
        ("edit_project_files", "completed", ports.RunnerRefused),
        ("edit_project_files", "timed_out", ports.RunnerOutcomeUnknown),
        ("edit_project_files", "outcome_unknown", ports.RunnerOutcomeUnknown),
    ],
)
async def test_error_about_a_change_of_unknown_outcome_stays_unknown(
    station: Station, runner: Peer, kind: str, state: str, expected: type[Exception]
) -> None:
    waiting = call(station, kind)
    await runner.answer(await runner.next(), None, error=FAILURE, command_execution_state=state)
    assert await outcome(waiting) is expected


@requirement("R-42")
@pytest.mark.parametrize(
    "changed",
    [
        {"connection_id": "conn_other"},
        {"runner_instance_id": "i2"},
        {"request_id": "req_999"},
    ],
)
async def test_result_of_another_connection_instance_or_request_does_not_count(
    station: Station, runner: Peer, changed: Frame
) -> None:
    waiting = call(station)
    request = await runner.next()
    await runner.answer(request, {"from": "elsewhere"}, **changed)
    await runner.ping()
    assert not waiting.done()
    await runner.answer(request, {"from": "here"})
    assert await waiting == {"from": "here"}


@requirement("R-41", "R-50")
async def test_no_answer_in_time_is_a_timeout_of_reads_and_unknown_for_changes(
    station: Station, runner: Peer
) -> None:
    waiting = {kind: call(station, kind, budget_s=0.01) for kind in (*READS, *CHANGES)}
    requests = [await runner.next() for _ in waiting]
    for kind, one in waiting.items():
        assert await outcome(one) is (ports.RunnerTimeout if kind in READS else ports.RunnerOutcomeUnknown)
    for request in requests:
        await runner.answer(request, {"too": "late"})
    await runner.ping()
    following = call(station)
    await runner.answer(await runner.next(), {"in": "time"})
    assert await following == {"in": "time"}


@requirement("R-42")
async def test_caller_that_stops_waiting_leaves_nothing_behind(station: Station, runner: Peer) -> None:
    waiting = call(station)
    request = await runner.next()
    waiting.cancel()
    assert await outcome(waiting) is asyncio.CancelledError
    await runner.answer(request, {})
    await runner.ping()
    assert station.gateway.is_connected("r1")


@requirement("R-34", "R-41")
@pytest.mark.parametrize("end", ["lost", "goodbye", "replaced", "malformed", "server stops"])
async def test_every_waiting_caller_learns_that_its_connection_ended(
    station: Station, runner: Peer, end: str
) -> None:
    waiting = {kind: call(station, kind) for kind in calls.REQUEST_KINDS}
    for _ in waiting:
        await runner.next()
    if end == "lost":
        runner.connection.transport.abort()
    elif end == "goodbye":
        await runner.send({"type": "goodbye", "reason": "stop"})
    elif end == "malformed":
        await runner.connection.send("no JSON")
    elif end == "server stops":
        await station.gateway.close()
    else:
        async with station.peer(token_of("r1")) as next_one:
            assert (await next_one.say_hello(instance="i2"))["type"] == "registered"
            await runner.close_code()
    for kind, one in waiting.items():
        assert await outcome(one) is (
            ports.RunnerUnavailable if kind in READS else ports.RunnerOutcomeUnknown
        )
    assert await outcome(call(station)) is ports.RunnerUnavailable


@requirement("R-41")
async def test_answer_within_the_margin_after_the_budget_counts(station: Station, runner: Peer) -> None:
    station.gateway._answer_margin_s = 10.0
    waiting = call(station, budget_s=0.0)
    request = await runner.next()
    assert request["budget_ms"] == 0
    await runner.answer(request, {"just": "in time"})
    assert await waiting == {"just": "in time"}


@requirement("R-34")
async def test_caller_that_gives_up_as_the_connection_ends_harms_nobody(
    station: Station, runner: Peer
) -> None:
    leaving, staying = call(station), call(station)
    for _ in range(2):
        await runner.next()
    leaving.cancel()
    await station.gateway.close()
    assert await outcome(leaving) is asyncio.CancelledError
    assert await outcome(staying) is ports.RunnerUnavailable
    assert await runner.close_code() == 1001


@requirement("R-34")
async def test_silent_runner_leaves_nobody_waiting(station: Station, runner: Peer) -> None:
    waiting = call(station)
    await runner.next()
    station.pass_time(60)
    assert await outcome(waiting) is ports.RunnerUnavailable
    assert not station.gateway.is_connected("r1")


@requirement("R-50")
async def test_runner_that_is_away_is_asked_nothing(station: Station) -> None:
    assert not station.gateway.is_connected("r1")
    assert await outcome(call(station)) is ports.RunnerUnavailable
    assert await outcome(call(station, "edit_project_files")) is ports.RunnerUnavailable


@requirement("R-41")
async def test_request_257_is_refused_until_one_is_answered(station: Station, runner: Peer) -> None:
    waiting = [call(station) for _ in range(bounds.MAX_OPEN_REQUESTS)]
    requests = [await runner.next() for _ in waiting]
    assert await outcome(call(station)) is ports.RunnerUnavailable
    await runner.answer(requests[0], {})
    assert await waiting[0] == {}
    again = call(station)
    await runner.answer(await runner.next(), {"after": "all"})
    assert await again == {"after": "all"}
    for request in requests[1:]:
        await runner.answer(request, {})
    assert await asyncio.gather(*waiting[1:]) == [{}] * (bounds.MAX_OPEN_REQUESTS - 1)


@requirement("R-41")
async def test_request_that_nobody_waits_for_stays_open_until_it_is_answered(
    station: Station, runner: Peer
) -> None:
    waiting = [call(station, budget_s=0.01) for _ in range(bounds.MAX_OPEN_REQUESTS)]
    requests = [await runner.next() for _ in waiting]
    assert {await outcome(one) for one in waiting} == {ports.RunnerTimeout}
    assert await outcome(call(station)) is ports.RunnerUnavailable
    await runner.answer(requests[0], {})
    await runner.ping()
    again = call(station)
    await runner.answer(await runner.next(), {})
    assert await again == {}


@requirement("R-33", "R-50")
@pytest.mark.parametrize(
    ("absent", "kind"),
    [
        ("file_read", "read_files"),
        ("file_read", "list_project_files"),
        ("file_read", "search_project_texts"),
        ("file_read", "check_outputs"),
        ("git", "git_status"),
        ("git", "workspace_changes"),
        ("file_write", "edit_project_files"),
        ("jobs", "start_process_job"),
        ("coding_agent_runs", "coding_agent"),
        ("nothing", "run_shell"),
    ],
)
async def test_request_that_needs_an_absent_capability_is_not_sent(
    station: Station, absent: str, kind: str
) -> None:
    capabilities = {**CAPABILITIES, "coding_agent_runs": True, absent: False}
    async with station.peer(token_of("r1")) as peer:
        await peer.send(hello(capabilities=capabilities))
        await peer.next()
        with pytest.raises(ports.RunnerRefused, match="agent_capability_unavailable"):
            await call(station, kind)
        await peer.ping()


@requirement("R-30")
async def test_request_that_would_be_no_frame_is_refused_and_not_sent(station: Station, runner: Peer) -> None:
    with pytest.raises(ports.RunnerRefused, match="invalid_arguments"):
        await call(station, body={"text": "x" * bounds.MAX_FRAME_BYTES})
    with pytest.raises(ports.RunnerRefused, match="invalid_arguments"):
        await call(station, body={"text": "\ud800"})
    await runner.ping()


@requirement("R-34")
async def test_runner_that_reads_nothing_blocks_only_its_own_callers(station: Station, runner: Peer) -> None:
    await station.add_user("eve", "r2")
    async with station.peer(token_of("r2")) as other:
        await other.say_hello(client_id="r2")
        runner.connection.transport.pause_reading()
        stuck = [call(station, body={"text": "x" * 4_000_000}, budget_s=0.3) for _ in range(4)]
        project = projects.Project(
            client_id="r2", project_id="demo", path="/srv", name=None, allow_patch=True
        )
        asked = asyncio.create_task(
            station.gateway.call(project, "git_status", {}, budget_s=5.0, requested_by="someone")
        )
        await other.answer(await other.next(), {"available": False})
        assert await asked == {"available": False}
        assert {await outcome(one) for one in stuck} == {ports.RunnerTimeout}
        runner.connection.transport.resume_reading()
