"""Stores what becomes of Jobs, and the evidence of the calls that ask for them (S-40, S-45, R-57, R-61).

A Job is written down before its Runner is asked, so that none is ever started without a trace.
"""

from collections.abc import Callable, Iterable
from typing import Final

from webcodex.core import access, idempotency, jobs, validation
from webcodex.core.handoff_facts import JobPurpose
from webcodex.core.jobs import Job, Report, State
from webcodex.core.json_value import JsonObject
from webcodex.storage import jobs as stored_jobs
from webcodex.storage import runners
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import validation_recording
from webcodex.tools.contract import Begun, Ended
from webcodex.tools.ports import Services
from webcodex.tools.process_shapes import RunParams

NOT_STARTED: Final = "not_started"
EXECUTION: Final = {
    State.QUEUED: "pending",
    State.AGENT_QUEUED: "pending",
    State.RUNNING: "started",
    State.STOP_REQUESTED: "started",
    State.RECOVERING: "outcome_unknown",
    State.COMPLETED: "completed",
    State.FAILED: "completed",
    State.STOPPED: "completed",
    State.TIMED_OUT: "timed_out",
    State.LOST: "outcome_unknown",
    State.CANCELLED: "cancelled",
}
"""How an event words that a Job is in a state (M-15)."""


def hold_sessions(tx: Transaction, job_ids: Iterable[str]) -> None:
    """Holds the rows of these Jobs' Sessions, which come before the Jobs' own."""
    named = {session_id for job_id in job_ids for session_id in stored_jobs.sessions_of(tx, job_id)}
    for session_id in sorted(named):
        stored_sessions.lock(tx, session_id)


def move(tx: Transaction, services: Services, before: Job, after: Job) -> None:
    """Leaves ``after`` stored; an end, or the correction of one, is told to its Sessions (S-10, R-64)."""
    stored_jobs.save(tx, after)
    if after.is_over and not before.is_over:
        stored_jobs.drop_old_logs(tx, after.project)
    if after.purpose is not JobPurpose.VALIDATION or (before.is_over and before.state is after.state):
        return
    verdict = validation.verdict_of(after.state.value, after.exit_code)
    if verdict is not None:
        at = services.now()
        validation_recording.job_ended(tx, services, job_id=after.job_id, at=at, verdict=verdict)


async def change(services: Services, job_id: str, step: Callable[[Job], Job | None]) -> None:
    """Leaves the Job as ``step`` makes of it, stored and told, or as it is where that makes none.

    Raises:
        StoreError: it may not be stored.

    """

    def work(tx: Transaction) -> None:
        hold_sessions(tx, [job_id])
        job = stored_jobs.lock(tx, job_id)
        after = None if job is None else step(job)
        if job is not None and after is not None:
            move(tx, services, job, after)

    await services.database.write(work)
    services.moves.tell([job_id])


async def take(services: Services, said: Report) -> None:
    """Leaves what a Runner answered of a Job stored, unless newer is.

    Raises:
        StoreError: it may not be stored.

    """
    await change(services, said.job_id, lambda job: jobs.reported(job, said))


def id_of(caller: access.Caller, project: str, params: RunParams, call_id: str) -> str:
    """Returns the id of the Job that a call is for (R-57)."""
    if params.idempotency_key is None:
        return jobs.id_of_call(call_id)
    return jobs.id_of_key(access.requested_by(caller), project, params.idempotency_key)


def hash_of(project: str, params: RunParams) -> str:
    """Returns the hash of a request; its key and its Session are no part of it (G-06)."""
    asked = params.model_dump(exclude={"idempotency_key", "session_id"})
    return idempotency.request_hash({**asked, "project": project})


def begun(tx: Transaction, call: Begun) -> None:
    """Leaves the Job stored as ``queued`` if it is new, and as one of the Sessions of the call.

    A key that stands for another request leaves nothing; the handler refuses it.
    """
    params, project = call.params, call.target.project
    assert project is not None
    job_id = id_of(call.caller, project.canonical, params, call.call_id)
    request_hash = hash_of(project.canonical, params)
    known = stored_jobs.lock(tx, job_id)
    if known is not None and known.request_hash != request_hash:
        return
    if known is None:
        lease = runners.holder(tx, project.client_id)
        made = Job(
            job_id=job_id,
            client_id=project.client_id,
            project=project.canonical,
            purpose=JobPurpose(params.purpose),
            state=State.QUEUED,
            created_at=call.at,
            timeout_secs=params.timeout_secs,
            request_hash=request_hash,
            call_id=call.call_id,
            connection_id=None if lease is None else lease.connection_id,
            instance_id=None if lease is None else lease.instance_id,
            store_id=None if lease is None else lease.store_id,
        )
        stored_jobs.add(tx, made)
    stored_jobs.link(tx, job_id, call.sequences)
    if params.purpose == JobPurpose.VALIDATION.value:
        scope = validation.scope_of(params.argv, params.cwd, params.validation_scope)
        validation_recording.begin(
            tx, job_id=job_id, sessions=call.sequences, project=project.canonical, scope=scope
        )


def ended(tx: Transaction, call: Ended) -> JsonObject:
    """Returns what the finished event says of a validation; a Job that never ran is forgotten (S-40)."""
    params, project = call.begun.params, call.begun.target.project
    assert project is not None
    job_id = id_of(call.begun.caller, project.canonical, params, call.begun.call_id)
    job = stored_jobs.lock(tx, job_id)
    if job is not None and job.request_hash != hash_of(project.canonical, params):
        return {}
    state = call.facts.get("execution_state")
    is_own = job is not None and job.call_id == call.begun.call_id
    if is_own and state == NOT_STARTED:
        stored_jobs.remove(tx, job_id)
    if job is None or state == NOT_STARTED:
        validation_recording.withdraw(tx, job_id, sessions=call.events)
        return {}
    if job.is_over and call.succeeded and EXECUTION[job.state] == state:
        stored_jobs.mark_observed(tx, [job])
    if job.purpose is not JobPurpose.VALIDATION:
        return {}
    verdict = validation.verdict_of(job.state.value, job.exit_code)
    return validation_recording.close_call(tx, job_id=job_id, events=call.events, at=call.at, verdict=verdict)


def unended(tx: Transaction, call: Begun) -> None:
    """Leaves the attempts of a call whose end is not stored closed, as a restart would (S-40)."""
    params, project = call.params, call.target.project
    assert project is not None
    job_id = id_of(call.caller, project.canonical, params, call.call_id)
    hold_sessions(tx, [job_id])
    job = stored_jobs.lock(tx, job_id)
    if job is None or job.request_hash != hash_of(project.canonical, params):
        return
    verdict = validation.verdict_of(job.state.value, job.exit_code)
    validation_recording.call_lost(tx, call.services, job_id=job_id, sessions=call.sequences, verdict=verdict)
