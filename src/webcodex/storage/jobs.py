"""Remembers Jobs and which Sessions' calls asked for them (R-61, S-45).

A Session's row is held before the rows of its Jobs; a row is held before it changes.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, delete, func, insert, not_, or_, select, update

from webcodex.core import handoff_facts, jobs, limits
from webcodex.core.handoff_facts import JobPurpose, JobState
from webcodex.core.job_log import Log
from webcodex.core.jobs import Job, State
from webcodex.storage import schema, schema_jobs
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_DROPPED: Final = 16
SWEPT: Final = 512
"""How many Jobs one transaction of the sweep or of a registration takes up at most."""

_jobs: Final = schema_jobs.jobs
_links: Final = schema_jobs.job_sessions
_UNENDED: Final = tuple(state.value for state in State if state not in jobs.TERMINAL)
_ACTIVE: Final = tuple(state.value for state in jobs.ACTIVE)
_OF_ID: Final = select(_jobs).where(_jobs.c.job_id == bindparam("job_id"))
_FIND: Final = Prepared(_OF_ID)
_LOCK: Final = Prepared(_OF_ID.with_for_update())
_ADD: Final = Prepared(insert(_jobs))
_OF_SESSION: Final = _links.c.session_id == bindparam("session_id")
_OWN: Final = _jobs.join(_links, _links.c.job_id == _jobs.c.job_id)
_IS_UNENDED: Final = or_(*(_jobs.c.state == word for word in _UNENDED))
_RECORDED: Final = Prepared(select(func.count().label("jobs")).select_from(_links).where(_OF_SESSION))
_UNSEEN: Final = Prepared(
    select(func.count().label("jobs"))
    .select_from(_OWN)
    .where(_OF_SESSION, not_(_IS_UNENDED), _jobs.c.is_observed.is_(False))
)
_WAITING: Final = Prepared(
    select(_jobs.c.job_id, _jobs.c.state, _jobs.c.purpose, _jobs.c.created_at)
    .select_from(_OWN)
    .where(_OF_SESSION, _IS_UNENDED)
    .order_by(_jobs.c.created_at, _jobs.c.job_id)
)
_OLD: Final = (
    select(_jobs.c.job_id)
    .where(_jobs.c.project == bindparam("of"), not_(_IS_UNENDED))
    .order_by(_jobs.c.created_at.desc(), _jobs.c.job_id)
    .limit(bindparam("most"))
    .offset(bindparam("kept"))
)
_DROP_OLD_LOGS: Final = Prepared(
    update(_jobs)
    .where(_jobs.c.job_id.in_(_OLD), _jobs.c.log_tail != bindparam("nothing"))
    .values(log_tail=bindparam("nothing"), log_first_line=_jobs.c.log_next_line, log_truncated=True)
)
_CHANGING: Final = (
    "state",
    "exit_code",
    "signal",
    "started_at",
    "finished_at",
    "update_seq",
    "reason_code",
    "recovered_after_server_restart",
    "recovery_reason_code",
    "recover_until",
    "is_observed",
    "log_tail",
    "log_first_line",
    "log_next_line",
    "log_truncated",
)
_SAVE: Final = Prepared(
    update(_jobs)
    .where(_jobs.c.job_id == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in _CHANGING})
)
_SEEN: Final = Prepared(
    update(_jobs)
    .where(
        _jobs.c.job_id == bindparam("of"),
        _jobs.c.update_seq == bindparam("seen"),
        _jobs.c.state == bindparam("seen_state"),
    )
    .values(is_observed=True)
)
_LINKED: Final = Prepared(
    select(_links.c.job_id).where(
        _links.c.session_id == bindparam("session_id"), _links.c.job_id == bindparam("job_id")
    )
)
_LINK: Final = Prepared(insert(_links))
_SESSIONS: Final = Prepared(
    select(_links.c.session_id).where(_links.c.job_id == bindparam("job_id")).order_by(_links.c.session_id)
)


def add(tx: Transaction, job: Job) -> None:
    """Stores a new Job."""
    tx.change(_ADD, _row(job))


def find(tx: Transaction, job_id: str) -> Job | None:
    """Returns the Job of that id, or none."""
    row = tx.one(_FIND, {"job_id": job_id})
    return None if row is None else _job(row)


def lock(tx: Transaction, job_id: str) -> Job | None:
    """Returns the Job of that id, its row held until the transaction ends, or none."""
    row = tx.one(_LOCK, {"job_id": job_id})
    return None if row is None else _job(row)


def save(tx: Transaction, job: Job) -> None:
    """Leaves ``job`` as what is stored of it; what it was asked for never changes."""
    row = _row(job)
    tx.change(_SAVE, {"of": job.job_id, **{f"new_{name}": row[name] for name in _CHANGING}})


def drop_old_logs(tx: Transaction, project: str) -> None:
    """Leaves the texts of the newest ``limits.JOB_LOGS`` ended Jobs of a Project; the Jobs themselves stay.

    Called at each end, it takes a few at a time and is never behind for long.
    """
    values = {"of": project, "most": _DROPPED, "kept": limits.JOB_LOGS, "nothing": ""}
    tx.change(_DROP_OLD_LOGS, values)


def remove(tx: Transaction, job_id: str) -> None:
    """Forgets a Job of which nothing ran."""
    tx.change(delete(_links).where(_links.c.job_id == job_id))
    tx.change(delete(_jobs).where(_jobs.c.job_id == job_id))


def mark_observed(tx: Transaction, seen: Iterable[Job]) -> None:
    """Stores that somebody saw these ended Jobs, each as it still stands (S-45)."""
    for job in seen:
        tx.change(_SEEN, {"of": job.job_id, "seen": job.update_seq, "seen_state": job.state.value})


def link(tx: Transaction, job_id: str, sessions: Iterable[str]) -> None:
    """Leaves the Job as one of each of these Sessions."""
    for session_id in sessions:
        named = {"session_id": session_id, "job_id": job_id}
        if tx.one(_LINKED, named) is None:
            tx.change(_LINK, named)


def sessions_of(tx: Transaction, job_id: str) -> list[str]:
    """Returns the Sessions of a Job, ascending."""
    return [str(row.session_id) for row in tx.all(_SESSIONS, {"job_id": job_id})]


def of_client(tx: Transaction, client_id: str, reported: Collection[str]) -> list[Job]:
    """Returns the Jobs of a Runner that have not ended or are in ``reported``, their rows held."""
    return _held(tx, select(_jobs).where(_concerns(client_id, reported)))


def ids_of_client(tx: Transaction, client_id: str, reported: Collection[str]) -> list[str]:
    """Returns the ids of what ``of_client`` returns, without holding a row."""
    rows = tx.all(select(_jobs.c.job_id).where(_concerns(client_id, reported)))
    return [str(row.job_id) for row in rows]


def active_of_client(tx: Transaction, client_id: str) -> list[Job]:
    """Returns the active Jobs of a Runner, their rows held."""
    return _held(tx, select(_jobs).where(_jobs.c.client_id == client_id, _jobs.c.state.in_(_ACTIVE)))


def has_unended(tx: Transaction) -> bool:
    """Says whether there is a Job that has not ended."""
    return tx.one(select(_jobs.c.job_id).where(_jobs.c.state.in_(_UNENDED)).limit(1)) is not None


def unended(tx: Transaction, *, after: str) -> list[Job]:
    """Returns the next Jobs in the order of their ids that have not ended, at most ``SWEPT``, rows held."""
    wanted = select(_jobs).where(_jobs.c.state.in_(_UNENDED), _jobs.c.job_id > after)
    return _held(tx, wanted.limit(SWEPT))


def overdue(tx: Transaction, now: int) -> list[Job]:
    """Returns recovering Jobs whose deadline has passed, at most ``SWEPT``, their rows held (R-64)."""
    is_due = and_(_jobs.c.state == State.RECOVERING.value, _jobs.c.recover_until <= now)
    return _held(tx, select(_jobs).where(is_due).limit(SWEPT))


def unattended(tx: Transaction, *, seen_before: int, queued_before: int) -> list[Job]:
    """Returns active Jobs whose Runner is away, or that stayed queued, at most ``SWEPT``, rows held.

    A Runner is away since its goodbye, or when it was last seen before ``seen_before``; both Unix s.
    """
    runners = schema.runners
    is_away = or_(runners.c.said_goodbye.is_(True), runners.c.last_seen_at < seen_before)
    away = select(runners.c.client_id).where(is_away)
    is_stuck = and_(_jobs.c.state == State.QUEUED.value, _jobs.c.created_at < queued_before)
    wanted = and_(_jobs.c.state.in_(_ACTIVE), or_(_jobs.c.client_id.in_(away), is_stuck))
    return _held(tx, select(_jobs).where(wanted).limit(SWEPT))


def listed(
    tx: Transaction,
    projects: Collection[str],
    *,
    session_id: str | None,
    state: State | None,
    offset: int,
    limit: int,
) -> tuple[int, list[Job]]:
    """Returns how many Jobs match, and one page of them, newest first (R-63)."""
    matching: list[ColumnElement[bool]] = [_jobs.c.project.in_(sorted(projects))]
    if session_id is not None:
        matching.append(_jobs.c.job_id.in_(select(_links.c.job_id).where(_links.c.session_id == session_id)))
    if state is not None:
        matching.append(_jobs.c.state == state.value)
    total = tx.one(select(func.count()).select_from(_jobs).where(*matching))
    order = (_jobs.c.created_at.desc(), _jobs.c.job_id)
    page = select(_jobs).where(*matching).order_by(*order).offset(offset).limit(limit)
    return (0 if total is None else int(total[0])), [_job(row) for row in tx.all(page)]


def facts(tx: Transaction, session_id: str) -> handoff_facts.Jobs:
    """Returns what a handoff says of a Session's Jobs (S-45)."""
    named = {"session_id": session_id}
    recorded, unseen = tx.one(_RECORDED, named), tx.one(_UNSEEN, named)
    return handoff_facts.Jobs(
        unended=tuple(
            handoff_facts.Job(
                job_id=row.job_id,
                state=JobState(row.state),
                purpose=JobPurpose(row.purpose),
                created_at=row.created_at,
            )
            for row in tx.all(_WAITING, named)
        ),
        terminal_pending=0 if unseen is None else int(unseen.jobs),
        recorded=0 if recorded is None else int(recorded.jobs),
    )


def terminal_of(tx: Transaction, job_id: str) -> tuple[str, int | None] | None:
    """Returns the state and exit code of a Job that has ended, else none."""
    job = find(tx, job_id)
    return (job.state.value, job.exit_code) if job is not None and job.is_over else None


def _concerns(client_id: str, reported: Collection[str]) -> ColumnElement[bool]:
    is_told = or_(_jobs.c.state.in_(_UNENDED), _jobs.c.job_id.in_(sorted(reported)))
    return and_(_jobs.c.client_id == client_id, is_told)


def _held(tx: Transaction, statement: Select[Any]) -> list[Job]:
    return [_job(row) for row in tx.all(statement.order_by(_jobs.c.job_id).with_for_update())]


def _row(job: Job) -> dict[str, object]:
    return {
        "job_id": job.job_id,
        "client_id": job.client_id,
        "project": job.project,
        "purpose": job.purpose.value,
        "state": job.state.value,
        "exit_code": job.exit_code,
        "signal": job.signal,
        "created_at": job.created_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "timeout_secs": job.timeout_secs,
        "update_seq": job.update_seq,
        "reason_code": job.reason_code,
        "recovered_after_server_restart": job.recovered_after_server_restart,
        "recovery_reason_code": job.recovery_reason_code,
        "recover_until": job.recover_until,
        "request_hash": job.request_hash,
        "call_id": job.call_id,
        "connection_id": job.connection_id,
        "instance_id": job.instance_id,
        "store_id": job.store_id,
        "is_observed": job.is_observed,
        "log_tail": job.log.tail,
        "log_first_line": job.log.first_retained_line,
        "log_next_line": job.log.next_line,
        "log_truncated": job.log.truncated,
    }


def _job(row: Row) -> Job:
    return Job(
        job_id=row.job_id,
        client_id=row.client_id,
        project=row.project,
        purpose=JobPurpose(row.purpose),
        state=State(row.state),
        exit_code=row.exit_code,
        signal=row.signal,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        timeout_secs=row.timeout_secs,
        update_seq=row.update_seq,
        reason_code=row.reason_code,
        recovered_after_server_restart=bool(row.recovered_after_server_restart),
        recovery_reason_code=row.recovery_reason_code,
        recover_until=row.recover_until,
        request_hash=row.request_hash,
        call_id=row.call_id,
        connection_id=row.connection_id,
        instance_id=row.instance_id,
        store_id=row.store_id,
        is_observed=bool(row.is_observed),
        log=Log(
            tail=row.log_tail,
            first_retained_line=row.log_first_line,
            next_line=row.log_next_line,
            truncated=bool(row.log_truncated),
        ),
    )
