"""The doctor's judgement of facts: what it says of each, and that unknown is never taken for right."""

import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from webcodex.cli import adapter_setup as set_up
from webcodex.cli import installation
from webcodex.cli.doctor_checks import (
    adapters,
    asked,
    checks,
    private_tree,
    recovery,
    server,
    standing,
)
from webcodex.cli.doctor_checks.adapters import Configured, Said
from webcodex.cli.doctor_checks.checks import Area, Check
from webcodex.cli.doctor_checks.conversation import Heard
from webcodex.cli.doctor_checks.exchange import Answer, Reply, Silence

URL = "http://127.0.0.1:8080"
NOW = 1_790_000_000
OK = checks.ok(Area.SERVER, "a", "b")


def stood(folder: Path, up: standing.Up = standing.Up.RUNNING) -> standing.Standing:
    """A data directory of which nothing else matters."""
    return standing.Standing(
        found=installation.Installation(directory=folder),
        url=URL,
        up=up,
        up_pid=None if up is standing.Up.STOPPED else 4321,
        runner=standing.Fault(sentence=""),
        registered=standing.Fault(sentence=""),
    )


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ([OK], True),
        ([OK, checks.unknown(Area.HOST, "a", "b"), checks.unknown(Area.ADAPTERS, "a", "b")], True),
        ([OK, checks.unknown(Area.SERVER, "a", "b")], False),
        ([OK, checks.attention(Area.HOST, "a", "b", "c")], False),
        ([OK, checks.attention(Area.CREDENTIALS, "a", "b", "c")], False),
    ],
)
def test_unknown_counts_as_right_only_where_it_is_a_choice(lines: list[Check], *, right: bool) -> None:
    assert checks.all_right(lines) is right
    assert checks.shape(lines)["ok"] is right


def test_shape_is_closed_and_holds_plain_values() -> None:
    line = checks.attention(Area.RUNNER, "connection", "gone", "mend it")
    assert json.loads(json.dumps(checks.shape([line]))) == {
        "ok": False,
        "checks": [
            {
                "area": "runner",
                "name": "connection",
                "status": "attention",
                "found": "gone",
                "next_step": "mend it",
            }
        ],
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s ago"), (119, "119 s ago"), (120, "2 min ago"), (7200, "2 h ago"), (200_000, "2 days ago")],
)
def test_age_is_told_in_the_unit_that_fits(seconds: float, words: str) -> None:
    assert checks.age(seconds) == words


@pytest.mark.parametrize("value", [None, 1, "", "two words", "a\nb", 81 * "a", "\x1b[2J"])
def test_what_another_program_says_is_repeated_only_when_it_is_a_word(value: object) -> None:
    assert checks.word(value) == "no known word"
    assert checks.word("invalid_config") == "invalid_config"


@pytest.mark.parametrize(
    ("up", "reply", "status", "said"),
    [
        (standing.Up.RUNNING, Answer(status=200, body={"status": "ready"}), "ok", "takes transactions"),
        (standing.Up.STOPPED, Answer(status=200, body={"status": "ready"}), "attention", "not one of this"),
        (standing.Up.RUNNING, Answer(status=503, body={"status": "unavailable"}), "attention", "store does"),
        (standing.Up.RUNNING, Answer(status=404, body={}), "attention", "is not a WebCodex Server"),
        (standing.Up.RUNNING, Silence.FOREIGN, "attention", "is not a WebCodex Server"),
        (standing.Up.RUNNING, Silence.LATE, "attention", "no answer in time"),
        (standing.Up.RUNNING, Silence.NOBODY, "attention", "No Server answers"),
        (standing.Up.RUNNING, Silence.NOT_ASKED, "attention", "nothing was sent there"),
    ],
)
def test_answer_to_readiness_is_judged(
    up: standing.Up, reply: Reply, status: str, said: str, tmp_path: Path
) -> None:
    line = server.told(stood(tmp_path, up), Heard(ready=reply))[0]
    assert (line.status, said in line.found) == (status, True)
    assert (line.next_step is None) == (status == "ok")


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Answer(status=200, body={"result": {"tools": [{}]}}), "ok"),
        (Answer(status=200, body={"result": {"tools": []}}), "attention"),
        (Answer(status=403, body={"status": 403}), "attention"),
        (Silence.LATE, "unknown"),
    ],
)
def test_listed_tools_are_judged(reply: Reply, status: str, tmp_path: Path) -> None:
    assert server.told(stood(tmp_path), Heard(tools=reply))[2].status == status


@pytest.mark.parametrize("reply", [*Silence, Answer(status=HTTPStatus.FORBIDDEN, body={})])
def test_every_missing_answer_has_its_sentence_and_is_unknown(reply: Reply, tmp_path: Path) -> None:
    line = server.told(stood(tmp_path), Heard(status=reply))[1]
    assert (line.status, line.found) == ("unknown", server.unheard(reply))
    assert line.found.startswith("The Server")


STATUS: Mapping[str, Any] = {"pending": 0, "skipped": 0, "rejected": 0, "last_hook_at": NOW - 7}


@pytest.mark.parametrize(
    ("exit_code", "line", "status", "step"),
    [
        (0, STATUS, "ok", None),
        (0, {**STATUS, "pending": 3}, "attention", " --flush"),
        (0, {**STATUS, "skipped": 1}, "attention", " --flush"),
        (0, {**STATUS, "rejected": 1}, "attention", "ls -l /the/outbox/rejected"),
        (0, {**STATUS, "last_hook_at": None}, "unknown", " --print-registration"),
        (0, {}, "unknown", " --status"),
        (1, {"reason": "invalid_config"}, "attention", "adapters setup --help"),
        (1, {"reason": "private_regular_file_required"}, "attention", "/observation.json"),
        (2, {}, "attention", "adapters setup --help"),
        (-9, {}, "unknown", " --status"),
        (None, {}, "unknown", " --status"),
    ],
)
def test_status_of_the_hook_is_judged(
    exit_code: int | None, line: Mapping[str, Any], status: str, step: str | None, tmp_path: Path
) -> None:
    config = tmp_path / "observation.json"
    config.touch(0o600)
    config.write_text(json.dumps({"server_url": URL, "state_dir": "/the/outbox"}), encoding="utf-8")
    said = Said(config=config, exit_code=exit_code, line=line)
    (told,) = adapters.told(stood(tmp_path), Configured(count=1, said=(said,)), NOW)
    assert (told.status, told.name) == (status, "observation")
    assert (told.next_step or "").endswith(step or "")
    assert (told.next_step is None) == (step is None)


def test_more_configurations_than_are_looked_at_are_counted(tmp_path: Path) -> None:
    said = Said(config=tmp_path / "observation.json", exit_code=0, line=STATUS)
    *_, left = adapters.told(stood(tmp_path), Configured(count=9, said=(said,)), NOW)
    assert (left.status, left.found) == ("unknown", "8 more configurations were not looked at.")


SLOW = "import signal, sys\nsys.stdout.write('x')\nsys.stdout.flush()\nsignal.pause()\n"
LOUD = "import sys\nwhile True: sys.stdout.write(65536 * 'x')\n"


@pytest.mark.parametrize("script", [SLOW, LOUD])
def test_hook_that_does_not_end_is_ended(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(set_up, "SCRIPTS", tmp_path)
    monkeypatch.setattr(asked, "STATUS_S", 0.3)
    for name in ("external_observation_hook.py", "session_recovery.py"):
        (tmp_path / name).write_text(script, encoding="utf-8")
    found = installation.Installation(directory=tmp_path)
    found.adapters_dir.mkdir()
    for name in ("observation.json", "observation-2.json"):
        (found.adapters_dir / name).touch()
    configured = adapters.configured(found)
    assert configured.count == 2
    assert {adapters.told(stood(tmp_path), configured, NOW)[0].status} == {"unknown"}
    assert [said.line for said in configured.said] == [{}, {}]
    (found.adapters_dir / "recovery.json").touch()
    assert recovery.told(stood(tmp_path), NOW)[0].status == "unknown"


def recovery_registry(state: Path, *roots: Path) -> dict[str, Any]:
    """A registry with an association at each of these places, which are not there."""
    places = [{"path": str(root), "identity": [1, number]} for number, root in enumerate(roots)]
    return {
        "version": 1,
        "server_url": URL,
        "authorization_file": str(state.with_name("authorization")),
        "state_dir": str(state),
        "bindings": [
            {
                "project": "agent:r1:demo",
                "project_root": place["path"],
                "project_identity": place["identity"],
                "entry_roots": [place],
                "workflow_session_id": "wc_sess_a",
                "local_session_id": "",
            }
            for place in places
        ],
    }


def test_status_of_the_recovery_entry_is_judged(tmp_path: Path) -> None:
    now = stood(tmp_path)
    state = now.found.adapters_dir / "recovery-state"
    state.mkdir(parents=True, mode=0o700)
    registry = state.with_name("recovery.json")

    def told(*roots: Path, mode: int = 0o600, **changes: object) -> tuple[str, str, str]:
        registry.touch(mode=0o600)
        registry.write_text(json.dumps({**recovery_registry(state, *roots), **changes}), encoding="utf-8")
        registry.chmod(mode)
        (check,) = recovery.told(now, NOW)
        return check.status, check.found, check.next_step or ""

    assert recovery.told(now, NOW)[0].status == "unknown"
    status, found, step = told()
    assert (status, "a hook has never run" in found, step.endswith(" registration")) == (
        "unknown",
        True,
        True,
    )
    status, found, step = told(mode=0o644)
    assert (status, step) == ("attention", f"chmod 600 {registry}")
    assert found.endswith("private_regular_file_required.")
    assert told(server_url="http://127.0.0.1:9")[1].endswith("names another Server, so every recovery fails.")
    assert told(version=2)[1].endswith("invalid_recovery_registry.")
    status, found, _ = told(tmp_path / "gone")
    assert (status, found.startswith("1 directories of associations are gone")) == ("attention", True)
    (state / ".lock").touch(mode=0o600)
    os.utime(state / ".lock", (NOW - 90, NOW - 90))
    assert told() == (
        "ok",
        "0 associations, 0 snapshots, 0 made room for others; a hook last ran 90 s ago.",
        "",
    )


def test_walk_has_an_end_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_tree, "MOST_NAMES", 3)
    tmp_path.chmod(0o700)
    for name in "abcde":
        (tmp_path / name).touch(0o600)
    line = private_tree.told(tmp_path, private_tree.walked(tmp_path))
    assert (line.status, line.found.startswith("The first 3 names")) == ("unknown", True)


def test_restart_waits_for_the_end_of_what_runs(tmp_path: Path) -> None:
    now = stood(tmp_path)
    assert now.restart == f"kill -INT 4321; while kill -0 4321 2>/dev/null; do sleep 0.2; done; {now.start}"
    assert stood(tmp_path, standing.Up.STOPPED).restart == now.start
