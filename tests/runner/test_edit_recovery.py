"""Edits that were interrupted: by a kill after each effect, by others, and by what cannot be undone."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner.crash_points import AFTER, BEFORE, BODY, build, editing
from tests.runner.edit_place import answer_of, asked, create, edits_of, records, tree, write
from tests.runner.place import Place, registered

UNDONE_LIVE = {**BEFORE, "n": None, "n/m": None, "n/m/x.txt": b"OTHER"}


@dataclass(frozen=True)
class Interruption:
    """What a killed process left, and after which effect."""

    road: str
    step: str
    place: Place

    @property
    def folder(self) -> Path:
        return self.place.root / "work" / "demo"

    @property
    def is_committed(self) -> bool:
        return self.step.startswith(("committed", "commit synced", "swept"))


def interruptions(base: Path, *roads: str) -> list[Interruption]:
    """Returns every interruption of some roads, at each effect there is."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.runner.crash_points", str(base), *roads],
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return [
        Interruption(road=line["road"], step=line["step"], place=Place(base / line["folder"]))
        for line in lines
    ]


def restarted(found: Interruption) -> dict[str, Any]:
    """Recovers as a start does, and returns what the same request with the same key then answers."""
    edits = edits_of(found.place)
    edits.recover([registered(found.folder)])
    assert ".intent" not in records(found.place)
    assert ".unswept" not in records(found.place)
    return answer_of(edits, found.folder, BODY)


def recovered_tree(found: Interruption) -> dict[str, bytes | None]:
    edits_of(found.place).recover([registered(found.folder)])
    return tree(found.folder)


@requirement("R-55", "R-57")
def test_a_kill_after_any_effect_leaves_all_old_or_all_new_once_recovered(tmp_path: Path) -> None:
    found = interruptions(tmp_path.resolve(), "editing", "recovering", "sweeping")
    committed = [each.is_committed or each.road == "sweeping" for each in found]
    assert {each.road for each in found} == {"editing", "recovering", "sweeping"}
    assert any(committed)
    assert not all(committed)
    for number, (each, is_committed) in enumerate(zip(found, committed, strict=True)):
        assert recovered_tree(each) == (AFTER if is_committed else BEFORE), each
        assert records(each.place) == ([".json"] if is_committed else []), each
        if number % 5:
            continue
        answer = restarted(each)
        assert (answer["applied"], answer["replayed"]) == (True, is_committed), each
        assert tree(each.folder) == AFTER, each


@requirement("R-55", "R-56")
def test_a_kill_during_the_undo_after_somebody_else_wrote_is_reported_as_diverged(tmp_path: Path) -> None:
    found = interruptions(tmp_path.resolve(), "undoing")
    steps = [each.step for each in found]
    first_undone = next(number for number, step in enumerate(steps) if step.startswith("undone"))
    assert len(steps) - first_undone >= 7
    for each in found[first_undone:-1]:
        assert recovered_tree(each) == UNDONE_LIVE, each
        answer = restarted(each)
        assert (answer["error"], answer["execution"]) == ("edit_recovery_diverged", "completed"), each
        other = {"path": "n/m/x.txt", "state": "other", "backup": None}
        assert other in answer["paths"]
        assert {item["state"] for item in answer["paths"] if item != other} == {"old"}
        assert restarted(each) == answer
    assert steps[-1] == "withdrawn"
    assert recovered_tree(found[-1]) == UNDONE_LIVE


@requirement("R-55", "R-56", "R-57")
def test_what_others_wrote_before_the_recovery_is_left_with_its_backup_and_reported(tmp_path: Path) -> None:
    for each in interruptions(tmp_path.resolve(), "editing"):
        others = each.folder / "others"
        others.write_bytes(b"OUTSIDE")
        others.rename(each.folder / "a.txt")
        if each.is_committed:
            assert recovered_tree(each) == {**AFTER, "a.txt": b"OUTSIDE"}, each
            continue
        answer = restarted(each)
        assert (answer["error"], answer["execution"]) == ("edit_recovery_diverged", "completed"), each
        outcome = answer["paths"][0]
        assert (outcome["path"], outcome["state"]) == ("a.txt", "other")
        left = {} if outcome["backup"] is None else {outcome["backup"]: b"A"}
        assert tree(each.folder) == {**BEFORE, "a.txt": b"OUTSIDE", **left}, each
        assert {item["state"] for item in answer["paths"][1:]} == {"old"}
        assert all(item["backup"] is None for item in answer["paths"][1:])
        assert restarted(each) == answer


@pytest.fixture
def interrupted(tmp_path: Path) -> Interruption:
    """An edit given up right after it deleted a file, in the middle of its changes."""
    place, folder = build(tmp_path.resolve() / "place")
    step = next(step for step in editing(place, folder) if step == "changed d.txt")
    return Interruption(road="editing", step=step, place=place)


@requirement("R-55")
def test_an_edit_of_an_unregistered_root_stays_open_until_it_is_registered_again(
    interrupted: Interruption,
) -> None:
    edits = edits_of(interrupted.place)
    edits.recover([])
    assert records(interrupted.place) == [".intent"]
    assert (interrupted.folder / "a.txt").read_bytes() == b"B"
    answer = answer_of(edits, interrupted.folder, asked(write("a.txt", "A", "C")))
    assert answer["applied"] is True
    assert tree(interrupted.folder) == {**BEFORE, "a.txt": b"C"}
    assert records(interrupted.place) == []


@requirement("R-55", "R-56")
def test_no_edit_of_a_root_begins_while_an_earlier_one_cannot_be_closed(interrupted: Interruption) -> None:
    folder = interrupted.folder
    [temporary] = [path for path in folder.iterdir() if path.name.endswith(".new")]
    temporary.unlink()
    temporary.mkdir()
    edits = edits_of(interrupted.place)
    edits.recover([registered(folder)])
    assert records(interrupted.place) == [".intent"]
    held = tree(folder)
    for body in (asked(create("new.txt", "N")), BODY):
        for root in (folder, folder / "sub"):
            answer = answer_of(edits, root, body)
            assert (answer["error"], answer["execution"]) == ("edit_outcome_unknown", "not_started")
            assert set(answer["paths"]) == {"a.txt", "n/m/x.txt", "d.txt", "r.txt", "sub/w.txt"}
    assert tree(folder) == held
    temporary.rmdir()
    assert answer_of(edits, folder, BODY)["applied"] is True
    assert tree(folder) == AFTER


@requirement("R-55", "R-57")
@pytest.mark.parametrize("content", [b"", b"{}", b'{"digest":'])
def test_a_damaged_intent_makes_its_own_key_unknown_and_no_other(
    interrupted: Interruption, content: bytes
) -> None:
    [intent] = (interrupted.place.state_dir / "kept-answers").glob("*.intent")
    intent.write_bytes(content)
    edits = edits_of(interrupted.place)
    edits.recover([registered(interrupted.folder)])
    answer = answer_of(edits, interrupted.folder, BODY)
    assert (answer["error"], answer["execution"]) == ("edit_outcome_unknown", "outcome_unknown")
    other = answer_of(edits, interrupted.folder, asked(create("new.txt", "N"), key="other"))
    assert other["applied"] is True
    assert intent.read_bytes() == content


@requirement("R-11", "R-55")
def test_a_recovery_follows_no_link_that_came_into_the_way(interrupted: Interruption) -> None:
    folder = interrupted.folder
    outside = interrupted.place.root / "outside"
    (folder / "sub").rename(outside)
    (folder / "sub").symlink_to(outside)
    before = tree(outside)
    edits_of(interrupted.place).recover([registered(folder)])
    answer = answer_of(edits_of(interrupted.place), folder, BODY)
    assert answer["error"] == "edit_recovery_diverged"
    assert answer["paths"][-1] == {"path": "sub/w.txt", "state": "unreadable", "backup": None}
    assert tree(outside) == before
    (folder / "sub").unlink()
    assert tree(folder) == {name: held for name, held in BEFORE.items() if not name.startswith("sub")}


@requirement("R-55")
def test_a_backup_that_others_changed_is_never_put_back(interrupted: Interruption) -> None:
    folder = interrupted.folder
    [temporary] = [path for path in folder.iterdir() if path.name.endswith(".new")]
    for backup in folder.glob(".wc-*.old"):
        if backup.read_bytes() == b"A":
            backup.write_bytes(b"TORN")
        elif backup.read_bytes() == b"D":
            backup.unlink()
    edits_of(interrupted.place).recover([registered(folder)])
    answer = answer_of(edits_of(interrupted.place), folder, BODY)
    assert answer["error"] == "edit_recovery_diverged"
    by_path = {item["path"]: item for item in answer["paths"]}
    assert by_path["a.txt"]["state"] == "new"
    assert (folder / "a.txt").read_bytes() == b"B"
    assert (folder / by_path["a.txt"]["backup"]).read_bytes() == b"TORN"
    assert by_path["d.txt"] == {"path": "d.txt", "state": "absent", "backup": None}
    assert not temporary.exists()
