"""How much is put into a conversation, and what stands there if it is too much (A-59, A-60, A-73)."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import answers, hook_fixture, peer, recovery_fixture
from tests.adapters.recovery_fixture import Operator, Served
from tests.requirements import requirement

START, PROMPT = "SessionStart", "UserPromptSubmit"
BRIEF = "output.handoff_brief"
FILLED = f"{BRIEF}.next_actions"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path) as pair:
        yield pair


def fill(served: Served, whole: answers.Answer, count: int, char: str = "x") -> None:
    """The brief carries this many characters more."""
    served.whole = answers.broken(whole, FILLED, [char * count])


@requirement("A-59", "A-60", "A-73", "A-88")
@pytest.mark.parametrize("char", ["x", "七", "😀"])
def test_context_of_exactly_the_bound_is_whole_and_one_more_is_a_named_snapshot(
    scene: tuple[Operator, Served], char: str
) -> None:
    operator, served = scene
    width = len(char.encode())
    goal = "output.goal_context.goal.objective.excerpt"
    whole = answers.broken(served.whole, goal, "o" * 1_000)
    used = 1_200
    fill(served, whole, used // width, char)
    size = len(operator.asked(START).context(START).encode())
    tail = (9_500 - size) % width
    whole = answers.broken(whole, goal, "o" * (1_000 - width + tail if tail else 1_000))
    left = 9_500 - size + (width - tail if tail else 0)
    fill(served, whole, used // width + left // width, char)
    full = operator.asked(START).context(START)
    assert len(full.encode()) == 9_500
    assert json.loads(full.partition("\n")[2])["status"] == "read"
    fill(served, whole, used // width + left // width + 1, char)
    shown = operator.hook(START).shown(START)
    (name,) = operator.snapshots()
    assert shown.pop("recovery_note")
    brief, acceptance = served.whole["output"]["handoff_brief"], served.whole["output"]["acceptance"]
    reports = brief["external_observations"]
    assert shown == {
        "status": "read_snapshot",
        "truncated": True,
        "context_bytes": 9_500 + width,
        "progress": {"state": brief["progress"]["state"]},
        "project": served.whole["output"]["project"],
        "session_id": served.whole["output"]["session_id"],
        "snapshot_path": str(operator.state / name),
        "basis": brief["basis"],
        "external_observations": {
            key: reports[key] for key in ("status", "total", "unknown_count", "coverage")
        },
        "acceptance": {"state": acceptance["state"], "advisory": True},
    }
    assert json.loads(operator.snapshots()[name])["evidence"]["handoff_brief"] == brief
    assert operator.asked(PROMPT).shown(PROMPT)["status"] == "unchanged"
    assert operator.asked(START).shown(START)["status"] == "read_snapshot"


@requirement("A-60", "A-73", "A-61")
def test_reference_that_would_be_too_long_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    with recovery_fixture.serving(tmp_path) as (operator, served):
        codes = [f"code_{number:0>90}" for number in range(60)]
        served.whole = answers.broken(
            served.whole, f"{BRIEF}.basis", {"complete": False, "reason_codes": codes}
        )
        for part in ("task", "progress", "validation", "attention"):
            served.whole = answers.broken(served.whole, f"{BRIEF}.{part}", ...)
        assert operator.asked(START).shown(START)["status"] == "read_snapshot"
        place = operator.private
        for _ in range(15):
            place /= "d" * 200
            place.mkdir(mode=0o700)
        operator.configure(state_dir=str(place))
        assert operator.asked(START).reason == "recovery_state_capacity"
        assert [file.name for file in place.iterdir()] == [".lock"]


@requirement("A-59", "A-60")
def test_unchanged_prompt_costs_less_than_a_thousand_bytes(scene: tuple[Operator, Served]) -> None:
    operator, _ = scene
    operator.asked(START)
    context = operator.asked(PROMPT).context(PROMPT)
    assert len(context.encode()) - len(str(operator.state)) <= 1_000


@requirement("A-05", "A-84", "A-87", "A-01", "A-99")
def test_no_locale_interpreter_flag_or_environment_changes_a_byte(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    inner = operator.root / "七😀"
    inner.mkdir()
    served.whole = answers.broken(served.whole, f"{BRIEF}.task.root_instruction.excerpt", "七\u0000😀\u2028é")
    stdin = json.dumps(operator.payload(START, cwd=str(inner)), ensure_ascii=False).encode()
    (inner / "json.py").write_text("raise SystemExit(2)\n", encoding="utf-8")
    hostile = {
        "PYTHONIOENCODING": "cp932",
        "LC_ALL": "C",
        "PYTHONPATH": str(inner),
        "CODEX_SESSION_ID": "other",
        "WEBCODEX_SESSION_ID": "wc_sess_other",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
    }
    expected = operator.asked_with(stdin)
    assert expected.shown(START)["local_cwd"] == str(inner)
    for flags in (("-I", "-S"), ("-I", "-X", "utf8=0"), ("-S",)):
        environment = hostile if "-I" in flags else {**hostile, "PYTHONPATH": ""}
        assert operator.run("hook", stdin=stdin, flags=flags, env=environment) == expected, flags


@requirement("A-84", "A-97")
def test_observation_hook_and_reader_follow_the_same_paths_in_every_locale(tmp_path: Path) -> None:
    place = tmp_path / "七😀"
    place.mkdir()
    locale = {"LC_ALL": "C"}
    flags = ("-I", "-S", "-X", "utf8=0")
    with peer.Peer() as server:
        hook = hook_fixture.Operator(place, server.origin)
        done = hook.run(json.dumps(hook.payload(), ensure_ascii=False).encode(), flags=flags, env=locale)
        assert done.is_silent_success
        assert server.requests[0].event == hook.event("call-one")
        line = hook.run(b"", "--print-registration", flags=flags, env=locale).out
        assert line == hook.run(b"", "--print-registration").out
    reader = hook_fixture.SCRIPTS / "read_handoff.py"
    read = subprocess.run(
        [sys.executable, *flags, str(reader), "--config", str(hook.config)],
        cwd=hook.root,
        env={**os.environ, **locale},
        capture_output=True,
        check=False,
    )
    assert json.loads(read.stderr)["reason"] == "handoff_read_unconfirmed"


@requirement("A-85", "A-108", "A-61")
def test_cut_payloads_and_planted_secrets_appear_in_no_answer(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    secret = hook_fixture.SECRET.encode()
    stdin = json.dumps(operator.payload(PROMPT, prompt="xyzzy-prompt 七"), ensure_ascii=False).encode()
    for end in range(0, len(stdin), 17):
        assert operator.asked_with(stdin[:end]).reason == "invalid_hook_payload"
    assert operator.asked_with(stdin[:-4] + b"\x81\x40" + stdin[-4:]).reason == "invalid_hook_payload"
    assert served.asked == []
    given = [operator.run("hook", stdin=stdin), operator.run("status"), operator.run("registration")]
    served.instead[recovery_fixture.HANDOFF] = peer.status(200, b'{"xyzzy": "xyzzy-body"}')
    given += [operator.run("hook", stdin=stdin), operator.associated(), operator.discovered()]
    for result in given:
        for planted in (secret, b"xyzzy", operator.stored["server_url"].encode()):
            assert planted not in result.out + result.err, result
    assert all(b"xyzzy" not in content for content in operator.snapshots().values())
