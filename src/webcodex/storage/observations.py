"""Remembers external reports; a report and its identity are one row (O-09)."""

from typing import Final

from sqlalchemy import bindparam, func, insert, select, update

from webcodex.core import limits
from webcodex.core import observations as core_observations
from webcodex.core.observations import Observation, Report
from webcodex.storage import schema, sessions
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_table: Final = schema.external_observations
_counters: Final = schema.counters
TOTAL: Final = "external_observations"
_BY_IDENTITY: Final = Prepared(
    select(_table).where(
        _table.c.session_id == bindparam("session_id"),
        _table.c.adapter_id == bindparam("adapter_id"),
        _table.c.event_id == bindparam("event_id"),
    )
)
_OF_SESSION: Final = Prepared(
    select(_table)
    .where(_table.c.session_id == bindparam("session_id"), _table.c.project == bindparam("project"))
    .order_by(_table.c.recorded_at, _table.c.adapter_id, _table.c.event_id)
    .limit(limits.OBSERVATIONS_PER_SESSION)
)
_COUNT: Final = Prepared(
    select(func.count().label("stored"))
    .select_from(_table)
    .where(_table.c.session_id == bindparam("session_id"))
)
_TOTAL: Final = Prepared(select(_counters.c.value).where(_counters.c.name == TOTAL).with_for_update())
_ADD: Final = Prepared(insert(_table))
_RAISE: Final = Prepared(
    update(_counters).where(_counters.c.name == TOTAL).values(value=_counters.c.value + 1)
)


class Refused(Exception):
    """The report is not stored; ``reason`` says why and what is stored stays as it was."""

    def __init__(self, reason: core_observations.Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


def record(tx: Transaction, report: Report, now: int) -> tuple[Observation, bool]:
    """Stores ``report`` or finds its exact replay; returns what is stored and whether this call stored it.

    Raises:
        Refused: conflict, closed Session or capacity, in that order (O-04, O-10).

    """
    session = sessions.lock(tx, report.session_id)
    stored = _find(tx, report)
    if stored is not None:
        conflict = core_observations.replay(stored, report)
        if conflict is not None:
            raise Refused(conflict)
        return stored, False
    total = _total(tx)
    refusal = core_observations.admit(
        session_is_active=session is not None and session.is_active,
        stored_in_session=count(tx, report.session_id),
        stored_in_all=total,
    )
    if refusal is not None:
        raise Refused(refusal)
    observation = Observation(report=report, recorded_at=now)
    tx.change(_ADD, _row(observation))
    tx.change(_RAISE)
    return observation, True


def count(tx: Transaction, session_id: str) -> int:
    """Returns how many reports a Session holds."""
    row = tx.one(_COUNT, {"session_id": session_id})
    return 0 if row is None else int(row[0])


def listed(tx: Transaction, session_id: str, project: str) -> list[Observation]:
    """Returns the reports of a Session by (recorded_at, adapter_id, event_id), at most 256 (O-06)."""
    return [_observation(row) for row in tx.all(_OF_SESSION, {"session_id": session_id, "project": project})]


def _find(tx: Transaction, report: Report) -> Observation | None:
    identity = {name: getattr(report, name) for name in ("session_id", "adapter_id", "event_id")}
    row = tx.one(_BY_IDENTITY, identity)
    return None if row is None else _observation(row)


def _total(tx: Transaction) -> int:
    row = tx.one(_TOTAL)
    if row is None:
        raise LookupError("the total counter is missing")
    return int(row[0])


def _row(observation: Observation) -> dict[str, object]:
    report = observation.report
    return {
        "session_id": report.session_id,
        "project": report.project,
        "adapter_id": report.adapter_id,
        "event_id": report.event_id,
        "tool": report.tool,
        "exit_code": report.exit_code,
        "recorded_at": observation.recorded_at,
    }


def _observation(row: Row) -> Observation:
    report = Report(
        session_id=row.session_id,
        project=row.project,
        adapter_id=row.adapter_id,
        event_id=row.event_id,
        tool=row.tool,
        exit_code=row.exit_code,
    )
    return Observation(report=report, recorded_at=row.recorded_at)
