"""Declares ``run_process`` (R-60): one process, waited for a little, then followed as the same Job.

Never says that nothing ran once the Runner may have been asked and its answer is not known.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from webcodex.core import access, jobs, sessions
from webcodex.core.access import Scope
from webcodex.core.jobs import Job, State
from webcodex.core.json_value import Json, JsonObject
from webcodex.protocol import fields as wire_fields
from webcodex.protocol import job_records
from webcodex.storage import jobs as stored_jobs
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import authority, errors, job_recording, job_waiting, process_shapes, runner_calls
from webcodex.tools.contract import Annotations, Done, Effect, Evidence, Target, Tool, ToolError, Work
from webcodex.tools.ports import (
    RunnerError,
    RunnerOutcomeUnknown,
    RunnerRefused,
    RunnerTimeout,
    RunnerUnavailable,
)
from webcodex.tools.process_shapes import RunParams

UNKNOWN: Final = "outcome_unknown"

_UNPROVEN: Final = frozenset({"internal_error", "job_start_outcome_unknown"})


@dataclass(slots=True, eq=False)
class _Start:
    """A start that is under way; it goes on to its end when its call is given up."""

    task: asyncio.Task[None] | None = None
    is_given_up: bool = False


_STARTS: Final[dict[str, _Start]] = {}


def _authorize(tx: Transaction, caller: access.Caller, params: RunParams) -> Target:
    project = authority.project(tx, caller, params.project, changing=True)
    if params.session_id is None:
        return Target(project=project)
    return authority.session(tx, caller, params.session_id, project.canonical)


async def _run(work: Work, params: RunParams) -> Done:
    began = asyncio.get_running_loop().time()
    project = work.target.project
    assert project is not None
    job_id = job_recording.id_of(work.caller, project.canonical, params, work.call_id)
    try:
        job = await work.services.database.read(lambda tx: stored_jobs.find(tx, job_id))
    except StoreError:
        raise _not_started("store_unavailable") from None
    if job is None:
        raise _not_started("job_not_found")
    if job.request_hash != job_recording.hash_of(project.canonical, params):
        raise _not_started("idempotency_conflict")
    is_own = job.call_id == work.call_id
    await (_started(work, params, job) if is_own else _awaited(job_id))
    try:
        job = await job_waiting.ended(work, job_id, until=began + work.waits.handoff_s)
    except StoreError:
        raise _unknown(job_id) from None
    if job is None:
        raise _not_started("job_not_found")
    tails = await _tails(work, job, until=began + work.waits.safe_s)
    output: JsonObject = {
        "job": job_waiting.with_log(job),
        "completed": job.is_over,
        "replayed": not is_own,
        **tails,
    }
    facts: dict[str, Json] = {"job_id": job_id, "execution_state": job_recording.EXECUTION[job.state]}
    if job.exit_code is not None:
        facts["exit_code"] = job.exit_code
    facts["duration_ms"] = int((asyncio.get_running_loop().time() - began) * 1000)
    return Done(output=output, facts=facts)


async def _started(work: Work, params: RunParams, job: Job) -> None:
    """Returns once the Runner has taken the Job; a call that is given up leaves the start going on."""
    start = _STARTS[job.job_id] = _Start()
    start.task = asyncio.create_task(_start(work, params, job, start))
    start.task.add_done_callback(lambda _task: _STARTS.pop(job.job_id, None))
    try:
        await asyncio.shield(start.task)
    except asyncio.CancelledError:
        start.is_given_up = True
        start.task.add_done_callback(_heard)
        raise


async def _awaited(job_id: str) -> None:
    """Returns once another call's start of the same Job is over, and fails as that did."""
    start = _STARTS.get(job_id)
    if start is not None and start.task is not None:
        await asyncio.shield(start.task)


def _heard(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()


async def _start(work: Work, params: RunParams, job: Job, start: _Start) -> None:
    body: dict[str, Any] = params.model_dump(
        include={"argv", "cwd", "stdin", "timeout_secs", "purpose", "idempotency_key"}, exclude_none=True
    )
    body |= {"job_id": job.job_id, "request_hash": job.request_hash}
    try:
        # Over any other connection an inventory may have ruled on the Job already.
        answer = await runner_calls.ask(
            work, "start_process_job", body, connection_id=job.connection_id or "none"
        )
        await _settle(work, job, answer)
    except RunnerUnavailable:
        await _refuse(work, job, start, "runner_unavailable")
    except RunnerRefused as refused:
        if refused.code in _UNPROVEN or refused.code not in errors.WORDS:
            await _lose_sight(work, job)
        await _refuse(work, job, start, refused.code)
    except (RunnerOutcomeUnknown, RunnerTimeout, StoreError, wire_fields.Malformed):
        await _lose_sight(work, job)


async def _settle(work: Work, job: Job, answer: JsonObject) -> None:
    said = job_records.read(wire_fields.Fields(answer, "answer").nested("job"))
    if said.job_id != job.job_id:
        raise wire_fields.Malformed("answer.job is another Job")
    await job_recording.take(work.services, said)


async def _refuse(work: Work, job: Job, start: _Start, word: str) -> NoReturn:
    """Fails with the Runner's word; the end of the call forgets the Job, which is cancelled without one."""
    if start.is_given_up:
        at = work.services.now()
        await job_recording.change(work.services, job.job_id, lambda job: jobs.refused(job, word, at=at))
    raise _not_started(word)


async def _lose_sight(work: Work, job: Job) -> NoReturn:
    """Leaves the Job waiting for its Runner's word, and fails with its id (R-63, R-64)."""
    until = work.services.now() + work.services.job_grace_s

    def waiting(stored: Job) -> Job | None:
        return jobs.out_of_contact(stored, until=until) if stored.state is State.QUEUED else None

    with contextlib.suppress(StoreError):  # the sweep finds a Job that stays queued
        await job_recording.change(work.services, job.job_id, waiting)
    raise _unknown(job.job_id)


def _not_started(word: str) -> ToolError:
    error = ToolError(word)
    error.facts = {"execution_state": job_recording.NOT_STARTED}
    return error


def _unknown(job_id: str) -> ToolError:
    error = ToolError(
        "job_start_outcome_unknown",
        state_changed=None,
        failure_kind=UNKNOWN,
        execution_state=UNKNOWN,
        job_id=job_id,
        suggested_call={"tool": "observe_jobs", "arguments": {"items": [{"job_id": job_id}]}},
    )
    error.facts = {"failure_kind": UNKNOWN, "execution_state": UNKNOWN, "job_id": job_id}
    return error


async def _tails(work: Work, job: Job, *, until: float) -> JsonObject:
    """Returns the ends of the two streams, null where the Runner does not tell them in time (R-60, M-38)."""
    try:
        answer = await job_waiting.snapshot(work, job, until=until)
    except RunnerError:
        answer = {}
    return {name: _text(answer.get(name)) for name in ("stdout_tail", "stderr_tail")}


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _summary(params: RunParams) -> str:
    return f"{params.purpose} process, {len(params.argv)} arguments, at most {params.timeout_secs} s"


RUN_PROCESS: Final = Tool(
    name="run_process",
    category="jobs",
    summary=(
        "Run a program in a Project, without a shell, as a Job. Waits some seconds; with completed:false the "
        "same Job goes on: follow it by observe_jobs, never run it again to see its end. For tests and "
        "checks give purpose validation, one validation_scope per kind of check, and session_id: then the "
        "result counts as evidence. exit_code is null until the process has ended."
    ),
    params=RunParams,
    result=process_shapes.RunResult,
    scopes=(Scope.JOB_RUN,),
    effect=Effect.EXECUTE,
    annotations=Annotations(read_only=False, destructive=True, idempotent=False, open_world=True),
    demand=sessions.Demand(runs_programs=True),
    value_words={"cwd": "invalid_cwd", "session_id": "invalid_session_id"},
    describe_input=lambda params: {"input_summary": _summary(params)},
    authorize=_authorize,
    evidence=Evidence(begun=job_recording.begun, ended=job_recording.ended, unended=job_recording.unended),
    handler=_run,
)
