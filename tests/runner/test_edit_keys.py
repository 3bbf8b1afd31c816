"""Edits that carry a key are made once, and edits at once take turns."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.runner.edit_place import (
    NOW,
    answer_of,
    asked,
    create,
    edits_of,
    records,
    write,
)
from tests.runner.place import Place
from webcodex.runner import kept_answers

MIB = 1024 * 1024


@requirement("R-57")
def test_a_key_is_answered_once_over_restarts_and_for_its_principal_only(place: Place, folder: Path) -> None:
    body = asked(write("a.txt", "A", "B"), key=" k ")
    first = answer_of(edits_of(place), folder, body)
    (folder / "a.txt").write_text("C")
    again = answer_of(edits_of(place), folder, asked(write("a.txt", "A", "B"), key="k"))
    assert again == {**first, "replayed": True, "state_changed": False}
    other = answer_of(edits_of(place), folder, asked(write("a.txt", "A", "X"), key="k"))
    assert other == {"error": "idempotency_conflict", "execution": "not_started"}
    stranger = answer_of(edits_of(place), folder, body, by="somebody")
    assert stranger["error"] == "edit_precondition_failed"
    assert (folder / "a.txt").read_text() == "C"


@requirement("R-57")
def test_a_refusal_is_not_kept_and_a_full_store_takes_no_new_key(
    place: Place, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_answers, "MOST", 1)
    edits = edits_of(place)
    body = asked(write("a.txt", "B", "C"), key="k")
    assert answer_of(edits, folder, body)["error"] == "edit_precondition_failed"
    (folder / "a.txt").write_text("B")
    assert answer_of(edits, folder, body)["replayed"] is False
    new = asked(create("n", "N"), key="new")
    assert answer_of(edits, folder, new) == {"error": "idempotency_capacity", "execution": "not_started"}
    assert not (folder / "n").exists()
    assert answer_of(edits, folder, asked(create("keyless", "N")))["applied"] is True
    assert answer_of(edits, folder, body)["replayed"] is True
    assert answer_of(edits_of(place, NOW + kept_answers.KEPT_FOR_S), folder, new)["applied"] is True


@requirement("R-55", "R-57")
def test_edits_at_once_take_turns(place: Place, folder: Path) -> None:
    edits = edits_of(place)
    bodies = [asked(write("a.txt", "A", f"B{number}")) for number in range(4)]
    bodies += [asked(create("n", "N"), key="k")] * 4
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: answer_of(edits, folder, body), bodies))
    written, created = answers[:4], answers[4:]
    assert [answer.get("error") for answer in written].count("edit_precondition_failed") == 3
    assert sorted(answer["replayed"] for answer in created) == [False, True, True, True]
    assert records(place) == [".json"]
