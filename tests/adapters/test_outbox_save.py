"""Saving a report: durable before anything is sent, never over another, never beyond capacity (A-30)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.adapters import hook_fixture, other_run, peer
from tests.requirements import requirement


def fill(operator: hook_fixture.Operator, count: int) -> None:
    for number in range(count):
        operator.save(f"filler-{number}")


@requirement("A-30", "A-34", "A-36")
def test_report_waits_until_the_server_is_there_and_is_then_stored_once(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    first, again = operator.hook(), operator.hook()
    assert first == again
    assert (first.reason, first.counts) == ("recording_unconfirmed_check_pending_state", {"pending": 1})
    (name,) = operator.pending()
    assert hook_fixture.is_private(operator.outbox / name)
    assert operator.files() == {name}


@requirement("A-13", "A-34", "A-03")
def test_report_that_cannot_be_written_is_not_claimed_and_leaves_nothing(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("earlier")
        command = ["sh", "-c", 'ulimit -f 0; exec "$0" -I -S "$1" --config "$2"', sys.executable]
        done = subprocess.run(
            [*command, str(hook_fixture.HOOK), str(operator.config)],
            input=json.dumps(operator.payload()).encode(),
            capture_output=True,
            check=False,
        )
        result = hook_fixture.Result(done.returncode, done.stdout, done.stderr)
        assert result.reason == "recording_unconfirmed_check_pending_state"
        assert result.counts == {"pending": 1}
        assert (operator.files(), server.connections) == ({operator.file_name("earlier")}, 0)
        assert operator.hook().is_silent_success


@requirement("A-30", "A-12")
def test_busy_save_lock_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("earlier")
        with other_run.holding(operator.outbox / ".save"):
            result = operator.hook()
        assert (result.reason, result.counts) == ("adapter_busy_event_not_saved", {"pending": 1})
        assert (list(operator.pending()), server.connections) == ([operator.file_name("earlier")], 0)
        assert operator.status()["last_hook_at"] is not None
        assert operator.hook().is_silent_success


@requirement("A-30", "A-12", "A-35")
def test_busy_send_lock_keeps_the_report_and_says_so(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        with other_run.holding(operator.outbox / ".lock"):
            result, flushed = operator.hook(), operator.flush()
        assert (result.reason, result.counts) == ("adapter_busy_event_pending", {"pending": 1})
        assert flushed == result
        assert (list(operator.pending()), server.connections) == ([operator.file_name("call-one")], 0)
        assert json.loads(operator.flush().out) == {"status": "recorded", "acknowledged": 1}


@requirement("A-30")
def test_same_identity_with_other_content_conflicts_with_what_waits(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    kept = operator.save("call-one", observed_tool="apply_patch").read_bytes()
    result = operator.hook()
    assert (result.reason, result.counts) == ("pending_event_conflict", {"pending": 1})
    assert list(operator.pending().values()) == [kept]


@requirement("A-30", "A-100")
def test_report_another_version_wrote_in_another_layout_is_the_same_report(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        content = json.dumps(operator.content("call-one"), indent=1)
        hook_fixture.private(operator.outbox / operator.file_name("call-one"), content.encode())
        assert operator.hook().is_silent_success
    assert (len(server.requests), operator.files()) == (1, set())


@requirement("A-30", "A-101")
def test_own_name_taken_by_something_else_is_a_conflict(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    (operator.outbox / operator.file_name("call-one")).mkdir(mode=0o700)
    result = operator.hook()
    assert (result.reason, result.counts) == ("pending_event_conflict", {"skipped": 1})


@requirement("A-30", "A-35", "A-95")
def test_full_outbox_takes_no_new_report_but_sends_others_to_make_room(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        fill(operator, 256)
        result = operator.hook()
        assert result.reason == "pending_capacity_event_not_saved"
        sent = len(server.store.rows)
        assert result.counts == {"acknowledged": sent, "pending": 256 - sent}
        assert 1 <= sent <= 16
        assert operator.file_name("call-one") not in operator.pending()
        assert operator.hook().report["acknowledged"] >= 1
        assert operator.event("call-one")["event_id"] in server.events


@requirement("A-30", "A-95")
def test_full_outbox_before_a_dead_server_deletes_nothing_and_knows_its_own_report(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    fill(operator, 255)
    (operator.outbox / ("0" * 64 + ".json")).symlink_to("/nowhere")
    before = operator.files()
    result = operator.hook("new")
    assert (result.reason, result.counts) == (
        "pending_capacity_event_not_saved",
        {"pending": 255, "skipped": 1},
    )
    known = operator.hook("filler-7")
    assert (known.reason, known.counts) == (
        "recording_unconfirmed_check_pending_state",
        {"pending": 255, "skipped": 1},
    )
    assert operator.files() == before


@requirement("A-30", "A-35")
def test_full_outbox_with_a_busy_send_lock_names_the_capacity(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    fill(operator, 256)
    with other_run.holding(operator.outbox / ".lock"):
        assert operator.hook().reason == "pending_capacity_event_not_saved"


@requirement("A-16", "A-13", "A-100")
def test_what_an_earlier_run_left_half_written_is_removed_and_all_else_is_kept(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        (operator.outbox / "rejected").mkdir(mode=0o700)
        for folder in (operator.outbox, operator.outbox / "rejected"):
            for name in (
                ".pending-" + "a" * 32,
                ".recovery-" + "a" * 32,
                "v2-" + "a" * 64 + ".json",
                "notes",
            ):
                hook_fixture.private(folder / name, b"half")
        assert operator.hook().is_silent_success
        kept = {".recovery-" + "a" * 32, "v2-" + "a" * 64 + ".json", "notes"}
        assert operator.files() == kept
        assert {file.name for file in (operator.outbox / "rejected").iterdir()} == kept


@requirement("A-12", "A-30", "A-92")
def test_report_waits_while_another_run_sends_the_same_one(tmp_path: Path) -> None:
    gate = peer.Gate(peer.Store())
    with peer.Peer(gate) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        first = operator.start()
        assert first.stdin is not None
        first.stdin.write(json.dumps(operator.payload()).encode())
        first.stdin.close()
        assert gate.reached.wait(peer.WAIT_S)
        second = operator.hook()
        gate.opened.set()
        assert hook_fixture.ended(first).is_silent_success
    assert second.reason == "adapter_busy_event_pending"
    assert (len(server.requests), operator.files()) == (1, set())


def stopped_after_saving(operator: hook_fixture.Operator) -> subprocess.Popen[bytes]:
    """A run that has saved its report and not yet tried the send lock."""
    process = operator.stepped(8, json.dumps(operator.payload()).encode())
    assert operator.effects() == ["create", "flock", "create", "write", "fsync", "rename", "fsync", "unlock"]
    return process


@requirement("A-30", "A-34")
def test_report_that_another_run_delivers_before_the_send_lock_is_held_counts_as_delivered(
    tmp_path: Path,
) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        process = stopped_after_saving(operator)
        assert json.loads(operator.flush().out) == {"status": "recorded", "acknowledged": 1}
        process.send_signal(signal.SIGCONT)
        assert hook_fixture.ended(process).is_silent_success
    assert len(server.requests) == 1


@requirement("A-30", "A-106")
def test_report_that_is_set_aside_before_the_send_lock_is_held_is_not_called_delivered(
    tmp_path: Path,
) -> None:
    with peer.Peer(peer.tool_failure("session_closed")) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        process = stopped_after_saving(operator)
        assert operator.flush("--set-aside").counts == {"rejected": 1}
        process.send_signal(signal.SIGCONT)
        result = hook_fixture.ended(process)
    assert (result.reason, result.counts) == ("event_already_rejected", {})
    assert len(server.requests) == 1


@requirement("A-30", "A-106")
def test_report_set_aside_before_is_not_saved_again(tmp_path: Path) -> None:
    with peer.Peer(peer.tool_failure("session_closed"), peer.tool_failure("session_closed")) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        assert operator.hook().reason == "recording_refused"
        assert operator.flush("--set-aside").reason == "recording_rejected"
        result = operator.hook()
        assert (result.reason, result.counts) == ("event_already_rejected", {})
        assert (operator.files(), len(operator.rejected()), server.connections) == (set(), 1, 2)


@requirement("A-30", "A-32", "A-106")
def test_report_whose_set_aside_was_cut_short_meanwhile_is_finished_and_not_sent(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        process = stopped_after_saving(operator)
        (operator.outbox / "rejected").mkdir(mode=0o700)
        kept = operator.content("call-one") | {"rejected": {"error_kind": "session_closed", "at": 1}}
        name = operator.file_name("call-one")
        hook_fixture.private(operator.outbox / "rejected" / name, json.dumps(kept).encode())
        process.send_signal(signal.SIGCONT)
        result = hook_fixture.ended(process)
    assert (result.reason, result.counts) == ("event_already_rejected", {"rejected": 1})
    assert (operator.files(), set(operator.rejected()), server.connections) == (set(), {name}, 0)


@requirement("A-11", "A-16", "A-101")
def test_rejected_folder_must_be_private_too(tmp_path: Path) -> None:
    operator = hook_fixture.Operator(tmp_path, peer.dead_origin())
    folder = operator.outbox / "rejected"
    folder.mkdir(mode=0o750)
    folder.chmod(0o750)
    assert operator.hook().reason == "private_state_directory_required"
    assert operator.run(b"", "--status").reason == "private_state_directory_required"
    assert operator.files() == set()


@requirement("A-34", "A-74", "A-86")
def test_last_hook_time_is_set_by_accepted_payloads_only(tmp_path: Path) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        never = {
            "status": "ok",
            "pending": 0,
            "skipped": 0,
            "rejected": 0,
            "oldest_pending_at": None,
            "last_hook_at": None,
            "coverage": {"complete": False},
        }
        assert operator.status() == never
        operator.flush()
        operator.hook(session_id="another")
        assert operator.status() == never
        assert not (operator.outbox / ".save").exists()
        operator.hook()
        fired = operator.status()["last_hook_at"]
        assert isinstance(fired, int)
        os.utime(operator.outbox / ".save", (1_700_000_000, 1_700_000_000))
        operator.flush("--set-aside")
        assert operator.status() == never | {"last_hook_at": 1_700_000_000}
