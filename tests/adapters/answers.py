"""Answers of a Server to the handoff reader, made by the product itself, and ways to break them."""

import copy
import json
from typing import Any

from tests.core import handoff_histories as made
from webcodex.core import acceptance, goal_context, handoff, handoff_facts

Answer = dict[str, Any]

GOAL = goal_context.Goal(
    goal_id="wc_goal_0000000000000001",
    title="Clamp",
    revision=2,
    objective="Inclusive clamp with tests",
    completion_conditions=("all seven tests pass",),
    steps=(goal_context.Step(step_id="impl", title="Write", status=goal_context.StepStatus.IN_PROGRESS),),
    summary="body written",
    checkpoint_at_unix_ms=1_760_000_005_000,
)
FACTS = made.facts(
    messages=(made.message(1, handoff_facts.MessageKind.QUESTION),),
    workspace=handoff_facts.Missing.WORKSPACE_NOT_REQUESTED,
    reports=tuple(made.report(number, code) for number, code in enumerate((None, 0, 9, None, 0, None, None))),
)


def answer(
    facts: handoff_facts.HandoffFacts = FACTS, goals: tuple[goal_context.Goal, ...] = (GOAL,)
) -> Answer:
    """Makes the whole answer of ``get_session_handoff_state`` to these facts (H-50)."""
    output: Answer = {
        "session_id": made.SESSION_ID,
        "session_ref": "~s1",
        "project": made.PROJECT,
        "handoff_brief": handoff.brief(facts),
    }
    for key, part in (
        ("goal_context", goal_context.goal_context(goals)),
        ("acceptance", acceptance.acceptance(facts)),
    ):
        if part is not None:
            output[key] = part
    return {"success": True, "output": output}


def broken(whole: Answer, place: str, value: object) -> Answer:
    """Makes a copy with ``value`` at a dotted place; ``...`` removes the key there."""
    changed = copy.deepcopy(whole)
    *parents, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    target: Any = changed
    for key in parents:
        target = target[key]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return changed


def body(whole: object) -> bytes:
    """Writes the answer as the Server does, non-ASCII kept."""
    return json.dumps(whole, ensure_ascii=False).encode()
