"""What the reader accepts as an acceptance, and every breach of H-36."""

import json

import pytest

from tests.adapters import answers, checks
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import acceptance, handoff_facts

WHOLE = answers.answer()
ITEM = {"kind": "job", "ref": "wc_job_1", "status": "running", "at": None}
CLASSES = list(acceptance.State)


def read(whole: object) -> dict[str, object]:
    body = json.dumps(whole).encode()
    return checks.brief_check.checked(200, body, made.PROJECT, made.SESSION_ID)


def refused(whole: object) -> str:
    with pytest.raises(checks.refusal.Refused) as refusal:
        read(whole)
    return str(refusal.value.reason)


def changed(place: str, value: object) -> answers.Answer:
    return answers.broken(WHOLE, f"output.acceptance.{place}", value)


def with_items(items: list[object], /, **counts: object) -> answers.Answer:
    evidence = {"items": items, "total": len(items), "returned": len(items), "truncated": False}
    return changed("evidence", evidence | counts)


@requirement("H-36", "A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("version", 2),
        ("version", 1.0),
        ("version", True),
        ("advisory", False),
        ("advisory", 1),
        ("state", "complete"),
        ("state", "accepted"),
        ("state", None),
        ("state", ["blocked"]),
        ("reason_codes", None),
        ("reason_codes", "open_questions"),
        ("reason_codes", ["validation_passed", "open_questions"]),
        ("reason_codes", ["open_questions", "open_questions"]),
        ("reason_codes", [f"code_{number:02d}" for number in range(17)]),
        ("reason_codes", [""]),
        ("reason_codes", ["Open"]),
        ("reason_codes", ["1st"]),
        ("reason_codes", ["_x"]),
        ("reason_codes", ["open-questions"]),
        ("reason_codes", ["x" * 65]),
        ("reason_codes", [1]),
        ("source_freshness", "proven"),
        ("source_freshness", None),
        ("evidence", None),
        ("evidence", []),
        ("evidence.items", None),
        ("evidence.items", {}),
        ("evidence.total", 99.0),
        ("evidence.total", True),
        ("evidence.returned", 0),
        ("evidence.truncated", True),
        ("evidence.truncated", 0),
        ("evidence.extra", 1),
        ("complete", True),
    ],
)
def test_each_breach_of_the_acceptance_is_refused(place: str, value: object) -> None:
    assert refused(changed(place, value)) == "handoff_acceptance_invalid"


@requirement("H-36")
@pytest.mark.parametrize(
    "key",
    [
        *("version", "advisory", "state", "reason_codes", "source_freshness", "evidence"),
        *("evidence.items", "evidence.total", "evidence.returned", "evidence.truncated"),
        *("evidence.items.0.kind", "evidence.items.0.ref", "evidence.items.0.status", "evidence.items.0.at"),
    ],
)
def test_each_key_of_the_acceptance_is_required(key: str) -> None:
    assert refused(changed(key, ...)) == "handoff_acceptance_invalid"


@requirement("H-36")
@pytest.mark.parametrize(
    "item",
    [
        None,
        ITEM | {"kind": "goal"},
        ITEM | {"kind": ["job"]},
        ITEM | {"ref": "r" * 201},
        ITEM | {"ref": "a\nb"},
        ITEM | {"ref": "a\x7fb"},
        ITEM | {"ref": "a\x9fb"},
        ITEM | {"ref": "\ud800"},
        ITEM | {"ref": 1},
        ITEM | {"status": "s" * 33},
        ITEM | {"status": None},
        ITEM | {"at": 1.5},
        ITEM | {"at": False},
        ITEM | {"body": "x"},
    ],
)
def test_each_breach_of_an_evidence_item_is_refused(item: object) -> None:
    assert refused(with_items([item])) == "handoff_acceptance_invalid"


@requirement("H-36")
def test_evidence_is_unique_bounded_and_truly_counted() -> None:
    many: list[object] = [ITEM | {"ref": f"job_{number}"} for number in range(17)]
    assert read(with_items(many[:16]))
    assert read(with_items(many[:16], total=40, truncated=True))
    assert read(with_items([ITEM, ITEM | {"kind": "run"}, ITEM | {"ref": "a\xa0b", "at": 0}]))
    for breach in (
        with_items(many),
        with_items(many, returned=16),
        with_items([ITEM, ITEM | {"status": "queued"}]),
        with_items(many[:16], total=40),
        with_items(many[:2], total=1),
        changed("evidence", {"items": {}, "total": 0, "returned": 0, "truncated": False}),
        with_items(many[:2], returned=1, truncated=True),
    ):
        assert refused(breach) == "handoff_acceptance_invalid"


@requirement("H-36")
def test_acceptance_over_its_size_is_refused() -> None:
    def sized(letters: int) -> answers.Answer:
        items: list[object] = [ITEM | {"ref": f"{number:02d}" + "漢" * 80} for number in range(12)]
        return with_items([*items, ITEM | {"ref": "x" * letters}])

    def size(whole: answers.Answer) -> int:
        return len(json.dumps(whole["output"]["acceptance"], ensure_ascii=False).encode())

    largest = 4096 - size(sized(0))
    assert read(sized(largest))
    assert refused(sized(largest + 1)) == "handoff_acceptance_invalid"


@requirement("H-36", "A-103")
def test_null_acceptance_is_a_breach_and_an_absent_one_stays_absent() -> None:
    assert refused(answers.broken(WHOLE, "output.acceptance", None)) == "handoff_acceptance_invalid"
    assert "acceptance" not in read(answers.broken(WHOLE, "output.acceptance", ...))


@requirement("H-33", "H-36")
@pytest.mark.parametrize("state", CLASSES)
def test_state_may_not_be_lower_than_a_code_it_knows(state: acceptance.State) -> None:
    for other, codes in acceptance.CODES_BY_STATE.items():
        for code in codes:
            whole = answers.broken(changed("state", state.value), "output.acceptance.reason_codes", [code])
            if CLASSES.index(other) < CLASSES.index(state):
                assert refused(whole) == "handoff_acceptance_invalid"
            else:
                assert read(whole)


@requirement("H-36")
def test_annotations_and_unlisted_codes_of_the_right_form_are_accepted_in_any_state() -> None:
    codes = sorted([*acceptance.ANNOTATIONS, "a_code_of_a_later_release", "z" * 64])
    for state in CLASSES:
        whole = answers.broken(changed("state", state.value), "output.acceptance.reason_codes", codes)
        assert read(whole)["acceptance"] == whole["output"]["acceptance"]


@requirement("H-32", "H-36")
def test_unknown_acceptance_of_an_unreadable_ledger_is_accepted() -> None:
    whole = answers.answer(made.facts(ledger=handoff_facts.Missing.LEDGER))
    assert read(whole)["acceptance"] == whole["output"]["acceptance"]
