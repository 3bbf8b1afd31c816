"""What a Goal, its plan and its activity are, without a store (70-goals)."""

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.requirements import requirement
from webcodex.core import goal_plans, goal_views, goals, idempotency
from webcodex.core.goal_context import StepStatus
from webcodex.core.goal_plans import Checkpoint, InvalidCheckpoint, InvalidPlan, Plan, StoredPlanInvalid
from webcodex.core.goals import Change, Event, Goal, Kind, Lifecycle, Refusal, Refused

BORN = 1_760_000_000_000
LATER = BORN + 5_000


def plan(*step_ids: str) -> Plan:
    return goal_plans.planned(["it holds"], [(one, one.upper()) for one in step_ids], created_at=BORN)


def goal(*step_ids: str, **changed: Any) -> Goal:
    made = Goal(
        goal_id="wc_goal_Zk3vQ0aT9xLm2PbR",
        owner="o",
        title="Clamp",
        objective="Inclusive clamp",
        controller_agent_id=None,
        lifecycle=Lifecycle.ACTIVE,
        revision=1,
        created_at_unix_ms=BORN,
        updated_at_unix_ms=BORN,
        terminal_at_unix_ms=None,
        terminal_reason=None,
        plan=plan(*step_ids),
    )
    return replace(made, **changed)


def report(*done: str, current: str | None = None, summary: str = "s") -> Checkpoint:
    return Checkpoint(completed_step_ids=done, current_step_id=current, summary=summary)


def after(made: Plan, *reports: Checkpoint) -> Plan:
    for at, reported in enumerate(reports, start=LATER):
        made = goal_plans.checkpointed(made, reported, created_at=BORN, at=at)
    return made


def statuses(made: Plan) -> dict[str, str]:
    return {step.step_id: step.status.value for step in made.steps}


@requirement("G-13")
@pytest.mark.parametrize(("lifecycle", "event"), [*itertools.product(Lifecycle, Event)])
def test_only_an_active_goal_ends_and_an_end_is_final(lifecycle: Lifecycle, event: Event) -> None:
    if lifecycle is not Lifecycle.ACTIVE:
        with pytest.raises(goals.IllegalTransition):
            goals.advance(lifecycle, event)
        return
    ends = {Event.COMPLETE: Lifecycle.COMPLETED, Event.CANCEL: Lifecycle.CANCELLED}
    assert goals.advance(lifecycle, event) is ends[event]


@requirement("G-20", "G-21")
def test_a_stored_plan_has_exactly_four_keys_and_reads_back_as_it_was() -> None:
    made = after(plan("a", "b"), report("a", current="b", summary="füñf 🧪"))
    text = goal_plans.stored_text(made)
    assert json.loads(text) == {
        "completion_conditions": ["it holds"],
        "steps": [
            {"id": "a", "title": "A", "status": "completed", "updated_at_unix_ms": LATER},
            {"id": "b", "title": "B", "status": "in_progress", "updated_at_unix_ms": LATER},
        ],
        "progress_summary": "füñf 🧪",
        "checkpoint_at_unix_ms": LATER,
    }
    assert goal_plans.parse(text, created_at=BORN) == made
    assert goal_plans.parse(goal_plans.stored_text(plan()), created_at=BORN) == plan()


@requirement("G-21", "G-30")
def test_a_batch_completes_steps_and_moves_the_one_in_hand() -> None:
    first = after(plan("a", "b", "c"), report(current="a"))
    assert statuses(first) == {"a": "in_progress", "b": "pending", "c": "pending"}
    second = after(first, report("a", current="b"))
    assert statuses(second) == {"a": "completed", "b": "in_progress", "c": "pending"}
    kept = after(second, report("a", summary="again"))
    assert statuses(kept) == statuses(second)
    assert (kept.progress_summary, kept.steps) == ("again", second.steps)
    done = after(kept, report("b", "c"))
    assert done.is_complete
    assert done.current is None
    assert [step.updated_at_unix_ms for step in second.steps] == [LATER, LATER, BORN]


@requirement("G-30", "G-21")
@pytest.mark.parametrize(
    "reported",
    [
        report("z"),
        report(current="z"),
        report("b", "b"),
        report("b", current="b"),
        report(current="a"),
        report("c", current="d"),
        report("d", current="a"),
    ],
    ids=["unknown", "unknown-current", "repeated", "both", "completed", "another-in-hand", "reopened"],
)
def test_a_batch_that_does_not_fit_changes_nothing(reported: Checkpoint) -> None:
    made = after(plan("a", "b", "c", "d"), report("a", current="b"))
    with pytest.raises(InvalidCheckpoint):
        goal_plans.checkpointed(made, reported, created_at=BORN, at=LATER)
    assert statuses(made) == {"a": "completed", "b": "in_progress", "c": "pending", "d": "pending"}


@requirement("G-20", "G-21")
@given(st.lists(st.tuples(st.sets(st.sampled_from("abcd")), st.sampled_from([None, *"abcd"])), max_size=8))
def test_every_accepted_history_is_a_plan_that_can_be_stored_and_read(history: Any) -> None:
    made = plan(*"abcd")
    for at, (done, current) in enumerate(history):
        # The clock steps back on every second report.
        try:
            moved = goal_plans.checkpointed(
                made, report(*sorted(done), current=current), created_at=BORN, at=LATER - at % 2 * 9_000
            )
        except InvalidCheckpoint:
            continue
        ended = {step.step_id for step in made.steps if step.status is StepStatus.COMPLETED}
        assert ended <= {step.step_id for step in moved.steps if step.status is StepStatus.COMPLETED}
        made = moved
        assert goal_plans.parse(goal_plans.stored_text(made), created_at=BORN) == made


@requirement("G-14", "G-22")
@pytest.mark.parametrize(
    ("conditions", "steps"),
    [
        (["x"] * 9, []),
        ([""], []),
        (["é" * 257], []),
        ([], [(f"s{n}", "t") for n in range(33)]),
        ([], [("a", "t"), ("a", "u")]),
        ([], [("", "t")]),
        ([], [("a" * 33, "t")]),
        ([], [("a b", "t")]),
        ([], [("a\n", "t")]),
        ([], [("a", "")]),
        ([], [("a", "t" * 121)]),
        (["\x01" * 512] * 8, [(f"s{n}", "\x01" * 120) for n in range(32)]),
    ],
)
def test_a_plan_outside_its_bounds_is_not_made(conditions: list[str], steps: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidPlan):
        goal_plans.planned(conditions, steps, created_at=BORN)


@requirement("G-14")
def test_a_plan_at_its_bounds_is_made() -> None:
    made = goal_plans.planned(["é" * 256] * 8, [(f"{n:032}", "🧪" * 120) for n in range(32)], created_at=BORN)
    assert goal_plans.parse(goal_plans.stored_text(made), created_at=BORN) == made
    assert after(made, report(summary="é" * 1024)).progress_summary == "é" * 1024
    for summary in ("", "é" * 1025):
        with pytest.raises(InvalidPlan):
            goal_plans.checkpointed(made, report(summary=summary), created_at=BORN, at=LATER)


def broken(**changed: Any) -> str:
    held = json.loads(goal_plans.stored_text(after(plan("a", "b"), report(current="a")))) | changed
    return json.dumps(held)


def steps(**changed: Any) -> list[dict[str, Any]]:
    return [{"id": "a", "title": "A", "status": "pending", "updated_at_unix_ms": BORN, **changed}]


@requirement("G-22", "G-21")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "[" * 20_000,
        '{"completion_conditions":[],"steps":[],"progress_summary":null}',
        broken(extra=1),
        broken(completion_conditions="x"),
        broken(completion_conditions=[1]),
        broken(completion_conditions=["\ud800"]),
        broken(completion_conditions=["x" * 32_000]),
        broken(steps=[{"id": "a"}]),
        broken(steps=[1]),
        broken(steps=steps() * 2),
        broken(steps=steps(status="done")),
        broken(steps=steps(updated_at_unix_ms=BORN + 1)),
        broken(steps=steps(updated_at_unix_ms=True)),
        broken(steps=steps(updated_at_unix_ms=float(BORN))),
        broken(steps=steps(status="completed", updated_at_unix_ms=LATER + 1)),
        broken(steps=steps(status="completed", updated_at_unix_ms=BORN - 1)),
        broken(steps=[*steps(status="in_progress"), *steps(status="in_progress", id="b")]),
        broken(checkpoint_at_unix_ms=None),
        broken(checkpoint_at_unix_ms=BORN - 1),
        broken(progress_summary=None),
        broken(progress_summary=""),
        broken(progress_summary="x" * 2049),
        broken(progress_summary=7),
    ],
)
def test_a_stored_plan_that_breaks_any_rule_is_not_read(text: str) -> None:
    with pytest.raises(StoredPlanInvalid):
        goal_plans.parse(text, created_at=BORN)


@requirement("G-31", "G-13")
def test_an_update_changes_what_it_names_and_counts_once() -> None:
    made = goal()
    updated = goals.update(
        made, Change(title="T", objective="O", controller_agent_id="x"), expected_revision=1, at=LATER
    )
    assert updated == replace(
        made,
        title="T",
        objective="O",
        controller_agent_id="x",
        revision=2,
        updated_at_unix_ms=LATER,
    )
    cleared = goals.update(updated, Change(controller_agent_id=None), expected_revision=2, at=BORN)
    assert cleared == replace(updated, controller_agent_id=None, revision=3)
    ended = goals.update(
        cleared,
        Change(lifecycle=Lifecycle.COMPLETED, terminal_reason="done"),
        expected_revision=3,
        at=LATER,
    )
    assert (ended.lifecycle, ended.terminal_at_unix_ms, ended.terminal_reason) == (
        Lifecycle.COMPLETED,
        LATER,
        "done",
    )


@requirement("G-31", "G-22")
def test_only_a_completed_plan_completes_its_goal_and_cancelling_needs_none() -> None:
    made = goal("a")
    with pytest.raises(Refused) as refused:
        goals.update(made, Change(lifecycle=Lifecycle.COMPLETED), expected_revision=1, at=LATER)
    assert refused.value.reason is Refusal.PLAN_INCOMPLETE
    cancelled = goals.update(made, Change(lifecycle=Lifecycle.CANCELLED), expected_revision=1, at=LATER)
    assert cancelled.lifecycle is Lifecycle.CANCELLED
    moved = goals.checkpoint(made, report("a"), expected_revision=1, at=LATER)
    ended = goals.update(moved, Change(lifecycle=Lifecycle.COMPLETED), expected_revision=2, at=LATER)
    assert ended.lifecycle is Lifecycle.COMPLETED
    kept = goals.update(made, Change(lifecycle=Lifecycle.ACTIVE), expected_revision=1, at=LATER)
    assert (kept.lifecycle, kept.revision) == (Lifecycle.ACTIVE, 2)


@requirement("G-32")
def test_an_update_looks_at_the_revision_first_and_a_checkpoint_at_the_end() -> None:
    ended = goal("a", lifecycle=Lifecycle.CANCELLED, revision=3)
    with pytest.raises(Refused) as refused:
        goals.update(ended, Change(title="T"), expected_revision=2, at=LATER)
    assert (refused.value.reason, refused.value.current_revision) == (Refusal.REVISION_CHANGED, 3)
    with pytest.raises(Refused) as refused:
        goals.update(ended, Change(title="T"), expected_revision=3, at=LATER)
    assert refused.value.reason is Refusal.TERMINAL
    with pytest.raises(Refused) as refused:
        goals.checkpoint(ended, report("z"), expected_revision=2, at=LATER)
    assert refused.value.reason is Refusal.TERMINAL
    with pytest.raises(Refused) as refused:
        goals.checkpoint(goal("a", revision=3), report("z"), expected_revision=2, at=LATER)
    assert (refused.value.reason, refused.value.current_revision) == (Refusal.REVISION_CHANGED, 3)


@requirement("G-33", "G-14")
def test_a_link_is_made_once_and_sixty_four_fit() -> None:
    made = goal()
    for number in range(64):
        linked = goals.associate(
            made, Kind.WORKFLOW_SESSION, f"s{number}", expected_revision=made.revision, at=LATER
        )
        assert linked.revision == made.revision + 1
        made = linked
    assert goals.associate(made, Kind.WORKFLOW_SESSION, "s0", expected_revision=1, at=LATER) is made
    with pytest.raises(Refused) as refused:
        goals.associate(made, Kind.AGENT_TASK, "s0", expected_revision=None, at=LATER)
    assert refused.value.reason is Refusal.CORRELATION_CAPACITY
    with pytest.raises(Refused) as refused:
        goals.associate(made, Kind.AGENT_TASK, "s0", expected_revision=1, at=LATER)
    assert refused.value.reason is Refusal.REVISION_CHANGED
    assert len(made.linked(Kind.WORKFLOW_SESSION)) == 64


@requirement("G-60")
def test_the_identity_list_names_eight_and_what_comes_next() -> None:
    first = goals.checkpoint(goal("a", "b"), report("a", current="b"), expected_revision=1, at=LATER)
    shown = goal_views.identities([first, goal()])
    assert shown == {
        "available": True,
        "truncated": False,
        "goals": [
            {
                "goal_id": first.goal_id,
                "revision": 2,
                "incomplete_step_count": 1,
                "current_step": {"id": "b", "title": "B"},
                "next_action": "checkpoint_goal",
            },
            {
                "goal_id": first.goal_id,
                "revision": 1,
                "incomplete_step_count": 0,
                "current_step": None,
                "next_action": "update_goal",
            },
        ],
    }
    assert goal_views.identities([]) is None
    nine: Any = goal_views.identities([goal()] * 9)
    assert (len(nine["goals"]), nine["truncated"]) == (8, True)


@requirement("G-06", "G-07")
def test_a_request_is_the_same_whatever_the_order_of_its_keys() -> None:
    text = idempotency.request_hash({"b": "é", "a": [1, None]})
    assert text == idempotency.request_hash({"a": [1, None], "b": "é"})
    assert text == "e03c3c1ebb5fccd76e3bd35b9a86169f35e6f1b069645d48ac278175f54c4208"
    assert text != idempotency.request_hash({"a": [1], "b": "é"})
