"""Proves the changes of Goals on a real store: revision, replay, races, refusals (70-goals)."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.goal_desk import (
    MANAGER,
    STEPS,
    change,
    created,
    goal_of,
    link_to_many,
    refused,
    rows,
)
from tests.tools.house import ADA, BOOTSTRAP, DEMO, EVE, House, user
from webcodex.core import access
from webcodex.tools.contract import BadArguments, MissingScope


@requirement("G-10", "G-11", "G-12", "G-20", "G-34", "G-41")
async def test_a_prepared_goal_is_linked_from_its_first_revision_on(house: House) -> None:
    session = await house.session()
    made = await change(
        house,
        "prepare_goal_workflow",
        session_id="~s1",
        title="Clamp",
        objective="Inclusive clamp with tests",
        completion_conditions=["all seven tests pass"],
        steps=STEPS,
    )
    goal, born = made["goal"], house.now * 1000
    assert made == {"goal": goal, "created": True, "replayed": False, "state_changed": True}
    assert goal == {
        "summary": {
            "goal_id": goal["summary"]["goal_id"],
            "title": "Clamp",
            "lifecycle": "active",
            "revision": 1,
            "created_at_unix_ms": born,
            "updated_at_unix_ms": born,
            "terminal_at_unix_ms": None,
            "agent_task_count": 0,
            "workflow_session_count": 1,
        },
        "plan": {
            "completion_conditions": ["all seven tests pass"],
            "steps": [{**step, "status": "pending", "updated_at_unix_ms": born} for step in STEPS],
            "progress_summary": None,
            "checkpoint_at_unix_ms": None,
        },
        "objective": "Inclusive clamp with tests",
        "controller_agent_id": None,
        "terminal_reason": None,
        "correlations": [{"kind": "workflow_session", "reference_id": session, "created_at_unix_ms": born}],
    }
    assert [len(table) for table in await rows(house)] == [1, 1, 1]
    await house.reopen()
    assert await goal_of(house, goal["summary"]["goal_id"]) == goal


@requirement("G-13", "G-21", "G-30", "G-31", "G-32")
async def test_a_goal_goes_from_checkpoint_to_checkpoint_to_its_end(house: House) -> None:
    goal = await created(house)
    report = {"goal_id": goal, "completed_step_ids": ["impl"], "current_step_id": "test", "summary": "body"}
    house.now += 5
    moved = await change(house, "checkpoint_goal", expected_revision=1, **report)
    assert [step["status"] for step in moved["goal"]["plan"]["steps"]] == ["completed", "in_progress"]
    assert moved["goal"]["plan"]["checkpoint_at_unix_ms"] == house.now * 1000
    end = {"goal_id": goal, "lifecycle": "completed"}
    early = await refused(house, "update_goal", expected_revision=2, **end)
    assert (early["error_kind"], early["recovery_kind"]) == ("goal_plan_incomplete", "fix_input")
    again = await change(
        house, "checkpoint_goal", **{**report, "expected_revision": 2, "idempotency_key": "second"}
    )
    assert again["goal"]["summary"]["revision"] == 3
    await change(
        house,
        "checkpoint_goal",
        goal_id=goal,
        expected_revision=3,
        completed_step_ids=["test"],
        summary="done",
        idempotency_key="third",
    )
    ended = await change(house, "update_goal", expected_revision=4, terminal_reason="shipped", **end)
    assert ended["goal"]["terminal_reason"] == "shipped"
    assert ended["goal"]["summary"]["terminal_at_unix_ms"] == house.now * 1000


@requirement("G-13", "G-32", "G-42")
async def test_an_ended_goal_takes_no_change_and_stays_as_it_was(house: House) -> None:
    goal, session = await created(house), await house.session()
    ended = await change(house, "update_goal", goal_id=goal, expected_revision=1, lifecycle="cancelled")
    for tool, arguments in (
        ("update_goal", {"expected_revision": 2, "title": "late"}),
        ("checkpoint_goal", {"expected_revision": 1, "completed_step_ids": [], "summary": "late"}),
        ("associate_goal_workflow_session", {"session_id": session}),
        ("associate_goal_agent_task", {"task_id": "wc_agent_task_" + "0" * 32}),
    ):
        late = await refused(house, tool, goal_id=goal, **{"idempotency_key": "late", **arguments})
        assert late == {
            "error_kind": "goal_terminal",
            "state_changed": False,
            "recovery_kind": "reobserve",
            "suggested_call": {"tool": "get_goal", "arguments": {"goal_id": goal}},
        }
    assert await goal_of(house, goal) == ended["goal"]


@requirement("G-01", "G-32", "G-42")
async def test_another_revision_is_told_with_a_call_that_the_caller_may_make(house: House) -> None:
    goal = await created(house)
    for tool, arguments in (
        ("update_goal", {"title": "x"}),
        ("checkpoint_goal", {"completed_step_ids": ["nowhere"], "summary": "x"}),
        ("associate_goal_workflow_session", {"session_id": await house.session()}),
    ):
        given = {"goal_id": goal, "expected_revision": 7, "idempotency_key": "new", **arguments}
        assert await refused(house, tool, **given) == {
            "error_kind": "goal_revision_changed",
            "state_changed": False,
            "recovery_kind": "reobserve",
            "failure_kind": "conflict",
            "current_revision": 1,
            "suggested_call": {"tool": "get_goal", "arguments": {"goal_id": goal}},
        }
    writer = user("ada", "communication:manage")
    blind = await refused(house, "update_goal", by=writer, goal_id=goal, expected_revision=7, title="x")
    assert (blind["error_kind"], "suggested_call" in blind) == ("goal_revision_changed", False)
    assert (await goal_of(house, goal))["summary"]["revision"] == 1


@requirement("G-12", "G-31")
async def test_of_sixteen_racing_updates_exactly_one_is_made(house: House) -> None:
    goal = await created(house)
    answers: list[Any] = await asyncio.gather(
        *(
            house.call(
                "update_goal",
                by=MANAGER,
                goal_id=goal,
                expected_revision=1,
                title=f"title {number}",
                idempotency_key=f"k{number}",
            )
            for number in range(16)
        )
    )
    won = [answer["output"] for answer in answers if answer["success"]]
    lost = [answer["output"] for answer in answers if not answer["success"]]
    assert (len(won), len(lost)) == (1, 15)
    assert {(one["error_kind"], one["current_revision"]) for one in lost} == {("goal_revision_changed", 2)}
    assert await goal_of(house, goal) == won[0]["goal"]


@requirement("G-07", "G-12", "G-34", "C-23")
async def test_one_key_changes_once_from_sixteen_callers_and_after_a_restart(house: House) -> None:
    session = await house.session()
    given = {
        "session_id": session,
        "title": "Clamp",
        "objective": "O",
        "completion_conditions": [],
        "steps": [],
    }
    answers = await asyncio.gather(*(change(house, "prepare_goal_workflow", **given) for _ in range(16)))
    first = next(answer for answer in answers if not answer["replayed"])
    assert sum(answer["state_changed"] for answer in answers) == 1
    assert {answer["goal"]["summary"]["goal_id"] for answer in answers} == {
        first["goal"]["summary"]["goal_id"]
    }
    await house.output("close_session", session_id=session)
    await house.reopen()
    before = await rows(house)
    for name in (session, "~s1"):
        replayed = await change(house, "prepare_goal_workflow", **{**given, "session_id": name})
        assert replayed == {**first, "created": False, "replayed": True, "state_changed": False}
    for changed in ({"title": "Other"}, {"steps": STEPS}, {"session_id": "~s9"}):
        conflict = await refused(house, "prepare_goal_workflow", **{**given, **changed})
        assert (conflict["error_kind"], conflict["recovery_kind"], conflict["failure_kind"]) == (
            "goal_idempotency_conflict",
            "reobserve",
            "conflict",
        )
    new = await refused(house, "prepare_goal_workflow", idempotency_key="new", **given)
    assert new["error_kind"] == "session_closed"
    assert await rows(house) == before


@requirement("G-07", "G-03", "C-23")
async def test_a_key_belongs_to_its_principal_and_operation_and_answers_what_is_now_stored(
    house: House,
) -> None:
    goal = await created(house, objective="first")
    update = {"goal_id": goal, "expected_revision": 1, "title": "Second"}
    await change(house, "update_goal", **update)
    await change(house, "update_goal", goal_id=goal, expected_revision=2, title="Third", idempotency_key="b")
    replayed = await change(house, "update_goal", **{**update, "idempotency_key": " k "})
    assert replayed["goal"]["summary"]["title"] == "Third"
    assert (replayed["replayed"], replayed["state_changed"]) == (True, False)
    cleared = await refused(house, "update_goal", **update, controller_agent_id=None)
    assert cleared["error_kind"] == "goal_idempotency_conflict"
    eve = await change(house, "create_goal", by=EVE, title="Eve's", objective="O")
    assert eve["created"] is True
    assert eve["goal"]["summary"]["goal_id"] != goal
    other = user("ada", "communication:manage")
    assert (await change(house, "update_goal", by=other, **update))["replayed"] is True


@requirement("G-04", "G-33", "G-42", "C-11")
async def test_a_goal_of_another_is_answered_like_none_for_every_tool(house: House) -> None:
    goal, session = await created(house), await house.session()
    before = await rows(house)
    keyed = {"expected_revision": 1, "idempotency_key": "e"}
    tools: dict[str, dict[str, Any]] = {
        "get_goal": {},
        "present_goal_plan": {},
        "sync_goal_plan": {},
        "update_goal": {"title": "x", **keyed},
        "checkpoint_goal": {"completed_step_ids": [], "summary": "x", **keyed},
        "associate_goal_agent_task": {"task_id": "wc_agent_task_" + "a" * 16, **keyed},
        "associate_goal_workflow_session": {"session_id": session, **keyed},
    }
    for tool, arguments in tools.items():
        for by in (EVE, BOOTSTRAP):
            foreign = await house.call(tool, by=by, goal_id=goal, **arguments)
            absent = await house.call(tool, by=by, goal_id="wc_goal_" + "0" * 32, **arguments)
            assert foreign == absent, tool
            assert foreign["output"] == {
                "error_kind": "goal_not_found",
                "state_changed": False,
                "recovery_kind": "reobserve",
                "suggested_call": {"tool": "list_goals", "arguments": {}},
            }
    assert (await house.output("list_goals", by=EVE))["total_count"] == 0
    assert await rows(house) == before


@requirement("G-33", "C-20")
async def test_a_link_is_refused_in_the_order_goal_then_session_then_revision(house: House) -> None:
    goal, session = await created(house), await house.session()
    foreign = str((await house.output("start_session", by=BOOTSTRAP, project=DEMO))["session_id"])
    link = "associate_goal_workflow_session"
    for name, word in (
        ("wc_sess_absent", "unknown_session_id"),
        ("~s9", "unknown_session_ref"),
        (foreign, "session_authority_denied"),
    ):
        answer = await refused(house, link, goal_id=goal, session_id=name, expected_revision=9)
        assert (answer["error_kind"], answer["state_changed"]) == (word, False)
    first = await change(house, link, goal_id=goal, session_id=session)
    assert first["goal"]["summary"]["revision"] == 2
    before = await rows(house, "wc_goals", "wc_goal_correlations")
    again = await change(
        house, link, goal_id=goal, session_id="~s1", expected_revision=9, idempotency_key="other"
    )
    assert again == {"goal": first["goal"], "created": False, "replayed": False, "state_changed": False}
    assert await rows(house, "wc_goals", "wc_goal_correlations") == before
    closed = await house.session()
    await house.output("close_session", session_id=closed)
    late = {"goal_id": goal, "session_id": closed, "expected_revision": 9, "idempotency_key": "late"}
    answer = await refused(house, link, **late)
    assert (answer["error_kind"], answer["recovery_kind"]) == ("session_closed", "user_action")


@requirement("G-14", "G-33")
async def test_a_goal_takes_sixty_four_links(house: House) -> None:
    goal, session = await created(house), await house.session()
    await link_to_many(house, goal, 64)
    answer = await refused(house, "associate_goal_workflow_session", goal_id=goal, session_id=session)
    assert answer == {
        "error_kind": "goal_correlation_capacity_exceeded",
        "state_changed": False,
        "recovery_kind": "fix_input",
        "failure_kind": "capacity",
        "suggested_call": {"tool": "get_goal", "arguments": {"goal_id": goal}},
    }


@requirement("G-33", "G-35", "G-42")
async def test_what_is_not_stored_is_not_found_and_nothing_is_pretended(house: House) -> None:
    goal = await created(house)
    before = await rows(house)
    task = await refused(
        house, "associate_goal_agent_task", goal_id=goal, task_id="wc_agent_task_" + "0" * 16
    )
    assert (task["error_kind"], task["recovery_kind"]) == ("agent_task_not_found", "reobserve")
    malformed = await refused(house, "associate_goal_agent_task", goal_id=goal, task_id="wc_agent_task_x")
    assert (malformed["error_kind"], malformed["recovery_kind"]) == ("invalid_agent_task_id", "fix_input")
    labelled = {"controller_agent_id": "wc_dagent_" + "0" * 16}
    for tool, arguments in (
        ("create_goal", {"title": "x", "objective": "x"}),
        ("update_goal", {"goal_id": goal, "expected_revision": 9}),
    ):
        answer = await refused(house, tool, idempotency_key="new", **labelled, **arguments)
        assert (answer["error_kind"], answer["recovery_kind"]) == ("agent_not_found", "fix_input")
    assert await rows(house) == before
    cleared = await change(house, "update_goal", goal_id=goal, expected_revision=1, controller_agent_id=None)
    assert (cleared["goal"]["controller_agent_id"], cleared["goal"]["summary"]["revision"]) == (None, 2)


@requirement("G-03", "G-40", "C-22")
async def test_scopes_come_before_arguments_and_structure_before_values(house: House) -> None:
    with pytest.raises(MissingScope, match="communication:manage"):
        await house.call("create_goal", nonsense=1)
    linker = user("ada", "communication:manage")
    with pytest.raises(MissingScope, match="session:collaborate"):
        await house.call("prepare_goal_workflow", by=linker)
    with pytest.raises(MissingScope, match="communication:read"):
        await house.call("list_goals", by=linker)
    goal = await created(house)
    for revision in (True, "1", 1.0):
        with pytest.raises(BadArguments):
            await refused(house, "update_goal", goal_id="?", expected_revision=revision, title="x")
    assert access.has_scope(ADA, access.Scope.COMMUNICATION_MANAGE) is False
    assert (await goal_of(house, goal))["summary"]["revision"] == 1
