"""Which directories may read which Session: repositories, worktrees, links and replaced roots (A-55)."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters import recovery_fixture
from tests.adapters.recovery_fixture import Operator, Served
from tests.core import handoff_histories as made
from tests.requirements import requirement

START = "SessionStart"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[tuple[Operator, Served]]:
    with recovery_fixture.serving(tmp_path) as pair:
        yield pair


def git(place: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *identity, *arguments], cwd=place, check=True, capture_output=True)


def status(operator: Operator, cwd: Path | str) -> str:
    """What a start in this directory is told: a status, or the reason of a failure."""
    result = operator.asked(START, cwd=str(cwd))
    return result.reason if result.code else str(result.shown(START)["status"])


@requirement("A-55", "A-96", "A-103")
def test_other_repositories_below_an_entry_root_do_not_inherit_it(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    root, beside = operator.root, operator.root.parent
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    (root / "src/deep").mkdir(parents=True)
    git(root, "worktree", "add", "-q", "linked")
    git(root, "worktree", "add", "-q", str(beside / "outside"))
    git(root, "init", "-q", "nested")
    (root / "nested/src").mkdir()
    git(root, "init", "-q", "--bare", "bare.git")
    git(root, "clone", "-q", str(root), str(beside / "other"))
    git(root, "submodule", "--quiet", "add", str(beside / "other"), "module")
    expected = {
        root: "read",
        root / "src/deep": "read",
        root / "bare.git": "read",
        root / "linked": "unassociated",
        root / "nested": "unassociated",
        root / "nested/src": "unassociated",
        root / "module": "unassociated",
        beside / "outside": "unassociated",
        beside / "other": "unassociated",
        beside: "unassociated",
    }
    assert {place: status(operator, place) for place in expected} == expected
    entries = (root, root / "linked", beside / "outside")
    operator.configure(bindings=[operator.binding(*entries)])
    assert {place: status(operator, place) for place in entries} == dict.fromkeys(entries, "read")
    git(root, "worktree", "move", str(beside / "outside"), str(beside / "moved"))
    assert status(operator, beside / "moved") == "unassociated"
    (beside / "moved").rename(beside / "outside")
    assert status(operator, beside / "outside") == "read"
    assert served.projects[0]["path"] == str(root)


@requirement("A-55", "A-97", "A-103")
def test_replaced_entry_root_is_refused_only_where_it_is_chosen(scene: tuple[Operator, Served]) -> None:
    operator, served = scene
    entry = operator.root.parent / "checkout"
    entry.mkdir()
    operator.configure(bindings=[operator.binding(entry)])
    assert status(operator, entry) == "read"
    before = operator.snapshots()
    entry.rename(entry.with_name("kept"))
    entry.mkdir()
    asked = len(served.asked)
    assert status(operator, entry) == "entry_root_replaced"
    named = operator.binding(entry, local_session_id=recovery_fixture.LOCAL)
    operator.configure(bindings=[*operator.stored["bindings"], named])
    assert status(operator, entry) == "read"
    entry.rmdir()
    entry.symlink_to(entry.with_name("kept"))
    operator.configure(bindings=operator.stored["bindings"][:1])
    for cwd in (entry, entry.with_name("kept")):
        assert status(operator, cwd) == "entry_root_replaced", cwd
    entry.unlink()
    assert status(operator, entry.with_name("kept")) == "unassociated"
    assert len(served.asked) == asked + 2
    assert operator.snapshots() == before


@requirement("A-56", "A-97", "A-103")
def test_project_root_that_is_gone_replaced_or_behind_a_link_is_refused(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    entry = operator.root.parent / "checkout"
    entry.mkdir()
    operator.configure(bindings=[operator.binding(entry)])
    kept = operator.root.with_name("kept")
    operator.root.rename(kept)
    assert status(operator, entry) == "project_root_replaced"
    operator.root.symlink_to(kept)
    assert status(operator, entry) == "project_root_replaced"
    operator.root.unlink()
    operator.root.touch()
    assert status(operator, entry) == "project_root_replaced"
    operator.root.unlink()
    operator.root.mkdir()
    assert status(operator, entry) == "project_root_replaced"
    assert (served.asked, operator.snapshots()) == ([], {})
    operator.root.rmdir()
    kept.rename(operator.root)
    assert status(operator, entry) == "read"


@requirement("A-54", "A-55", "A-97")
def test_directory_is_matched_in_its_resolved_form(scene: tuple[Operator, Served]) -> None:
    operator, _ = scene
    inner = operator.root / "七つ 星"
    inner.mkdir()
    link = operator.root.parent / "link"
    link.symlink_to(inner)
    out = operator.root / "out"
    out.symlink_to(operator.root.parent)
    sibling = operator.root.with_name("project-2")
    sibling.mkdir()
    for cwd in (inner, link, f"{inner}/", f"{inner}/../七つ 星", f"{out}/project"):
        assert status(operator, cwd) == "read", cwd
    for cwd in (out, sibling, operator.root.parent):
        assert status(operator, cwd) == "unassociated", cwd
    assert operator.asked(START, cwd=str(link)).shown(START)["local_cwd"] == str(inner)


@requirement("A-55")
def test_two_bindings_of_one_target_leave_nothing_to_choose_but_two_targets_do(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    inner = operator.root / "inner"
    inner.mkdir()
    operator.configure(bindings=[operator.binding(), operator.binding(inner, operator.root)])
    assert status(operator, inner) == "read"
    other = operator.binding(inner, workflow_session_id="wc_sess_other")
    operator.configure(bindings=[operator.binding(), other])
    assert status(operator, operator.root) == "read"
    shown = operator.asked(START, cwd=str(inner)).shown(START)
    assert shown["candidates"] == [
        {"project": made.PROJECT, "session_id": made.SESSION_ID},
        {"project": made.PROJECT, "session_id": "wc_sess_other"},
    ]


@requirement("A-56", "A-103", "A-61")
def test_project_that_no_longer_has_the_root_is_refused_and_other_rows_do_not_matter(
    scene: tuple[Operator, Served],
) -> None:
    operator, served = scene
    (row,) = served.projects
    assert status(operator, operator.root) == "read"
    before = operator.snapshots()
    other = {**row, "id": "agent:r2:demo"}
    served.projects = [other, row, {"id": "agent:r3:none"}]
    assert status(operator, operator.root) == "read"
    for rows in (
        [],
        [other],
        [{**row, "path": "/elsewhere"}],
        [{"id": row["id"]}],
        [row, {**row, "path": "/x"}],
    ):
        served.projects = rows
        assert status(operator, operator.root) == "project_binding_changed", rows
    served.projects = [{**other, "path": f"{operator.root}/{number}"} for number in range(150)] + [row]
    assert status(operator, operator.root) == "read"
    served.projects = [{**other, "path": f"{operator.root}/{number}"} for number in range(1_001)] + [row]
    assert status(operator, operator.root) == "project_inventory_incomplete"
    assert operator.snapshots() == before


@requirement("A-53", "A-55", "A-63")
def test_directory_that_was_made_anew_is_read_again_once_it_is_associated_anew(
    scene: tuple[Operator, Served],
) -> None:
    operator, _ = scene
    other = operator.root.parent / "checkout"
    other.mkdir()
    operator.configure(bindings=[operator.binding(), operator.binding(other, operator.root)])
    operator.root.rename(operator.root.with_name("kept"))
    operator.root.mkdir()
    assert status(operator, operator.root) == "entry_root_replaced"
    assert operator.associated().said["status"] == "associated"
    fresh, stale = operator.binding(), operator.stored["bindings"][1]
    assert json.loads(operator.registry.read_bytes())["bindings"] == [stale, fresh]
    assert status(operator, operator.root) == "read"
    assert status(operator, other) == "project_root_replaced"
    assert operator.associated(other, operator.root).said["status"] == "associated"
    assert status(operator, other) == "read"
    assert operator.status()["unmounted_roots"] == 0
