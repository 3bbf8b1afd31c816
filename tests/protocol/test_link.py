"""The Server's side of one connection, without a socket."""

import contextlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol import frames
from tests.requirements import requirement
from webcodex.protocol import calls, hello, inventory, link, link_events, messages


def text(frame: messages.Frame) -> str:
    return messages.text(frame)


def fresh() -> link.ServerLink:
    return link.ServerLink(connection_id="conn_1", now=0.0)


def opened(greeting: hello.Hello = frames.HELLO) -> link.ServerLink:
    connection = fresh()
    connection.receive_text(text(greeting), 1.0)
    connection.registered()
    return connection


def asked(connection: link.ServerLink, kind: str = "read_files", body: Any = None) -> str:
    request_id, _ = connection.request(
        kind=kind, body=body or {}, budget_ms=30_000, requested_by="bootstrap", created_at=1
    )
    return request_id


def answer(request_id: str, **changes: Any) -> str:
    return text(replace(frames.RESULT, request_id=request_id, **changes))


def in_state(state: link.State) -> link.ServerLink:
    connection = fresh() if state is link.State.AWAITING_HELLO else opened()
    if state is link.State.DECIDING:
        connection = fresh()
        connection.receive_text(text(frames.HELLO), 1.0)
    if state is link.State.LEAVING:
        connection.receive_text(text(messages.Goodbye(reason="shutdown")), 2.0)
    if state is link.State.CLOSED:
        connection.end()
    assert connection.state is state
    return connection


@requirement("R-31", "R-33")
def test_a_hello_is_reported_and_answered() -> None:
    connection = fresh()
    assert connection.receive_text(text(frames.HELLO), 1.0) == [link_events.HelloReceived(hello=frames.HELLO)]
    resume = [messages.Resume(stream="job", id="j", through_sequence=0, through_revision=2)]
    assert messages.from_server(connection.registered(resume)) == messages.Registered(
        client=messages.Client(client_id="my-runner", connection_id="conn_1"), resume=tuple(resume)
    )
    assert connection.state is link.State.OPEN


@requirement("R-32")
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("register_forbidden", None),
        ("register_failed", "instance_already_online"),
        ("register_failed", "instance_retired"),
        ("register_failed", "capabilities_shrunk"),
    ],
)
def test_a_refused_hello_is_told_why_and_nothing_follows(code: str, reason: str | None) -> None:
    connection = in_state(link.State.DECIDING)
    refusal = messages.from_server(connection.refuse(code, reason))
    assert isinstance(refusal, messages.Error)
    assert (refusal.code, refusal.reason) == (code, reason)
    assert connection.receive_text(text(messages.Ping(ts=1)), 2.0) == []
    with pytest.raises(link.NotOpen):
        asked(connection)


@requirement("R-30", "R-31", "R-32")
@pytest.mark.parametrize(
    "first",
    [text(messages.Ping(ts=1)), '{"type": "novelty"}', "no frame", text(frames.RESULT), '{"type": "hello"}'],
)
def test_a_first_frame_that_is_no_valid_hello_ends_the_connection(first: str) -> None:
    with pytest.raises(link.ProtocolViolation) as caught:
        fresh().receive_text(first, 1.0)
    assert caught.value.close_code == 1002
    assert json.loads(caught.value.last_words or "")["code"] == "expected_register"


@requirement("R-32")
@pytest.mark.parametrize(
    ("members", "code", "more"),
    [
        ({"protocol": 3}, "protocol_unsupported", {"supported": [2]}),
        ({"job_inventory": {}}, "register_failed", {"reason": "inventory_invalid"}),
    ],
)
def test_a_hello_that_cannot_be_served_is_told_what_is_wrong(
    members: dict[str, Any], code: str, more: dict[str, Any]
) -> None:
    with pytest.raises(link.ProtocolViolation) as caught:
        fresh().receive_text(json.dumps({**json.loads(text(frames.HELLO)), **members}), 1.0)
    last_words = json.loads(caught.value.last_words or "")
    assert last_words.pop("message")
    assert last_words == {"type": "error", "code": code, **more}


@requirement("R-31", "R-32")
def test_a_hello_that_does_not_come_within_fifteen_seconds_ends_the_connection() -> None:
    connection = fresh()
    assert connection.due_at() == 15.0
    connection.tick(14.9)
    with pytest.raises(link.ProtocolViolation) as caught:
        connection.tick(15.0)
    assert json.loads(caught.value.last_words or "")["code"] == "expected_register"


@requirement("R-34")
def test_a_runner_that_is_silent_for_sixty_seconds_is_let_go() -> None:
    connection = opened()
    connection.receive_text(text(messages.Ping(ts=1)), 30.0)
    connection.receive_text('{"type": "novelty"}', 40.0)
    assert connection.due_at() == 100.0
    connection.tick(99.9)
    with pytest.raises(link.PeerSilent):
        connection.tick(100.0)


@requirement("R-31")
def test_a_ping_is_answered_with_its_own_stamp() -> None:
    for state in (link.State.DECIDING, link.State.OPEN):
        [event] = in_state(state).receive_text(text(messages.Ping(ts=41)), 2.0)
        assert event == link_events.Pinged(reply='{"type":"pong","ts":41}')


@requirement("R-31")
@pytest.mark.parametrize("state", list(link.State))
@pytest.mark.parametrize("frame", frames.FROM_RUNNER, ids=lambda frame: frame.TYPE)
def test_each_frame_is_taken_only_where_it_is_allowed(state: link.State, frame: messages.FromRunner) -> None:
    connection = in_state(state)
    if state in {link.State.LEAVING, link.State.CLOSED}:
        assert connection.receive_text(text(frame), 3.0) == []
    elif frame.TYPE in link.ALLOWED[state]:
        assert len(connection.receive_text(text(frame), 3.0)) == 1
    else:
        with pytest.raises(link.ProtocolViolation):
            connection.receive_text(text(frame), 3.0)
        assert connection.state is state


@requirement("R-31")
def test_every_state_is_reachable_and_only_the_closed_one_is_final() -> None:
    assert set(link.TRANSITIONS) == set(link.State)
    for state, steps in link.TRANSITIONS.items():
        assert in_state(state).state is state
        assert link.Step.ENDED in steps
        assert (set(steps.values()) == {link.State.CLOSED}) is (
            state in {link.State.LEAVING, link.State.CLOSED}
        )


@requirement("R-31")
@pytest.mark.parametrize("state", list(link.State))
def test_only_a_waiting_hello_can_be_accepted(state: link.State) -> None:
    connection = in_state(state)
    if state is link.State.DECIDING:
        connection.registered()
        return
    with pytest.raises(link.NotOpen):
        connection.registered()
    assert connection.state is state


@requirement("R-30")
def test_a_binary_frame_is_a_violation() -> None:
    assert opened().refuse_binary().close_code == 1002


@requirement("R-41")
def test_a_request_goes_out_in_the_form_of_the_specification() -> None:
    connection = opened()
    request_id, frame = connection.request(
        kind="read_files",
        body={"items": []},
        budget_ms=8000,
        requested_by="managed-user:7",
        created_at=5,
        project_id="demo",
    )
    assert json.loads(frame) == {
        "type": "request",
        "request_id": request_id,
        "connection_id": "conn_1",
        "kind": "read_files",
        "budget_ms": 8000,
        "project_id": "demo",
        "requested_by": "managed-user:7",
        "created_at": 5,
        "body": {"items": []},
    }


@requirement("R-41")
@pytest.mark.parametrize(
    "wrong",
    [{"budget_ms": -1}, {"budget_ms": 3_600_001}, {"requested_by": ""}, {"project_id": "a/b"}, {"kind": ""}],
)
def test_a_request_the_runner_would_refuse_is_not_made(wrong: dict[str, Any]) -> None:
    connection = opened()
    members = {"kind": "read_files", "body": {}, "budget_ms": 1, "requested_by": "x", "created_at": 1}
    with pytest.raises(ValueError, match="request"):
        connection.request(**{**members, **wrong})
    assert connection.end() == []


@requirement("R-42")
def test_a_result_answers_its_request_once() -> None:
    connection = opened()
    first, second = asked(connection), asked(connection, "git_status")
    [event] = connection.receive_text(answer(second), 3.0)
    assert event == link_events.ResultReceived(
        request_id=second, kind="git_status", result=replace(frames.RESULT, request_id=second)
    )
    assert connection.receive_text(answer(second), 4.0) == [link_events.ResultIgnored(request_id=second)]
    assert connection.receive_text(answer(first, body=None, error=frames.FAILURE), 5.0) == [
        link_events.ResultReceived(
            request_id=first,
            kind="read_files",
            result=replace(frames.RESULT, request_id=first, body=None, error=frames.FAILURE),
        )
    ]


@requirement("R-42")
@pytest.mark.parametrize(
    "foreign",
    [{"connection_id": "conn_0"}, {"runner_instance_id": "other"}, {"request_id": "req_9"}],
)
def test_a_result_of_another_connection_instance_or_request_does_not_count(foreign: dict[str, str]) -> None:
    connection = opened()
    request_id = asked(connection)
    result = replace(frames.RESULT, **{"request_id": request_id, **foreign})  # type: ignore[arg-type]
    [event] = connection.receive_text(text(result), 3.0)
    assert isinstance(event, link_events.ResultIgnored)
    assert [lost.request_id for lost in connection.end()] == [request_id]


@requirement("R-41")
def test_256_requests_may_be_open_and_one_more_may_not() -> None:
    connection = opened()
    ids = [asked(connection) for _ in range(256)]
    assert len(set(ids)) == 256
    with pytest.raises(link.TooManyRequests):
        asked(connection)
    connection.receive_text(answer(ids[0]), 3.0)
    asked(connection)


@requirement("R-41")
def test_an_abandoned_request_stays_open_and_its_answer_reaches_nobody() -> None:
    connection = opened()
    ids = [asked(connection) for _ in range(256)]
    connection.abandon(ids[0])
    with pytest.raises(link.TooManyRequests):
        asked(connection)
    assert connection.receive_text(answer(ids[0]), 3.0) == [link_events.ResultIgnored(request_id=ids[0])]
    asked(connection)


@requirement("R-45")
def test_the_end_of_a_connection_names_what_lost_its_answer() -> None:
    connection = opened()
    read = asked(connection)
    change = asked(connection, "edit_project_files")
    start = asked(connection, "coding_agent", {"operation": "start"})
    connection.abandon(asked(connection))
    connection.receive_text(answer(asked(connection)), 3.0)
    assert connection.end() == [
        link.LostRequest(request_id=read, kind="read_files", effect=calls.Effect.READ),
        link.LostRequest(request_id=change, kind="edit_project_files", effect=calls.Effect.CHANGE),
        link.LostRequest(request_id=start, kind="coding_agent", effect=calls.Effect.CHANGE),
    ]
    assert connection.end() == []
    assert connection.receive_text(answer(read), 4.0) == []


@requirement("R-31")
def test_after_a_goodbye_nothing_more_is_asked_or_heard() -> None:
    connection = opened()
    request_id = asked(connection)
    assert connection.receive_text(text(messages.Goodbye(reason="shutdown")), 3.0) == [
        link_events.GoodbyeReceived(reason="shutdown")
    ]
    assert connection.receive_text(answer(request_id), 4.0) == []
    with pytest.raises(link.NotOpen):
        asked(connection)
    assert [lost.request_id for lost in connection.end()] == [request_id]


@requirement("R-35")
def test_an_inventory_of_pages_is_published_when_it_is_whole() -> None:
    connection = opened(replace(frames.HELLO, projects=None))
    entries = [hello.ProjectEntry(id=f"p{number}", path="/srv/p") for number in range(65)]
    first, last = inventory.pages(entries, generation=1, snapshot_sequence=1)
    assert connection.receive_text(text(first), 3.0) == [
        link_events.InventoryReceived(
            status=inventory.SetStatus.PENDING,
            reply='{"type":"project_inventory_status","generation":1,"snapshot_sequence":1,"status":"pending"}',
        )
    ]
    assert connection.due_at() == 63.0
    [published] = connection.receive_text(text(last), 4.0)
    assert isinstance(published, link_events.InventoryPublished)
    assert published.projects == tuple(entries)
    assert json.loads(published.reply)["status"] == "published"


@requirement("R-35")
def test_half_an_inventory_is_forgotten_after_120_seconds() -> None:
    connection = opened()
    entries = [hello.ProjectEntry(id=f"p{number}", path="/srv/p") for number in range(65)]
    first, last = inventory.pages(entries, generation=1, snapshot_sequence=1)
    connection.receive_text(text(first), 3.0)
    for now in (50.0, 100.0, 122.0):
        connection.receive_text(text(messages.Ping(ts=1)), now)
    assert connection.due_at() == 123.0
    connection.tick(123.0)
    [event] = connection.receive_text(text(last), 124.0)
    assert isinstance(event, link_events.InventoryReceived)
    assert event.status is inventory.SetStatus.STALE


@requirement("R-31")
def test_changed_host_facts_and_stream_events_are_passed_on() -> None:
    connection = opened()
    metadata = messages.RuntimeMetadata(hostname="desk")
    assert connection.receive_text(text(metadata), 3.0) == [link_events.MetadataChanged(metadata=metadata)]
    assert connection.receive_text(text(frames.EVENT), 3.0) == [
        link_events.StreamEventReceived(event=frames.EVENT)
    ]
    ack = messages.Ack(stream="run", id="r", through_sequence=7, through_revision=9)
    assert messages.from_server(connection.ack(ack)) == ack


@requirement("R-30")
@given(arriving=st.lists(frames.ARRIVING, max_size=5), state=st.sampled_from(list(link.State)))
def test_no_text_does_more_to_a_connection_than_break_the_protocol(
    arriving: list[str], state: link.State
) -> None:
    connection = in_state(state)
    for received in arriving:
        with contextlib.suppress(link.ProtocolViolation):
            connection.receive_text(received, 5.0)
    assert connection.end() == []
