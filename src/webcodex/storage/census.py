"""Counts what is stored, for the status of the Server; never shows any of it."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, func, select

from webcodex.core import access
from webcodex.storage import observations, schema
from webcodex.storage.database import Transaction

RUNNERS_COUNTED: Final = 10_000

_runners: Final = schema.runners
_projects: Final = schema.projects
_counters: Final = schema.counters


@dataclass(frozen=True, kw_only=True, slots=True)
class Census:
    """What one caller sees of the store, and how many external reports it holds for all callers."""

    engine: str
    client_ids: tuple[str, ...]
    projects: int
    external_reports: int


def taken(tx: Transaction, caller: access.Caller) -> Census:
    """Returns the counts that ``caller`` may know (C-15); of Runners at most ``RUNNERS_COUNTED``."""
    runners = select(_runners.c.client_id).limit(RUNNERS_COUNTED)
    projects = select(func.count()).select_from(_projects).where(_projects.c.disabled.is_(False))
    values: dict[str, object] = {}
    if not caller.is_everyone:
        is_owned = _runners.c.user_id == bindparam("user_id")
        runners = runners.where(is_owned)
        projects = projects.join(_runners, _runners.c.client_id == _projects.c.client_id).where(is_owned)
        values = {"user_id": caller.user_id}
    counted = tx.one(projects, values)
    reports = tx.one(select(_counters.c.value).where(_counters.c.name == observations.TOTAL))
    if counted is None or reports is None:
        raise LookupError("the total counter is missing")
    return Census(
        engine=tx.engine,
        client_ids=tuple(row.client_id for row in tx.all(runners, values)),
        projects=int(counted[0]),
        external_reports=int(reports[0]),
    )
