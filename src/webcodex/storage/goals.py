"""Remembers Goals, what they are linked to, and which idempotency keys were used (G-11, G-12).

Never shows a Goal to another than its owner (G-04), and none whose stored plan breaks a rule (G-22).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, insert, or_, select, update

from webcodex.core import goal_plans
from webcodex.core import goals as core_goals
from webcodex.core.goals import Correlation, Goal, Kind, Lifecycle, Operation, Refusal
from webcodex.storage import schema_goals
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_goals: Final = schema_goals.goals
_correlations: Final = schema_goals.correlations
_idempotency: Final = schema_goals.idempotency
_LINKED: Final = Prepared(
    select(_goals)
    .join(
        _correlations,
        and_(
            _correlations.c.goal_id == _goals.c.goal_id,
            _correlations.c.kind == Kind.WORKFLOW_SESSION.value,
            _correlations.c.reference_id == bindparam("reference"),
        ),
    )
    .where(_goals.c.owner == bindparam("owner"), _goals.c.lifecycle == Lifecycle.ACTIVE.value)
    .order_by(_goals.c.goal_id)
    .limit(bindparam("limit"))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """A principal's idempotency key for one operation, and the request it was used for (G-07)."""

    owner: str
    operation: Operation
    key_hash: str
    request_hash: str


def replayed(tx: Transaction, key: Key) -> Goal | None:
    """Returns the Goal, as it now is, that the same request changed before, or none (G-07, C-23).

    Raises:
        core_goals.Refused: the key was used for another request.
        goal_plans.StoredPlanInvalid: the Goal cannot be read.

    """
    row = tx.one(
        select(_idempotency.c.request_hash, _idempotency.c.goal_id).where(
            _idempotency.c.owner == key.owner,
            _idempotency.c.operation == key.operation.value,
            _idempotency.c.key_hash == key.key_hash,
        )
    )
    if row is None:
        return None
    if row.request_hash != key.request_hash:
        raise core_goals.Refused(Refusal.IDEMPOTENCY_CONFLICT, goal_id=row.goal_id)
    return find(tx, key.owner, row.goal_id)


def remember(tx: Transaction, key: Key, goal_id: str) -> None:
    """Stores that the request behind ``key`` was carried out; kept as long as its Goal (G-07)."""
    tx.change(
        insert(_idempotency),
        {
            "owner": key.owner,
            "operation": key.operation.value,
            "key_hash": key.key_hash,
            "request_hash": key.request_hash,
            "goal_id": goal_id,
        },
    )


def find(tx: Transaction, owner: str, goal_id: str) -> Goal:
    """Returns the owner's Goal.

    Raises:
        core_goals.Refused: there is none; one of another owner is answered alike (G-04).
        goal_plans.StoredPlanInvalid: it cannot be read.

    """
    return _one(tx, _owned(owner, goal_id))


def lock(tx: Transaction, owner: str, goal_id: str) -> Goal:
    """Returns the owner's Goal, its row held until the transaction ends (see ``find``)."""
    return _one(tx, _owned(owner, goal_id).with_for_update())


def add(tx: Transaction, goal: Goal) -> None:
    """Stores a new Goal with its correlations."""
    tx.change(insert(_goals), _row(goal))
    _link(tx, goal, goal.correlations)


def save(tx: Transaction, before: Goal, goal: Goal) -> None:
    """Stores what a change made of ``before``; correlations are only ever added."""
    tx.change(update(_goals).where(_goals.c.goal_id == goal.goal_id).values(_row(goal)))
    _link(tx, goal, goal.correlations[len(before.correlations) :])


def listed(
    tx: Transaction, owner: str, *, lifecycle: Lifecycle | None, query: str | None, offset: int, limit: int
) -> tuple[int, list[Goal]]:
    """Returns how many of the owner's Goals match, and one page of them, last changed first (G-41).

    ``query`` is literal and ignores the case of ASCII letters only (G-14).

    Raises:
        goal_plans.StoredPlanInvalid: a Goal of the page cannot be read; none is named (G-22).

    """
    matching: list[ColumnElement[bool]] = [_goals.c.owner == owner]
    if lifecycle is not None:
        matching.append(_goals.c.lifecycle == lifecycle.value)
    if query:
        # lower() leaves all but ASCII alone: on SQLite always, on PostgreSQL as text is collated here.
        folded = query.translate(_FOLDED)
        matching.append(or_(*(func.lower(column).contains(folded, autoescape=True) for column in _SEARCHED)))
    total = tx.one(select(func.count()).select_from(_goals).where(*matching))
    order = (_goals.c.updated_at_unix_ms.desc(), _goals.c.goal_id)
    page = select(_goals).where(*matching).order_by(*order).offset(offset).limit(limit)
    return (0 if total is None else int(total[0])), _loaded(tx, tx.all(page))


def linked_and_active(tx: Transaction, owner: str, session_id: str, limit: int) -> list[Goal]:
    """Returns the owner's active Goals that are linked to exactly that Session, by id (G-61).

    Raises:
        goal_plans.StoredPlanInvalid: one of them cannot be read.

    """
    return _loaded(tx, tx.all(_LINKED, {"owner": owner, "reference": session_id, "limit": limit}))


_SEARCHED: Final = (_goals.c.title, _goals.c.objective)
_FOLDED: Final = {letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)}


def _owned(owner: str, goal_id: str) -> Select[Any]:
    return select(_goals).where(_goals.c.goal_id == goal_id, _goals.c.owner == owner)


def _one(tx: Transaction, statement: Select[Any]) -> Goal:
    row = tx.one(statement)
    if row is None:
        raise core_goals.Refused(Refusal.NOT_FOUND)
    return _loaded(tx, [row])[0]


def _loaded(tx: Transaction, rows: Sequence[Row]) -> list[Goal]:
    links = _links(tx, [row.goal_id for row in rows])
    return [_goal(row, tuple(links.get(row.goal_id, ()))) for row in rows]


def _links(tx: Transaction, goal_ids: Collection[str]) -> dict[str, list[Correlation]]:
    found: dict[str, list[Correlation]] = {}
    if not goal_ids:
        return found
    columns = _correlations.c
    statement = (
        select(_correlations)
        .where(columns.goal_id.in_(goal_ids))
        .order_by(columns.goal_id, columns.created_at_unix_ms, columns.kind, columns.reference_id)
    )
    for row in tx.all(statement):
        link = Correlation(
            kind=Kind(row.kind), reference_id=row.reference_id, created_at_unix_ms=row.created_at_unix_ms
        )
        found.setdefault(row.goal_id, []).append(link)
    return found


def _link(tx: Transaction, goal: Goal, links: Sequence[Correlation]) -> None:
    for link in links:
        tx.change(
            insert(_correlations),
            {
                "goal_id": goal.goal_id,
                "kind": link.kind.value,
                "reference_id": link.reference_id,
                "created_at_unix_ms": link.created_at_unix_ms,
            },
        )


def _row(goal: Goal) -> dict[str, object]:
    return {
        "goal_id": goal.goal_id,
        "owner": goal.owner,
        "title": goal.title,
        "objective": goal.objective,
        "controller_agent_id": goal.controller_agent_id,
        "lifecycle": goal.lifecycle.value,
        "revision": goal.revision,
        "created_at_unix_ms": goal.created_at_unix_ms,
        "updated_at_unix_ms": goal.updated_at_unix_ms,
        "terminal_at_unix_ms": goal.terminal_at_unix_ms,
        "terminal_reason": goal.terminal_reason,
        "plan": goal_plans.stored_text(goal.plan),
    }


def _goal(row: Row, correlations: tuple[Correlation, ...]) -> Goal:
    return Goal(
        goal_id=row.goal_id,
        owner=row.owner,
        title=row.title,
        objective=row.objective,
        controller_agent_id=row.controller_agent_id,
        lifecycle=Lifecycle(row.lifecycle),
        revision=row.revision,
        created_at_unix_ms=row.created_at_unix_ms,
        updated_at_unix_ms=row.updated_at_unix_ms,
        terminal_at_unix_ms=row.terminal_at_unix_ms,
        terminal_reason=row.terminal_reason,
        plan=goal_plans.parse(row.plan, created_at=row.created_at_unix_ms),
        correlations=correlations,
    )
