"""Snapshots under hostile Servers, other writers and many conversations (A-57, A-58, A-61)."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import answers, hook_fixture, peer, recovery_fixture
from tests.adapters.recovery_fixture import HANDOFF, PROJECTS, Operator, Served
from tests.requirements import requirement

START, PROMPT = "SessionStart", "UserPromptSubmit"
VECTOR = "recovery-3d6ab104e2b8497680a66948a1887feb955e00c5d613f2695a2580fe973af405.json"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path) as pair:
        yield pair


@requirement("A-58")
def test_snapshot_is_named_after_server_conversation_project_and_session(tmp_path: Path) -> None:
    operator = Operator(tmp_path, "http://127.0.0.1:12345", is_bound=False)
    registry = recovery_fixture.bindings.load(str(operator.registry))
    evidence: dict[str, object] = {"project": "agent:fixture:project", "session_id": "wc_sess_fixture"}
    folder = recovery_fixture.private_files.Folder(str(operator.state))
    snapshot = recovery_fixture.snapshots.Snapshot(folder, registry, "local-one", evidence)
    assert snapshot.path == str(operator.state / VECTOR)
    assert not snapshot.was_offered()
    snapshot.replace(lambda: None)
    assert list(operator.snapshots()) == [VECTOR]
    assert snapshot.was_offered()
    folder.close()


HOSTILE = [
    ("output.session_id", "wc_sess_other", "handoff_identity_mismatch"),
    ("output.project", "agent:r1:other", "handoff_identity_mismatch"),
    ("output.handoff_brief.session.session_id", "wc_sess_other", "handoff_identity_mismatch"),
    ("output.handoff_brief.basis", ..., "handoff_basis_missing"),
    ("output.handoff_brief.external_observations", ..., "handoff_external_observations_missing"),
    ("output.handoff_brief.llm_summary", True, "handoff_contract_invalid"),
    ("output.handoff_brief.deterministic", False, "handoff_contract_invalid"),
    ("output.handoff_brief.more", "x" * 8_192, "handoff_contract_invalid"),
    ("output.goal_context.goal", None, "handoff_goal_context_invalid"),
    ("output.acceptance", None, "handoff_acceptance_invalid"),
    ("output.acceptance.advisory", False, "handoff_acceptance_invalid"),
    ("output.acceptance.state", "complete", "handoff_acceptance_invalid"),
    ("success", False, "handoff_read_failed"),
]


@requirement("A-56", "A-61", "A-103", "A-40", "A-108", "H-36")
def test_hostile_server_fails_the_run_and_leaves_the_snapshot(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    whole = answers.broken(served.whole, "output.handoff_brief.task.root_instruction.excerpt", "planted-text")
    served.whole = whole
    operator.asked(START)
    before = operator.snapshots()
    assert b"planted-text" in next(iter(before.values()))
    for place, value, reason in HOSTILE:
        served.whole = answers.broken(whole, place, value)
        result = operator.asked(START)
        assert (result.reason, b"planted" in result.out) == (reason, False), place
    served.whole = whole
    with peer.Peer() as second:
        cases: list[tuple[str, peer.Answer, str]] = [
            (HANDOFF, peer.status(200, b" " * 131_073), "oversized_handoff_response"),
            (HANDOFF, peer.status(200, b"{"), "handoff_read_unconfirmed"),
            (HANDOFF, peer.closing, "handoff_read_unconfirmed"),
            (HANDOFF, peer.status(500, answers.body(whole)), "handoff_read_unconfirmed"),
            (HANDOFF, peer.tool_failure("session_not_found"), "handoff_read_failed"),
            (PROJECTS, peer.closing, "read_unconfirmed"),
            (PROJECTS, peer.status(200, b"["), "invalid_discovery_response"),
            (PROJECTS, peer.status(200, b" " * 131_073), "oversized_discovery_response"),
        ]
        for code in (301, 302, 303, 307, 308):
            away = f"Location: {second.origin}{HANDOFF}"
            cases.append((HANDOFF, peer.status(code, b"{}", away), "handoff_read_unconfirmed"))
            cases.append((PROJECTS, peer.status(code, b"{}", away), "read_unconfirmed"))
        for path, answer, reason in cases:
            served.instead = {path: answer}
            result = operator.asked(PROMPT)
            assert (result.reason, b"planted" in result.out) == (reason, False), (path, reason)
        assert second.connections == 0
    assert operator.snapshots() == before
    served.instead = {}
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "unchanged"


@requirement("A-58", "A-61", "A-103", "A-12")
def test_registry_changed_while_the_server_is_asked_stores_and_shows_nothing(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene

    def meddle(exchange: peer.Exchange) -> None:
        operator.configure(bindings=[operator.binding(local_session_id="other")])
        exchange.send(peer.response(200, {"projects": served.projects, "next_cursor": None}))

    def remove(exchange: peer.Exchange) -> None:
        operator.registry.unlink()
        exchange.send(peer.response(200, {"projects": served.projects, "next_cursor": None}))

    for change in (meddle, remove):
        operator.configure(bindings=[operator.binding()])
        served.instead = {PROJECTS: change}
        assert operator.asked(START).reason == "registry_changed"
        assert operator.snapshots() == {}


@requirement("A-58", "A-61", "A-12", "A-16")
def test_lock_held_for_a_second_is_busy_and_a_released_one_is_waited_for(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    with operator.busy():
        assert operator.asked(START).reason == "recovery_busy"
    assert operator.snapshots() == {}
    held = contextlib.ExitStack()
    held.enter_context(operator.busy())

    def release(exchange: peer.Exchange) -> None:
        exchange.send(peer.response(200, {"projects": served.projects, "next_cursor": None}))
        held.close()

    served.instead = {PROJECTS: release}
    assert operator.asked(START).shown(START)["status"] == "read"


@requirement("A-58", "A-16", "A-07", "A-100")
def test_snapshot_of_another_form_is_offered_anew_and_one_that_is_not_private_is_kept(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    operator.asked(START)
    (name,) = operator.snapshots()
    file, good = operator.state / name, operator.snapshots()[name]
    for content in (b"", b"[]", b'{"fingerprint": 7}', b'{"version": 9}'):
        hook_fixture.private(file, content)
        assert operator.asked(PROMPT).shown(PROMPT)["status"] == "read"
        assert file.read_bytes() == good
    newer = json.dumps({**json.loads(good), "version": 9}).encode()
    hook_fixture.private(file, newer)
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "unchanged"
    assert file.read_bytes() == newer
    hook_fixture.private(file, b" " * 131_073)
    assert operator.asked(PROMPT).reason == "input_too_large"
    hook_fixture.private(file, b"{}").chmod(0o644)
    assert operator.asked(PROMPT).reason == "private_regular_file_required"
    assert file.read_bytes() == b"{}"


def names_in(operator: Operator) -> set[str]:
    return {file.name for file in operator.state.glob("recovery-*")}


@requirement("A-58", "A-63", "A-103")
def test_a_thousand_and_thirty_conversations_in_turn_all_get_their_evidence(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    for number in range(1_020):  # as earlier conversations have left them
        file = operator.state / f"recovery-{number:064x}.json"
        file.touch(mode=0o600)
        os.utime(file, (number, number))
    (operator.state / ".recovery-left-over").touch(mode=0o600)
    first = f"recovery-{5:064x}.json"
    for number in range(10):
        assert operator.asked(START, session_id=f"local-{number}").shown(START)["status"] == "read"
    kept = names_in(operator)
    assert len(kept) == 1_024
    assert [f"recovery-{number:064x}.json" in kept for number in range(8)] == [False] * 6 + [True] * 2
    assert (first in kept, (operator.state / ".recovery-left-over").exists()) == (False, False)
    assert (operator.state / ".evicted").read_bytes().strip() == b"6"
    shown = operator.status()
    assert (shown["status"], shown["snapshots"], shown["snapshots_evicted"]) == ("ok", 1_024, 6)
    assert operator.asked(PROMPT, session_id="local-0").shown(PROMPT)["status"] == "unchanged"
    assert names_in(operator) == kept
    oldest = operator.state / f"recovery-{6:064x}.json"
    oldest.unlink()
    oldest.mkdir()
    os.utime(oldest, (0, 0))
    assert operator.asked(START, session_id="local-new").reason == "recovery_cache_capacity"
    oldest.rmdir()
    oldest.touch(mode=0o600)
    hook_fixture.private(operator.state / ".evicted", b"-1")
    assert operator.asked(START, session_id="local-new").reason == "recovery_cache_capacity"
    assert (oldest.exists(), names_in(operator) == kept) == (True, True)


@requirement("A-58", "A-61")
def test_snapshot_that_could_not_be_read_again_is_refused(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    operator.asked(START)
    before = operator.snapshots()
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    served.whole = answers.broken(served.whole, "output.handoff_brief.more", [deep] * 7)
    assert len(json.dumps(served.whole)) < 131_072
    assert operator.asked(START).reason == "recovery_state_capacity"
    assert operator.snapshots() == before
