"""How quiet the work on a Goal is, without a store (G-51 to G-53)."""

from typing import Any

import pytest

from tests.requirements import requirement
from webcodex.core import goal_activity
from webcodex.core.ledger import Kind as EventKind

BORN = 1_760_000_000_000
LATER = BORN + 5_000


def call(at: int, tool: str | None = "read_files", kind: str = EventKind.CALL_FINISHED) -> goal_activity.Call:
    return goal_activity.Call(at=at, kind=kind, tool_name=tool)


def seen(*calls: goal_activity.Call, running: int = 0, more: bool = False) -> goal_activity.Seen:
    return goal_activity.seen(calls, since=BORN, running=running, has_more_sessions=more)


UNREADABLE = goal_activity.Activity.UNREADABLE
UNCOUNTED = call(LATER, "read_session_handoff")


@requirement("G-51", "G-52", "G-53")
@pytest.mark.parametrize(
    ("found", "is_terminal", "now", "state", "quiet"),
    [
        (seen(call(LATER)), True, LATER, "not_applicable", 0),
        (UNREADABLE, False, LATER, "unobserved", None),
        (seen(call(LATER), running=1), False, LATER + 300_000, "active", 300_000),
        (seen(running=1), False, LATER, "active", None),
        (seen(), False, LATER, "unobserved", None),
        (seen(call(BORN - 1)), False, LATER, "unobserved", None),
        (seen(call(LATER)), False, LATER + 299_999, "active", 299_999),
        (seen(call(LATER), more=True), False, LATER + 299_999, "active", 299_999),
        (seen(call(LATER), more=True), False, LATER + 300_000, "unobserved", 300_000),
        (seen(call(LATER)), False, LATER + 300_000, "attention_needed", 300_000),
        (seen(call(LATER)), False, BORN, "active", 0),
    ],
)
def test_activity_is_the_first_row_that_matches(
    found: Any, *, is_terminal: bool, now: int, state: str, quiet: int | None
) -> None:
    shown = goal_activity.shown(found, is_terminal=is_terminal, now=now)
    assert (shown["state"], shown["quiet_for_ms"]) == (state, quiet)
    assert shown["available"] is (found is not UNREADABLE)
    assert (shown["active_meaningful_request_count"] is None) is (found is UNREADABLE)
    assert shown["idle_threshold_ms"] == 300_000
    assert (shown["observation_lease_ms"], shown["linked_window_count"]) == (None, 0)
    assert shown["last_seen_at_ms"] == shown["last_meaningful_activity_at_ms"]


@requirement("G-53", "S-50")
@pytest.mark.parametrize("tool", ["read_session_handoff", "get_goal", "list_goals", "present_goal_plan"])
def test_calls_that_only_look_are_no_activity(tool: str) -> None:
    assert seen(call(LATER, tool), call(BORN)).last_at == BORN
    assert seen(call(LATER, None, EventKind.TASK_INSTRUCTION), call(BORN)).last_at == LATER
    assert seen(call(LATER, None, "validation_job_terminal"), call(BORN)).last_at == BORN


@requirement("G-53")
def test_a_scan_that_meets_its_limit_says_so_and_one_that_found_work_does_not() -> None:
    assert seen(*[UNCOUNTED] * 64) == goal_activity.Seen(last_at=None, running=0, is_partial=False)
    assert seen(*[UNCOUNTED] * 65).is_partial
    assert not seen(*[UNCOUNTED] * 63, call(LATER), call(BORN)).is_partial
    assert seen(*[UNCOUNTED] * 64, call(BORN)) == goal_activity.Seen(last_at=None, running=0, is_partial=True)
    assert not seen(*[UNCOUNTED] * 63, *[call(BORN - 1)] * 9).is_partial
    assert (
        goal_activity.shown(seen(running=99), is_terminal=False, now=LATER)["active_meaningful_request_count"]
        == 64
    )
