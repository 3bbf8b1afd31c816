"""Frames: their form on the wire, their bounds, and what is no frame at all."""

import json
from typing import Any

import pytest
from hypothesis import given

from tests.protocol import frames
from tests.requirements import requirement
from webcodex.protocol import bounds, calls, fields, hello, messages


def parsed(text: str) -> messages.FromRunner | messages.FromServer | None:
    from_runner = messages.from_runner(text)
    return messages.from_server(text) if from_runner is None else from_runner


def changed(frame: messages.Frame, **members: Any) -> str:
    return json.dumps({**json.loads(messages.text(frame)), **members})


@requirement("R-31")
@pytest.mark.parametrize("frame", frames.EVERY, ids=lambda frame: frame.TYPE)
def test_every_frame_is_read_back_as_it_was_written(frame: messages.Frame) -> None:
    assert parsed(messages.text(frame)) == frame


@requirement("R-31")
@pytest.mark.parametrize("frame", frames.FROM_RUNNER, ids=lambda frame: frame.TYPE)
def test_frames_of_the_runner_mean_nothing_to_a_runner(frame: messages.Frame) -> None:
    assert messages.from_server(messages.text(frame)) is None


@requirement("R-31")
@pytest.mark.parametrize("frame", frames.FROM_SERVER, ids=lambda frame: frame.TYPE)
def test_frames_of_the_server_mean_nothing_to_a_server(frame: messages.Frame) -> None:
    assert messages.from_runner(messages.text(frame)) is None


@requirement("R-33")
def test_the_hello_of_the_specification_is_read() -> None:
    text = """{"type": "hello", "protocol": 2, "client_id": "my-runner", "runner_instance_id": "3f6c-uuid",
     "store_id": "b1d2", "display_name": "desk", "owner": null, "hostname": "desk",
     "process_started_at": 1760000000,
     "build": {"version": "1.0.0", "git_commit": null, "git_dirty": null}, "host_context": {}, "policy": {},
     "capabilities": {"file_read": true, "file_write": true, "git": true, "git_worktree": false},
     "projects":
       [{"id": "demo", "path": "/srv/demo", "name": "Demo", "allow_patch": true, "disabled": false}],
     "job_concurrency_limit": 4, "job_inventory": {"active_complete": true, "jobs": []},
     "coding_agent_providers": [{"provider_id": "codex", "provider_instance_id": "acp_7d", "name": "Codex"}],
     "coding_agent_inventory": {"complete": true, "runs": []}}"""
    assert messages.from_runner(text) == hello.Hello(
        client_id="my-runner",
        runner_instance_id="3f6c-uuid",
        store_id="b1d2",
        display_name="desk",
        hostname="desk",
        process_started_at=1_760_000_000,
        build=hello.Build(version="1.0.0"),
        capabilities={"file_read": True, "file_write": True, "git": True, "git_worktree": False},
        projects=(hello.ProjectEntry(id="demo", path="/srv/demo", name="Demo"),),
        job_concurrency_limit=4,
        job_inventory=hello.JobInventory(active_complete=True),
        coding_agent_providers=(
            hello.Provider(provider_id="codex", provider_instance_id="acp_7d", name="Codex"),
        ),
        coding_agent_inventory=hello.RunInventory(complete=True),
    )


@requirement("R-42")
def test_a_result_is_written_in_the_form_of_the_specification() -> None:
    assert json.loads(messages.text(frames.RESULT)) == {
        "type": "result",
        "request_id": "req_1",
        "connection_id": "conn_1",
        "runner_instance_id": "3f6c",
        "duration_ms": 12,
        "command_execution_state": "completed",
        "body": {},
        "error": None,
    }


@requirement("R-31", "R-32")
def test_a_registration_and_a_refusal_are_written_in_the_form_of_the_specification() -> None:
    assert json.loads(messages.text(frames.REGISTERED)) == {
        "type": "registered",
        "success": True,
        "client": {"client_id": "my-runner", "connection_id": "conn_1"},
        "protocol": 2,
        "resume": [{"stream": "run", "id": "wc_agent_run_1", "through_sequence": 3, "through_revision": 4}],
    }
    refusal = messages.Error(code="protocol_unsupported", message="No.", supported=(2,))
    assert json.loads(messages.text(refusal)) == {
        "type": "error",
        "code": "protocol_unsupported",
        "message": "No.",
        "supported": [2],
    }


@requirement("R-41")
def test_a_request_without_a_project_leaves_the_key_out() -> None:
    members = json.loads(messages.text(frames.REQUEST))
    del members["project_id"]
    frame = messages.from_server(json.dumps(members))
    assert isinstance(frame, calls.Request)
    assert frame.project_id is None
    assert "project_id" not in json.loads(messages.text(frame))


@requirement("R-30")
@pytest.mark.parametrize("frame", frames.EVERY, ids=lambda frame: frame.TYPE)
def test_unknown_fields_are_ignored(frame: messages.Frame) -> None:
    assert parsed(changed(frame, novelty={"deep": [1]})) == frame


@requirement("R-30")
def test_unknown_frame_types_are_ignored() -> None:
    assert messages.from_runner('{"type": "novelty"}') is None
    assert messages.from_server('{"type": "novelty"}') is None


@requirement("R-30")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "null",
        "{}",
        '{"type": 1}',
        '{"type": "ping"}',
        '{"type": "ping", "ts": true}',
        '{"type": "ping", "ts": 1.0}',
        '{"type": "ping", "ts": -1}',
        '{"type": "ping", "ts": 9223372036854775808}',
        '{"type": "ping", "ts": NaN}',
        '{"type": "ping", "ts": 1, "more": Infinity}',
        '{"type": "ping", "ts": 1, "more": 1e999}',
        '{"type": "ping", "ts": 1, "ts": 2}',
        '{"type": "ping", "ts": 1, "more": "\\ud800"}',
        '{"type": "ping", "ts": 1, "more": "\ud800"}',
        '{"type": "ping", "ts": ' + "9" * 5000 + "}",
        '{"type": "ping", "ts": 1, "more": ' + "[" * 65 + "]" * 65 + "}",
        '{"type": "ping", "ts": 1, "more": ' + "[" * 200_000,
    ],
)
def test_what_is_no_frame_is_malformed(text: str) -> None:
    with pytest.raises(fields.Malformed):
        messages.from_runner(text)


@requirement("R-30")
def test_a_frame_of_eight_mebibytes_is_read_and_a_longer_one_is_not() -> None:
    frame = messages.text(messages.Goodbye(reason=""))
    padded = frame + " " * (bounds.MAX_FRAME_BYTES - len(frame))
    assert messages.from_runner(padded) == messages.Goodbye(reason="")
    with pytest.raises(fields.Malformed, match="longer than 8 MiB"):
        messages.from_runner(padded + " ")


@requirement("R-30")
def test_a_frame_that_would_be_longer_than_eight_mebibytes_is_not_written() -> None:
    frame = messages.StreamEvent(
        stream="run",
        id="r",
        sequence=1,
        first_retained_sequence=1,
        body={"text": "x" * bounds.MAX_FRAME_BYTES},
        snapshot={},
    )
    with pytest.raises(fields.Malformed, match="longer than 8 MiB"):
        messages.text(frame)


HELLO_FAULTS: list[dict[str, Any]] = [
    {"client_id": ""},
    {"client_id": "a b"},
    {"client_id": "x" * 81},
    {"runner_instance_id": "x" * 129},
    {"runner_instance_id": "a\nb"},
    {"store_id": None},
    {"display_name": "x" * 129},
    {"hostname": 1},
    {"process_started_at": "now"},
    {"build": None},
    {"build": {"version": ""}},
    {"build": {"version": "1", "git_dirty": "no"}},
    {"capabilities": {"git": "yes"}},
    {"capabilities": {str(n): True for n in range(65)}},
    {"host_context": []},
    {"policy": {"text": "x" * 17_000}},
    {"job_concurrency_limit": 0},
    {"job_concurrency_limit": 65},
    {"coding_agent_providers": [{"provider_id": "Codex", "provider_instance_id": "a", "name": "C"}]},
]


@requirement("R-33")
@pytest.mark.parametrize("fault", HELLO_FAULTS, ids=lambda fault: json.dumps(fault)[:40])
def test_a_hello_with_a_fault_is_malformed(fault: dict[str, Any]) -> None:
    with pytest.raises(fields.Malformed) as caught:
        messages.from_runner(changed(frames.HELLO, **fault))
    assert not isinstance(caught.value, hello.InventoryInvalid)


ENTRY = {"id": "demo", "path": "/srv/demo", "allow_patch": True, "disabled": False}
INVENTORY_FAULTS: list[dict[str, Any]] = [
    {"projects": [{**ENTRY, "id": ".."}]},
    {"projects": [{**ENTRY, "id": "a/b"}]},
    {"projects": [{**ENTRY, "allow_patch": 1}]},
    {"projects": [ENTRY, ENTRY]},
    {"projects": [{**ENTRY, "id": f"p{n}"} for n in range(65)]},
    {"job_inventory": None},
    {"job_inventory": {"active_complete": True, "jobs": [1]}},
    {"job_inventory": {"active_complete": True, "jobs": [{}] * 129}},
    {"coding_agent_inventory": {"complete": "yes", "runs": []}},
]


@requirement("R-32", "R-33")
@pytest.mark.parametrize("fault", INVENTORY_FAULTS, ids=lambda fault: json.dumps(fault)[:40])
def test_a_hello_with_a_faulty_inventory_says_so(fault: dict[str, Any]) -> None:
    with pytest.raises(hello.InventoryInvalid):
        messages.from_runner(changed(frames.HELLO, **fault))


@requirement("R-33")
def test_a_hello_of_another_generation_says_so_whatever_else_it_holds() -> None:
    with pytest.raises(hello.GenerationUnsupported):
        messages.from_runner('{"type": "hello", "protocol": 3}')


@requirement("R-42")
@pytest.mark.parametrize(
    "members",
    [
        {"body": None},
        {"error": {"code": "x", "message": "x", "failure_kind": "x", "recovery_kind": "x"}},
        {"command_execution_state": "done"},
        {"duration_ms": -1},
        {"body": [1]},
    ],
)
def test_a_result_holds_a_body_or_an_error_and_a_known_state(members: dict[str, Any]) -> None:
    with pytest.raises(fields.Malformed):
        messages.from_runner(changed(frames.RESULT, **members))


@requirement("R-31")
def test_a_job_event_carries_no_number() -> None:
    with pytest.raises(fields.Malformed):
        messages.from_runner(changed(frames.EVENT, stream="job"))
    with pytest.raises(fields.Malformed):
        messages.from_runner(changed(frames.EVENT, sequence=None))


@requirement("R-41")
def test_reading_is_told_from_changing() -> None:
    assert calls.effect_of("read_files", {}) is calls.Effect.READ
    assert calls.effect_of("edit_project_files", {}) is calls.Effect.CHANGE
    assert calls.effect_of("coding_agent", {"operation": "start"}) is calls.Effect.CHANGE
    assert calls.effect_of("coding_agent", {"operation": "observe"}) is calls.Effect.READ
    assert calls.effect_of("not_known_here", {}) is calls.Effect.CHANGE


@requirement("R-30")
@given(text=frames.ARRIVING)
def test_no_text_does_more_than_be_malformed(text: str) -> None:
    for read in (messages.from_runner, messages.from_server):
        try:
            frame = read(text)
        except fields.Malformed:
            continue
        if frame is not None:
            assert read(messages.text(frame)) == frame
