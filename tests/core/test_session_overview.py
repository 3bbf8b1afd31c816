"""One row's view of a Session (M-46): the brief's own standing, and what the newest events prove."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff, handoff_facts, session_overview, sessions
from webcodex.core.json_value import JsonObject

Kind = handoff_facts.MessageKind
Missing = handoff_facts.Missing
NOW = made.NOW
HISTORIES: dict[str, dict[str, object]] = {
    "ready": {},
    "closed": {"session": made.session(lifecycle=sessions.Lifecycle.CLOSED)},
    "conflict": {"workspace": made.git(conflicted=True)},
    "risk": {"messages": (made.message(1, Kind.RISK), made.message(2, Kind.TODO))},
    "unread": {"messages": Missing.MESSAGES, "jobs": Missing.JOBS, "validation": Missing.VALIDATION},
    "reports": {"reports": (made.report(1, 7),)},
    "paths": {
        "ledger": handoff_facts.Ledger(
            events=(handoff_facts.PathEvent(write_like=True, changed_paths=("clamp.py",)),)
        )
    },
    "row": {
        "messages": Missing.MESSAGES,
        "jobs": Missing.JOBS,
        "validation": Missing.VALIDATION,
        "workspace": Missing.WORKSPACE_NOT_REQUESTED,
    },
}


def _started(call: int, at: int = NOW) -> JsonObject:
    return {"kind": "tool_call_started", "at": at, "call_id": f"c{call}", "tool_name": f"tool{call}"}


def _ended(call: int, at: int = NOW, status: str = "succeeded") -> JsonObject:
    return {
        "kind": "tool_call_finished",
        "at": at,
        "call_id": f"c{call}",
        "tool_name": f"tool{call}",
        "status": status,
    }


def _activity(*oldest_first: JsonObject) -> session_overview.Activity:
    return session_overview.activity(reversed(oldest_first), NOW)


@requirement("M-46", "H-09", "H-11", "H-15")
@pytest.mark.parametrize("name", HISTORIES)
def test_the_standing_is_that_of_the_brief(name: str) -> None:
    facts = made.facts(**HISTORIES[name])
    brief, overview = handoff.brief(facts), session_overview.overview(facts)
    assert isinstance(brief["progress"], dict)
    assert isinstance(brief["validation"], dict)
    assert isinstance(brief["attention"], dict)
    assert overview == {
        "work": brief["progress"]["state"],
        "validation": brief["validation"]["status"],
        "attention": {
            key: brief["attention"][key]
            for key in ("open_guidance", "open_risks", "open_questions", "open_todos")
        },
    }


@requirement("M-46", "S-23")
def test_reported_progress_is_the_newest_message_of_that_kind() -> None:
    messages = (
        made.message(1, Kind.PROGRESS, text="older"),
        made.message(2, Kind.PROGRESS, text="lower\nbound done " + "x" * 300),
        made.message(3, Kind.DECISION, text="no progress"),
    )
    shown = session_overview.overview(made.facts(messages=messages))["reported_progress"]
    assert shown == ("lower bound done " + "x" * 300)[:240]
    secret = (*messages, made.message(4, Kind.PROGRESS, text="the token is abc"))
    assert session_overview.overview(made.facts(messages=secret))["reported_progress"] == "[redacted]"
    none = session_overview.overview(made.facts(messages=messages[2:]))
    assert "reported_progress" not in none


@requirement("M-46", "S-14")
def test_a_call_runs_until_its_end_or_until_it_is_too_old() -> None:
    running: JsonObject = {"tool_name": "tool2", "status": "running", "at": NOW}
    last: JsonObject = {"tool_name": "tool1", "status": "failed", "at": NOW}
    assert _activity() == session_overview.Activity(current=None, last=None)
    assert _activity(_started(1), _ended(1, status="failed"), _started(2)) == session_overview.Activity(
        current=running, last=last
    )
    # Their order in the ledger decides, not which began first.
    assert _activity(_started(2), _started(1), _ended(1, status="failed")).current == running
    assert _activity(_started(2), _ended(2)).current is None
    assert _activity(_started(2, NOW - 149)).current is not None
    assert _activity(_started(2, NOW - 150)).current is None
    assert _activity({"kind": "task_instruction", "at": NOW, "tool_name": "work_on_project"}) == _activity()


@requirement("M-46")
def test_no_more_events_are_taken_than_settle_it() -> None:
    endless = iter([_ended(1, NOW - 1000), *(_ended(number) for number in range(10))])
    assert session_overview.activity(endless, NOW).last == {
        "tool_name": "tool1",
        "status": "succeeded",
        "at": NOW - 1000,
    }
    assert len(list(endless)) == 10


CALLS = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 400)), max_size=30)


@requirement("M-46")
@hypothesis.given(calls=CALLS)
def test_stopping_early_changes_no_answer(calls: list[tuple[bool, int, int]]) -> None:
    ages = sorted((age for _, _, age in calls), reverse=True)
    events = [
        (_ended if is_end else _started)(call, NOW - age)
        for (is_end, call, _), age in zip(calls, ages, strict=True)
    ]
    found = _activity(*events)
    ends = [event for event in events if event["kind"] == "tool_call_finished"]
    open_starts = [
        event
        for place, event in enumerate(events)
        if event["kind"] == "tool_call_started"
        and isinstance(event["at"], int)
        and NOW - event["at"] < 150
        and event["call_id"] not in [end["call_id"] for end in events[place:] if end in ends]
    ]
    assert (found.last is None, found.current is None) == (not ends, not open_starts)
    if found.current is not None:
        assert (found.current["tool_name"], found.current["at"]) == (
            open_starts[-1]["tool_name"],
            open_starts[-1]["at"],
        )
    if found.last is not None:
        assert (found.last["tool_name"], found.last["at"]) == (ends[-1]["tool_name"], ends[-1]["at"])
