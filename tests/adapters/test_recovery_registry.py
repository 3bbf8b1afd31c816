"""What a registry may hold, and where the operator's files may lie (A-51)."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters import hook_fixture, peer, recovery_fixture
from tests.adapters.recovery_fixture import Operator
from tests.requirements import requirement

ORIGIN = "http://127.0.0.1:9"
PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path, ORIGIN)


def reason_of(operator: Operator) -> str:
    return recovery_fixture.ended(lambda: bytes(len(load(operator).bindings))).reason


def load(operator: Operator) -> recovery_fixture.bindings.Registry:
    return recovery_fixture.bindings.load(str(operator.registry))


def binding(**changes: object) -> Change:
    return lambda stored: stored["bindings"][0].update(changes)


def entry(**changes: object) -> Change:
    return lambda stored: stored["bindings"][0]["entry_roots"][0].update(changes)


INVALID = "invalid_recovery_registry"
ASSOCIATION = "invalid_recovery_association"
BROKEN: list[tuple[Change, str]] = [
    (lambda stored: stored.update(more=1), INVALID),
    (lambda stored: stored.pop("bindings"), INVALID),
    *((lambda stored, value=value: stored.update(version=value), INVALID) for value in (True, 2, "1", 1.0)),
    (lambda stored: stored.update(bindings={}), INVALID),
    (lambda stored: stored.update(bindings=stored["bindings"] * 65), INVALID),
    (lambda stored: stored.update(state_dir=""), INVALID),
    (lambda stored: stored.update(state_dir="/a\0b"), INVALID),
    (lambda stored: stored.update(authorization_file=None), INVALID),
    (lambda stored: stored.update(server_url=7), INVALID),
    (lambda stored: stored.update(server_url="http://example.com"), "https_or_loopback_origin_required"),
    (lambda stored: stored.update(server_url="http://u@127.0.0.1"), "https_or_loopback_origin_required"),
    (lambda stored: stored.update(state_dir="state"), "absolute_authorization_file_required"),
    (lambda stored: stored.update(authorization_file="a"), "absolute_authorization_file_required"),
    (lambda stored: stored.update(bindings=[7]), ASSOCIATION),
    (binding(more=1), ASSOCIATION),
    (binding(project="r1:demo"), ASSOCIATION),
    (binding(project_root=None), ASSOCIATION),
    (binding(workflow_session_id="wc_sess_"), ASSOCIATION),
    (binding(workflow_session_id="~s1"), ASSOCIATION),
    (binding(local_session_id="a" * 257), ASSOCIATION),
    (binding(local_session_id=None), ASSOCIATION),
    (binding(local_session_id="\ud800"), ASSOCIATION),
    (binding(entry_roots=[]), "invalid_entry_root"),
    (binding(entry_roots=[{"path": "/x", "identity": [1, 1]}] * 9), "invalid_entry_root"),
    (binding(entry_roots={}), "invalid_entry_root"),
    (entry(more=1), "invalid_entry_root"),
    (entry(path=""), "invalid_entry_root"),
    (binding(project_identity=None), "invalid_root_identity"),
    *(
        (change, "invalid_root_identity")
        for pair in ([1], [1, 2, 3], [1, -1], [1, True], [1, "2"], [1, 2.0])
        for change in (binding(project_identity=pair), entry(identity=pair))
    ),
    (binding(project_root="project"), "absolute_project_root_required"),
    (entry(path="project"), "absolute_project_root_required"),
]


@requirement("A-51", "A-61")
def test_registry_that_breaks_a_rule_is_refused_with_its_word(operator: Operator) -> None:
    good = json.dumps(operator.stored)
    for change, reason in BROKEN:
        stored = json.loads(good)
        change(stored)
        hook_fixture.private(operator.registry, json.dumps(stored).encode())
        assert reason_of(operator) == reason, stored
    for content in (b"", b"[]", b"\xef\xbb\xbf" + good.encode(), good.encode() + b"x"):
        hook_fixture.private(operator.registry, content)
        assert reason_of(operator) == INVALID
    operator.configure(bindings=[operator.binding(local_session_id="a" * 256)] * 64)
    assert len(load(operator).bindings) == 64


@requirement("A-51", "A-10", "A-06", "A-101")
def test_registry_and_what_it_names_follow_the_rules_of_private_files(tmp_path: Path) -> None:
    with recovery_fixture.serving(tmp_path) as (operator, served):
        operator.registry.chmod(0o644)
        assert operator.asked().reason == "private_regular_file_required"
        hook_fixture.private(operator.registry, b" " * 131_073)
        assert operator.asked().reason == "input_too_large"
        operator.configure()
        operator.authorization.chmod(0o640)
        assert operator.asked().reason == "private_regular_file_required"
        hook_fixture.private(operator.authorization, b"two\nlines")
        assert operator.asked().reason == "invalid_authorization_file"
        operator.state.chmod(0o750)
        assert operator.asked().reason == "private_state_directory_required"
        operator.state.chmod(0o700)
        (operator.state / ".lock").unlink()
        (operator.state / ".lock").mkdir()
        assert operator.asked().reason == "invalid_lock"
        assert served.asked == []


@requirement("A-51", "A-97")
def test_operator_files_inside_any_root_are_refused_however_they_are_reached(operator: Operator) -> None:
    inside = operator.root / "state"
    inside.mkdir(mode=0o700)
    link = operator.private / "link"
    link.symlink_to(operator.root)
    upper = operator.private.parent
    outside_word = "operator_files_must_be_outside_projects"
    for place in (inside, link / "state", operator.private / ".." / "project" / "state", link):
        operator.configure(state_dir=str(place))
        assert reason_of(operator) == outside_word, place
    operator.configure(state_dir=str(operator.state), authorization_file=str(inside / "authorization"))
    assert reason_of(operator) == outside_word
    operator.configure(authorization_file=str(operator.authorization))
    for root in (upper, operator.private):
        operator.configure(bindings=[operator.binding(operator.root, root=root)])
        assert reason_of(operator) == outside_word, root
    where = {"project_root": "/gone/away", "project_identity": recovery_fixture.identity(operator.private)}
    operator.configure(bindings=[{**operator.binding(), **where}])
    assert len(load(operator).bindings) == 1  # the number alone may have been given to another directory
    other = upper / "spelled"
    other.symlink_to(operator.private)
    operator.configure(bindings=[{**operator.binding(), **where, "project_root": str(other)}])
    assert reason_of(operator) == outside_word


@requirement("A-51", "A-63", "A-50")
def test_roots_that_are_not_mounted_disturb_no_other_binding_and_are_counted(tmp_path: Path) -> None:
    with recovery_fixture.serving(tmp_path) as (operator, _):
        gone = {"path": str(tmp_path / "gone" / "entry"), "identity": [1, 2]}
        root = str(tmp_path / "gone" / "root")
        away = operator.binding(project_root=root, project_identity=[1, 3], entry_roots=[gone])
        expected = {"status": "ok", "bindings": 1, "snapshots": 0, "snapshots_evicted": 0}
        assert operator.status() == {**expected, "unmounted_roots": 0, "last_hook_at": None}
        assert list(operator.state.iterdir()) == []
        operator.configure(bindings=[operator.binding(), away])
        assert operator.asked().shown("SessionStart")["status"] == "read"
        shown = operator.run("status").said
        assert shown.pop("last_hook_at") == int((operator.state / ".lock").stat().st_mtime)
        assert shown == {
            **expected,
            "status": "attention",
            "bindings": 2,
            "snapshots": 1,
            "unmounted_roots": 2,
        }
        operator.configure(bindings=[operator.binding(project_identity=[1, 4])])
        assert operator.status()["unmounted_roots"] == 1
        hook_fixture.private(operator.state / ".evicted", b"many")
        assert (
            recovery_fixture.ended(
                lambda: recovery_fixture.recovery_setup.status(str(operator.registry))
            ).reason
            == "recovery_cache_capacity"
        )


@requirement("A-64", "A-86", "A-74", "A-50")
def test_registration_is_one_line_that_sh_reads_back_and_that_never_changes(tmp_path: Path) -> None:
    place = tmp_path / "two $words 七"
    place.mkdir()
    operator = Operator(place, peer.dead_origin(), is_bound=False)
    first, second = operator.run("registration"), operator.run("registration")
    assert (first.code, first.err, first.out) == (0, b"", second.out)
    line = first.out.decode()
    assert (line.count("\n"), line.endswith(" hook\n")) == (1, True)
    stdin = json.dumps(operator.payload("UserPromptSubmit")).encode()
    shell = subprocess.run(["sh", "-c", line], input=stdin, capture_output=True, check=False, cwd="/")
    assert (shell.returncode, shell.stdout, shell.stderr) == (0, b"{}\n", b"")
    operator.registry.chmod(0o644)
    assert operator.run("registration").reason == "private_regular_file_required"


@requirement("A-50", "A-03", "A-61", "A-72")
def test_arguments_that_are_not_a_verb_with_its_options_are_refused_with_one(tmp_path: Path) -> None:
    operator = Operator(tmp_path, ORIGIN)
    associate = ["associate", "--project-root", "/p", "--session", "wc_sess_a"]
    arguments: list[list[str]] = [
        ["status", "x"],
        ["status", "--session", "x"],
        ["discover"],
        ["discover", "--project-root", ""],
        ["discover", "--project-root", "/p", "--project-root", "/q"],
        associate,
        [*associate, "--entry-root", "/e", "--local-session", ""],
    ]
    for words in arguments:
        assert operator.run(*words).reason == "invalid_arguments", words
    done = subprocess.run(
        [sys.executable, str(recovery_fixture.ENTRY), "--help"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"usage: session_recovery.py --registry PATH VERB")

    verbs = re.findall(r"^  ([a-z]+)(?: (--.*?))?(?:  .*)?$", done.stdout.decode(), re.MULTILINE)
    assert [verb for verb, _ in verbs] == ["hook", "discover", "associate", "status", "registration"]
    page = PAGE.read_text(encoding="utf-8")
    assert [verb for verb in verbs if f"| `{' '.join(verb).strip()}` |" not in page] == []


@requirement("A-51")
def test_registry_that_the_documentation_shows_is_one_that_the_entry_takes(operator: Operator) -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```json\n")[1:]
    shown = json.loads(blocks[1].partition("```")[0])
    assert Path(shown.pop("state_dir")).name == operator.state.name
    assert Path(shown.pop("authorization_file")).name == operator.authorization.name
    operator.configure(**shown)
    assert operator.stored.keys() == {*shown, "state_dir", "authorization_file"}
    assert load(operator).bindings == ()
