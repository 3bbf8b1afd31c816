"""What holds for the handoff of every history (H-01, H-15, H-41, H-63)."""

import copy
import json
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given

from tests.core import brief_schema, handoff_histories
from tests.requirements import requirement
from webcodex.core import acceptance, handoff, handoff_facts, handoff_text, observations, redaction
from webcodex.core.json_value import Json, JsonObject

SIZE_WITH_ROOM_FOR_REPORTS = 8192 - 5 * 400


def unshortened(brief: JsonObject) -> JsonObject:
    """Returns the brief without its reports and without what H-41 may shorten."""
    shortened = {"items", "returned", "truncated"}

    def kept(value: object) -> Json:
        if isinstance(value, dict):
            return {key: kept(item) for key, item in value.items() if key not in shortened}
        return value  # type: ignore[return-value]  # a brief holds JSON

    left_out = {"external_observations", "next_actions"}
    return {key: kept(value) for key, value in brief.items() if key not in left_out}


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@requirement("H-01", "H-41", "H-63")
@given(handoff_histories.histories)
def test_every_brief_is_closed_exact_and_below_its_size(facts: handoff_facts.HandoffFacts) -> None:
    brief = handoff.brief(facts)
    brief_schema.brief(brief, "brief")
    assert len(json.dumps(brief, ensure_ascii=False).encode()) < 8192


@requirement("H-01", "H-63")
@given(handoff_histories.histories)
def test_same_facts_give_the_same_bytes(facts: handoff_facts.HandoffFacts) -> None:
    twin = copy.deepcopy(facts)
    assert json.dumps(handoff.brief(facts)) == json.dumps(handoff.brief(twin))
    assert json.dumps(acceptance.acceptance(facts)) == json.dumps(acceptance.acceptance(twin))


@requirement("S-21", "S-24", "H-05", "H-06", "H-07", "H-08")
@given(handoff_histories.histories)
def test_no_credential_stands_in_any_handoff(facts: handoff_facts.HandoffFacts) -> None:
    shown = [handoff.brief(facts), acceptance.acceptance(facts)]
    assert [text for text in strings(shown) if redaction.holds_credential(text)] == []


@requirement("H-30", "H-33", "H-35", "H-63")
@given(handoff_histories.histories)
def test_every_acceptance_is_closed_exact_and_within_its_size(facts: handoff_facts.HandoffFacts) -> None:
    shown = acceptance.acceptance(facts)
    if shown is None:
        assert not acceptance.has_native_evidence(facts)
        return
    brief_schema.acceptance(shown, "acceptance")
    assert handoff_text.size_bytes(shown) <= 4096


@requirement("H-14", "H-15", "H-34", "H-63")
@given(handoff_histories.histories, handoff_histories.reports_drawn)
def test_external_reports_change_nothing_but_their_own_block(
    facts: handoff_facts.HandoffFacts, reports: tuple[observations.Observation, ...]
) -> None:
    bare, reported = replace(facts, reports=()), replace(facts, reports=reports)
    before, after = handoff.brief(bare), handoff.brief(reported)
    if handoff_text.size_bytes(before) < SIZE_WITH_ROOM_FOR_REPORTS:
        assert before | after == after | before | {"external_observations": after["external_observations"]}
    assert unshortened(before) == unshortened(after)
    judged, rejudged = acceptance.acceptance(bare), acceptance.acceptance(reported)
    assert (judged is None) == (rejudged is None)
    if judged is not None and rejudged is not None:
        assert judged["state"] == rejudged["state"]
