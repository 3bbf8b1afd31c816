"""Holds the Jobs this Runner knows, in memory and on the disk, and says which may leave (R-47, R-64)."""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Collection, Iterator
from time import monotonic
from typing import Any, Final

from webcodex.protocol import fields
from webcodex.runner import (
    held_job,
    job_record,
    job_refusals,
    job_request,
    job_store,
    kept_answers,
    left_processes,
    streams,
)

MAX_ACTIVE: Final = 64
MAX_ENDED: Final = 64
KEPT_AFTER_ACK_S: Final = 900.0
UNSEEN_UPDATES: Final = 32_768
"""More snapshots than a process shows of one Job without writing them down: 4 a second for 3,600 s."""

_WRITE_AGAIN_S: Final = 5.0
_RULE_WITHIN_S: Final = 5.0

log = logging.getLogger(__name__)


class JobShelf:
    """All known Jobs by id, and the outbox that tells of them."""

    def __init__(
        self,
        store: job_store.JobStore,
        kept: kept_answers.KeptAnswers,
        outbox: streams.Outbox,
        *,
        write_again_s: float = _WRITE_AGAIN_S,
    ) -> None:
        self.jobs: dict[str, held_job.HeldJob] = {}
        self.outbox = outbox
        self._store = store
        self._kept = kept
        self._write_again_s = write_again_s
        self._settling: set[asyncio.Task[None]] = set()

    async def recover(self) -> None:
        """Rules on what an earlier process left: its trees are ended, then its open Jobs are lost (R-66)."""
        entries = await asyncio.to_thread(self._store.read_all)
        trees = [entry.tree for entry in entries if entry.tree is not None and not entry.job.is_terminal]
        await asyncio.to_thread(left_processes.end_trees, trees)
        for entry in entries:
            await self.keep_key(entry)
            job = held_job.HeldJob(entry)
            self.add(job)
            if not entry.job.is_terminal:
                settling = asyncio.get_running_loop().create_task(self.settle(job, _lost(entry.job)))
                self._settling.add(settling)
                settling.add_done_callback(self._settling.discard)
        if self._settling:
            await asyncio.wait(self._settling, timeout=_RULE_WITHIN_S)
        log.info("action=jobs_recovered jobs=%d trees=%d", len(entries), len(trees))

    def has_room(self, starting: Collection[str], most_active: int) -> bool:
        """Says whether one more Job may start: within the limit, and with a place for its end (R-64)."""
        self.let_leave()
        active = len([job for job in self.jobs.values() if not job.record.is_terminal])
        active += len([job_id for job_id in starting if job_id not in self.jobs])
        ends = [job for job in self.jobs.values() if job.record.is_terminal and job.acknowledged_at is None]
        return active < min(most_active, MAX_ACTIVE) and active + len(ends) < MAX_ENDED

    def let_leave(self) -> None:
        """Drops the ends that the Server has had for 15 minutes, and the oldest it has of those too many."""
        ended = [job for job in self.jobs.values() if job.record.is_terminal]
        noted = sorted(
            ((job.acknowledged_at, job) for job in ended if job.acknowledged_at is not None),
            key=lambda each: each[0],
        )
        now = monotonic()
        excess = len(ended) - MAX_ENDED
        for number, (acknowledged_at, job) in enumerate(noted):
            if number < excess or now - acknowledged_at >= KEPT_AFTER_ACK_S:
                self._leave(job)

    def find(self, asked: job_request.StartRequest) -> held_job.HeldJob | None:
        """Returns the Job that a request, or its key, stands for already.

        Raises:
            RequestFailed: the key stands for another request, or what is known of it cannot be read.

        """
        job = self.jobs.get(asked.job_id)
        if job is not None:
            return job
        if self._store.is_damaged(asked.job_id):
            raise job_refusals.unproven()
        try:
            answer = None if asked.key is None else self._kept.find(asked.key)
        except kept_answers.Conflict as error:
            raise job_refusals.refuse("idempotency_conflict") from error
        except kept_answers.Damaged as error:
            raise job_refusals.unproven() from error
        return None if asked.key is None or answer is None else self._of_key(asked.key, answer)

    @contextlib.contextmanager
    def key_place(self, key: kept_answers.Key | None) -> Iterator[None]:
        """Holds a place for the answer of a key until the block ends.

        Raises:
            RequestFailed: `idempotency_capacity` or `idempotency_conflict`.

        """
        with contextlib.ExitStack() as held:
            try:
                if key is not None:
                    held.enter_context(self._kept.make_room(key, _now()))
            except kept_answers.Full as error:
                raise job_refusals.refuse("idempotency_capacity") from error
            except kept_answers.Conflict as error:
                raise job_refusals.refuse("idempotency_conflict") from error
            yield

    async def keep_key(self, entry: job_store.Entry) -> None:
        """Leaves the Job as the kept answer of its key; until that succeeds its record stands for it."""
        await asyncio.to_thread(self._keep_key, entry)

    async def admit(self, entry: job_store.Entry) -> None:
        """Leaves a Job admitted, durably, before it may start.

        Raises:
            OSError: it may or may not be; `withdraw` makes sure.

        """
        await asyncio.to_thread(self._store.write, entry)

    async def withdraw(self, job_id: str) -> None:
        """Leaves nothing of an admitted Job that did not start."""
        try:
            await asyncio.to_thread(self._store.remove, job_id)
        except OSError:
            log.exception("action=job_not_withdrawn job=%s", job_id)

    async def note(self, entry: job_store.Entry) -> None:
        """Leaves on the disk what is known of a running Job, if that is possible."""
        try:
            await asyncio.to_thread(self._store.write, entry)
        except OSError as error:
            log.warning("action=job_not_noted job=%s errno=%s", entry.job.job_id, error.errno)

    def add(self, job: held_job.HeldJob) -> None:
        """Takes up a Job; the Server hears of it."""
        self.jobs[job.record.job_id] = job
        self.outbox.add(job)

    def show(self, job: held_job.HeldJob, record: job_record.Record) -> None:
        """Makes a record the newest snapshot of its Job; it is not written down."""
        job.entry = dataclasses.replace(job.entry, job=record)
        self.outbox.touch(job.name)

    async def settle(self, job: held_job.HeldJob, record: job_record.Record) -> None:
        """Shows the end of a Job once it is durable (R-47); a disk that refuses is asked again until then."""
        entry = dataclasses.replace(job.entry, job=record)
        while True:
            try:
                await asyncio.to_thread(self._store.write, entry)
                break
            except OSError as error:
                log.warning("action=job_end_not_durable job=%s errno=%s", record.job_id, error.errno)
            await asyncio.sleep(self._write_again_s)
        self.show(job, record)
        log.info("action=job_ended job=%s state=%s", record.job_id, record.state)

    def _of_key(self, key: kept_answers.Key, answer: dict[str, Any]) -> held_job.HeldJob:
        """Returns the Job that a key stands for: as it is, or as it was when it left the shelf (R-57)."""
        try:
            record = job_record.Record.read(fields.Fields(answer, "answer").nested("job"))
        except fields.Malformed as error:
            raise job_refusals.unproven() from error
        job = self.jobs.get(record.job_id)
        if job is not None:
            return job
        if not record.is_terminal:  # its own record is damaged or gone
            raise job_refusals.unproven()
        return held_job.HeldJob(
            job_store.Entry(job=record, request_hash=key.request_hash, key=key, tree=None)
        )

    def _keep_key(self, entry: job_store.Entry) -> bool:
        """Says whether the key, if there is one, is kept, with the Job's end once there is one.

        Until then the Job's record stands for its key, and must not leave.
        """
        if entry.key is None:
            return True
        try:
            answer = {"job": job_record.wire(job_record.without_log(entry.job))}
            kept = self._kept.find(entry.key)
            if kept is None:
                self._kept.keep(entry.key, answer, _now())
            elif entry.job.is_terminal and kept != answer:
                self._kept.renew(entry.key, answer, _now())
        except (kept_answers.Conflict, kept_answers.Damaged):
            pass  # the key's own record refuses every further use
        except OSError as error:
            log.warning("action=key_not_kept job=%s errno=%s", entry.job.job_id, error.errno)
            return False
        return True

    def _leave(self, job: held_job.HeldJob) -> None:
        if not self._keep_key(job.entry):
            return
        try:
            self._store.remove(job.record.job_id)
        except OSError as error:
            log.warning("action=job_not_removed job=%s errno=%s", job.record.job_id, error.errno)
            return
        del self.jobs[job.record.job_id]
        self.outbox.remove(job.name)


def _lost(record: job_record.Record) -> job_record.Record:
    """Returns the end of a Job of an earlier process; it counts on from beyond whatever that one showed."""
    unseen = dataclasses.replace(record, update_seq=record.update_seq + UNSEEN_UPDATES)
    return job_record.advance(
        unseen,
        job_record.Event.LOST_SIGHT,
        finished_at=_now(),
        reason_code=job_record.INSTANCE_REPLACED,
    )


def _now() -> int:
    return int(time.time())
