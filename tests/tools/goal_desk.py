"""A caller that may manage Goals, and how its Goals look in the file."""

from typing import Any, Final

from sqlalchemy import text

from tests.tools.house import ADA, House, user

MANAGER: Final = user("ada", *ADA.scopes, "communication:manage")
TABLES: Final = ("wc_goals", "wc_goal_correlations", "wc_goal_idempotency")
STEPS: Final = [{"id": "impl", "title": "Implement clamp"}, {"id": "test", "title": "Test it"}]


async def change(house: House, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return await house.output(tool, **{"by": MANAGER, "idempotency_key": "k", **arguments})


async def refused(house: House, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return await house.refusal(tool, **{"by": MANAGER, "idempotency_key": "k", **arguments})


async def created(house: House, key: str = "k", **arguments: Any) -> str:
    given = {"title": "Clamp", "objective": "Inclusive clamp with tests", "steps": STEPS, **arguments}
    made = await change(house, "create_goal", idempotency_key=key, **given)
    return str(made["goal"]["summary"]["goal_id"])


async def prepared(house: House, session: str, key: str = "p", **arguments: Any) -> str:
    given = {"title": "Clamp", "objective": "O", "steps": STEPS, "completion_conditions": [], **arguments}
    made = await change(house, "prepare_goal_workflow", session_id=session, idempotency_key=key, **given)
    return str(made["goal"]["summary"]["goal_id"])


async def goal_of(house: House, goal_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = (await house.output("get_goal", goal_id=goal_id))["goal"]
    return shown


async def rows(house: House, *tables: str) -> list[Any]:
    """Everything that is stored in these tables, or in those of Goals."""
    return await house.database.read(
        lambda tx: [sorted(map(repr, tx.all(text(f"SELECT * FROM {table}")))) for table in tables or TABLES]
    )


async def execute(house: House, statement: str, **values: object) -> None:
    assert await house.database.write(lambda tx: tx.change(text(statement), values)) != 0


async def link_to_many(house: House, goal: str, count: int, *, at: int = 1) -> None:
    """Links a Goal to Sessions that never were, in one write."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count)"
    row = "SELECT :goal, 'workflow_session', 'wc_sess_' || i, :at FROM n"
    await execute(house, f"INSERT INTO wc_goal_correlations {numbers} {row}", goal=goal, count=count, at=at)
