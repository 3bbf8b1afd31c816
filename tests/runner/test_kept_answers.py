"""The kept answers of keyed changes: replays, conflicts, capacity, restarts and damage."""

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.runner import kept_answers

NOW = 1_760_000_000
DAY_S = 24 * 3600


def key(name: str, request: str = "request") -> kept_answers.Key:
    return kept_answers.Key(
        digest=kept_answers.digest(
            requested_by="bootstrap", client_id="my-runner", project_id="demo", key=name
        ).hex(),
        request_hash=hashlib.sha256(request.encode()).hexdigest(),
    )


def keep(answers: kept_answers.KeptAnswers, name: str, now: int = NOW, **answer: Any) -> None:
    with answers.make_room(key(name), now):
        answers.keep(key(name), answer, now)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three answers, so that the rule of the full store is met without thousands of files."""
    monkeypatch.setattr(kept_answers, "MOST", 3)


@requirement("R-57")
def test_a_digest_covers_the_principal_the_canonical_project_and_the_key() -> None:
    made = kept_answers.digest(requested_by="p", client_id="c", project_id="d", key="k")
    assert made == hashlib.sha256(b"p\0agent:c:d\0k").digest()
    assert (kept_answers.MOST, kept_answers.KEPT_FOR_S) == (4096, DAY_S)


@requirement("R-57")
def test_an_answer_is_found_again_by_the_same_request_also_after_a_restart(tmp_path: Path) -> None:
    answers = kept_answers.KeptAnswers(tmp_path)
    assert answers.find(key("k")) is None
    keep(answers, "k", job_id="wc_job_ü")
    for store in (answers, kept_answers.KeptAnswers(tmp_path)):
        assert store.find(key("k")) == {"job_id": "wc_job_ü"}
        with pytest.raises(kept_answers.Conflict):
            store.find(key("k", "another request"))
        with pytest.raises(kept_answers.Conflict), store.make_room(key("k"), NOW):
            pass
        with pytest.raises(kept_answers.Conflict):
            store.keep(key("k"), {"job_id": "other"}, NOW)
    [file] = answers.directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(answers.directory.stat().st_mode) == 0o700


@requirement("R-57")
def test_a_place_is_given_back_where_nothing_was_kept_and_held_by_one_only(tmp_path: Path) -> None:
    answers = kept_answers.KeptAnswers(tmp_path)
    with answers.make_room(key("k"), NOW):
        with pytest.raises(kept_answers.Conflict), answers.make_room(key("k"), NOW):
            pass
        with answers.make_room(key("other"), NOW):
            pass
    keep(answers, "k")
    assert answers.find(key("k")) == {}


@requirement("R-57")
@pytest.mark.usefixtures("few")
def test_a_new_key_is_refused_until_the_oldest_answer_is_a_day_old(tmp_path: Path) -> None:
    for age, name in enumerate(("old", "middle", "young")):
        keep(kept_answers.KeptAnswers(tmp_path), name, NOW + age)
    answers = kept_answers.KeptAnswers(tmp_path)
    with pytest.raises(kept_answers.Full):
        keep(answers, "new", NOW + DAY_S - 1)
    assert (answers.find(key("new")), answers.find(key("old"))) == (None, {})
    keep(answers, "new", NOW + DAY_S)
    found = [answers.find(key(name)) for name in ("old", "middle", "young", "new")]
    assert found == [None, {}, {}, {}]
    with pytest.raises(kept_answers.Full):
        keep(answers, "newer", NOW + DAY_S)
    keep(answers, "newer", NOW + DAY_S + 1)
    assert len(list(answers.directory.iterdir())) == 3


@requirement("R-57")
@pytest.mark.usefixtures("few")
def test_answers_kept_while_the_clock_was_ahead_leave_a_day_after_they_are_seen(tmp_path: Path) -> None:
    for name in "abc":
        keep(kept_answers.KeptAnswers(tmp_path), name, NOW + 365 * DAY_S)
    answers = kept_answers.KeptAnswers(tmp_path)
    for now in (NOW, NOW + DAY_S - 1):
        with pytest.raises(kept_answers.Full):
            keep(answers, "new", now)
    keep(answers, "new", NOW + DAY_S)
    assert len(list(answers.directory.iterdir())) == 3


@requirement("R-57")
@pytest.mark.usefixtures("few")
def test_places_that_are_held_count_as_kept(tmp_path: Path) -> None:
    answers = kept_answers.KeptAnswers(tmp_path)
    keep(answers, "a")
    with (
        answers.make_room(key("b"), NOW),
        answers.make_room(key("c"), NOW),
        pytest.raises(kept_answers.Full),
        answers.make_room(key("d"), NOW),
    ):
        pass
    keep(answers, "d")


@requirement("R-57")
@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"request_hash":1}', b"x" * 1_048_577])
def test_a_damaged_answer_fails_its_own_key_only(tmp_path: Path, content: bytes) -> None:
    for name in ("damaged", "sound"):
        keep(kept_answers.KeptAnswers(tmp_path), name)
    damaged = tmp_path / "kept-answers" / f"{key('damaged').digest}.json"
    damaged.write_bytes(content)
    os.utime(damaged, (NOW - 1, NOW - 1))
    answers = kept_answers.KeptAnswers(tmp_path)
    for _ in range(2):
        with pytest.raises(kept_answers.Damaged):
            answers.find(key("damaged"))
        with pytest.raises(kept_answers.Conflict), answers.make_room(key("damaged"), NOW):
            pass
    assert answers.find(key("sound")) == {}
    keep(answers, "third")
    with pytest.raises(kept_answers.Full):
        keep(answers, "new", NOW + DAY_S - 2)
    keep(answers, "new", NOW + DAY_S - 1)
    assert answers.find(key("damaged")) is None


@requirement("R-57")
def test_an_answer_moved_to_another_key_or_opened_to_others_is_not_served(tmp_path: Path) -> None:
    answers = kept_answers.KeptAnswers(tmp_path)
    keep(answers, "k")
    keep(answers, "open")
    folder = answers.directory
    (folder / f"{key('k').digest}.json").rename(folder / f"{key('other').digest}.json")
    (folder / f"{key('open').digest}.json").chmod(0o644)
    for name in ("other", "open"):
        with pytest.raises(kept_answers.Damaged):
            answers.find(key(name))


@requirement("R-57")
def test_what_a_cut_short_write_left_is_removed_and_strangers_are_ignored(tmp_path: Path) -> None:
    folder = kept_answers.KeptAnswers(tmp_path).directory
    (folder / f".{key('k').digest}.json.77").write_bytes(b"{")
    (folder / "notes.json").write_bytes(b"{")
    answers = kept_answers.KeptAnswers(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["notes.json"]
    assert answers.find(key("k")) is None


@requirement("R-57")
def test_a_write_that_failed_keeps_nothing_and_takes_no_place(tmp_path: Path) -> None:
    answers = kept_answers.KeptAnswers(tmp_path)
    answers.directory.rename(tmp_path / "away")
    with pytest.raises(OSError, match="No such file"):
        keep(answers, "k")
    (tmp_path / "away").rename(answers.directory)
    assert answers.find(key("k")) is None
    keep(answers, "k")
    assert answers.find(key("k")) == {}


@requirement("R-57")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(1, DAY_S), st.booleans()), max_size=20)
)
@pytest.mark.usefixtures("few")
def test_any_sequence_keeps_each_answer_a_day_and_never_more_than_fit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool]]
) -> None:
    state = tmp_path_factory.mktemp("state")
    answers, now, model = kept_answers.KeptAnswers(state), NOW, dict[str, int]()
    for name, passes_s, restarts in steps:
        now += passes_s
        answers = kept_answers.KeptAnswers(state) if restarts else answers
        oldest = min(model, key=lambda kept: model[kept], default=None)
        if name in model:
            assert answers.find(key(name)) == {"at": model[name]}
            continue
        if oldest is not None and len(model) == 3:
            if now - model[oldest] < DAY_S:
                with pytest.raises(kept_answers.Full):
                    keep(answers, name, now, at=now)
                continue
            del model[oldest]
        keep(answers, name, now, at=now)
        model[name] = now
    assert {name for name in "abcdef" if answers.find(key(name)) is not None} == set(model)
