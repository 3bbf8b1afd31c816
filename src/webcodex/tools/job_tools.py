"""Declares the tools that follow and stop Jobs (R-63); none of them starts anything."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Final

from pydantic import Field

from webcodex.core import access, job_log, jobs
from webcodex.core.access import Scope
from webcodex.core.job_log import Seen
from webcodex.core.jobs import Job
from webcodex.core.json_value import Json, JsonObject
from webcodex.protocol import fields as wire_fields
from webcodex.protocol import job_records
from webcodex.storage import jobs as stored_jobs
from webcodex.storage import projects
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import (
    authority,
    fields,
    job_recording,
    job_waiting,
    process_shapes,
    process_tools,
    runner_calls,
)
from webcodex.tools.contract import Annotations, Done, Effect, Params, Result, Target, Tool, ToolError, Work

REPLY_LOG_BYTES: Final = 160 * 1024
"""What the logs of one answer share, so that it stays within 256 KiB (R-50)."""

MOST_WAIT_S: Final = 60

JobId = Annotated[str, Field(min_length=1, max_length=128, description="Job: wc_job_...")]


class Observed(Params):
    """One Job, and what of it was seen before."""

    job_id: JobId
    after_observation_token: Annotated[
        str | None,
        Field(max_length=job_log.TOKEN_CHARS, description="observation_token of the observation before."),
    ] = None


class ObserveParams(Params):
    """Which Jobs, and how long to wait for news of one of them."""

    items: Annotated[list[Observed], Field(min_length=1, max_length=16)]
    wait_secs: Annotated[
        int, Field(ge=0, le=MOST_WAIT_S, description="Wait this long for news; an ended Job is news.")
    ] = 0


class ItemError(Result):
    """Why a Job is not shown."""

    reason: str


class Observation(Result):
    """One Job and the text of its log that was not seen before; ``history_lost`` says some is gone."""

    job_id: str
    job: process_shapes.JobFacts | None
    log_text: str
    has_more: Annotated[
        bool, Field(description="More text is there or on its way; observe again with the token.")
    ]
    observation_token: str | None
    history_lost: bool
    error: ItemError | None = None


class ObserveResult(Result):
    """The Jobs in the order they were asked for."""

    items: list[Observation]


class ListParams(Params):
    """Which Jobs are listed; without a filter, those of every visible Project."""

    project: fields.ProjectName | None = None
    session_id: fields.SessionName | None = None
    state: Annotated[process_shapes.State | None, Field(description="Only Jobs in this state.")] = None
    offset: Annotated[int, Field(ge=0, le=2**31)] = 0
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class ListResult(Result):
    """One page, newest first."""

    total_count: int
    next_offset: int | None
    truncated: bool
    jobs: list[process_shapes.JobFacts]


class StopParams(Params):
    """Which Job."""

    job_id: JobId


class StopResult(Result):
    """The Job, and whether it was asked to stop; one that has ended is not."""

    job: process_shapes.JobFacts
    stop_requested: bool


async def _observe(work: Work, params: ObserveParams) -> Done:
    before = {item.job_id: _seen(item) for item in params.items}
    is_refused = any(before[item.job_id] is None and item.after_observation_token for item in params.items)
    wait_s = 0 if is_refused else min(params.wait_secs, work.waits.observe_s)
    first = await work.services.database.read(lambda tx: _standings(tx, work.caller, before))
    found = await job_waiting.awaited(
        work,
        before,
        until=asyncio.get_running_loop().time() + wait_s,
        read=lambda tx: job_waiting.visible(tx, work.caller, before),
        is_enough=lambda now: any(
            _is_news(now.get(job_id), seen, first.get(job_id)) for job_id, seen in before.items()
        ),
    )
    await _mark(work, list(found.values()))
    share = REPLY_LOG_BYTES // len(params.items)
    items: list[Json] = [_shown(item, found.get(item.job_id), share) for item in params.items]
    return Done(output={"items": items})


def _standings(tx: Transaction, caller: access.Caller, job_ids: Mapping[str, object]) -> dict[str, Seen]:
    """Returns where the Jobs stand as the call begins: the base of those without a token."""
    return {
        job_id: replace(job_log.unseen(job_id), update_seq=job.update_seq, state=job.state.value)
        for job_id, job in job_waiting.visible(tx, caller, list(job_ids)).items()
    }


def _is_news(job: Job | None, seen: Seen | None, first: Seen | None) -> bool:
    """Says whether there is something to tell: an error, a move, or an end that is no longer awaited."""
    base = seen or first
    if job is None or base is None or job.is_over:
        return True
    return (job.update_seq, job.state.value) != (base.update_seq, base.state) or _has_text(job, seen)


def _has_text(job: Job, seen: Seen | None) -> bool:
    return seen is not None and bool(job_log.news(job.log, job.update_seq, seen, most_bytes=64).text)


def _seen(item: Observed) -> Seen | None:
    """Returns what the item's token stands for, or none where it has none or a bad one."""
    if item.after_observation_token is None:
        return None
    try:
        return job_log.read_token(item.after_observation_token, item.job_id)
    except job_log.BadToken:
        return None


def _shown(item: Observed, job: Job | None, most_bytes: int) -> JsonObject:
    seen = _seen(item)
    if job is None:
        return _without_job(item, "job_not_found")
    if seen is None and item.after_observation_token is not None:
        return _without_job(item, "invalid_observation_token")
    news = job_log.news(job.log, job.update_seq, seen or job_log.unseen(job.job_id), most_bytes=most_bytes)
    told = Seen(job_id=job.job_id, update_seq=job.update_seq, state=job.state.value, position=news.through)
    return {
        "job_id": job.job_id,
        "job": job.shown(),
        "log_text": news.text,
        "has_more": news.has_more,
        "observation_token": job_log.token(told),
        "history_lost": news.history_lost,
    }


def _without_job(item: Observed, reason: str) -> JsonObject:
    return {
        "job_id": item.job_id,
        "job": None,
        "log_text": "",
        "has_more": False,
        "observation_token": None,
        "history_lost": False,
        "error": {"reason": reason},
    }


async def _mark(work: Work, shown: list[Job]) -> None:
    """Leaves the ended ones among the shown Jobs marked as seen, unless the store fails (S-45)."""
    unseen = [job for job in shown if job.is_over and not job.is_observed]
    if unseen:
        with contextlib.suppress(StoreError):  # they count as unseen and are shown all the same
            await work.services.database.write(lambda tx: stored_jobs.mark_observed(tx, unseen))


def _authorize_list(tx: Transaction, caller: access.Caller, params: ListParams) -> Target:
    project = None
    if params.project is not None:
        project = authority.project(tx, caller, params.project, changing=False)
    if params.session_id is None:
        return Target(project=project)
    named = None if project is None else project.canonical
    target = authority.session(tx, caller, params.session_id, named)
    return Target(session=target.session, project=project)


async def _list(work: Work, params: ListParams) -> Done:
    def read(tx: Transaction) -> tuple[int, list[Job]]:
        asked = work.target.project
        shown = projects.visible(tx, work.caller) if asked is None else [asked]
        session = work.target.session
        return stored_jobs.listed(
            tx,
            [project.canonical for project in shown],
            session_id=None if session is None else session.session_id,
            state=None if params.state is None else jobs.State(params.state),
            offset=params.offset,
            limit=params.limit,
        )

    total, page = await work.services.database.read(read)
    await _mark(work, page)
    end = params.offset + len(page)
    has_more = bool(page) and end < total
    output: JsonObject = {
        "total_count": total,
        "next_offset": end if has_more else None,
        "truncated": has_more,
        "jobs": [job.shown() for job in page],
    }
    return Done(output=output)


def _authorize_stop(tx: Transaction, caller: access.Caller, params: StopParams) -> Target:
    job = job_waiting.visible(tx, caller, [params.job_id]).get(params.job_id)
    if job is None:
        raise ToolError("job_not_found")
    return Target(project=projects.find(tx, caller, job.project))


async def _stop(work: Work, params: StopParams) -> Done:
    job = await work.services.database.read(lambda tx: stored_jobs.find(tx, params.job_id))
    if job is None:
        raise ToolError("job_not_found")
    is_asked = False
    if not job.is_over:
        answer = await runner_calls.ask(work, "stop_job", {"job_id": job.job_id})
        is_asked = answer.get("stop_requested") is True
        job = await _told(work, job, answer)
    facts: JsonObject = {"job_id": job.job_id, "execution_state": job_recording.EXECUTION[job.state]}
    return Done(output={"job": job.shown(), "stop_requested": is_asked}, facts=facts)


async def _told(work: Work, job: Job, answer: JsonObject) -> Job:
    """Returns the Job as its Runner answered, or as it is stored when that says nothing of it."""
    try:
        said = job_records.read(wire_fields.Fields(answer, "answer").nested("job"))
    except wire_fields.Malformed:
        return job
    if said.job_id != job.job_id:
        return job
    try:
        await job_recording.take(work.services, said)
        stored = await work.services.database.read(lambda tx: stored_jobs.find(tx, job.job_id))
    except StoreError:
        return jobs.reported(job, said) or job  # the Runner reports it again
    return stored or job


_JOB_READ: Final = (Scope.RUNTIME_READ,)

TOOLS: Final = (
    process_tools.RUN_PROCESS,
    Tool(
        name="observe_jobs",
        category="jobs",
        summary=(
            "Read how up to 16 Jobs stand and what they printed since an observation_token; with wait_secs, "
            "wait for news. Pass each token on, so that only new text comes. This is the way to learn how a "
            "process ended: a Job that is recovering or unknown is observed, never started again."
        ),
        params=ObserveParams,
        result=ObserveResult,
        scopes=_JOB_READ,
        describe_input=lambda params: {"input_summary": f"{len(params.items)} Jobs, {params.wait_secs} s"},
        handler=_observe,
    ),
    Tool(
        name="list_jobs",
        category="jobs",
        summary="List the Jobs of a Project, of a Workflow Session or of all visible Projects, newest first.",
        params=ListParams,
        result=ListResult,
        scopes=_JOB_READ,
        value_words={"session_id": "invalid_session_id"},
        describe_input=lambda params: {"input_summary": f"up to {params.limit} Jobs"},
        authorize=_authorize_list,
        handler=_list,
    ),
    Tool(
        name="stop_job",
        category="jobs",
        summary="Ask a Job to stop; observe it until it has ended. Stopping an ended Job changes nothing.",
        params=StopParams,
        result=StopResult,
        scopes=(Scope.JOB_RUN,),
        effect=Effect.EXECUTE,
        annotations=Annotations(read_only=False, destructive=True),
        describe_input=lambda _params: {"input_summary": "stop"},
        authorize=_authorize_stop,
        handler=_stop,
    ),
)
