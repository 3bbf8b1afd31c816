"""The block of external reports in a brief (H-14, H-15, H-60, H-61)."""

from typing import Any

import pytest

from tests.core import brief_schema
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff, handoff_facts


def brief(**changed: object) -> dict[str, Any]:
    return dict(handoff.brief(made.facts(**changed)))


@requirement("H-14", "H-15", "H-60")
def test_seven_reports_show_the_last_five_and_change_nothing_else() -> None:
    codes = (None, 0, 9, None, 0, None, None)
    reports = tuple(made.report(number, code) for number, code in enumerate(codes))
    before, after = brief(), brief(reports=reports[::-1])
    block = after.pop("external_observations")
    assert {key: block[key] for key in ("total", "returned", "truncated", "unknown_count")} == {
        "total": 7,
        "returned": 5,
        "truncated": True,
        "unknown_count": 4,
    }
    assert [item["event_id"] for item in block["observations"]] == [
        f"{number:064x}" for number in range(2, 7)
    ]
    assert [item["status"] for item in block["observations"]] == [
        "reported_failure",
        "unknown",
        "reported_success",
        "unknown",
        "unknown",
    ]
    assert before | after == before


@requirement("H-14", "H-61")
@pytest.mark.parametrize("reason", handoff_facts.ReportsMissing)
def test_unread_reports_are_null_and_leave_the_rest_alone(reason: handoff_facts.ReportsMissing) -> None:
    before, after = brief(), brief(reports=reason)
    brief_schema.brief(after, "brief")
    assert after["external_observations"]["reason_code"] == reason.value
    assert before | after == before | {"external_observations": after["external_observations"]}


@requirement("H-14", "H-61")
@pytest.mark.parametrize(
    "broken",
    [
        {"adapter_id": "A" * 64},
        {"event_id": "0" * 63},
        {"tool": "a b"},
        {"tool": ""},
        {"exit_code": 2**31},
        {"exit_code": -(2**31) - 1},
        {"recorded_at": 0},
    ],
)
def test_stored_report_out_of_bounds_hides_all_reports(broken: dict[str, object]) -> None:
    block = brief(reports=(made.report(1), made.report(2, **broken)))["external_observations"]  # type: ignore[arg-type]
    assert (block["reason_code"], block["observations"]) == ("projection_unavailable", None)


@requirement("H-14", "H-61")
def test_more_reports_than_a_session_can_hold_are_not_shown() -> None:
    block = brief(reports=tuple(made.report(number) for number in range(257)))["external_observations"]
    assert block["reason_code"] == "projection_unavailable"
