"""Remembers attempts to validate, the newest verdict of each scope, and the newest output check (30.6).

A Session's row is held before its attempts and verdicts, and those before a Project's counter.
"""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from webcodex.core import handoff_facts, validation
from webcodex.core.handoff_facts import Output, OutputCheck, ScopeVerdict, Validation, Verdict
from webcodex.core.json_value import JsonObject
from webcodex.core.validation import Scope
from webcodex.storage import changes, schema_evidence
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_attempts: Final = schema_evidence.validation_attempts
_verdicts: Final = schema_evidence.validation_verdicts
_evidence: Final = schema_evidence.session_evidence
_OF_JOB: Final = Prepared(
    select(_attempts).where(_attempts.c.job_id == bindparam("job_id")).order_by(_attempts.c.session_id)
)
_ADD: Final = Prepared(insert(_attempts))
_OF_ATTEMPT: Final = (_attempts.c.session_id == bindparam("of"), _attempts.c.job_id == bindparam("job"))
_REMOVE: Final = Prepared(delete(_attempts).where(*_OF_ATTEMPT))
_MARK: Final = Prepared(
    update(_attempts)
    .where(*_OF_ATTEMPT)
    .values(open_calls=bindparam("calls_open"), is_kept=bindparam("kept"))
)
_NEWEST: Final = Prepared(
    select(_verdicts)
    .where(_verdicts.c.session_id == bindparam("session_id"))
    .order_by(_verdicts.c.sequence.desc())
    .limit(validation.SCOPES)
)
_OF_SCOPE: Final = Prepared(
    select(_verdicts).where(
        _verdicts.c.session_id == bindparam("session_id"), _verdicts.c.scope == bindparam("scope")
    )
)
_SCOPES: Final = Prepared(
    select(func.count().label("kept"))
    .select_from(_verdicts)
    .where(_verdicts.c.session_id == bindparam("session_id"))
)
_ADD_VERDICT: Final = Prepared(insert(_verdicts))
_REMOVE_VERDICT: Final = Prepared(
    delete(_verdicts).where(_verdicts.c.session_id == bindparam("of"), _verdicts.c.scope == bindparam("in"))
)
_EVIDENCE: Final = Prepared(select(_evidence).where(_evidence.c.session_id == bindparam("session_id")))
_ADD_EVIDENCE: Final = Prepared(insert(_evidence))
_COUNT: Final = Prepared(
    update(_evidence)
    .where(_evidence.c.session_id == bindparam("of"))
    .values(attempts=_evidence.c.attempts + bindparam("by"))
)
_OVERFLOW: Final = Prepared(
    update(_evidence).where(_evidence.c.session_id == bindparam("of")).values(scopes_overflowed=True)
)
_CHECKED: Final = Prepared(
    update(_evidence)
    .where(_evidence.c.session_id == bindparam("of"))
    .values(output_check=bindparam("checked"))
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One attempt of one Session; ``is_kept`` says that a call of it has ended and left it standing.

    ``sequence`` is the place of its first started event, ``counter`` the Project's at that moment.
    """

    session_id: str
    job_id: str
    scope: Scope
    sequence: int
    project: str
    counter: int
    open_calls: int
    is_kept: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an attempt ended, and the event that says so; ``at`` is Unix s."""

    verdict: Verdict
    event_id: str
    at: int


def of_job(tx: Transaction, job_id: str) -> list[Attempt]:
    """Returns the attempts of a Job, one per Session, by Session id."""
    return [_attempt(row) for row in tx.all(_OF_JOB, {"job_id": job_id})]


def add(tx: Transaction, attempt: Attempt) -> None:
    """Stores a new attempt and counts it."""
    tx.change(
        _ADD,
        {
            "session_id": attempt.session_id,
            "job_id": attempt.job_id,
            "scope": attempt.scope.identity,
            "scope_name": attempt.scope.name,
            "sequence": attempt.sequence,
            "project": attempt.project,
            "counter": attempt.counter,
            "open_calls": attempt.open_calls,
            "is_kept": attempt.is_kept,
        },
    )
    _hold_evidence(tx, attempt.session_id)
    tx.change(_COUNT, {"of": attempt.session_id, "by": 1})


def mark(tx: Transaction, attempt: Attempt, *, open_calls: int, is_kept: bool) -> None:
    """Stores how many calls of the attempt are open, and whether one has left it standing."""
    named = {"of": attempt.session_id, "job": attempt.job_id}
    tx.change(_MARK, {**named, "calls_open": open_calls, "kept": is_kept})


def remove(tx: Transaction, attempt: Attempt) -> None:
    """Leaves no trace of an attempt whose process was never started (S-40)."""
    tx.change(_REMOVE, {"of": attempt.session_id, "job": attempt.job_id})
    tx.change(_COUNT, {"of": attempt.session_id, "by": -1})


def settle_unfinished(tx: Transaction) -> list[str]:
    """Marks every attempt with an open call closed and kept; returns their Jobs, each once."""
    is_open = _attempts.c.open_calls > 0
    found = tx.all(select(_attempts.c.job_id).where(is_open).distinct().order_by(_attempts.c.job_id))
    tx.change(update(_attempts).where(is_open).values(open_calls=0, is_kept=True))
    return [str(row.job_id) for row in found]


def has_verdict(tx: Transaction, attempt: Attempt, verdict: Verdict) -> bool:
    """Says whether its scope has this verdict of this attempt, or any of a newer one."""
    stored = _of_scope(tx, attempt)
    if stored is None or int(stored.sequence) < attempt.sequence:
        return False
    return int(stored.sequence) > attempt.sequence or stored.verdict == verdict.value


def conclude(tx: Transaction, attempt: Attempt, ending: Ending) -> None:
    """Stores the verdict of an attempt unless a newer one of its scope has ended; it replaces its own (S-41).

    The 257th scope of a Session is not kept, but remembered as met (S-43).
    """
    stored = _of_scope(tx, attempt)
    has_failed = ending.verdict is Verdict.FAILED
    if stored is None and _count(tx, attempt.session_id) >= validation.SCOPES:
        _hold_evidence(tx, attempt.session_id)
        tx.change(_OVERFLOW, {"of": attempt.session_id})
        return
    row = {
        "session_id": attempt.session_id,
        "scope": attempt.scope.identity,
        "scope_name": attempt.scope.name,
        "verdict": ending.verdict.value,
        "event_id": ending.event_id,
        "ended_at": ending.at,
        "sequence": attempt.sequence,
        "project": attempt.project,
        "counter": attempt.counter,
        "ever_failed": has_failed,
    }
    if stored is not None:
        if int(stored.sequence) > attempt.sequence:
            row = dict(stored._asdict())
        row["ever_failed"] = bool(stored.ever_failed) or has_failed
        tx.change(_REMOVE_VERDICT, {"of": attempt.session_id, "in": attempt.scope.identity})
    tx.change(_ADD_VERDICT, row)


def facts(tx: Transaction, session_id: str) -> Validation:
    """Returns the verdicts of a Session, those of the newest attempts first, and their status (S-43)."""
    counters: dict[str, int] = {}
    scopes: list[ScopeVerdict] = []
    for row in tx.all(_NEWEST, {"session_id": session_id}):
        if row.project not in counters:
            counters[row.project] = changes.counter(tx, row.project)
        scopes.append(_scope_verdict(row, counters[row.project]))
    evidence = tx.one(_EVIDENCE, {"session_id": session_id})
    has_overflowed = evidence is not None and bool(evidence.scopes_overflowed)
    return Validation(
        status=validation.status_of(scopes, has_overflowed=has_overflowed),
        scopes=tuple(scopes),
        attempts=0 if evidence is None else int(evidence.attempts),
    )


def keep_output_check(tx: Transaction, session_id: str, check: JsonObject) -> None:
    """Leaves ``check`` the newest output check of the Session: outputs, time, Project, counter (S-46)."""
    _hold_evidence(tx, session_id)
    stored = json.dumps(check, separators=(",", ":"), ensure_ascii=False)
    tx.change(_CHECKED, {"of": session_id, "checked": stored})


def output_check(tx: Transaction, session_id: str) -> OutputCheck:
    """Returns the newest output check, and whether its Project's counter has moved since (S-46)."""
    row = tx.one(_EVIDENCE, {"session_id": session_id})
    if row is None or row.output_check is None:
        return OutputCheck()
    stored = json.loads(row.output_check)
    return OutputCheck(
        outputs=tuple(
            Output(path=item["path"], status=handoff_facts.OutputStatus(item["status"]))
            for item in stored["items"]
        ),
        checked_at=stored["checked_at"],
        counter_moved=stored["counter"] != changes.counter(tx, stored["project"]),
    )


def _of_scope(tx: Transaction, attempt: Attempt) -> Row | None:
    return tx.one(_OF_SCOPE, {"session_id": attempt.session_id, "scope": attempt.scope.identity})


def _count(tx: Transaction, session_id: str) -> int:
    row = tx.one(_SCOPES, {"session_id": session_id})
    return 0 if row is None else int(row.kept)


def _hold_evidence(tx: Transaction, session_id: str) -> None:
    if tx.one(_EVIDENCE, {"session_id": session_id}) is None:
        first = {"session_id": session_id, "attempts": 0, "scopes_overflowed": False, "output_check": None}
        tx.change(_ADD_EVIDENCE, first)


def _attempt(row: Row) -> Attempt:
    return Attempt(
        session_id=row.session_id,
        job_id=row.job_id,
        scope=Scope(identity=row.scope, name=row.scope_name),
        sequence=row.sequence,
        project=row.project,
        counter=row.counter,
        open_calls=row.open_calls,
        is_kept=row.is_kept,
    )


def _scope_verdict(row: Row, counter: int) -> ScopeVerdict:
    return ScopeVerdict(
        kind=handoff_facts.ScopeKind.UNKNOWN,
        identity=handoff_facts.process_scope_identity(row.scope_name, row.scope),
        verdict=Verdict(row.verdict),
        is_after=int(row.counter) == counter,
        event_id=row.event_id,
        ended_at=row.ended_at,
        ever_failed=bool(row.ever_failed),
    )
