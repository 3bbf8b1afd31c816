"""Shows a Goal in the forms that the tools answer (G-41, G-50, G-54, G-60); each is a pure projection."""

from collections.abc import Sequence
from typing import Final

from webcodex.core.goals import Goal, Kind
from webcodex.core.json_value import Json, JsonObject

PLAN_VERSION: Final = 3
NAMED: Final = 8  # G-60


def summary(goal: Goal) -> JsonObject:
    """Returns one row of a list."""
    return {
        "goal_id": goal.goal_id,
        "title": goal.title,
        "lifecycle": goal.lifecycle.value,
        "revision": goal.revision,
        "created_at_unix_ms": goal.created_at_unix_ms,
        "updated_at_unix_ms": goal.updated_at_unix_ms,
        "terminal_at_unix_ms": goal.terminal_at_unix_ms,
        **_counts(goal),
    }


def detail(goal: Goal) -> JsonObject:
    """Returns everything a caller may see of its Goal."""
    return {
        "summary": summary(goal),
        "plan": goal.plan.shown(),
        "objective": goal.objective,
        "controller_agent_id": goal.controller_agent_id,
        "terminal_reason": goal.terminal_reason,
        "correlations": [
            {
                "kind": link.kind.value,
                "reference_id": link.reference_id,
                "created_at_unix_ms": link.created_at_unix_ms,
            }
            for link in goal.correlations
        ],
    }


def plan(goal: Goal, activity: JsonObject) -> JsonObject:
    """Returns ``goal_plan`` with the activity that was read beside it (G-50)."""
    current = goal.plan.current
    held = goal.plan.shown()
    return {
        "version": PLAN_VERSION,
        "goal_id": goal.goal_id,
        "title": goal.title,
        "total_step_count": len(goal.plan.steps),
        "completed_step_count": goal.plan.completed_count,
        "current_step_id": None if current is None else current.step_id,
        "steps": held["steps"],
        "progress_summary": goal.plan.progress_summary,
        "checkpoint_at_unix_ms": goal.plan.checkpoint_at_unix_ms,
        "controller_agent_id": goal.controller_agent_id,
        "lifecycle": goal.lifecycle.value,
        "revision": goal.revision,
        "updated_at_unix_ms": goal.updated_at_unix_ms,
        "terminal_at_unix_ms": goal.terminal_at_unix_ms,
        **_counts(goal),
        "activity": activity,
        "continuity": {"state": "not_configured" if goal.is_active else "not_applicable"},
    }


def identities(goals: Sequence[Goal]) -> JsonObject | None:
    """Returns the identity-only list of a Session's active Goals, or none where there is none (G-60).

    One Goal more than is named tells that there are more.
    """
    if not goals:
        return None
    named: list[Json] = [_identity(goal) for goal in goals[:NAMED]]
    return {"available": True, "truncated": len(goals) > NAMED, "goals": named}


def no_identities() -> JsonObject:
    """Returns what stands for the list when the store cannot be read (G-60)."""
    return {"available": False, "truncated": False, "goals": []}


def _identity(goal: Goal) -> JsonObject:
    current = goal.plan.current
    return {
        "goal_id": goal.goal_id,
        "revision": goal.revision,
        "incomplete_step_count": len(goal.plan.steps) - goal.plan.completed_count,
        "current_step": None if current is None else {"id": current.step_id, "title": current.title},
        "next_action": "update_goal" if goal.plan.is_complete else "checkpoint_goal",
    }


def _counts(goal: Goal) -> JsonObject:
    return {
        "agent_task_count": len(goal.linked(Kind.AGENT_TASK)),
        "workflow_session_count": len(goal.linked(Kind.WORKFLOW_SESSION)),
    }
