"""Sending what waits: order, limits, what each answer means, and what never blocks another (A-31 to A-33)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

UNCONFIRMED = "recording_unconfirmed_check_pending_state"
Change = Callable[[dict[str, Any]], object]


def in_order(operator: hook_fixture.Operator, calls: range) -> list[str]:
    """The event ids of these calls in the order of their file names."""
    by_name = sorted((operator.file_name(call), operator.event(call)["event_id"]) for call in calls)
    return [event_id for _, event_id in by_name]


def recorded(count: int) -> bytes:
    return b'{"status":"recorded","acknowledged":%d}\n' % count


@requirement("A-31", "A-34", "A-01")
def test_flush_sends_everything_in_name_order(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call in range(30):
            operator.save(call)
        assert operator.flush() == hook_fixture.Result(0, recorded(30), b"")
        assert server.events == in_order(operator, range(30))
        assert operator.flush() == hook_fixture.Result(0, recorded(0), b"")
    assert (operator.files(), server.connections) == (set(), 30)


@requirement("A-31", "A-34")
def test_hook_sends_its_own_report_first_and_then_sixteen_others(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call in range(20):
            operator.save(call)
        result = operator.hook("own")
        assert server.events == [operator.event("own")["event_id"], *in_order(operator, range(20))[:16]]
    assert (result.reason, result.counts) == ("pending_delivery_deadline", {"acknowledged": 17, "pending": 4})
    assert set(operator.pending()) == set(sorted(map(operator.file_name, range(20)))[16:])


@requirement("A-31")
def test_hook_that_sends_exactly_sixteen_others_leaves_nothing(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call in range(16):
            operator.save(call)
        assert operator.hook("own").is_silent_success
        assert len(server.requests) == 17


@requirement("A-31", "A-93")
def test_report_that_comes_while_the_drain_runs_is_sent_by_its_holder(tmp_path: Path) -> None:
    gate = peer.Gate(peer.Store())
    with peer.Peer(gate) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("early")
        holder = operator.start("--flush")
        assert holder.stdin is not None
        holder.stdin.close()
        assert gate.reached.wait(peer.WAIT_S)
        late = operator.hook("late")
        gate.opened.set()
        assert hook_fixture.ended(holder).out == recorded(2)
    assert (late.reason, late.counts) == ("adapter_busy_event_pending", {"pending": 2})
    assert (operator.files(), len(server.requests)) == (set(), 2)


@requirement("A-32", "A-34", "A-95", "O-14")
@pytest.mark.parametrize(
    "kind", ["external_observation_conflict", "external_observation_capacity", "session_closed"]
)
def test_refused_report_stays_and_the_drain_goes_on(tmp_path: Path, kind: str) -> None:
    with peer.Peer(peer.tool_failure(kind)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("other")
        result = operator.hook()
    expected = {"acknowledged": 1, "pending": 1, "refused": 1}
    assert (result.reason, result.counts) == ("recording_refused", expected)
    assert list(operator.pending()) == [operator.file_name("call-one")]


@requirement("A-32", "A-33", "A-95")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (peer.tool_failure("external_observation_storage_uncertain"), UNCONFIRMED),
        (peer.status(400, b"not json"), UNCONFIRMED),
        (peer.status(400, {"success": True, "output": {"error_kind": "session_closed"}}), UNCONFIRMED),
        (peer.status(400, {"status": 400, "error": "unknown argument"}), UNCONFIRMED),
        (peer.status(400, b"x" * 131_073), UNCONFIRMED),
        (peer.status(200, b"x" * 131_073), "oversized_response"),
        (peer.status(200, b"[]"), "invalid_recording_response"),
        (peer.status(204), "invalid_recording_response"),
        (peer.status(200, {"success": True, "output": None}), "invalid_recording_response"),
        (peer.status(200, {"success": True, "output": {"observation": []}}), "invalid_recording_response"),
        (peer.status(200, b"\xef\xbb\xbf{}"), "invalid_recording_response"),
        (peer.status(202, {"success": True, "output": {"observation": {}}}), "recording_not_acknowledged"),
    ],
)
def test_answer_that_is_no_receipt_keeps_the_report_and_goes_on(
    tmp_path: Path, answer: peer.Answer, reason: str
) -> None:
    with peer.Peer(answer) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("other")
        result = operator.hook()
    assert (result.reason, result.counts) == (reason, {"acknowledged": 1, "pending": 1})
    assert list(operator.pending()) == [operator.file_name("call-one")]


def change_output(**fields: object) -> Change:
    return lambda result: result["output"].update(fields)


def change_observation(**fields: object) -> Change:
    return lambda result: result["output"]["observation"].update(fields)


@requirement("A-33", "A-95")
def test_receipt_must_equal_the_report_in_every_part(tmp_path: Path) -> None:
    changes: list[Change] = [
        lambda result: result.update(success=1),
        lambda result: result.pop("success"),
        change_output(project="agent:fixture:other"),
        change_output(session_id="wc_sess_other"),
        change_output(provenance="native"),
        change_observation(tool="apply_patch"),
        change_observation(adapter_id="0" * 64),
        change_observation(event_id="0" * 64),
        change_observation(exit_code=0),
        change_observation(exit_code=False),
        lambda result: result["output"]["observation"].pop("exit_code"),
    ]
    with peer.Peer(*map(peer.altered, changes), default=peer.closing) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call in range(len(changes)):
            operator.save(call)
        result = operator.flush()
        assert len(server.requests) == len(changes)
    assert (result.reason, result.counts) == ("recording_not_acknowledged", {"pending": len(changes)})


@requirement("A-33")
def test_replayed_report_is_acknowledged_like_a_new_one(tmp_path: Path) -> None:
    with peer.Peer(
        peer.altered(change_output(inserted=False)), peer.altered(change_output(inserted="x"))
    ) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook("a").is_silent_success
        assert operator.hook("b").is_silent_success


@requirement("A-32", "A-95", "A-79")
@pytest.mark.parametrize(
    "answer",
    [
        *(peer.status(code) for code in (401, 403, 404, 413, 500, 503)),
        *(peer.status(code, b"", "Location: /api/tools/call") for code in (301, 302, 303, 307, 308)),
        peer.status(500, b"x" * 131_073),
        peer.closing,
    ],
)
def test_every_other_answer_stops_the_drain(tmp_path: Path, answer: peer.Answer) -> None:
    with peer.Peer(answer) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("other")
        result = operator.hook()
        assert server.connections == 1
    assert (result.reason, result.counts) == (UNCONFIRMED, {"pending": 2})
    assert len(operator.pending()) == 2


@requirement("A-31", "A-102", "A-100", "A-101", "A-07")
@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (lambda file: file.chmod(0o640), "invalid_pending_file"),
        (lambda file: file.write_bytes(b"torn"), "invalid_pending_file"),
        (lambda file: file.write_bytes(b"[]"), "invalid_pending_file"),
        (lambda file: file.write_bytes(b'{"version":2,"association":"","event":{}}'), "invalid_pending_file"),
        (lambda file: file.write_bytes(b" " * 131_073), "oversized_pending_file"),
        (lambda file: file.write_bytes(b'{"association":"","event":{}}'), "pending_association_mismatch"),
    ],
)
def test_poisoned_file_is_skipped_kept_and_reported(
    tmp_path: Path, alter: Callable[[Path], object], reason: str
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        poisoned = operator.save("poisoned")
        first = poisoned.rename(operator.outbox / ("0" * 64 + ".json"))
        alter(first)
        kept = first.read_bytes()
        operator.save("other")
        result = operator.hook()
        assert (result.reason, result.counts) == (reason, {"acknowledged": 2, "skipped": 1})
        assert operator.flush().counts == {"skipped": 1}
        assert operator.status() | {"last_hook_at": 1} == {
            "status": "attention",
            "pending": 0,
            "skipped": 1,
            "rejected": 0,
            "oldest_pending_at": None,
            "last_hook_at": 1,
            "coverage": {"complete": False},
        }
    assert (operator.files(), first.read_bytes()) == ({first.name}, kept)


@requirement("A-31", "A-24")
def test_stored_report_must_be_exactly_what_this_configuration_would_make(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"exit_code": 0},
        {"exit_code": False},
        {"project": "agent:fixture:other"},
        {"session_id": "wc_sess_other"},
        {"adapter_id": "0" * 64},
        {"observed_tool": "two words"},
        {"observed_tool": None},
        {"event_id": "0" * 64},
        {"event_id": "A" * 64},
        {"extra": 1},
    ]
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call, change in enumerate(changes):
            operator.save(call, **change)
        result = operator.flush()
        assert (result.reason, result.counts) == ("invalid_pending_observation", {"skipped": len(changes)})
        assert server.connections == 0
    assert len(operator.pending()) == len(changes)


@requirement("A-31", "A-102", "A-66", "A-26")
@pytest.mark.parametrize(
    "key", ["server_url", "project", "project_root", "workflow_session_id", "local_session_id"]
)
def test_changed_configuration_never_retargets_a_report(tmp_path: Path, key: str) -> None:
    other_root = tmp_path / "other"
    other_root.mkdir()
    with peer.Peer() as server, peer.Peer() as other:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        kept = operator.save("earlier")
        change = {
            "server_url": other.origin,
            "project": "agent:fixture:other",
            "project_root": str(other_root),
            "workflow_session_id": "wc_sess_other",
            "local_session_id": "other",
        }[key]
        before = operator.stored[key]
        operator.configure(**{key: change})
        result = operator.flush()
        assert (result.reason, result.counts) == ("pending_association_mismatch", {"skipped": 1})
        assert (server.connections, other.connections, kept.exists()) == (0, 0, True)
        operator.configure(**{key: before})
        assert operator.flush().out == recorded(1)


@requirement("A-26")
def test_another_credential_still_delivers_what_waits(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("earlier")
        other = hook_fixture.private(operator.private / "other", b"Bearer other")
        operator.configure(authorization_file=str(other))
        assert operator.flush().out == recorded(1)
    assert b"Authorization: Bearer other" in server.requests[0].head


@requirement("A-31", "A-102")
def test_many_poisoned_files_do_not_use_up_the_limit_of_others(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for number in range(20):
            hook_fixture.private(operator.outbox / f"{number:064x}.json", b"torn")
        operator.save("other")
        assert operator.hook().counts == {"acknowledged": 2, "skipped": 20}


@requirement("A-34")
def test_reasons_are_named_in_their_order(tmp_path: Path) -> None:
    """A skipped file before a refusal, a refusal before an answer that says nothing."""
    script = (peer.tool_failure("session_closed"), peer.status(500))
    with peer.Peer(*script, *script) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call in range(3):
            operator.save(call)
        refused = operator.flush()
        hook_fixture.private(operator.outbox / ("0" * 64 + ".json"), b"torn")
        skipped = operator.flush()
    assert (refused.reason, refused.counts) == ("recording_refused", {"pending": 3, "refused": 1})
    assert (skipped.reason, skipped.counts) == (
        "invalid_pending_file",
        {"pending": 3, "refused": 1, "skipped": 1},
    )


@requirement("A-34")
def test_status_names_the_oldest_report_and_sends_nothing(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        for call, written_at in ((1, 1_700_000_300), (2, 1_700_000_100), (3, 1_700_000_200)):
            hook_fixture.set_written(operator.save(call), written_at)
        status = operator.status()
        assert (status["status"], status["pending"], status["oldest_pending_at"]) == (
            "attention",
            3,
            1_700_000_100,
        )
        assert (server.connections, {entry.name for entry in operator.outbox.iterdir()}) == (
            0,
            operator.files(),
        )


@requirement("A-36", "A-92", "A-100")
def test_report_stored_by_an_earlier_unheard_request_is_not_stored_twice(tmp_path: Path) -> None:
    store = peer.Store()

    def unheard(exchange: peer.Exchange) -> None:
        store.answer(exchange.request.event)

    with peer.Peer(unheard, default=store) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook().reason == UNCONFIRMED
        (row,) = store.rows.values()
        stamp = row["recorded_at"]
        assert operator.hook().is_silent_success
        assert [row["recorded_at"] for row in store.rows.values()] == [stamp]
        assert json.loads(operator.flush().out)["acknowledged"] == 0
