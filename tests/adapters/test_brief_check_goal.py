"""What the reader accepts as a goal context, and every breach of H-20 and H-21."""

import json

import pytest

from tests.adapters import answers, checks
from tests.core import handoff_histories as made
from tests.core import test_goal_context as goals
from tests.requirements import requirement
from webcodex.core import goal_context

WHOLE = answers.answer()
PLACE = "output.goal_context"
SEVERAL = answers.answer(goals=tuple(goals.make(number) for number in range(3)))
AWAY = answers.broken(WHOLE, PLACE, goal_context.goal_context(goal_context.Goals.UNAVAILABLE))
LONG = "漢" * 42 + "xx"  # 44 chars, 128 bytes


def read(whole: object) -> dict[str, object]:
    body = json.dumps(whole).encode()
    return checks.brief_check.checked(200, body, made.PROJECT, made.SESSION_ID)


def refused(whole: object) -> str:
    with pytest.raises(checks.refusal.Refused) as refusal:
        read(whole)
    return str(refusal.value.reason)


@requirement("H-20", "H-21", "A-40")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("version", 2),
        ("version", True),
        ("source", "directory"),
        ("status", "unavailable"),
        ("status", "selection_required"),
        ("status", None),
        ("reason_code", "store_unavailable"),
        ("truncated", True),
        ("truncated", 0),
        ("goal", None),
        ("goal", []),
        ("candidates", None),
        ("candidates", [{}]),
        ("extra", 1),
        ("goal.goal_id", ""),
        ("goal.goal_id", "g" * 129),
        ("goal.title", "t" * 257),
        ("goal.title", "漢" * 86),
        ("goal.title_truncated", 0),
        ("goal.lifecycle", "completed"),
        ("goal.revision", 0),
        ("goal.revision", "2"),
        ("goal.owner", "x"),
        ("goal.objective", "text"),
        ("goal.objective.excerpt", None),
        ("goal.objective.excerpt", "o" * 1025),
        ("goal.objective.truncated", None),
        ("goal.plan", None),
        ("goal.plan.current_step_id", "s" * 33),
        ("goal.plan.current_step_id", 1),
        ("goal.plan.completion_conditions", []),
        ("goal.plan.completion_conditions.items", ["c"] * 9),
        ("goal.plan.completion_conditions.items", ["c" * 257]),
        ("goal.plan.completion_conditions.items", [None]),
        ("goal.plan.completion_conditions.total", 2),
        ("goal.plan.completion_conditions.total", 0),
        ("goal.plan.completion_conditions.returned", True),
        ("goal.plan.completion_conditions.truncated", True),
        ("goal.plan.completion_conditions.content_truncated", None),
        ("goal.plan.steps.items", []),
        ("goal.plan.steps.content_truncated", False),
        ("goal.plan.steps.items.0", None),
        ("goal.plan.steps.items.0.id", "s" * 33),
        ("goal.plan.steps.items.0.title", LONG + "x"),
        ("goal.plan.steps.items.0.title_truncated", None),
        ("goal.plan.steps.items.0.status", "done"),
        ("goal.plan.steps.items.0.updated_at_unix_ms", 1),
        ("goal.plan.checkpoint", []),
        ("goal.plan.checkpoint.summary", None),
        ("goal.plan.checkpoint.summary.excerpt", "s" * 513),
        ("goal.plan.checkpoint.summary.truncated", "no"),
        ("goal.plan.checkpoint.at_unix_ms", -1),
        ("goal.plan.checkpoint.at_unix_ms", 1.5),
    ],
)
def test_each_breach_of_the_goal_context_is_refused(place: str, value: object) -> None:
    assert refused(answers.broken(WHOLE, f"{PLACE}.{place}", value)) == "handoff_goal_context_invalid"


@requirement("H-20", "H-21")
@pytest.mark.parametrize(
    "key",
    [
        *("version", "source", "status", "reason_code", "truncated", "goal", "candidates"),
        *("goal.goal_id", "goal.title", "goal.title_truncated", "goal.lifecycle", "goal.revision"),
        *(
            "goal.objective",
            "goal.objective.truncated",
            "goal.plan",
            "goal.plan.steps",
            "goal.plan.checkpoint",
        ),
        *("goal.plan.current_step_id", "goal.plan.steps.items.0.id", "goal.plan.checkpoint.summary"),
    ],
)
def test_each_key_of_the_goal_context_is_required(key: str) -> None:
    assert refused(answers.broken(WHOLE, f"{PLACE}.{key}", ...)) == "handoff_goal_context_invalid"


@requirement("H-21")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("goal.plan.checkpoint", None),
        ("goal.plan.checkpoint.summary.excerpt", None),
        ("goal.plan.checkpoint.at_unix_ms", None),
        ("goal.plan.checkpoint.at_unix_ms", 0),
        ("goal.revision", 1),
        ("goal.plan.current_step_id", None),
        ("goal.plan.steps.items.0.title", LONG),
        ("goal.objective.excerpt", "o" * 1024),
    ],
)
def test_null_checkpoint_and_texts_at_their_limits_are_accepted(place: str, value: object) -> None:
    whole = answers.broken(WHOLE, f"{PLACE}.{place}", value)
    assert read(whole)["goal_context"] == whole["output"]["goal_context"]


@requirement("H-21")
@pytest.mark.parametrize(("part", "limit"), [("completion_conditions", 8), ("steps", 32)])
def test_plan_lists_are_bounded_and_truly_counted(part: str, limit: int) -> None:
    whole = WHOLE["output"]["goal_context"]["goal"]["plan"][part]

    def sized(length: int) -> answers.Answer:
        items = whole["items"][:1] * length
        return answers.broken(
            WHOLE, f"{PLACE}.goal.plan.{part}", whole | {"items": items, "total": length, "returned": length}
        )

    assert read(sized(limit))
    assert refused(sized(limit + 1)) == "handoff_goal_context_invalid"


@requirement("H-20", "H-21", "H-65")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("status", "available"),
        ("reason_code", None),
        ("truncated", True),
        ("truncated", None),
        ("goal", {}),
        ("candidates", []),
        ("candidates", None),
        ("candidates.0", None),
        ("candidates.0.goal_id", "wc_goal_0000000000000001"),
        ("candidates.0.goal_id", "wc_goal_zzz"),
        ("candidates.0.objective", {}),
        ("candidates.2.revision", 0),
    ],
)
def test_each_breach_of_a_selection_is_refused(place: str, value: object) -> None:
    assert read(SEVERAL)
    assert refused(answers.broken(SEVERAL, f"{PLACE}.{place}", value)) == "handoff_goal_context_invalid"


@requirement("H-20", "H-65")
def test_selection_names_two_to_eight_goals() -> None:
    assert read(answers.answer(goals=(goals.make(1), goals.make(2))))
    one = SEVERAL["output"]["goal_context"]["candidates"][:1]
    assert refused(answers.broken(SEVERAL, f"{PLACE}.candidates", one)) == "handoff_goal_context_invalid"
    nine = answers.answer(goals=tuple(goals.make(number) for number in range(9)))
    assert len(read(nine)["goal_context"]["candidates"]) == 8  # type: ignore[index]  # just checked
    last = nine["output"]["goal_context"]["candidates"][-1] | {"goal_id": "wc_goal_zz"}
    longer = [*nine["output"]["goal_context"]["candidates"], last]
    assert refused(answers.broken(nine, f"{PLACE}.candidates", longer)) == "handoff_goal_context_invalid"


@requirement("H-20")
@pytest.mark.parametrize(
    ("place", "value"),
    [("reason_code", None), ("truncated", True), ("goal", {}), ("candidates", None), ("status", "away")],
)
def test_each_breach_of_an_unavailable_context_is_refused(place: str, value: object) -> None:
    assert read(AWAY)
    assert refused(answers.broken(AWAY, f"{PLACE}.{place}", value)) == "handoff_goal_context_invalid"
