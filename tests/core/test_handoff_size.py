"""How a brief stays below its size, and what is never taken out of it (H-41, H-62)."""

import json
from typing import Any

import pytest

from tests.core import brief_schema
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff, handoff_facts, handoff_size

Kind = handoff_facts.MessageKind
LARGEST_INSTRUCTION = '"' * 200 + "😀" * 400  # 600 chars, 1,800 bytes, 2,000 bytes as JSON
LARGEST_COUNT = 10**18
ORDER = [
    ("progress", "recent_files"),
    ("progress", "changes"),
    ("validation", "open_failures"),
    ("task", "recent_progress"),
    ("task", "decisions"),
]


def size(brief: object) -> int:
    return len(json.dumps(brief, ensure_ascii=False).encode())


def brief(facts: handoff_facts.HandoffFacts) -> dict[str, Any]:
    return dict(handoff.brief(facts))


def reports(number: int) -> tuple[object, ...]:
    return tuple(made.report(place, -(2**31), tool="T" * 64, recorded_at=2**53) for place in range(number))


def worst(text: str, paths: int, messages: int, failures: int, reported: int) -> handoff_facts.HandoffFacts:
    """Makes a history whose every text is ``text`` and whose every list is too long."""
    long_path = "/".join(["漢" * 40] * 4)
    return made.facts(
        session=made.session(
            session_id="wc_sess_" + "s" * 128,
            title=text * 8,
            latest_instruction=text * 8,
            meaningful_tool_calls=LARGEST_COUNT,
        ),
        ledger=handoff_facts.Ledger(
            events=tuple(
                handoff_facts.PathEvent(write_like=True, changed_paths=(f"{number:03d}/{long_path}",))
                for number in range(paths)
            )
        ),
        messages=tuple(
            made.message(number, Kind.DECISION if number % 2 else Kind.PROGRESS, text=text * 8)
            for number in range(messages)
        ),
        validation=handoff_facts.Validation(
            status=handoff_facts.ValidationStatus.FAILED,
            scopes=tuple(
                made.scope(number, handoff_facts.Verdict.FAILED, identity=f"{number:03d}" + "f" * 220)
                for number in range(failures)
            ),
        ),
        jobs=handoff_facts.Jobs(terminal_pending=LARGEST_COUNT),
        workspace=made.git(
            branch='"' * 200,
            head="f" * 64,
            dirty=False,
            conflicted=False,
            ahead=LARGEST_COUNT,
            behind=LARGEST_COUNT,
        ),
        reports=reports(reported),
        changed=frozenset(handoff_facts.Changed),
    )


@requirement("H-41", "H-62")
@pytest.mark.parametrize(
    "text", ["\x00\x1f\x7f\x85", '"', "\\", "😀", "漢", "a", LARGEST_INSTRUCTION, '😀"\x00漢\\']
)
def test_worst_history_fits_with_its_core_and_five_reports(text: str) -> None:
    facts = worst(text, paths=100, messages=200, failures=20, reported=256)
    shown = brief(facts)
    assert size(shown) < 8192
    assert size(shown) == size(brief(facts))
    brief_schema.brief(shown, "brief")
    assert len(shown["external_observations"]["observations"]) == 5
    assert shown["external_observations"]["total"] == 256
    assert shown["task"]["root_instruction"]["excerpt"] == shown["task"]["latest_instruction"]["excerpt"]
    assert shown["session"]["session_id"] == "wc_sess_" + "s" * 128
    assert shown["progress"]["state"] == "blocked"
    assert shown["progress"]["changes"]["total"] == 100
    assert shown["progress"]["recent_files"] == {"items": [], "total": 100, "returned": 0, "truncated": True}
    assert shown["validation"]["open_failures"]["total"] == 20
    assert shown["task"]["decisions"]["total"] == shown["task"]["recent_progress"]["total"] == 100
    assert shown["basis"]["reason_codes"] == sorted(handoff_facts.Changed)


@requirement("H-41", "H-62")
def test_what_is_never_dropped_fits_at_its_largest() -> None:
    facts = worst(LARGEST_INSTRUCTION, paths=0, messages=0, failures=0, reported=256)
    shown = brief(facts)
    assert size(shown["task"]["root_instruction"]["excerpt"]) == 2000 + len('""')
    shown["next_actions"] = []
    assert size(shown) < 8192


@requirement("H-41", "H-62")
def test_what_is_never_dropped_fits_without_any_source() -> None:
    missing = handoff_facts.Missing
    shown = brief(
        made.facts(
            session=made.session(title=LARGEST_INSTRUCTION, latest_instruction=LARGEST_INSTRUCTION),
            ledger=missing.LEDGER,
            messages=missing.MESSAGES,
            validation=missing.VALIDATION_NOT_REQUESTED,
            jobs=missing.JOBS,
            workspace=missing.WORKSPACE,
            reports=reports(256),
            changed=frozenset(handoff_facts.Changed),
        )
    )
    assert size(shown) < 8192
    assert len(shown["basis"]["reason_codes"]) == 7


@requirement("H-41")
def test_lists_are_shortened_in_order_and_no_further_than_needed() -> None:
    # Ever larger messages push out one list after the other; each is empty before the next is touched.
    shortened: list[int] = []
    for length in range(0, 241, 4):
        shown = brief(worst("漢" * (length // 8), paths=12, messages=10, failures=5, reported=5))
        missing = [
            shown[section][name]["total"] - shown[section][name]["returned"] for section, name in ORDER
        ]
        for place, (section, name) in enumerate(ORDER):
            assert shown[section][name]["truncated"] == (missing[place] > 0)
            if missing[place] > (4 if name == "recent_files" else 0):
                assert all(shown[earlier][part]["returned"] == 0 for earlier, part in ORDER[:place])
        shortened.append(sum(missing))
    assert shortened == sorted(shortened)
    assert shortened[0] < shortened[-1]


@requirement("H-41")
def test_a_brief_just_below_the_limit_keeps_every_item() -> None:
    def shown_with(letters: int) -> dict[str, Any]:
        instruction = made.session(title="a" * 600, latest_instruction="漢" * 600)
        messages = tuple(made.message(number, Kind.DECISION, text="漢" * 240) for number in range(3))
        ledger = handoff_facts.Ledger(
            events=(handoff_facts.PathEvent(observed_paths=("b" * 500, "c" * 500, "d" * letters)),)
        )
        return brief(
            made.facts(
                session=instruction, messages=messages, ledger=ledger, workspace=made.git(branch="b" * 100)
            )
        )

    largest = max(
        letters
        for letters in range(1, 500)
        if not shown_with(letters)["progress"]["recent_files"]["truncated"]
    )
    assert size(shown_with(largest)) == 8191
    assert shown_with(largest + 1)["progress"]["recent_files"]["returned"] == 2


@requirement("H-41")
def test_actions_are_dropped_last() -> None:
    part = handoff_size.Part
    parts = {
        name: handoff_size.first(("x" * 4000, "y" * 5000), 2) for name in (part.DECISIONS, part.NEXT_ACTIONS)
    }
    others = {name: handoff_size.first((), 0) for name in part if name not in parts}
    shown = handoff_size.fitted(
        parts | others, lambda now: {name.value: list(now[name].items) for name in part}
    )
    assert shown["decisions"] == []
    assert shown["next_actions"] == ["x" * 4000]
