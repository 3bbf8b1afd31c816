"""Makes the bounded view of the one active Goal linked to a Session, read only (40.10).

Reading it changes nothing and grants nothing; one Goal is never chosen among several (H-22).
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from webcodex.core import handoff_text, redaction
from webcodex.core.json_value import JsonObject

VERSION: Final = 1
SOURCE: Final = "explicit_workflow_session_correlation"
# H-21: each limit holds in chars and in bytes; a char takes at least one byte, so the bytes decide.
TITLE_BYTES: Final = 256
OBJECTIVE_BYTES: Final = 1024
CONDITION_BYTES: Final = 256
STEP_TITLE_BYTES: Final = 128
SUMMARY_BYTES: Final = 512
CANDIDATES: Final = 8
CONDITIONS: Final = 8
STEPS: Final = 32


class StepStatus(StrEnum):
    """How far a step of the plan has come (G-21)."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a plan (G-20)."""

    step_id: str
    title: str
    status: StepStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """An active Goal of this caller that is linked to the Session.

    ``summary`` and ``checkpoint_at_unix_ms`` are none before the first checkpoint.
    """

    goal_id: str
    title: str
    revision: int
    objective: str
    completion_conditions: tuple[str, ...]
    steps: tuple[Step, ...]
    summary: str | None
    checkpoint_at_unix_ms: int | None


class Goals(Enum):
    """The linked Goals could not be read."""

    UNAVAILABLE = "store_unavailable"


def goal_context(goals: tuple[Goal, ...] | Goals) -> JsonObject | None:
    """Returns the closed context, or none when no Goal is linked and the key is absent (H-20)."""
    if isinstance(goals, Goals):
        return _context("unavailable", goals.value)
    if not goals:
        return None
    if len(goals) == 1:
        return _context("available", None) | {"goal": _goal(goals[0])}
    by_id = sorted(goals, key=lambda goal: goal.goal_id)
    return _context("selection_required", "multiple_active_goals") | {
        "truncated": len(by_id) > CANDIDATES,
        "candidates": [_candidate(goal) for goal in by_id[:CANDIDATES]],
    }


def _context(status: str, reason_code: str | None) -> JsonObject:
    return {
        "version": VERSION,
        "source": SOURCE,
        "status": status,
        "reason_code": reason_code,
        "truncated": False,
        "goal": None,
        "candidates": [],
    }


def _candidate(goal: Goal) -> JsonObject:
    title = _excerpt(goal.title, TITLE_BYTES)
    return {
        "goal_id": goal.goal_id,
        "title": title.text,
        "title_truncated": title.truncated,
        "lifecycle": "active",
        "revision": goal.revision,
    }


def _goal(goal: Goal) -> JsonObject:
    objective = _excerpt(goal.objective, OBJECTIVE_BYTES)
    return _candidate(goal) | {
        "objective": {"excerpt": objective.text, "truncated": objective.truncated},
        "plan": {
            "completion_conditions": _conditions(goal.completion_conditions),
            "steps": _steps(goal.steps),
            "current_step_id": next(
                (step.step_id for step in goal.steps if step.status is StepStatus.IN_PROGRESS), None
            ),
            "checkpoint": _checkpoint(goal),
        },
    }


def _conditions(conditions: tuple[str, ...]) -> JsonObject:
    shown = [_excerpt(condition, CONDITION_BYTES) for condition in conditions[:CONDITIONS]]
    return {
        "items": [condition.text for condition in shown],
        "total": len(conditions),
        "returned": len(shown),
        "truncated": len(shown) < len(conditions),
        "content_truncated": any(condition.truncated for condition in shown),
    }


def _steps(steps: tuple[Step, ...]) -> JsonObject:
    shown = [_step(step) for step in steps[:STEPS]]
    return {
        "items": shown,
        "total": len(steps),
        "returned": len(shown),
        "truncated": len(shown) < len(steps),
    }


def _step(step: Step) -> JsonObject:
    title = _excerpt(step.title, STEP_TITLE_BYTES)
    return {
        "id": step.step_id,
        "title": title.text,
        "title_truncated": title.truncated,
        "status": step.status.value,
    }


def _checkpoint(goal: Goal) -> JsonObject:
    if goal.summary is None:
        return {"summary": {"excerpt": None, "truncated": False}, "at_unix_ms": goal.checkpoint_at_unix_ms}
    summary = _excerpt(goal.summary, SUMMARY_BYTES)
    return {
        "summary": {"excerpt": summary.text, "truncated": summary.truncated},
        "at_unix_ms": goal.checkpoint_at_unix_ms,
    }


def _excerpt(text: str, size_bytes: int) -> handoff_text.Excerpt:
    return handoff_text.excerpt(text, rule=redaction.instruction, chars=size_bytes, size_bytes=size_bytes)
