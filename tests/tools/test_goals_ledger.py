"""Proves what a Goal call leaves beside its Goal: its events, and the truth about a commit that was lost."""

from typing import Any

from sqlalchemy import text

from tests.requirements import requirement
from tests.tools.goal_desk import MANAGER, change, created, goal_of, prepared, refused, rows
from tests.tools.house import BOOTSTRAP, DEMO, House

LINK = "associate_goal_workflow_session"
COMMIT_FAILS = (
    "CREATE TABLE unsettled (goal TEXT REFERENCES wc_goals (goal_id) DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TRIGGER no_commit AFTER UPDATE ON wc_goals BEGIN INSERT INTO unsettled VALUES ('none'); END",
)


async def carry_out(house: House, statement: str) -> None:
    await house.database.write(lambda tx: tx.change(text(statement)))


async def written(house: House, session: str) -> list[tuple[str, Any, Any]]:
    """The events of a Session, without those of this look at it."""
    summary = await house.output("read_session_summary", session_id=session, limit=200)
    return [(one["tool_name"], one.get("status"), one.get("error_kind")) for one in summary["events"][:-1]]


@requirement("G-33", "S-50", "S-52")
async def test_a_link_is_recorded_in_its_session_and_a_refused_one_only_where_it_may_be(house: House) -> None:
    session = await house.session()
    foreign = str((await house.output("start_session", by=BOOTSTRAP, project=DEMO))["session_id"])
    goal = await created(house)
    before = await rows(house, "wc_session_events")
    assert (await refused(house, LINK, goal_id=goal, session_id=foreign))["error_kind"] == (
        "session_authority_denied"
    )
    assert await rows(house, "wc_session_events") == before
    absent = await refused(house, LINK, goal_id="wc_goal_" + "0" * 16, session_id=session)
    assert absent["error_kind"] == "goal_not_found"
    await change(house, LINK, goal_id=goal, session_id=session)
    await change(house, LINK, goal_id=goal, session_id="~s1")
    assert await written(house, session) == [
        ("work_on_project", None, None),
        (LINK, None, None),
        (LINK, "failed", "goal_not_found"),
        *[(LINK, None, None), (LINK, "succeeded", None)] * 2,
    ]


@requirement("G-07", "G-33", "S-07", "C-23")
async def test_a_replay_answers_also_when_its_session_is_closed_and_writes_nothing_there(
    house: House,
) -> None:
    session = await house.session()
    goal = await prepared(house, session)
    link = {"goal_id": await created(house), "session_id": session}
    linked = await change(house, LINK, **link)
    await house.output("close_session", session_id=session)
    before = await rows(house, "wc_session_events", "wc_sessions")
    assert await prepared(house, session) == goal
    again = await change(house, LINK, **link)
    assert (again["goal"], again["replayed"]) == (linked["goal"], True)
    for tool, arguments in (
        (LINK, {**link, "idempotency_key": "new"}),
        (LINK, {"goal_id": goal, "session_id": session, "idempotency_key": "third"}),
    ):
        late = await refused(house, tool, **arguments)
        assert (late["error_kind"], late["state_changed"]) == ("session_closed", False)
    assert await rows(house, "wc_session_events", "wc_sessions") == before


@requirement("G-40", "M-43", "S-50")
async def test_a_goal_call_is_recorded_where_the_caller_names_a_recorder(house: House) -> None:
    session = await house.session()
    goal = await created(house)
    read = await house.output("get_goal", goal_id=goal, recorder=session)
    assert read["session_recorded"] is True
    synced = await house.output("sync_goal_plan", goal_id=goal, recorder=session)
    assert synced["session_recorded"] is False
    given = {"goal_id": goal, "expected_revision": 1, "title": "T", "idempotency_key": "k", "by": MANAGER}
    await house.output("update_goal", recorder=session, **given)
    assert [name for name, _, _ in await written(house, session)] == [
        "work_on_project",
        "get_goal",
        "get_goal",
        "update_goal",
        "update_goal",
    ]


@requirement("G-01", "G-42", "G-12")
async def test_a_commit_that_may_have_happened_is_told_as_unknown_and_its_key_is_safe(house: House) -> None:
    goal = await created(house)
    for statement in COMMIT_FAILS:
        await carry_out(house, statement)
    update = {"goal_id": goal, "expected_revision": 1, "title": "Once"}
    assert await refused(house, "update_goal", **update) == {
        "error_kind": "goal_store_unavailable",
        "state_changed": None,
        "recovery_kind": "retry_same",
        "failure_kind": "outcome_unknown",
    }
    await house.reopen()
    await carry_out(house, "DROP TRIGGER no_commit")
    made = await change(house, "update_goal", **update)
    assert (made["replayed"], made["goal"]["summary"]["revision"]) == (False, 2)
    assert (await change(house, "update_goal", **update))["replayed"] is True
    assert (await goal_of(house, goal))["summary"] == made["goal"]["summary"]
