"""Records attempts to validate beside the calls and the Jobs they are made of (S-40 to S-42).

Each runs in the transaction of the event or of the Job state it belongs to, after the Sessions' rows.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from webcodex.core import ids, ledger, validation
from webcodex.core.handoff_facts import Verdict
from webcodex.core.jobs import State
from webcodex.core.json_value import JsonObject
from webcodex.storage import changes, jobs, validations
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools.ports import Services

NEVER: Final = -1
"""The counter of an attempt whose process was started before this call: it is *after* no change."""


def begin(
    tx: Transaction, *, job_id: str, sessions: Mapping[str, int], project: str, scope: validation.Scope
) -> None:
    """Leaves one attempt per Session, its call open, with the Project's counter of this moment (S-42).

    A call for a Job that is under way already starts nothing, so it takes no newer counter than that Job's.
    """
    known = {attempt.session_id: attempt for attempt in validations.of_job(tx, job_id)}
    counter = _counter(tx, job_id, project, known.values())
    for session_id in sorted(sessions):
        attempt = known.get(session_id)
        if attempt is not None:
            validations.mark(tx, attempt, open_calls=attempt.open_calls + 1, is_kept=attempt.is_kept)
            continue
        made = validations.Attempt(
            session_id=session_id,
            job_id=job_id,
            scope=scope,
            sequence=sessions[session_id],
            project=project,
            counter=counter,
            open_calls=1,
            is_kept=False,
        )
        validations.add(tx, made)


def _counter(tx: Transaction, job_id: str, project: str, known: Iterable[validations.Attempt]) -> int:
    counters = [attempt.counter for attempt in known]
    if counters:
        return min(counters)
    job = jobs.find(tx, job_id)
    is_new = job is None or (job.state is State.QUEUED and job.update_seq == 0)
    return changes.counter(tx, project) if is_new else NEVER


def withdraw(tx: Transaction, job_id: str, *, sessions: Collection[str] | None = None) -> None:
    """Closes one call of the attempts of a Job and removes those that no call has left standing (S-40).

    ``sessions`` are those that the call names; without them it names every one that has an attempt.
    """
    for attempt in validations.of_job(tx, job_id):
        if sessions is not None and attempt.session_id not in sessions:
            continue
        open_calls = max(0, attempt.open_calls - 1)
        if open_calls == 0 and not attempt.is_kept:
            validations.remove(tx, attempt)
        else:
            validations.mark(tx, attempt, open_calls=open_calls, is_kept=attempt.is_kept)


def close_call(
    tx: Transaction, *, job_id: str, events: Mapping[str, str], at: int, verdict: Verdict | None
) -> JsonObject:
    """Closes the call's attempts, with ``verdict`` when the Job has ended, and returns what the event says.

    ``events`` gives the call's finished event by Session; ``at`` is Unix s.
    """
    said: JsonObject = {}
    for attempt in validations.of_job(tx, job_id):
        event_id = events.get(attempt.session_id)
        if event_id is None:
            continue
        validations.mark(tx, attempt, open_calls=max(0, attempt.open_calls - 1), is_kept=True)
        if verdict is None:
            continue
        said = validation.event_facts(attempt.scope, verdict)
        if not _is_told(tx, attempt, verdict):
            ending = validations.Ending(verdict=verdict, event_id=event_id, at=at)
            validations.conclude(tx, attempt, ending)
    return said


def job_ended(tx: Transaction, services: Services, *, job_id: str, at: int, verdict: Verdict) -> None:
    """Tells every Session whose call is over that the Job has ended, a closed one too (S-07, S-10).

    A later call for the same Job replaces the verdict (R-64). Attempts with an open call are left to its end.
    """
    for attempt in validations.of_job(tx, job_id):
        if attempt.open_calls == 0:
            _tell(tx, services, attempt, verdict, at=at)


def call_lost(
    tx: Transaction, services: Services, *, job_id: str, sessions: Collection[str], verdict: Verdict | None
) -> None:
    """Closes the attempts of a call whose end was not stored, and tells the end of their Job if it has one.

    May run twice: what was told is not told again.
    """
    for attempt in validations.of_job(tx, job_id):
        if attempt.session_id in sessions:
            validations.mark(tx, attempt, open_calls=max(0, attempt.open_calls - 1), is_kept=True)
    if verdict is not None:
        tell_untold(tx, services, job_id=job_id, verdict=verdict)


def tell_untold(tx: Transaction, services: Services, *, job_id: str, verdict: Verdict) -> None:
    """Tells every Session whose call is over that the Job has ended, unless it was told so already."""
    for attempt in validations.of_job(tx, job_id):
        if attempt.open_calls == 0 and not _is_told(tx, attempt, verdict):
            _tell(tx, services, attempt, verdict, at=services.now())


def settle_unfinished(tx: Transaction) -> list[str]:
    """Closes every attempt whose call has no end; returns the ids of their Jobs.

    Right only while no call runs, as when the Server starts.
    """
    return validations.settle_unfinished(tx)


def _tell(
    tx: Transaction, services: Services, attempt: validations.Attempt, verdict: Verdict, *, at: int
) -> None:
    session = stored_sessions.lock(tx, attempt.session_id)
    if session is None:
        return
    event_id = ids.mint("evt_", services.entropy(ids.ENTROPY_BYTES))
    facts = {"job_id": attempt.job_id, **validation.event_facts(attempt.scope, verdict)}
    event = ledger.Event(event_id=event_id, kind=ledger.Kind.VALIDATION_JOB_TERMINAL, at=at, facts=facts)
    stored_sessions.append(tx, session, [event], now=at)
    validations.conclude(tx, attempt, validations.Ending(verdict=verdict, event_id=event_id, at=at))


def _is_told(tx: Transaction, attempt: validations.Attempt, verdict: Verdict) -> bool:
    """Says whether an earlier call or event has told this attempt's end already, as it now stands."""
    return attempt.is_kept and validations.has_verdict(tx, attempt, verdict)
