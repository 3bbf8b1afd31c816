"""A run killed between two effects leaves one row or one report, never a torn file (A-36, A-94)."""

import json
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, peer
from tests.requirements import requirement

HOOK_EFFECTS = (
    *("create", "flock", "create", "write", "fsync", "rename", "fsync", "unlock"),
    *("create", "flock", "send", "receive", "unlink", "fsync", "unlock"),
)
SET_ASIDE_EFFECTS = (
    *("create", "flock", "send", "receive"),
    *("create", "flock", "mkdir", "fsync", "create", "write", "fsync", "rename", "fsync", "unlink", "fsync"),
    *("unlock", "unlock"),
)


def killed(operator: hook_fixture.Operator, step: int, expected: tuple[str, ...], *verb: str) -> None:
    stdin = b"" if verb else json.dumps(operator.payload()).encode()
    process = operator.stepped(step, stdin, *verb)
    assert process.returncode is None, "it ended before it could be killed"
    process.kill()
    assert hook_fixture.ended(process).code == -9
    assert tuple(operator.effects()) == expected[:step]


def stamps(server: peer.Peer) -> dict[tuple[str, str], int]:
    return {identity: row["recorded_at"] for identity, row in list(server.store.rows.items())}


def require_whole(files: dict[str, bytes]) -> None:
    for content in files.values():
        assert {"association", "event"} <= json.loads(content).keys()


@requirement("A-36", "A-94", "A-16", "A-13")
@pytest.mark.parametrize(
    "step", range(1, len(HOOK_EFFECTS) + 1), ids=lambda step: f"{step}-{HOOK_EFFECTS[step - 1]}"
)
def test_killed_hook_leaves_one_row_or_one_report_that_becomes_one(tmp_path: Path, step: int) -> None:
    with peer.Peer() as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        killed(operator, step, HOOK_EFFECTS)
        before = stamps(server)
        was_saved = "rename" in HOOK_EFFECTS[:step]
        require_whole(operator.pending())
        assert len(operator.pending()) == (was_saved and "unlink" not in HOOK_EFFECTS[:step])
        assert operator.flush().code == 0
        assert len(server.store.rows) == was_saved
        assert operator.hook("next").is_silent_success
        assert operator.files() == set()
        assert len(server.store.rows) == was_saved + 1
        assert before.items() <= stamps(server).items()


@requirement("A-36", "A-94", "A-106")
@pytest.mark.parametrize(
    "step", range(1, len(SET_ASIDE_EFFECTS) + 1), ids=lambda step: f"{step}-{SET_ASIDE_EFFECTS[step - 1]}"
)
def test_killed_set_aside_leaves_one_report_pending_or_one_kept(tmp_path: Path, step: int) -> None:
    with peer.Peer(default=peer.tool_failure("session_closed")) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        operator.save("call-one")
        killed(operator, step, SET_ASIDE_EFFECTS, "--flush", "--set-aside")
        kept = operator.rejected()
        require_whole(operator.pending() | kept)
        assert set(operator.pending()) | set(kept) == {operator.file_name("call-one")}
        flushed = operator.flush()
        if kept:
            assert (
                operator.files() - {name for name in operator.files() if name.startswith(".pending-")}
            ) == set()
            assert flushed.code == (1 if "unlink" not in SET_ASIDE_EFFECTS[:step] else 0)
        else:
            assert (flushed.reason, flushed.counts) == ("recording_refused", {"pending": 1, "refused": 1})
            assert operator.flush("--set-aside").counts == {"rejected": 1}
        operator.hook("next")
        assert set(operator.rejected()) == {operator.file_name("call-one")}
        assert operator.files() == {operator.file_name("next")}
        assert {file.name for file in (operator.outbox / "rejected").iterdir()} == set(operator.rejected())


@requirement("A-94", "A-36")
def test_effects_of_an_undisturbed_run_are_the_ones_that_are_tried(tmp_path: Path) -> None:
    with peer.Peer(peer.Store(), peer.tool_failure("session_closed")) as server:
        operator = hook_fixture.Operator(tmp_path, server.origin)
        hook = hook_fixture.ended(operator.stepped(0, json.dumps(operator.payload()).encode()))
        assert hook.is_silent_success
        assert tuple(operator.effects()) == HOOK_EFFECTS
        for lock in (".save", ".lock"):
            (operator.outbox / lock).unlink()
        operator.save("closed")
        flush = hook_fixture.ended(operator.stepped(0, b"", "--flush", "--set-aside"))
        assert flush.reason == "recording_rejected"
        assert tuple(operator.effects()) == SET_ASIDE_EFFECTS
