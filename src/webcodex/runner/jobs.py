"""Starts, stops and shows the Jobs of this Runner; no Job is ever started twice (R-57, R-60, R-64).

Intend, act, settle: a Job is durable before its process may start, and its end is durable before it is told.
Everything here runs on one event loop; only files and processes are left to threads.
"""

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import ids
from webcodex.protocol import calls, fields, hello, job_records
from webcodex.runner import (
    deadline,
    failures,
    held_job,
    job_cwd,
    job_pipes,
    job_record,
    job_refusals,
    job_request,
    job_shelf,
    job_store,
    own_files,
    processes,
    projects,
    running_job,
    settings,
)

SHUTDOWN_S: Final = 3.0
"""What an orderly shutdown leaves to the Jobs (R-65)."""

SHUTDOWN_REASON: Final = "runner_shutdown"
_SHUTDOWN_GRACE_S: Final = 1.5
_SHUTDOWN_OVERDUE_S: Final = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Start:
    """One start that is under way."""

    request_hash: str
    project: str
    task: "asyncio.Task[dict[str, Any]]"


class Jobs:
    """All Jobs of one Runner process."""

    def __init__(
        self, configured: settings.Settings, own: own_files.OwnFiles, shelf: job_shelf.JobShelf
    ) -> None:
        self.shelf = shelf
        self._client_id = configured.client_id
        self._policy = configured.policy
        self._most = configured.max_concurrent_jobs
        self._own = own
        self._starts: dict[str, _Start] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._is_stopping = False

    async def start(
        self, project: projects.Project, request: calls.Request, until: deadline.Deadline
    ) -> dict[str, Any]:
        """Returns the Job that was asked for, started now or known before.

        Once begun, a start goes on to its end, whether or not anybody waits for it any more (R-45).

        Raises:
            RequestFailed: a word of R-63.

        """
        asked = job_request.read(request, self._client_id)
        canonical = self._canonical(request)
        known = await self._known(asked, canonical)
        if known is not None:
            return known
        job_request.check_policy(asked, self._policy)
        if self._is_stopping:
            raise job_refusals.refuse("runner_unavailable")
        if until.remaining_s() <= 0:
            raise failures.RequestFailed(failures.TIMEOUT)
        if not self.shelf.has_room(self._starts.keys(), self._most):
            raise job_refusals.refuse("job_capacity_full")
        task = asyncio.get_running_loop().create_task(self._begin(project, asked, canonical))
        self._starts[asked.job_id] = _Start(request_hash=asked.request_hash, project=canonical, task=task)
        task.add_done_callback(lambda done: self._end_start(asked.job_id, done))
        return await asyncio.shield(task)

    async def stop(self, request: calls.Request) -> dict[str, Any]:
        """Returns the Job and whether it ends because it was told to; one that is over stays as it is.

        Raises:
            RequestFailed: `job_not_found` or `invalid_arguments`.

        """
        job = await self._found(request)
        stopping = job.running is not None and not job.record.is_terminal and job.running.stop()
        return {"job": job_record.wire(job.record), "stop_requested": stopping}

    async def snapshot(self, request: calls.Request) -> dict[str, Any]:
        """Returns the newest record of a Job.

        Raises:
            RequestFailed: `job_not_found` or `invalid_arguments`.

        """
        return (await self._found(request)).answer()

    def inventory(self) -> hello.JobInventory:
        """Returns every Job this Runner holds, without the texts of their logs (R-64)."""
        self.shelf.let_leave()
        jobs = tuple(job_record.wire_without_text(job.record) for job in self.shelf.jobs.values())
        return hello.JobInventory(active_complete=True, jobs=jobs)

    async def settled(self) -> None:
        """Returns once every start that was begun is over (R-45); each is bounded in itself."""
        while self._starts:
            await asyncio.wait([start.task for start in self._starts.values()])

    async def shut_down(self, within_s: float = SHUTDOWN_S) -> None:
        """Ends all Jobs as far as that is possible in time; no new one starts (R-65)."""
        self._is_stopping = True
        for job in self.shelf.jobs.values():
            _hurry(job)
        try:
            async with asyncio.timeout(within_s):
                await self.settled()
                if self._watching:
                    await asyncio.wait(self._watching)
        except TimeoutError:
            log.warning("action=jobs_left count=%d", len(self._watching))

    def _canonical(self, request: calls.Request) -> str:
        return str(ids.ProjectId(self._client_id, request.project_id or ""))

    async def _known(self, asked: job_request.StartRequest, project: str) -> dict[str, Any] | None:
        """Returns the answer to a request that was made before; the process is never started again."""
        under_way = self._starts.get(asked.job_id)
        if under_way is not None:
            if (under_way.request_hash, under_way.project) != (asked.request_hash, project):
                raise job_refusals.refuse("idempotency_conflict")
            return {**await asyncio.shield(under_way.task), "replayed": True}
        job = self.shelf.find(asked)
        if job is None:
            return None
        if (job.entry.request_hash, job.record.project) != (asked.request_hash, project):
            raise job_refusals.refuse("idempotency_conflict")
        return {**job.answer(), "replayed": True}

    async def _found(self, request: calls.Request) -> held_job.HeldJob:
        try:
            job_id = fields.Fields(request.body, "body").matching("job_id", job_records.JOB_ID)
        except fields.Malformed as error:
            raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
        under_way = self._starts.get(job_id)
        if under_way is not None and under_way.project == self._canonical(request):
            await asyncio.wait({under_way.task})
        job = self.shelf.jobs.get(job_id)
        if job is None or job.record.project != self._canonical(request):
            raise job_refusals.refuse("job_not_found")
        return job

    def _end_start(self, job_id: str, done: "asyncio.Task[dict[str, Any]]") -> None:
        del self._starts[job_id]
        error = None if done.cancelled() else done.exception()
        if error is not None and not isinstance(error, failures.RequestFailed):
            log.error("action=job_start_failed job=%s", job_id, exc_info=error)

    async def _begin(
        self, project: projects.Project, asked: job_request.StartRequest, canonical: str
    ) -> dict[str, Any]:
        record = job_record.Record(
            job_id=asked.job_id,
            project=canonical,
            purpose=asked.purpose,
            created_at=_now(),
            timeout_secs=asked.timeout_secs,
        )
        with ExitStack() as held:
            held.enter_context(self.shelf.key_place(asked.key))
            cwd = await asyncio.to_thread(job_cwd.open_directory, project, self._own, asked.cwd, self._policy)
            held.callback(os.close, cwd)
            job = await self._start(asked, record, cwd)
            await self.shelf.keep_key(job.entry)
            return {**job.answer(), "replayed": False}

    async def _start(
        self, asked: job_request.StartRequest, record: job_record.Record, cwd: int
    ) -> held_job.HeldJob:
        """Returns the Job once its process may run: what was admitted is always told."""
        with ExitStack() as ours, ExitStack() as childs:
            try:
                pipes = job_pipes.Pipes(asked.stdin)
                childs.callback(pipes.close_child_ends)
                ours.callback(pipes.close)
                stdin, stdout, stderr = pipes.child_ends
                tree = await processes.prepare(
                    processes.Stdio(cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)
                )
            except OSError as error:
                raise job_refusals.refuse("runner_unavailable") from error
            entry = job_store.Entry(
                job=record, request_hash=asked.request_hash, key=asked.key, tree=tree.recorded
            )
            started = await self._admit(entry, tree, asked.argv)
            job = held_job.HeldJob(entry if started is None else started)
            if started is None:
                self.shelf.add(job)
                self._keep_on(job, self._lose(job, tree))
                return job
            childs.close()
            await self.shelf.note(started)
            self.shelf.add(job)
            self._watch(job, tree, pipes)
            ours.pop_all()
            return job

    async def _admit(
        self, entry: job_store.Entry, tree: processes.Tree, argv: Sequence[str]
    ) -> job_store.Entry | None:
        """Returns what is known of an admitted Job once its process runs; None when that is not proven."""
        try:
            await self.shelf.admit(entry)
            recorded = await tree.start(argv, job_request.environment(os.environ))
        except (processes.SpawnFailed, OSError) as error:
            await tree.abandon()
            await self.shelf.withdraw(entry.job.job_id)
            is_ours = isinstance(error, OSError)
            raise job_refusals.refuse("runner_unavailable" if is_ours else "process_spawn_failed") from error
        except processes.StartUnproven:
            return None
        record = job_record.advance(entry.job, job_record.Event.STARTED, started_at=_now())
        return dataclasses.replace(entry, job=record, tree=recorded)

    async def _lose(self, job: held_job.HeldJob, tree: processes.Tree) -> job_record.Record:
        await tree.abandon()
        return job_record.advance(
            job.record,
            job_record.Event.LOST_SIGHT,
            finished_at=_now(),
            reason_code=job_record.SUPERVISOR_LOST,
        )

    def _watch(self, job: held_job.HeldJob, tree: processes.Tree, pipes: job_pipes.Pipes) -> None:
        running = running_job.RunningJob(
            job.record,
            tree,
            pipes,
            most_bytes=self._policy.max_output_bytes,
            show=lambda record: self.shelf.show(job, record),
        )
        job.running = running
        running.begin()
        self._keep_on(job, running.watch())
        if self._is_stopping:
            _hurry(job)

    def _keep_on(self, job: held_job.HeldJob, end: Coroutine[Any, Any, job_record.Record]) -> None:
        """Sees a Job through to its end, whatever else is waited for meanwhile."""
        watching = asyncio.get_running_loop().create_task(self._see_through(job, end))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    async def _see_through(self, job: held_job.HeldJob, end: Coroutine[Any, Any, job_record.Record]) -> None:
        try:
            await self.shelf.settle(job, await end)
        except Exception:  # a Job whose end cannot be told must not end without a word
            log.exception("action=job_unsettled job=%s", job.record.job_id)


def _hurry(job: held_job.HeldJob) -> None:
    if job.running is not None and not job.record.is_terminal:
        job.running.hurry(_SHUTDOWN_GRACE_S, _SHUTDOWN_OVERDUE_S, SHUTDOWN_REASON)


def _now() -> int:
    return int(time.time())
