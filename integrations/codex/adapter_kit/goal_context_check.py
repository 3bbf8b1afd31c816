"""Whether a goal context is exactly what H-20 and H-21 allow."""

from adapter_kit import shapes

_KEYS = ("version", "source", "status", "reason_code", "truncated", "goal", "candidates")
_SOURCE = "explicit_workflow_session_correlation"
_CANDIDATE_KEYS = ("goal_id", "title", "title_truncated", "lifecycle", "revision")
_GOAL_KEYS = (*_CANDIDATE_KEYS, "objective", "plan")
_PLAN_KEYS = ("completion_conditions", "steps", "current_step_id", "checkpoint")
_STEP_KEYS = ("id", "title", "title_truncated", "status")
_STEP_STATUSES = ("pending", "in_progress", "completed")
_GOAL_ID = 128
_TITLE = 256
_OBJECTIVE = 1024
_CONDITION = 256
_STEP_ID = 32
_STEP_TITLE = 128
_SUMMARY = 512
_CONDITIONS = 8
_STEPS = 32
_CANDIDATES = range(2, 9)


def is_valid(context: object) -> bool:
    """Whether the context may be shown; it names one Goal, several candidates or none (H-20)."""
    if (
        not isinstance(context, dict)
        or not shapes.is_closed(context, _KEYS)
        or not shapes.is_whole(context["version"], 1, 1)
        or context["source"] != _SOURCE
    ):
        return False
    row = (context["status"], context["reason_code"])
    if row == ("selection_required", "multiple_active_goals"):
        return context["goal"] is None and _are_candidates(context["candidates"], context["truncated"])
    if context["truncated"] is not False or context["candidates"] != []:
        return False
    if row == ("available", None):
        return _is_goal(context["goal"])
    return row == ("unavailable", "store_unavailable") and context["goal"] is None


def _are_candidates(candidates: object, truncated: object) -> bool:
    """Whether two to eight Goals stand in the order of their ids, each once."""
    if (
        not isinstance(truncated, bool)
        or not isinstance(candidates, list)
        or len(candidates) not in _CANDIDATES
        or (truncated and len(candidates) != _CANDIDATES[-1])
        or not all(shapes.is_closed(goal, _CANDIDATE_KEYS) and _is_identified(goal) for goal in candidates)
    ):
        return False
    ids = [goal["goal_id"] for goal in candidates]
    return ids == sorted(set(ids))


def _is_goal(goal: object) -> bool:
    if not isinstance(goal, dict) or not shapes.is_closed(goal, _GOAL_KEYS):
        return False
    objective = goal["objective"]
    return (
        _is_identified(goal)
        and _is_excerpt(objective, _OBJECTIVE)
        and objective["excerpt"] is not None
        and _is_plan(goal["plan"])
    )


def _is_identified(goal: "dict[str, object]") -> bool:
    return (
        _is_bounded(goal["goal_id"], _GOAL_ID)
        and goal["goal_id"] != ""
        and _is_bounded(goal["title"], _TITLE)
        and isinstance(goal["title_truncated"], bool)
        and goal["lifecycle"] == "active"
        and shapes.is_whole(goal["revision"], 1)
    )


def _is_plan(plan: object) -> bool:
    if not isinstance(plan, dict) or not shapes.is_closed(plan, _PLAN_KEYS):
        return False
    conditions, current = plan["completion_conditions"], plan["current_step_id"]
    return (
        shapes.is_counted(conditions, _CONDITIONS, _is_condition, ("content_truncated",))
        and isinstance(conditions["content_truncated"], bool)
        and shapes.is_counted(plan["steps"], _STEPS, _is_step)
        and (current is None or _is_bounded(current, _STEP_ID))
        and (plan["checkpoint"] is None or _is_checkpoint(plan["checkpoint"]))
    )


def _is_condition(condition: object) -> bool:
    return _is_bounded(condition, _CONDITION)


def _is_step(step: object) -> bool:
    return (
        isinstance(step, dict)
        and shapes.is_closed(step, _STEP_KEYS)
        and _is_bounded(step["id"], _STEP_ID)
        and _is_bounded(step["title"], _STEP_TITLE)
        and isinstance(step["title_truncated"], bool)
        and step["status"] in _STEP_STATUSES
    )


def _is_checkpoint(checkpoint: object) -> bool:
    return (
        isinstance(checkpoint, dict)
        and shapes.is_closed(checkpoint, ("summary", "at_unix_ms"))
        and _is_excerpt(checkpoint["summary"], _SUMMARY)
        and (checkpoint["at_unix_ms"] is None or shapes.is_whole(checkpoint["at_unix_ms"], 0))
    )


def _is_excerpt(excerpt: object, limit: int) -> bool:
    return (
        isinstance(excerpt, dict)
        and shapes.is_closed(excerpt, ("excerpt", "truncated"))
        and (excerpt["excerpt"] is None or _is_bounded(excerpt["excerpt"], limit))
        and isinstance(excerpt["truncated"], bool)
    )


def _is_bounded(value: object, limit: int) -> bool:
    """Whether the value is text within the limit in chars and in bytes (H-21)."""
    return shapes.is_text(value, limit, size_bytes=limit)
