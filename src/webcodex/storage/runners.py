"""Remembers which Runner process holds each client_id, and what it said of itself (R-34)."""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import and_, bindparam, func, insert, select, update

from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.storage import schema
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Runner:
    """Who holds a client_id, for which user, over which connection; times in Unix s.

    ``user_id`` is none when only bootstrap and local-dev may see its Projects (R-30). ``facts`` is what the
    Runner said of itself.
    """

    client_id: str
    user_id: str | None
    connection_id: str
    instance_id: str
    store_id: str
    last_seen_at: int
    said_goodbye: bool
    retired: tuple[str, ...]
    registered_at: int
    facts: JsonObject


_runners: Final = schema.runners
_projects: Final = schema.projects
LISTED: Final = 200


def find(tx: Transaction, client_id: str) -> Runner | None:
    """Returns what is stored of ``client_id``, held for this transaction, or none."""
    row = tx.one(select(_runners).where(_runners.c.client_id == client_id).with_for_update())
    return None if row is None else _runner(row)


def holder(tx: Transaction, client_id: str) -> Runner | None:
    """Returns what is stored of ``client_id`` at this moment, or none; the next hello may change it."""
    row = tx.one(select(_runners).where(_runners.c.client_id == client_id))
    return None if row is None else _runner(row)


def visible(tx: Transaction, caller: access.Caller) -> list[tuple[Runner, int]]:
    """Returns the Runners that ``caller`` sees with their counts of visible Projects, by client_id (C-15).

    One more than ``LISTED`` at most, so that a reader can tell whether that was all.
    """
    served = and_(_projects.c.client_id == _runners.c.client_id, _projects.c.disabled.is_(False))
    counted = func.count(_projects.c.project_id).label("projects")
    statement = (
        select(_runners, counted)
        .outerjoin(_projects, served)
        .group_by(_runners.c.client_id)
        .order_by(_runners.c.client_id)
        .limit(LISTED + 1)
    )
    if not caller.is_everyone:
        statement = statement.where(_runners.c.user_id == bindparam("user_id"))
    return [(_runner(row), row.projects) for row in tx.all(statement, {"user_id": caller.user_id})]


def save(tx: Transaction, runner: Runner) -> None:
    """Leaves ``runner`` as what is stored of its client_id."""
    values: dict[str, object] = {
        "client_id": runner.client_id,
        "user_id": runner.user_id,
        "connection_id": runner.connection_id,
        "instance_id": runner.instance_id,
        "store_id": runner.store_id,
        "last_seen_at": runner.last_seen_at,
        "said_goodbye": runner.said_goodbye,
        "retired": json.dumps(runner.retired),
        "registered_at": runner.registered_at,
        "facts": json.dumps(runner.facts),
    }
    changed = tx.change(update(_runners).where(_runners.c.client_id == runner.client_id).values(values))
    if changed == 0:
        tx.change(insert(_runners), values)


def note_seen(tx: Transaction, client_id: str, last_seen_at: int, *, said_goodbye: bool) -> None:
    """Stores when the holder of ``client_id`` was last heard, and whether that was its goodbye."""
    held = update(_runners).where(_runners.c.client_id == client_id)
    tx.change(held.values(last_seen_at=last_seen_at, said_goodbye=said_goodbye))


def _runner(row: Row) -> Runner:
    return Runner(
        client_id=row.client_id,
        user_id=row.user_id,
        connection_id=row.connection_id,
        instance_id=row.instance_id,
        store_id=row.store_id,
        last_seen_at=row.last_seen_at,
        said_goodbye=row.said_goodbye,
        retired=tuple(json.loads(row.retired)),
        registered_at=row.registered_at,
        facts=json.loads(row.facts),
    )
