"""The bounded view of a linked Goal (H-20 to H-22, H-65)."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import brief_schema as schema
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import goal_context, redaction

candidate = {
    "goal_id": schema.text(128, size_bytes=128),
    "title": schema.text(256, size_bytes=256),
    "title_truncated": schema.boolean,
    "lifecycle": schema.one_of("active"),
    "revision": schema.whole(1),
}
goal = schema.closed(
    **candidate,
    objective=schema.closed(excerpt=schema.text(1024, size_bytes=1024), truncated=schema.boolean),
    plan=schema.closed(
        completion_conditions=schema.listing(
            schema.text(256, size_bytes=256), 8, is_set=False, content_truncated=schema.boolean
        ),
        steps=schema.listing(
            schema.closed(
                id=schema.text(32, size_bytes=32),
                title=schema.text(128, size_bytes=128),
                title_truncated=schema.boolean,
                status=schema.one_of("pending", "in_progress", "completed"),
            ),
            32,
        ),
        current_step_id=schema.null_or(schema.text(32, size_bytes=32)),
        checkpoint=schema.closed(
            summary=schema.closed(
                excerpt=schema.null_or(schema.text(512, size_bytes=512)), truncated=schema.boolean
            ),
            at_unix_ms=schema.null_or(schema.whole()),
        ),
    ),
)


def context(status: str, reason_code: str | None, **rest: schema.Check) -> schema.Check:
    alone = {
        "truncated": schema.one_of(False),
        "goal": schema.one_of(None),
        "candidates": schema.one_of([]),
    }
    return schema.closed(
        version=schema.one_of(1),
        source=schema.one_of("explicit_workflow_session_correlation"),
        status=schema.one_of(status),
        reason_code=schema.one_of(reason_code),
        **(alone | rest),
    )


context_schema = schema.either(
    context("available", None, goal=goal),
    context(
        "selection_required",
        "multiple_active_goals",
        truncated=schema.boolean,
        candidates=schema.array(schema.closed(**candidate), 8),
    ),
    context("unavailable", "store_unavailable"),
)


def make(number: int = 1, **changed: object) -> goal_context.Goal:
    fields: dict[str, object] = {
        "goal_id": f"wc_goal_{number:016d}",
        "title": "Clamp",
        "revision": 2,
        "objective": "Inclusive clamp with tests",
        "completion_conditions": ("all seven tests pass",),
        "steps": (
            goal_context.Step(step_id="read", title="Read", status=goal_context.StepStatus.COMPLETED),
            goal_context.Step(step_id="impl", title="Write", status=goal_context.StepStatus.IN_PROGRESS),
        ),
        "summary": "body written",
        "checkpoint_at_unix_ms": 1_760_000_005_000,
    }
    return goal_context.Goal(**(fields | changed))  # type: ignore[arg-type]  # tests name real fields


def shown(*goals: goal_context.Goal) -> dict[str, Any]:
    given = goal_context.goal_context(goals)
    assert given is not None
    context_schema(given, "goal_context")
    return dict(given)


texts = st.one_of(made.hostile_text, made.text_with_secrets)
goals_drawn = st.lists(
    st.builds(
        make,
        st.integers(0, 10**9),
        title=texts,
        revision=st.integers(1, 2**31),
        objective=texts,
        completion_conditions=st.lists(texts, max_size=8).map(tuple),
        steps=st.lists(
            st.builds(
                goal_context.Step,
                step_id=st.sampled_from("abcdefgh"),
                title=texts,
                status=st.sampled_from(goal_context.StepStatus),
            ),
            max_size=4,
            unique_by=lambda step: step.step_id,
        ).map(tuple),
        summary=st.none() | texts,
        checkpoint_at_unix_ms=st.none() | made.moments,
    ),
    max_size=10,
    unique_by=lambda drawn: drawn.goal_id,
).map(tuple)


@requirement("H-20", "H-65")
def test_without_a_linked_goal_the_key_is_absent() -> None:
    assert goal_context.goal_context(()) is None


@requirement("H-20", "H-21", "H-65")
def test_one_goal_is_shown_whole() -> None:
    assert shown(make()) == {
        "version": 1,
        "source": "explicit_workflow_session_correlation",
        "status": "available",
        "reason_code": None,
        "truncated": False,
        "goal": {
            "goal_id": "wc_goal_0000000000000001",
            "title": "Clamp",
            "title_truncated": False,
            "lifecycle": "active",
            "revision": 2,
            "objective": {"excerpt": "Inclusive clamp with tests", "truncated": False},
            "plan": {
                "completion_conditions": {
                    "items": ["all seven tests pass"],
                    "total": 1,
                    "returned": 1,
                    "truncated": False,
                    "content_truncated": False,
                },
                "steps": {
                    "items": [
                        {"id": "read", "title": "Read", "title_truncated": False, "status": "completed"},
                        {"id": "impl", "title": "Write", "title_truncated": False, "status": "in_progress"},
                    ],
                    "total": 2,
                    "returned": 2,
                    "truncated": False,
                },
                "current_step_id": "impl",
                "checkpoint": {
                    "summary": {"excerpt": "body written", "truncated": False},
                    "at_unix_ms": 1_760_000_005_000,
                },
            },
        },
        "candidates": [],
    }


@requirement("H-21")
def test_goal_without_plan_or_checkpoint_shows_nulls() -> None:
    bare = make(steps=(), completion_conditions=(), summary=None, checkpoint_at_unix_ms=None)
    plan = shown(bare)["goal"]["plan"]
    assert plan["current_step_id"] is None
    assert plan["checkpoint"] == {"summary": {"excerpt": None, "truncated": False}, "at_unix_ms": None}


@requirement("H-20", "H-22", "H-65")
@pytest.mark.parametrize(("number", "listed", "truncated"), [(2, 2, False), (8, 8, False), (9, 8, True)])
def test_several_goals_need_a_selection(number: int, listed: int, truncated: bool) -> None:
    given = shown(*(make(place) for place in reversed(range(number))))
    assert (given["status"], given["reason_code"]) == ("selection_required", "multiple_active_goals")
    assert [item["goal_id"] for item in given["candidates"]] == [
        f"wc_goal_{place:016d}" for place in range(listed)
    ]
    assert given["truncated"] is truncated
    assert given["goal"] is None


@requirement("H-20", "H-65")
def test_unreadable_store_is_unavailable_and_names_no_goal() -> None:
    given = goal_context.goal_context(goal_context.Goals.UNAVAILABLE)
    context_schema(given, "goal_context")
    assert given is not None
    assert (given["status"], given["reason_code"]) == ("unavailable", "store_unavailable")


@requirement("H-21")
def test_plan_beyond_its_bounds_is_cut_and_counted() -> None:
    steps = tuple(
        goal_context.Step(step_id=f"s{number}", title="x", status=goal_context.StepStatus.PENDING)
        for number in range(33)
    )
    plan = shown(make(steps=steps, completion_conditions=("same",) * 9))["goal"]["plan"]
    assert (plan["steps"]["returned"], plan["steps"]["total"], plan["steps"]["truncated"]) == (32, 33, True)
    assert plan["completion_conditions"] == {
        "items": ["same"] * 8,
        "total": 9,
        "returned": 8,
        "truncated": True,
        "content_truncated": False,
    }


@requirement("H-21", "H-22")
def test_texts_are_cut_in_bytes_on_a_character_and_say_so() -> None:
    given = shown(
        make(
            title="漢" * 200,
            objective="漢" * 2730,
            completion_conditions=("漢" * 170, "short"),
            steps=(goal_context.Step(step_id="s", title="漢" * 120, status=goal_context.StepStatus.PENDING),),
            summary="漢" * 682,
        )
    )["goal"]
    assert (given["title"], given["title_truncated"]) == ("漢" * 85, True)
    assert given["objective"] == {"excerpt": "漢" * 341, "truncated": True}
    assert given["plan"]["completion_conditions"]["items"] == ["漢" * 85, "short"]
    assert given["plan"]["completion_conditions"]["content_truncated"] is True
    assert given["plan"]["completion_conditions"]["truncated"] is False
    assert (
        given["plan"]["steps"]["items"][0]["title"],
        given["plan"]["steps"]["items"][0]["title_truncated"],
    ) == (
        "漢" * 42,
        True,
    )
    assert given["plan"]["checkpoint"]["summary"] == {"excerpt": "漢" * 170, "truncated": True}


@requirement("H-22")
def test_control_characters_become_spaces_and_credentials_vanish() -> None:
    given = shown(make(title="a\nb", objective=f"use {made.SECRETS[0]}"))["goal"]
    assert (given["title"], given["title_truncated"]) == ("a b", False)
    assert given["objective"] == {"excerpt": "[redacted]", "truncated": True}


@requirement("H-20", "H-21", "H-22")
@settings(max_examples=25)
@given(goals_drawn)
def test_every_context_is_closed_exact_and_free_of_credentials(goals: tuple[goal_context.Goal, ...]) -> None:
    given = goal_context.goal_context(goals)
    if given is None:
        assert goals == ()
        return
    context_schema(given, "goal_context")
    assert not redaction.holds_credential(json.dumps(given, ensure_ascii=False))
