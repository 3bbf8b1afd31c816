"""Waits for Jobs within what a call may wait, and shows them (R-60, R-61, M-38)."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from webcodex.core import access, limits
from webcodex.core.jobs import Job
from webcodex.core.json_value import JsonObject
from webcodex.storage import jobs as stored_jobs
from webcodex.storage import projects
from webcodex.storage.database import Transaction
from webcodex.tools.contract import Work
from webcodex.tools.ports import RunnerUnavailable

WAITING: Final = "Waiting for the process"

Standings = Mapping[str, Job]


def with_log(job: Job) -> JsonObject:
    """Returns the public form with the log (R-61)."""
    log = job.log
    return {
        **job.shown(),
        "log": {
            "tail": log.tail,
            "first_retained_line": log.first_retained_line,
            "next_line": log.next_line,
            "truncated": log.truncated,
        },
    }


def visible(tx: Transaction, caller: access.Caller, job_ids: Collection[str]) -> dict[str, Job]:
    """Returns those of the Jobs that are there and whose Project ``caller`` sees."""
    stored = (stored_jobs.find(tx, job_id) for job_id in sorted(set(job_ids)))
    found = [job for job in stored if job is not None]
    seen = {name for name in {job.project for job in found} if projects.find(tx, caller, name) is not None}
    return {job.job_id: job for job in found if job.project in seen}


async def ended(work: Work, job_id: str, *, until: float) -> Job | None:
    """Returns the Job once it is over, as it is at ``until`` on the loop's clock, or none if it is gone."""
    found = await awaited(
        work,
        [job_id],
        until=until,
        read=lambda tx: {job.job_id: job for job in [stored_jobs.find(tx, job_id)] if job is not None},
        is_enough=lambda standings: job_id not in standings or standings[job_id].is_over,
    )
    return found.get(job_id)


async def awaited(
    work: Work,
    job_ids: Collection[str],
    *,
    until: float,
    read: Callable[[Transaction], Standings],
    is_enough: Callable[[Standings], bool],
) -> Standings:
    """Returns what ``read`` reads once that is enough, or at ``until`` on the loop's clock.

    Reads again when this Server stored a move of a Job, and every second for what another one stored.
    """
    loop = asyncio.get_running_loop()
    is_told = False
    with work.services.moves.watch(job_ids) as watch:
        while True:
            standings = await work.services.database.read(read)
            left_s = until - loop.time()
            if left_s <= 0 or is_enough(standings):
                return standings
            if not is_told:
                await work.progress(WAITING)
                is_told = True
            await watch.next(min(left_s, limits.JOB_POLL_S))


async def snapshot(work: Work, job: Job, *, until: float) -> JsonObject:
    """Returns what the Job's Runner answers of it by ``until`` on the loop's clock.

    Raises:
        RunnerError: there is no answer.

    """
    services, project = work.services, work.target.project
    left_s = min(limits.JOB_SNAPSHOT_S, until - asyncio.get_running_loop().time())
    if project is None or left_s <= 0 or not services.runners.is_connected(project.client_id):
        raise RunnerUnavailable
    return await services.runners.call(
        project,
        "job_snapshot",
        {"job_id": job.job_id},
        budget_s=left_s,
        requested_by=access.requested_by(work.caller),
    )
