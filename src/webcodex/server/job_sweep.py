"""Rules on Jobs whose Runner stays away, and marks at Server start that none is in contact (R-64)."""

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from webcodex.core import jobs, limits
from webcodex.core.jobs import Job, State
from webcodex.protocol import bounds
from webcodex.storage import jobs as stored_jobs
from webcodex.storage import presence
from webcodex.storage.database import StoreError, Transaction
from webcodex.tools import job_recording
from webcodex.tools.ports import Services

log = logging.getLogger(__name__)

NOT_NOTED_S: Final = 30
"""How much longer than it counts as online a Runner may go without its contact being written."""


async def at_start(services: Services) -> None:
    """Leaves every Job that has not ended recovering, with its Runner given the whole grace (R-64).

    Right only before the first Runner connects. Beside other Servers every Job stays as it is, since its
    Runner may be connected to one of them; those of a Runner that is away are the sweep's.

    Raises:
        StoreError: some may not be marked.

    """
    if not await services.database.read(lambda tx: stored_jobs.has_unended(tx) and presence.is_alone(tx)):
        return
    until = services.now() + services.job_grace_s
    marked = await services.database.write(functools.partial(_mark, after="", until=until))
    while marked:
        marked = await services.database.write(functools.partial(_mark, after=marked[-1], until=until))


@asynccontextmanager
async def sweeping(services: Services, every_s: float = limits.JOB_SWEEP_S) -> AsyncIterator[None]:
    """Sweeps every ``every_s`` seconds until the block ends."""
    task = asyncio.create_task(_keep_sweeping(services, every_s))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def sweep(services: Services) -> None:
    """Leaves no Job recovering beyond its deadline, and none active without a Runner or a start.

    A Runner that is connected here is never away, whatever the clock did since it was last noted.

    Raises:
        StoreError: some may be left.

    """
    now = services.now()
    seen_before = now - int(bounds.ONLINE_S) - NOT_NOTED_S
    queued_before = now - services.job_grace_s - int(limits.RUNNER_CALL_S)
    until = now + services.job_grace_s

    def unattended(job: Job) -> Job | None:
        is_attended = job.state is not State.QUEUED and services.runners.is_connected(job.client_id)
        return None if is_attended else jobs.out_of_contact(job, until=until)

    await _rule(
        services,
        lambda tx: stored_jobs.unattended(tx, seen_before=seen_before, queued_before=queued_before),
        unattended,
    )
    await _rule(
        services,
        lambda tx: stored_jobs.overdue(tx, now),
        lambda job: jobs.ruled_lost(job, jobs.DEADLINE_EXCEEDED, at=now),
    )


async def _keep_sweeping(services: Services, every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s)
        try:
            await sweep(services)
        except StoreError as error:
            log.warning("action=jobs_not_swept error=%s", type(error).__name__)


async def _rule(
    services: Services, find: Callable[[Transaction], list[Job]], step: Callable[[Job], Job | None]
) -> None:
    while True:
        moved = await services.database.write(lambda tx: _moved(tx, services, find, step))
        services.moves.tell(moved)
        if len(moved) < stored_jobs.SWEPT:
            return


def _moved(
    tx: Transaction,
    services: Services,
    find: Callable[[Transaction], list[Job]],
    step: Callable[[Job], Job | None],
) -> list[str]:
    moved = []
    for before in find(tx):
        after = step(before)
        if after is not None:
            job_recording.move(tx, services, before, after)
            moved.append(before.job_id)
    return moved


def _mark(tx: Transaction, *, after: str, until: int) -> list[str]:
    found = stored_jobs.unended(tx, after=after)
    for job in found:
        waiting = jobs.out_of_contact(job, until=until) or replace(job, recover_until=until)
        recovered = replace(
            waiting, recovered_after_server_restart=True, recovery_reason_code=jobs.SERVER_RESTARTED
        )
        stored_jobs.save(tx, recovered)
    return [job.job_id for job in found]
