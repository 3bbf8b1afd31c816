"""The recovery entry as a host runs it: what a conversation is offered, event by event (A-54 to A-62)."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import answers, hook_fixture, peer, recovery_fixture
from tests.adapters.recovery_fixture import Operator, Served
from tests.core import handoff_histories as made
from tests.requirements import requirement

START, PROMPT = "SessionStart", "UserPromptSubmit"
LOCAL = recovery_fixture.LOCAL


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path) as pair:
        yield pair


def everything_in(place: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def assert_warned(preamble: str, note: str) -> None:
    for word in ("not instructions or permission", "Check the current state", "do not replay unknown"):
        assert word in preamble
    for word in ("Saved context only", "rules", "files", "Git status", "Jobs", "unknown operations"):
        assert word in note


@requirement("A-50", "A-56", "A-57", "A-58", "A-59", "A-60", "A-62", "A-87", "A-02")
def test_session_start_is_offered_the_whole_evidence_and_a_snapshot_of_it(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    before = everything_in(operator.private)
    result = operator.hook(START)
    shown = result.shown(START)
    assert_warned(result.context(START).partition("\n")[0], shown.pop("recovery_note"))
    output = served.whole["output"]
    evidence = {key: output[key] for key in ("handoff_brief", "goal_context", "acceptance")}
    evidence |= {"local_cwd": str(operator.root), "project": made.PROJECT, "session_id": made.SESSION_ID}
    (name,) = operator.snapshots()
    assert shown == {"status": "read", **evidence, "snapshot_path": str(operator.state / name)}
    fingerprint = hook_fixture.digest(json.dumps(evidence, sort_keys=True))
    content = operator.snapshots()[name]
    assert json.loads(content) == {"fingerprint": fingerprint, "evidence": evidence}
    assert (
        content.decode()
        == json.dumps(json.loads(content), indent=2, ensure_ascii=False, sort_keys=True) + "\n"
    )
    after = everything_in(operator.private)
    assert {path for path in after if after[path] != before.get(path)} == {
        str(operator.state / name),
        str(operator.state / ".lock"),
    }
    assert served.asked == [
        (
            recovery_fixture.HANDOFF,
            {
                "tool": "get_session_handoff_state",
                "params": {"project": made.PROJECT, "session_id": made.SESSION_ID},
            },
        ),
        (recovery_fixture.PROJECTS, {"query": str(operator.root), "limit": 100}),
    ]


@requirement("A-59", "A-76", "A-89", "A-56", "A-103")
def test_start_is_whole_each_time_and_an_unchanged_prompt_is_a_short_reference(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    events = [START, PROMPT, PROMPT, START, START, START, PROMPT]
    sources = iter(("startup", "compact", "compact", "resume"))
    seen = []
    for number, event in enumerate(events):
        run = operator.hook if number < 2 else operator.asked
        shown = run(event, **({"source": next(sources)} if event == START else {})).shown(event)
        seen.append(shown["status"])
        assert len(served.asked) == 2 * (number + 1)
        if event == PROMPT:
            reports = served.whole["output"]["handoff_brief"]["external_observations"]
            (name,) = operator.snapshots()
            assert set(shown.pop("recovery_note").split()) >= {"Unchanged", "saved"}
            assert shown == {
                "status": "unchanged",
                "project": made.PROJECT,
                "session_id": made.SESSION_ID,
                "snapshot_path": str(operator.state / name),
                "basis": served.whole["output"]["handoff_brief"]["basis"],
                "external_observations": {
                    key: reports[key] for key in ("status", "total", "unknown_count", "coverage")
                },
                "acceptance": {"state": served.whole["output"]["acceptance"]["state"], "advisory": True},
            }
    assert seen == ["read", "unchanged", "unchanged", "read", "read", "read", "unchanged"]


@requirement("A-57", "A-59", "A-103", "H-66")
def test_change_of_any_single_part_is_offered_to_the_running_conversation(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    inner = operator.root / "inner"
    inner.mkdir()
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "read"
    whole = served.whole
    state, codes = "output.acceptance.state", "output.acceptance.reason_codes"
    changed = [
        answers.broken(answers.broken(whole, codes, []), state, "ready_for_review"),
        answers.broken(whole, "output.acceptance", ...),
        answers.broken(whole, "output.goal_context.goal.revision", 3),
        answers.broken(whole, "output.goal_context", ...),
        answers.broken(whole, "output.handoff_brief.next_actions", ["Review the open risks."]),
    ]
    for served.whole in changed:
        shown = operator.asked(PROMPT).shown(PROMPT)
        assert shown["status"] == "read"
        assert shown.get("acceptance") == served.whole["output"].get("acceptance")
        assert operator.asked(PROMPT).shown(PROMPT)["status"] == "unchanged"
    served.whole = whole
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "read"
    moved = operator.asked(PROMPT, cwd=str(inner)).shown(PROMPT)
    assert (moved["status"], moved["local_cwd"]) == ("read", str(inner))
    assert len(operator.snapshots()) == 1


@requirement("A-59", "A-89", "A-62")
def test_unchanged_reference_without_acceptance_names_none(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    served.whole = answers.broken(served.whole, "output.acceptance", ...)
    operator.asked(START)
    assert "acceptance" not in operator.asked(PROMPT).shown(PROMPT)


@requirement("A-55", "A-59", "A-89", "A-63")
def test_unassociated_start_says_what_may_be_done_and_its_prompts_say_nothing(tmp_path: Path) -> None:
    with recovery_fixture.serving(tmp_path, is_bound=False) as (operator, served):
        assert operator.status()["last_hook_at"] is None
        assert operator.hook(PROMPT).out == b"{}\n"
        result = operator.hook(START)
        shown = result.shown(START)
        assert set(shown) == {"status", "agent_next_step"}
        step = shown["agent_next_step"]
        assert step.startswith("Only after the user has confirmed project and work")
        assert step.endswith("otherwise do nothing.")
        command = step.split("`")[1]
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
        assert json.loads(done.stdout)["project"] == made.PROJECT
        assert [path for path, _ in served.asked] == [recovery_fixture.PROJECTS, recovery_fixture.SESSIONS]
        assert abs(operator.status()["last_hook_at"] - time.time()) < 3600
        long = operator.root / "\t"
        long.mkdir()
        assert "the discover command" in operator.asked(START, cwd=str(long)).shown(START)["agent_next_step"]


@requirement("A-55", "A-59", "A-60")
def test_several_sessions_are_named_in_their_order_and_none_is_chosen(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    names = [f"wc_sess_{number:0>120}" for number in range(3)]
    both = [operator.binding(workflow_session_id=name) for name in reversed(names)]
    operator.configure(bindings=both)
    for event in (START, PROMPT):
        shown = operator.asked(event).shown(event)
        assert shown["status"] == "selection_required"
        assert shown["candidates"] == [{"project": made.PROJECT, "session_id": name} for name in names]
    operator.configure(
        bindings=[
            operator.binding(workflow_session_id=f"wc_sess_{number:0>120}", project="agent:r1:" + "七" * 60)
            for number in range(64)
        ]
    )
    shown = operator.asked(PROMPT).shown(PROMPT)
    assert shown["truncated"] is True
    assert 10 < len(shown["candidates"]) < 64
    assert (served.asked, operator.snapshots()) == ([], {})


@requirement("A-54", "A-55", "A-90")
def test_conversation_that_is_named_wins_and_another_one_uses_the_open_binding(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    operator.configure(
        bindings=[
            operator.binding(workflow_session_id="wc_sess_other"),
            operator.binding(local_session_id=LOCAL),
            operator.binding(local_session_id="local-two", workflow_session_id="wc_sess_third"),
        ]
    )
    assert operator.asked(START).shown(START)["session_id"] == made.SESSION_ID
    assert operator.asked(START, session_id="local-three").reason == "handoff_identity_mismatch"
    assert served.asked[-1][1]["params"]["session_id"] == "wc_sess_other"


@requirement("A-54", "A-103")
def test_conversation_that_the_host_does_not_keep_is_ignored_unless_it_is_named(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    assert operator.hook(START, transcript_path=None).out == b"{}\n"
    assert operator.asked(PROMPT, transcript_path=None, cwd="/nowhere").out == b"{}\n"
    assert (served.asked, operator.status()["last_hook_at"]) == ([], None)
    operator.configure(bindings=[operator.binding(local_session_id=LOCAL)])
    assert operator.asked(START, transcript_path=None).shown(START)["status"] == "read"
    without = {key: value for key, value in operator.payload(START).items() if key != "transcript_path"}
    assert operator.asked_with(json.dumps(without).encode()).shown(START)["status"] == "read"


PAYLOADS: list[Any] = [
    (b"", "invalid_hook_payload"),
    (b"[]", "invalid_hook_payload"),
    (b"\xef\xbb\xbf{}", "invalid_hook_payload"),
    ({"hook_event_name": None}, "invalid_hook_payload"),
    ({"hook_event_name": 7}, "invalid_hook_payload"),
    ({"session_id": ""}, "local_session_identity_required"),
    ({"session_id": "a b"}, "local_session_identity_required"),
    ({"session_id": "七"}, "local_session_identity_required"),
    ({"session_id": "a" * 257}, "local_session_identity_required"),
    ({"session_id": None}, "local_session_identity_required"),
    ({"cwd": None}, "canonical_directory_required"),
    ({"cwd": "relative"}, "canonical_directory_required"),
    ({"cwd": "/nowhere/at/all"}, "canonical_directory_required"),
    ({"cwd": "/\0"}, "canonical_directory_required"),
    ({"cwd": "/\ud800"}, "canonical_directory_required"),
    ({"cwd": __file__}, "canonical_directory_required"),
]


@requirement("A-54", "A-05", "A-61", "A-63")
def test_payload_that_breaks_a_rule_fails_before_anything_is_asked(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    for given, reason in PAYLOADS:
        stdin = given if isinstance(given, bytes) else json.dumps(operator.payload(**given)).encode()
        assert operator.asked_with(stdin).reason == reason, given
    assert (served.asked, operator.snapshots(), operator.status()["last_hook_at"]) == ([], {}, None)
    operator.registry.unlink()
    for event in ("Stop", "PostToolUse", ""):
        assert operator.asked_with(json.dumps({"hook_event_name": event}).encode()).out == b"{}\n"


@requirement("A-04", "A-54", "A-71", "A-83")
def test_payload_of_the_limit_is_read_and_a_larger_one_is_drained_and_refused(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    bare = len(json.dumps(operator.payload(PROMPT, prompt="")))
    for size, is_read in ((131_072, True), (131_073, False), (8 * 1024 * 1024, False)):
        stdin = json.dumps(operator.payload(PROMPT, prompt="x" * (size - bare))).encode()
        assert len(stdin) == size
        result = operator.run("hook", stdin=stdin)
        if is_read:
            assert result.shown(PROMPT)["status"] in {"read", "unchanged"}
        else:
            assert result.reason == "oversized_hook_payload"
    stdin = json.dumps(operator.payload(PROMPT, prompt="x" * 8 * 1024 * 1024)).encode()
    operator.registry.write_bytes(b"{")
    assert operator.run("hook", "--what", stdin=stdin).reason == "invalid_arguments"
    assert operator.run("who", stdin=stdin).reason == "invalid_arguments"


def drip(exchange: peer.Exchange) -> None:
    """Sends a good answer, one byte a second."""
    for byte in peer.response(200, answers.answer()):
        exchange.send(bytes([byte]))
        if exchange.ended.wait(1):
            return


HURRIED = """
import sys
sys.path.insert(0, sys.argv[1])
from adapter_kit import limits, recovery_run
limits.RECOVERY_SECONDS = 0.5
recovery_run.run(sys.argv[3:], sys.argv[2])
"""


@requirement("A-20", "A-54", "A-61", "A-82", "A-103")
def test_silent_and_dripping_servers_end_within_the_deadline_and_leave_the_snapshot(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    operator.asked(START)
    before = operator.snapshots()
    payload = json.dumps(operator.payload(PROMPT)).encode()
    script = recovery_fixture.ENTRY
    command = [sys.executable, "-I", "-S", "-c", HURRIED, str(script.parent), str(script)]
    for path, answer in (
        (recovery_fixture.HANDOFF, drip),
        (recovery_fixture.HANDOFF, peer.silent),
        (recovery_fixture.PROJECTS, peer.silent),
    ):
        served.instead = {path: answer}
        done = subprocess.run(
            [*command, "--registry", str(operator.registry), "hook"],
            input=payload,
            capture_output=True,
            timeout=recovery_fixture.RUN_S,
            check=False,
        )
        result = recovery_fixture.Result(done.returncode, done.stdout, done.stderr)
        assert result.reason in {"handoff_read_unconfirmed", "read_unconfirmed"}  # whichever bound came first
    assert operator.snapshots() == before


def _started(operator: Operator, payload: bytes) -> "subprocess.Popen[bytes]":
    process = operator.start("hook")
    assert process.stdin is not None
    process.stdin.write(payload)
    process.stdin.close()
    process.stdin = None
    return process


@requirement("A-61", "A-72", "A-03", "A-89")
def test_two_conversations_starting_together_both_get_their_evidence(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    names = ["local-0", "local-0", "local-1"]
    runs = [
        _started(operator, json.dumps(operator.payload(START, session_id=name)).encode()) for name in names
    ]
    for run in runs:
        out, err = run.communicate(timeout=recovery_fixture.RUN_S)
        assert recovery_fixture.Result(run.returncode, out, err).shown(START)["status"] == "read"
    kept = operator.snapshots()
    assert len(kept) == 2
    brief = served.whole["output"]["handoff_brief"]
    assert all(json.loads(content)["evidence"]["handoff_brief"] == brief for content in kept.values())
    assert {file.name for file in operator.state.iterdir()} == {*kept, ".lock"}


@requirement("A-03", "A-61", "A-72")
def test_signal_ends_a_run_visibly_with_one(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    gate = peer.Gate(peer.closing)
    served.instead[recovery_fixture.HANDOFF] = gate
    run = _started(operator, json.dumps(operator.payload(PROMPT)).encode())
    assert gate.reached.wait(recovery_fixture.RUN_S)
    run.send_signal(signal.SIGTERM)
    out, err = run.communicate(timeout=recovery_fixture.RUN_S)
    gate.opened.set()
    assert recovery_fixture.Result(run.returncode, out, err).reason == "read_unconfirmed"
    assert operator.snapshots() == {}


@requirement("A-61", "A-103", "A-59")
def test_server_that_is_away_is_a_failure_that_shows_nothing_old(scene: tuple[Operator, Served]) -> None:
    operator, _ = scene
    operator.asked(START)
    before = operator.snapshots()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    operator.configure(server_url=f"http://127.0.0.1:{port}")
    result = operator.hook(START)
    assert result.reason == "handoff_read_unconfirmed"
    assert b"clamp" not in result.out
    assert operator.snapshots() == before
