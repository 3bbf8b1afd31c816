"""The Runner's side of one connection, without a socket."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol import frames
from tests.requirements import requirement
from webcodex.protocol import calls, link, messages, runner_link

DONE = calls.ExecutionState.COMPLETED


def text(frame: messages.Frame) -> str:
    return messages.text(frame)


def in_state(state: runner_link.State) -> runner_link.RunnerLink:
    connection = runner_link.RunnerLink(client_id="my-runner", runner_instance_id="3f6c", now=0.0)
    if state is not runner_link.State.CONNECTED:
        connection.hello(frames.HELLO)
    if state in {runner_link.State.OPEN, runner_link.State.CLOSED}:
        connection.receive_text(text(frames.REGISTERED), 1.0)
    if state is runner_link.State.CLOSED:
        connection.end()
    assert connection.state is state
    return connection


def opened() -> runner_link.RunnerLink:
    return in_state(runner_link.State.OPEN)


def requests(count: int) -> list[str]:
    return [text(replace(frames.REQUEST, request_id=f"req_{number}")) for number in range(count)]


@requirement("R-31", "R-33")
def test_a_hello_is_answered_with_a_connection() -> None:
    connection = in_state(runner_link.State.CONNECTED)
    assert messages.from_runner(connection.hello(frames.HELLO)) == frames.HELLO
    assert connection.receive_text(text(frames.REGISTERED), 1.0) == [
        runner_link.Welcomed(connection_id="conn_1", resume=frames.REGISTERED.resume)
    ]


@requirement("R-32")
def test_a_refusal_is_reported_with_its_reason() -> None:
    connection = in_state(runner_link.State.WAITING)
    refusal = messages.Error(code="register_failed", message="No.", reason="instance_retired")
    assert connection.receive_text(text(refusal), 1.0) == [
        runner_link.TurnedAway(code="register_failed", reason="instance_retired")
    ]


@requirement("R-33")
def test_a_registration_of_another_client_is_a_violation() -> None:
    other = replace(frames.REGISTERED, client=messages.Client(client_id="else", connection_id="conn_1"))
    with pytest.raises(link.ProtocolViolation):
        in_state(runner_link.State.WAITING).receive_text(text(other), 1.0)


@requirement("R-31")
@pytest.mark.parametrize("state", list(runner_link.State))
@pytest.mark.parametrize("frame", frames.FROM_SERVER, ids=lambda frame: frame.TYPE)
def test_each_frame_is_taken_only_where_it_is_allowed(
    state: runner_link.State, frame: messages.FromServer
) -> None:
    connection = in_state(state)
    if state is runner_link.State.CLOSED:
        assert connection.receive_text(text(frame), 3.0) == []
    elif frame.TYPE in runner_link.ALLOWED[state]:
        assert len(connection.receive_text(text(frame), 3.0)) == 1
    else:
        with pytest.raises(link.ProtocolViolation):
            connection.receive_text(text(frame), 3.0)
        assert connection.state is state


@requirement("R-41")
def test_a_budget_counts_from_receipt_on_the_runners_own_clock() -> None:
    [event] = opened().receive_text(text(frames.REQUEST), 7.0)
    assert event == runner_link.WorkReceived(request=frames.REQUEST, deadline=37.0)


@requirement("R-42")
def test_an_answer_names_request_connection_and_instance() -> None:
    connection = opened()
    connection.receive_text(text(frames.REQUEST), 7.0)
    frame = connection.answer("req_1", {"items": []}, execution=DONE, now=7.25)
    assert json.loads(frame or "") == {
        "type": "result",
        "request_id": "req_1",
        "connection_id": "conn_1",
        "runner_instance_id": "3f6c",
        "duration_ms": 250,
        "command_execution_state": "completed",
        "body": {"items": []},
        "error": None,
    }
    assert connection.answer("req_1", {}, execution=DONE, now=8.0) is None


@requirement("R-42")
def test_a_failure_is_answered_as_an_error_without_a_body() -> None:
    connection = opened()
    connection.receive_text(text(frames.REQUEST), 7.0)
    frame = connection.answer("req_1", frames.FAILURE, execution=calls.ExecutionState.TIMED_OUT, now=8.0)
    members = json.loads(frame or "")
    assert members["body"] is None
    assert members["command_execution_state"] == "timed_out"
    assert members["error"] == {
        "code": "timeout",
        "message": "Late.",
        "failure_kind": "unavailable",
        "recovery_kind": "retry_same",
    }


@requirement("R-50")
@pytest.mark.parametrize("body", [{"text": "x" * 262_144}, {"text": "\ud800"}, {"text": b"bytes"}])
def test_an_answer_that_does_not_fit_into_a_reply_becomes_an_error(body: dict[str, Any]) -> None:
    connection = opened()
    connection.receive_text(text(frames.REQUEST), 7.0)
    frame = json.loads(connection.answer("req_1", body, execution=DONE, now=8.0) or "")
    assert (frame["body"], frame["error"]["code"]) == (None, "internal_error")


@requirement("R-41", "R-45")
def test_a_request_for_another_connection_is_not_taken_up() -> None:
    connection = opened()
    void = replace(frames.REQUEST, connection_id="conn_0")
    assert connection.receive_text(text(void), 7.0) == []
    assert connection.answer("req_1", {}, execution=DONE, now=8.0) is None


@requirement("R-41")
def test_an_open_request_is_not_taken_up_twice() -> None:
    connection = opened()
    assert len(connection.receive_text(text(frames.REQUEST), 7.0)) == 1
    assert connection.receive_text(text(frames.REQUEST), 8.0) == []


@requirement("R-41")
def test_a_request_beyond_256_open_ones_is_declined_as_not_started() -> None:
    connection = opened()
    *_, [declined] = [connection.receive_text(request, 7.0) for request in requests(257)]
    assert isinstance(declined, runner_link.Declined)
    result = messages.from_runner(declined.reply)
    assert isinstance(result, calls.Result)
    assert result.request_id == "req_256"
    assert result.command_execution_state is calls.ExecutionState.NOT_STARTED
    assert result.error is not None
    assert (result.error.code, result.error.recovery_kind) == ("runner_unavailable", "wait")
    assert connection.answer("req_256", {}, execution=DONE, now=8.0) is None


@requirement("R-45")
def test_nothing_is_answered_on_a_void_connection() -> None:
    connection = opened()
    connection.receive_text(text(frames.REQUEST), 7.0)
    connection.end()
    assert connection.answer("req_1", {}, execution=DONE, now=8.0) is None
    assert connection.goodbye("shutdown") is None


@requirement("R-31")
def test_a_ping_goes_out_every_thirty_seconds() -> None:
    connection = opened()
    assert connection.due_at() == 30.0
    assert connection.tick(29.9) is None
    assert connection.tick(30.0) == '{"type":"ping","ts":30000}'
    assert connection.tick(30.1) is None
    connection.receive_text(text(messages.Pong(ts=30_000)), 31.0)
    assert connection.due_at() == 60.0


@requirement("R-34")
def test_a_server_that_is_silent_for_sixty_seconds_is_given_up() -> None:
    connection = opened()
    connection.tick(30.0)
    connection.tick(60.0)
    assert connection.due_at() == 61.0
    with pytest.raises(link.PeerSilent):
        connection.tick(61.0)


@requirement("R-31")
def test_a_hello_that_is_not_answered_within_fifteen_seconds_is_given_up() -> None:
    connection = in_state(runner_link.State.WAITING)
    assert connection.tick(14.9) is None
    with pytest.raises(link.PeerSilent):
        connection.tick(15.0)


@requirement("R-31")
def test_a_goodbye_is_said_only_where_a_lease_is_held() -> None:
    assert opened().goodbye("shutdown") == '{"type":"goodbye","reason":"shutdown"}'
    assert in_state(runner_link.State.WAITING).goodbye("shutdown") is None


@requirement("R-31")
@pytest.mark.parametrize("state", list(runner_link.State))
def test_a_hello_is_said_once(state: runner_link.State) -> None:
    connection = in_state(state)
    if state is runner_link.State.CONNECTED:
        connection.hello(frames.HELLO)
    with pytest.raises(link.NotOpen):
        connection.hello(frames.HELLO)


@requirement("R-30")
@given(arriving=st.lists(frames.ARRIVING, max_size=5), state=st.sampled_from(list(runner_link.State)))
def test_no_text_does_more_to_a_connection_than_break_the_protocol(
    arriving: list[str], state: runner_link.State
) -> None:
    connection = in_state(state)
    for received in arriving:
        with contextlib.suppress(link.ProtocolViolation):
            connection.receive_text(received, 5.0)
    assert connection.state in {state, runner_link.State.OPEN}
