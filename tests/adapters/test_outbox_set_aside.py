"""The operator's explicit step for reports the Server refuses for good (A-106)."""

import json
import time
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

CLOSED = "session_closed"
CONFLICT = "external_observation_conflict"
CAPACITY = "external_observation_capacity"


@requirement("A-106", "A-95", "A-34", "A-16")
def test_conflicts_and_closed_sessions_are_set_aside_and_capacity_never(tmp_path: Path) -> None:
    began = int(time.time())
    kinds = (CLOSED, CONFLICT, CAPACITY)
    with peer.Peer(*map(peer.tool_failure, kinds)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        calls = dict(sorted((operator.file_name(call), call) for call in range(4)))
        for call in calls.values():
            operator.save(call)
        result = operator.flush("--set-aside")
        assert (operator.outbox / ".refused").read_bytes() == b"1\n"
    expected = {"acknowledged": 1, "pending": 1, "refused": 1, "rejected": 2}
    assert (result.reason, result.counts) == ("recording_refused", expected)
    closed, conflict, capacity, _ = calls
    assert list(operator.pending()) == [capacity]
    kept = {name: json.loads(content) for name, content in operator.rejected().items()}
    at = {content["rejected"].pop("at") for content in kept.values()}
    assert kept == {
        name: operator.content(calls[name]) | {"rejected": {"error_kind": kind}}
        for name, kind in ((closed, CLOSED), (conflict, CONFLICT))
    }
    assert all(began <= moment <= time.time() for moment in at)
    folder = operator.outbox / "rejected"
    assert all(hook_fixture.is_private(path) for path in (folder, *folder.iterdir()))
    status = operator.status()
    assert (status["status"], status["pending"], status["rejected"]) == ("attention", 1, 2)


@requirement("A-106")
def test_note_of_the_last_flush_is_of_the_last_flush(tmp_path: Path) -> None:
    with peer.Peer(peer.tool_failure(CAPACITY)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("first")
        for expected in (b"1\n", b"0\n"):
            operator.flush()
            assert (operator.outbox / ".refused").read_bytes() == expected


@requirement("A-106", "A-34")
def test_run_that_only_set_something_aside_says_so(tmp_path: Path) -> None:
    with peer.Peer(peer.tool_failure(CLOSED)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("closed")
        result = operator.flush("--set-aside")
        assert (result.reason, result.counts) == ("recording_rejected", {"rejected": 1})
        assert operator.flush().out == b'{"status":"recorded","acknowledged":0}\n'
        assert not (operator.outbox / ".refused").exists()
        assert operator.status()["status"] == "attention"
        assert operator.hook("next").is_silent_success


@requirement("A-106")
@pytest.mark.parametrize("verb", [("--flush",), ()])
def test_without_the_explicit_step_nothing_is_set_aside(tmp_path: Path, verb: tuple[str, ...]) -> None:
    with peer.Peer(default=peer.tool_failure(CLOSED)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("call-one")
        result = operator.run(json.dumps(operator.payload()).encode(), *verb)
    assert (result.reason, result.counts) == ("recording_refused", {"pending": 1, "refused": 1})
    assert not (operator.outbox / "rejected").exists()


@requirement("A-106")
def test_only_files_refused_in_this_very_run_are_set_aside(tmp_path: Path) -> None:
    with peer.Peer(peer.tool_failure(CLOSED), peer.status(500)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("call-one")
        assert operator.flush().reason == "recording_refused"
        result = operator.flush("--set-aside")
    assert (result.reason, result.counts) == ("recording_unconfirmed_check_pending_state", {"pending": 1})
    assert not (operator.outbox / "rejected").exists()


@requirement("A-106", "A-34")
def test_full_rejected_folder_keeps_the_report_pending(tmp_path: Path) -> None:
    with peer.Peer(default=peer.tool_failure(CONFLICT)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        folder = operator.outbox / "rejected"
        folder.mkdir(mode=0o700)
        for number in range(1_023):
            (folder / f"{number:064x}.json").touch()
        for call in ("a", "b"):
            operator.save(call)
        result = operator.flush("--set-aside")
    expected = {"pending": 1, "refused": 1, "rejected": 1}
    assert (result.reason, result.counts) == ("rejected_capacity", expected)
    assert (len(list(folder.iterdir())), len(operator.pending())) == (1_024, 1)


@requirement("A-106", "A-32", "A-36")
def test_move_that_was_not_finished_is_finished_without_sending(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        folder = operator.outbox / "rejected"
        folder.mkdir(mode=0o700)
        for call in ("flushed", "left to a hook"):
            operator.save(call)
            kept = operator.content(call) | {"rejected": {"error_kind": CLOSED, "at": 1}}
            hook_fixture.private(folder / operator.file_name(call), json.dumps(kept).encode())
            if call == "flushed":
                result = operator.flush()
                assert (result.reason, result.counts) == ("recording_rejected", {"rejected": 1})
        assert operator.hook("own").is_silent_success
        assert server.events == [operator.event("own")["event_id"]]
    assert (operator.files(), len(operator.rejected())) == (set(), 2)


@requirement("A-106", "A-100")
def test_kept_file_with_another_report_never_hides_one_that_waits(tmp_path: Path) -> None:
    with peer.Peer(default=peer.tool_failure(CONFLICT)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        folder = operator.outbox / "rejected"
        folder.mkdir(mode=0o700)
        operator.save("call-one")
        kept = operator.content("call-one", observed_tool="apply_patch")
        file = hook_fixture.private(folder / operator.file_name("call-one"), json.dumps(kept).encode())
        result = operator.flush("--set-aside")
    assert (result.reason, result.counts) == ("event_already_rejected", {"pending": 1, "refused": 1})
    assert json.loads(file.read_bytes()) == kept


@requirement("A-106", "A-12")
def test_set_aside_waits_for_no_other_run_longer_than_its_bound(tmp_path: Path) -> None:
    """A hook that holds the save lock keeps the report where it is."""
    with peer.Peer(peer.tool_failure(CLOSED)) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("closed")
        hook = operator.stepped(2, json.dumps(operator.payload("other")).encode())
        assert operator.effects() == ["create", "flock"]
        result = operator.flush("--set-aside")
        hook.kill()
        hook_fixture.ended(hook)
    assert (result.reason, result.counts) == ("adapter_busy_event_pending", {"pending": 1, "refused": 1})
    assert operator.rejected() == {}
