"""Reads what Goals mean beside a Session, and how active the work on one is (G-53, G-60, G-61).

Never writes: reading moves no Goal, no liveness and no Session.
"""

from typing import Any, Final

from webcodex.core import access, goal_activity, goal_context, goal_plans, goal_views
from webcodex.core.access import Scope
from webcodex.core.goals import Goal, Kind
from webcodex.core.json_value import JsonObject
from webcodex.storage import goals
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import running_calls
from webcodex.tools.ports import Services

_LINKED: Final = max(goal_context.CANDIDATES, goal_views.NAMED) + 1  # one more tells that there are more
MS: Final = 1000


def now_ms(services: Services) -> int:
    """Returns the present time in Unix ms, as exactly as the Server's clock tells it."""
    return services.now() * MS


def context(tx: Transaction, caller: access.Caller, session_id: str) -> JsonObject | None:
    """Returns ``goal_context``, or none where the key is absent: no Goal, or no scope for it (H-20)."""
    if not access.has_scope(caller, Scope.COMMUNICATION_READ):
        return None
    linked = _linked(tx, caller, session_id)
    if linked is None:
        return goal_context.goal_context(goal_context.Goals.UNAVAILABLE)
    return goal_context.goal_context(tuple(_recovered(goal) for goal in linked))


def identities(tx: Transaction, caller: access.Caller, session_id: str) -> JsonObject | None:
    """Returns the identity-only Goal list, or none where the key is absent, as in ``context`` (G-60)."""
    if not access.has_scope(caller, Scope.COMMUNICATION_READ):
        return None
    linked = _linked(tx, caller, session_id)
    return goal_views.no_identities() if linked is None else goal_views.identities(linked)


def activity(tx: Transaction, services: Services, goal: Goal) -> JsonObject:
    """Returns how quiet the work on a Goal is (G-51)."""
    found: goal_activity.Seen | goal_activity.Activity
    try:
        found = tx.attempt(lambda: _seen(tx, services, goal))
    except StoreError:
        found = goal_activity.Activity.UNREADABLE
    return goal_activity.shown(found, is_terminal=not goal.is_active, now=now_ms(services))


def _linked(tx: Transaction, caller: access.Caller, session_id: str) -> list[Goal] | None:
    """Returns the caller's active Goals of a Session, or none when they cannot be read (H-02, G-22)."""
    try:
        return tx.attempt(lambda: goals.linked_and_active(tx, caller.authority, session_id, _LINKED))
    except (StoreError, goal_plans.StoredPlanInvalid):
        return None


def _recovered(goal: Goal) -> goal_context.Goal:
    return goal_context.Goal(
        goal_id=goal.goal_id,
        title=goal.title,
        revision=goal.revision,
        objective=goal.objective,
        completion_conditions=goal.plan.completion_conditions,
        steps=tuple(
            goal_context.Step(step_id=step.step_id, title=step.title, status=step.status)
            for step in goal.plan.steps
        ),
        summary=goal.plan.progress_summary,
        checkpoint_at_unix_ms=goal.plan.checkpoint_at_unix_ms,
    )


def _seen(tx: Transaction, services: Services, goal: Goal) -> goal_activity.Seen:
    linked = goal.linked(Kind.WORKFLOW_SESSION)
    scanned = linked[-goal_activity.SCANNED_SESSIONS :]
    calls = [
        _call(event)
        for session_id in scanned
        for event in stored_sessions.newest_events(tx, session_id, goal_activity.SCANNED_EVENTS + 1)
    ]
    return goal_activity.seen(
        calls,
        since=goal.created_at_unix_ms,
        running=running_calls.count(services.database, linked, apart_from=goal_activity.UNCOUNTED_TOOLS),
        has_more_sessions=len(scanned) < len(linked),
    )


def _call(event: dict[str, Any]) -> goal_activity.Call:
    return goal_activity.Call(at=event["at"] * MS, kind=event["kind"], tool_name=event.get("tool_name"))
