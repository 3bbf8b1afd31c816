"""What the handoff reader accepts and refuses, check by check (A-40 from 3 to 8, H-14)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.adapters import answers, checks
from tests.core import handoff_histories as made
from tests.core import test_goal_context as goals
from tests.requirements import requirement
from webcodex.core import goal_context, handoff_facts

BRIEF = "output.handoff_brief"
REPORTS = f"{BRIEF}.external_observations"
UNREAD = answers.answer(made.facts(reports=handoff_facts.ReportsMissing.STORE))
FEW = answers.answer(made.facts(reports=(made.report(1), made.report(2, 0))))


def checked(body: bytes, status: int = 200) -> dict[str, object]:
    return checks.brief_check.checked(status, body, made.PROJECT, made.SESSION_ID)


def refusal(whole: object, status: int = 200) -> str:
    with pytest.raises(checks.refusal.Refused) as refused:
        checked(whole if isinstance(whole, bytes) else answers.body(whole), status)
    return str(refused.value.reason)


@requirement("H-14", "H-20", "H-21", "H-36", "H-63", "A-40")
@settings(max_examples=25)
@given(made.histories, goals.goals_drawn)
def test_reader_accepts_every_handoff_the_product_makes(
    facts: handoff_facts.HandoffFacts, linked: tuple[goal_context.Goal, ...]
) -> None:
    whole = answers.answer(facts, linked)
    output = whole["output"]
    parts = {key: output[key] for key in ("handoff_brief", "goal_context", "acceptance") if key in output}
    assert checked(answers.body(whole)) == parts


@requirement("A-40", "H-20")
def test_reader_accepts_a_goal_store_that_was_away_and_a_null_context() -> None:
    away = goal_context.goal_context(goal_context.Goals.UNAVAILABLE)
    assert (
        checked(answers.body(answers.broken(answers.answer(), "output.goal_context", away)))["goal_context"]
        == away
    )
    null = answers.broken(answers.answer(), "output.goal_context", None)
    assert "goal_context" not in checked(answers.body(null))


@requirement("A-40", "A-41")
def test_parts_the_reader_does_not_know_are_dropped() -> None:
    whole = answers.answer() | {"note": "x"}
    whole["output"]["transcript"] = "x"
    assert set(checked(answers.body(whole))) == {"handoff_brief", "goal_context", "acceptance"}


@requirement("A-40")
@pytest.mark.parametrize("status", [199, 300, 301, 302, 307, 400, 401, 403, 404, 500, 503])
def test_answer_that_is_no_tool_result_is_unconfirmed(status: int) -> None:
    assert refusal({"status": status, "error": "x"}, status) == "handoff_read_unconfirmed"
    assert refusal(b"", status) == "handoff_read_unconfirmed"


@requirement("A-40", "A-05")
@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"null",
        b"{",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b'{"success": NaN}',
        b'{"a": "\xff"}',
        b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
)
def test_body_that_is_no_json_object_is_unconfirmed(body: bytes) -> None:
    expected = {"handoff_read_unconfirmed"}
    if body.startswith(b'{"a":9'):
        expected.add("handoff_read_failed")  # an interpreter without a limit on digits reads it
    assert refusal(body) in expected


@requirement("A-40", "A-107")
def test_refusal_of_the_tool_is_a_failed_read() -> None:
    refused = {"success": False, "output": {"error_kind": "unknown_session_id"}, "error": "x"}
    assert refusal(refused, 400) == "handoff_read_failed"
    assert refusal(refused, 500) == "handoff_read_unconfirmed"
    assert refusal(refused) == "handoff_read_failed"
    assert refusal(answers.answer(), 400) == "handoff_read_unconfirmed"


@requirement("A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("success", 1),
        ("success", "true"),
        ("success", ...),
        ("output", ...),
        ("output", None),
        ("output", []),
    ],
)
def test_result_without_success_or_output_is_a_failed_read(place: str, value: object) -> None:
    assert refusal(answers.broken(answers.answer(), place, value)) == "handoff_read_failed"


@requirement("A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("output.project", "agent:r1:other"),
        ("output.project", ...),
        ("output.session_id", "wc_sess_other"),
        ("output.session_id", None),
        ("output.handoff_brief", ...),
        ("output.handoff_brief", None),
        ("output.handoff_brief", []),
        ("output.handoff_brief.session", None),
        ("output.handoff_brief.session.session_id", "wc_sess_other"),
        ("output.handoff_brief.session.session_id", ...),
    ],
)
def test_handoff_of_anything_else_is_an_identity_mismatch(place: str, value: object) -> None:
    assert refusal(answers.broken(answers.answer(), place, value)) == "handoff_identity_mismatch"


@requirement("A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("basis", ...),
        ("basis", None),
        ("basis", []),
        ("basis.complete", ...),
        ("basis.complete", 0),
        ("basis.complete", True),
        ("basis.reason_codes", ...),
        ("basis.reason_codes", "workspace_not_requested"),
        ("basis.reason_codes", []),
    ],
)
def test_basis_that_is_missing_or_contradicts_itself_is_refused(place: str, value: object) -> None:
    assert refusal(answers.broken(answers.answer(), f"{BRIEF}.{place}", value)) == "handoff_basis_missing"


@requirement("A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("version", 2),
        ("version", True),
        ("version", 1.0),
        ("version", ...),
        ("deterministic", False),
        ("deterministic", 1),
        ("deterministic", ...),
        ("llm_summary", True),
        ("llm_summary", "a model wrote this"),
        ("llm_summary", ...),
        ("note", "x" * 8192),
        ("note", "漢" * 2700),
        ("note", "\ud800"),
    ],
)
def test_brief_that_is_not_deterministic_and_small_is_refused(place: str, value: object) -> None:
    whole = answers.broken(answers.answer(), f"{BRIEF}.{place}", value)
    assert refusal(json.dumps(whole).encode()) == "handoff_contract_invalid"


@requirement("A-40", "H-41")
def test_size_of_a_brief_is_measured_as_the_product_measures_it() -> None:
    whole = answers.answer()
    room = 8191 - len(answers.body(whole["output"]["handoff_brief"])) - len(', "note": ""')
    fits = answers.broken(whole, f"{BRIEF}.note", "x" * room)
    assert checked(answers.body(fits))["handoff_brief"] == fits["output"]["handoff_brief"]
    assert refusal(answers.broken(whole, f"{BRIEF}.note", "x" * (room + 1))) == "handoff_contract_invalid"


BREACHES: list[tuple[str, Any]] = [
    ("status", "partial"),
    ("status", "unavailable"),
    ("reason_code", "store_unavailable"),
    ("provenance", "native"),
    ("coverage", None),
    ("coverage.complete", True),
    ("coverage.complete", 0),
    ("coverage.reason", "read_unavailable"),
    ("coverage.ordering", "source_sequence"),
    ("coverage.extra", 1),
    ("total", None),
    ("total", 257),
    ("total", 7.0),
    ("total", True),
    ("total", 4),
    ("returned", 4),
    ("returned", "5"),
    ("truncated", False),
    ("truncated", 1),
    ("unknown_count", -1),
    ("unknown_count", 2),
    ("unknown_count", 6),
    ("unknown_count", None),
    ("observations", None),
    ("observations", []),
    ("observations", {}),
    ("observations.0", None),
    ("observations.0.adapter_id", "A" * 64),
    ("observations.0.adapter_id", "a" * 63),
    ("observations.0.event_id", 7),
    ("observations.0.tool", ""),
    ("observations.0.tool", "a b"),
    ("observations.0.tool", "é"),
    ("observations.0.tool", "T" * 65),
    ("observations.0.exit_code", 2**31),
    ("observations.0.exit_code", False),
    ("observations.0.exit_code", 0),
    ("observations.0.exit_code", None),
    ("observations.0.recorded_at", 0),
    ("observations.0.recorded_at", made.NOW + 9),
    ("observations.0.status", "success"),
    ("observations.0.status", "unknown"),
    ("observations.0.command", "rm"),
    ("command", "rm"),
]
REQUIRED = ["status", "reason_code", "provenance", "coverage", "total", "returned", "truncated"]


@requirement("A-40", "H-14", "O-08", "A-104")
@pytest.mark.parametrize(("place", "value"), BREACHES)
def test_each_breach_of_the_external_block_is_refused(place: str, value: object) -> None:
    whole = answers.broken(answers.answer(), f"{REPORTS}.{place}", value)
    assert refusal(whole) == "handoff_external_observations_missing"


@requirement("A-40", "H-14")
@pytest.mark.parametrize("key", [*REQUIRED, "unknown_count", "observations", "observations.0.status"])
def test_each_key_of_the_external_block_is_required(key: str) -> None:
    whole = answers.broken(answers.answer(), f"{REPORTS}.{key}", ...)
    assert refusal(whole) == "handoff_external_observations_missing"


@requirement("A-40", "H-14")
def test_missing_block_is_refused_and_reports_come_in_order_and_once() -> None:
    whole = answers.answer()
    shown = whole["output"]["handoff_brief"]["external_observations"]["observations"]
    blocks: tuple[object, ...] = (..., None, [])
    for block in blocks:
        assert refusal(answers.broken(whole, REPORTS, block)) == "handoff_external_observations_missing"
    for items in ([*shown[1:], shown[0]], [*shown[:4], shown[3]], shown[:4]):
        assert refusal(answers.broken(whole, f"{REPORTS}.observations", items)) == (
            "handoff_external_observations_missing"
        )


@requirement("A-40", "H-14")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("status", "partial"),
        ("reason_code", None),
        ("reason_code", "x"),
        ("coverage.reason", "source_sequence_unavailable"),
        ("coverage.complete", True),
        ("total", 0),
        ("returned", 0),
        ("truncated", False),
        ("unknown_count", 0),
        ("observations", []),
        ("provenance", "native"),
    ],
)
def test_unavailable_block_claims_nothing(place: str, value: object) -> None:
    assert checked(answers.body(UNREAD))
    assert (
        refusal(answers.broken(UNREAD, f"{REPORTS}.{place}", value))
        == "handoff_external_observations_missing"
    )


@requirement("A-40", "H-14")
@pytest.mark.parametrize(("place", "value"), [("returned", 1), ("truncated", True), ("unknown_count", 2)])
def test_few_reports_are_all_shown_and_counted(place: str, value: object) -> None:
    assert checked(answers.body(FEW))
    assert (
        refusal(answers.broken(FEW, f"{REPORTS}.{place}", value)) == "handoff_external_observations_missing"
    )


@requirement("A-40")
def test_checks_run_in_their_order() -> None:
    whole = answers.answer()
    steps: list[tuple[str, object, str]] = [
        ("output.acceptance", None, "handoff_acceptance_invalid"),
        ("output.goal_context", {}, "handoff_goal_context_invalid"),
        (f"{BRIEF}.version", 2, "handoff_contract_invalid"),
        (REPORTS, None, "handoff_external_observations_missing"),
        (f"{BRIEF}.basis", None, "handoff_basis_missing"),
        ("output.project", "", "handoff_identity_mismatch"),
        ("success", False, "handoff_read_failed"),
    ]
    for place, value, word in steps:
        whole = answers.broken(whole, place, value)
        assert refusal(whole) == word


@requirement("A-40", "A-85")
@given(st.binary(max_size=200), st.integers(100, 599))
def test_no_bytes_of_a_hostile_server_are_a_handoff(body: bytes, status: int) -> None:
    assert refusal(body, status) in {"handoff_read_unconfirmed", "handoff_read_failed"}


@requirement("A-40", "A-85")
@given(st.data())
def test_no_json_in_a_part_makes_another_error_than_its_word(data: st.DataObject) -> None:
    junk = data.draw(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-3, 300)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.sampled_from(["", "x", "available", "unknown"]),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=6,
        )
    )
    place = data.draw(st.sampled_from([BRIEF, REPORTS, f"{REPORTS}.observations.0", f"{BRIEF}.basis"]))
    assert refusal(answers.broken(answers.answer(), place, junk)).startswith("handoff_")
