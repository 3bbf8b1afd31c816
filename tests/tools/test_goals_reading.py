"""Proves what is read of Goals, alone and beside a Session, and that reading changes nothing (70, 40.10)."""

import asyncio
from typing import Any

from tests.requirements import requirement
from tests.tools.goal_desk import (
    MANAGER,
    STEPS,
    change,
    created,
    execute,
    goal_of,
    link_to_many,
    prepared,
    rows,
)
from tests.tools.house import DEMO, EVE, House, user
from webcodex.core import access
from webcodex.tools import ports

READ = "read_session_handoff"
STATE = "get_session_handoff_state"
EVERYTHING = ("wc_goals", "wc_goal_correlations", "wc_goal_idempotency", "wc_sessions", "wc_session_events")


async def context(house: House, session: str, **arguments: Any) -> dict[str, Any] | None:
    """What both tools say, which must be one thing."""
    read = await house.output(READ, session_id=session, include_workspace=False, **arguments)
    state = await house.output(STATE, session_id=session, project=DEMO, **arguments)
    assert read.get("goal_context") == state.get("goal_context")
    shown: dict[str, Any] | None = state.get("goal_context")
    assert ("goal_context" in state) is (shown is not None)
    return shown


async def plan(house: House, goal: str, tool: str = "sync_goal_plan") -> dict[str, Any]:
    shown: dict[str, Any] = (await house.output(tool, goal_id=goal))["goal_plan"]
    return shown


def said(status: str, reason: str | None, **rest: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "source": "explicit_workflow_session_correlation",
        "status": status,
        "reason_code": reason,
        "truncated": False,
        "goal": None,
        "candidates": [],
        **rest,
    }


def quiet_since(last: int, *, for_ms: int) -> dict[str, Any]:
    return {
        "available": True,
        "state": "active",
        "idle_threshold_ms": 300_000,
        "observation_lease_ms": None,
        "last_seen_at_ms": last,
        "last_meaningful_activity_at_ms": last,
        "quiet_for_ms": for_ms,
        "linked_window_count": 0,
        "active_meaningful_request_count": 0,
        "coverage_partial": False,
    }


@requirement("G-14", "G-40", "G-41")
async def test_goals_are_listed_last_changed_first_in_pages_and_by_literal_text(house: House) -> None:
    titles = ["Ünder_score 100%", "clamp", "CLAMP again", "other"]
    made = []
    for number, title in enumerate(titles):
        house.now += 1
        made.append(await created(house, f"k{number}", title=title, objective="Say É and it"))
    await change(house, "update_goal", goal_id=made[3], expected_revision=1, lifecycle="cancelled")
    whole = await house.output("list_goals")
    assert [row["goal_id"] for row in whole["goals"]] == [*reversed(made)]
    assert whole == {
        "total_count": 4,
        "offset": 0,
        "next_offset": None,
        "truncated": False,
        "goals": [(await goal_of(house, goal))["summary"] for goal in reversed(made)],
    }
    page = await house.output("list_goals", limit=3)
    assert (page["next_offset"], page["truncated"], len(page["goals"])) == (3, True, 3)
    rest = await house.output("list_goals", limit=3, offset=page["next_offset"])
    assert ([row["goal_id"] for row in rest["goals"]], rest["next_offset"]) == ([made[0]], None)
    assert (await house.output("list_goals", offset=9))["goals"] == []
    for query, found in (
        ("CLamp", {made[1], made[2]}),
        ("R_S", {made[0]}),
        ("0%", {made[0]}),
        ("%", {made[0]}),
        ("say É", set(made)),
        ("say é", set()),
        ("ünder", set()),
        ("", set(made)),
    ):
        listed = await house.output("list_goals", query=query)
        assert {row["goal_id"] for row in listed["goals"]} == found, query
        assert listed["total_count"] == len(found)
    ended = await house.output("list_goals", lifecycle="cancelled")
    assert [row["goal_id"] for row in ended["goals"]] == [made[3]]


@requirement("G-22", "G-42", "G-61", "H-20")
async def test_a_stored_plan_that_breaks_a_rule_closes_every_road_to_its_goal(house: House) -> None:
    session = await house.session()
    good, bad = await created(house), await prepared(house, session)
    await execute(house, "UPDATE wc_goals SET plan = '{}' WHERE goal_id = :goal", goal=bad)
    before = await rows(house)
    keyed = {"expected_revision": 1, "idempotency_key": "new"}
    tools: dict[str, dict[str, Any]] = {
        "get_goal": {},
        "present_goal_plan": {},
        "sync_goal_plan": {},
        "update_goal": {"lifecycle": "cancelled", **keyed},
        "checkpoint_goal": {"completed_step_ids": [], "summary": "x", **keyed},
        "associate_goal_workflow_session": {"session_id": session, **keyed},
        "associate_goal_agent_task": {"task_id": "wc_agent_task_" + "a" * 16, **keyed},
    }
    closed = {"error_kind": "invalid_goal_plan", "state_changed": False, "recovery_kind": "user_action"}
    for tool, arguments in tools.items():
        assert await house.refusal(tool, by=MANAGER, goal_id=bad, **arguments) == closed, tool
    assert await house.refusal("list_goals") == closed
    assert await rows(house) == before
    assert (await goal_of(house, good))["summary"]["revision"] == 1
    assert await context(house, session) == said("unavailable", "store_unavailable")


@requirement("G-50", "G-51", "G-52", "G-54")
async def test_a_presented_plan_shows_progress_and_activity(house: House) -> None:
    session = await house.session()
    goal = await prepared(house, session)
    born = house.now * 1000
    house.now += 5
    report = {"completed_step_ids": ["impl"], "current_step_id": "test", "summary": "body written"}
    await change(house, "checkpoint_goal", goal_id=goal, expected_revision=1, **report)
    shown = await plan(house, goal)
    assert shown == {
        "version": 3,
        "goal_id": goal,
        "title": "Clamp",
        "total_step_count": 2,
        "completed_step_count": 1,
        "current_step_id": "test",
        "steps": [
            {**STEPS[0], "status": "completed", "updated_at_unix_ms": born + 5000},
            {**STEPS[1], "status": "in_progress", "updated_at_unix_ms": born + 5000},
        ],
        "progress_summary": "body written",
        "checkpoint_at_unix_ms": born + 5000,
        "controller_agent_id": None,
        "lifecycle": "active",
        "revision": 2,
        "updated_at_unix_ms": born + 5000,
        "terminal_at_unix_ms": None,
        "agent_task_count": 0,
        "workflow_session_count": 1,
        "activity": quiet_since(born, for_ms=5000),
        "continuity": {"state": "not_configured"},
    }
    assert await plan(house, goal, "present_goal_plan") == shown
    await change(house, "update_goal", goal_id=goal, expected_revision=2, lifecycle="cancelled")
    ended = await plan(house, goal)
    assert (ended["activity"]["state"], ended["continuity"]) == (
        "not_applicable",
        {"state": "not_applicable"},
    )


@requirement("G-51", "G-52", "G-53", "S-50", "S-51", "H-67")
async def test_meaningful_work_moves_the_activity_and_looking_does_not(house: House) -> None:
    session, reader = await house.session(), await house.session()
    goal = await prepared(house, session)
    alone = await created(house)
    house.now += 300
    assert (await plan(house, goal))["activity"]["state"] == "attention_needed"
    assert (await plan(house, alone))["activity"]["state"] == "unobserved"
    quiet = (await plan(house, goal))["activity"]
    await house.output(STATE, session_id=session, project=DEMO)
    await house.output(READ, session_id=session, include_workspace=False)
    await house.output("list_external_observations", session_id=session, project=DEMO)
    for tool, arguments in (
        ("get_goal", {"goal_id": goal}),
        ("list_goals", {}),
        ("present_goal_plan", {"goal_id": goal}),
        ("sync_goal_plan", {"goal_id": goal}),
        ("list_projects", {}),
    ):
        await house.output(tool, recorder=session, **arguments)
    await house.output("read_session_summary", session_id=reader)
    assert (await plan(house, goal))["activity"] == quiet
    await house.output("list_session_messages", session_id=session)
    moved = (await plan(house, goal))["activity"]
    assert (moved["state"], moved["last_meaningful_activity_at_ms"]) == ("active", house.now * 1000)
    await house.reopen()
    assert (await plan(house, goal))["activity"] == moved
    house.now += 300
    await house.output("read_session_summary", session_id=reader, recorder=session)
    assert (await plan(house, goal))["activity"]["quiet_for_ms"] == 0


@requirement("G-51", "G-52", "G-53")
async def test_a_running_request_keeps_its_goal_active_and_a_scan_limit_is_told(house: House) -> None:
    session = await house.session()
    goal = await prepared(house, session)
    house.now += 400
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def wait(*_given: object, **_named: object) -> Any:
        has_begun.set()
        await may_end.wait()
        raise ports.RunnerUnavailable

    setattr(house.runner, "call", wait)  # noqa: B010 - the peer of this test answers when it is told to
    running = asyncio.ensure_future(house.call(READ, session_id=session))
    await has_begun.wait()
    assert (await plan(house, goal))["activity"]["active_meaningful_request_count"] == 0
    working = asyncio.ensure_future(
        house.call("get_git_status", by=user("ada", "admin"), recorder=session, project=DEMO)
    )
    has_begun.clear()
    await has_begun.wait()
    shown = (await plan(house, goal))["activity"]
    assert (shown["state"], shown["active_meaningful_request_count"]) == ("active", 1)
    may_end.set()
    await asyncio.gather(running, working)
    assert (await plan(house, goal))["activity"]["active_meaningful_request_count"] == 0
    house.now += 300
    await link_to_many(house, goal, 16, at=house.now * 1000)
    cut = (await plan(house, goal))["activity"]
    assert (cut["state"], cut["coverage_partial"]) == ("unobserved", True)


@requirement("G-52")
async def test_activity_that_cannot_be_read_is_said_to_be_so(house: House) -> None:
    goal = await prepared(house, await house.session())
    await execute(house, "ALTER TABLE wc_session_events RENAME TO away")
    shown = (await plan(house, goal))["activity"]
    assert (shown["available"], shown["state"], shown["quiet_for_ms"]) == (False, "unobserved", None)
    assert shown["active_meaningful_request_count"] is None
    await execute(house, "ALTER TABLE away RENAME TO wc_session_events")


@requirement("G-61", "C-14", "H-20", "H-21", "H-22", "H-65", "H-67")
async def test_a_later_reader_sees_the_one_active_goal_and_never_one_of_several(house: House) -> None:
    session = await house.session()
    assert await context(house, session) is None
    goal = await prepared(house, session, objective="Inclusive clamp")
    one = await context(house, session)
    assert one is not None
    assert one == said("available", None, goal=one["goal"])
    assert (one["goal"]["goal_id"], one["goal"]["revision"]) == (goal, 1)
    assert one["goal"]["objective"] == {"excerpt": "Inclusive clamp", "truncated": False}
    assert one["goal"]["plan"]["steps"]["items"][0] == {
        "id": "impl",
        "title": "Implement clamp",
        "title_truncated": False,
        "status": "pending",
    }
    assert one["goal"]["plan"]["checkpoint"] == {
        "summary": {"excerpt": None, "truncated": False},
        "at_unix_ms": None,
    }
    assert await context(house, session, by=user("ada", "runtime:read")) is None
    assert await context(house, await house.session()) is None
    await execute(house, "UPDATE wc_goals SET owner = :eve", eve=EVE.authority)
    assert await context(house, session) is None
    assert access.has_scope(EVE, access.Scope.COMMUNICATION_READ)


@requirement("G-61", "H-20", "H-21", "H-65")
async def test_of_several_active_goals_none_is_chosen(house: House) -> None:
    session = await house.session()
    goals = [await prepared(house, session, f"p{number}") for number in range(9)]
    named = {"title": "Clamp", "title_truncated": False, "lifecycle": "active", "revision": 1}
    assert await context(house, session) == said(
        "selection_required",
        "multiple_active_goals",
        truncated=True,
        candidates=[{"goal_id": goal, **named} for goal in sorted(goals)[:8]],
    )

    async def end(goal: str) -> None:
        given = {"goal_id": goal, "expected_revision": 1, "lifecycle": "cancelled"}
        await change(house, "update_goal", idempotency_key=goal, **given)

    for goal in goals[2:]:
        await end(goal)
    two = await context(house, session)
    assert two is not None
    assert (two["status"], two["truncated"], len(two["candidates"])) == ("selection_required", False, 2)
    await end(goals[1])
    one = await context(house, session)
    assert one is not None
    assert (one["status"], one["goal"]["goal_id"], one["candidates"]) == ("available", goals[0], [])
    await end(goals[0])
    assert await context(house, session) is None


@requirement("G-10", "G-61", "H-22", "H-67")
async def test_reading_changes_no_row(house: House) -> None:
    session = await house.session()
    goal = await prepared(house, session)
    before = await rows(house, *EVERYTHING)
    await house.output(STATE, session_id=session, project=DEMO)
    for tool in ("get_goal", "present_goal_plan", "sync_goal_plan"):
        await house.output(tool, goal_id=goal)
    await house.output("list_goals")
    assert await rows(house, *EVERYTHING) == before
    await house.output(READ, session_id=session, include_workspace=False)
    assert await rows(house) == before[:3]


@requirement("G-60", "S-60")
async def test_an_exact_resume_names_the_goals_and_nothing_more_of_them(house: House) -> None:
    session = await house.session()
    resume = {"project": DEMO, "instruction": "Go on", "session_id": session}
    assert "goal_reentry" not in await house.output("work_on_project", **resume)
    goal = await prepared(house, session)
    report = {"completed_step_ids": [], "current_step_id": "impl", "summary": "begun"}
    await change(house, "checkpoint_goal", goal_id=goal, expected_revision=1, **report)
    assert (await house.output("work_on_project", **resume))["goal_reentry"] == {
        "available": True,
        "truncated": False,
        "goals": [
            {
                "goal_id": goal,
                "revision": 2,
                "incomplete_step_count": 2,
                "current_step": {"id": "impl", "title": "Implement clamp"},
                "next_action": "checkpoint_goal",
            }
        ],
    }
    reader = user("ada", "runtime:read")
    assert "goal_reentry" not in await house.output("work_on_project", by=reader, **resume)
    await execute(house, "ALTER TABLE wc_goals RENAME TO away")
    resumed = await house.output("work_on_project", **resume)
    assert resumed["goal_reentry"] == {"available": False, "truncated": False, "goals": []}
    await execute(house, "ALTER TABLE away RENAME TO wc_goals")


@requirement("G-42", "G-61", "H-20", "H-65")
async def test_a_store_that_is_away_is_told_and_leaves_the_brief_as_it_was(house: House) -> None:
    session = await house.session()
    goal = await prepared(house, session)
    whole = await house.output(STATE, session_id=session, project=DEMO)
    await execute(house, "ALTER TABLE wc_goals RENAME TO away")
    away = await house.output(STATE, session_id=session, project=DEMO)
    assert away["goal_context"] == said("unavailable", "store_unavailable")
    assert away["handoff_brief"] == whole["handoff_brief"]
    read = {
        "error_kind": "goal_store_unavailable",
        "state_changed": False,
        "recovery_kind": "reobserve",
        "failure_kind": "unavailable",
    }
    assert await house.refusal("get_goal", goal_id=goal) == read
    assert await house.refusal("list_goals") == read
    change_of = {"by": MANAGER, "goal_id": goal, "expected_revision": 1, "title": "x"}
    refused = await house.refusal("update_goal", **change_of, idempotency_key="new")
    assert refused == {**read, "recovery_kind": "retry_same"}
    await execute(house, "ALTER TABLE away RENAME TO wc_goals")
    made = await house.output("update_goal", **change_of, idempotency_key="new")
    assert (made["replayed"], made["goal"]["summary"]["revision"]) == (False, 2)
