"""Stores what Runners say of their Jobs: inventories, snapshots, and that they are gone (R-46..R-48, R-64).

Only the connection that holds a client_id may move that Runner's Jobs, and none is ever started from here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from webcodex.core import job_recovery, jobs
from webcodex.core.job_recovery import Inventory
from webcodex.core.jobs import Job, Report
from webcodex.protocol import fields, hello, job_records, messages
from webcodex.server import runner_registration
from webcodex.storage import jobs as stored_jobs
from webcodex.storage.database import Transaction
from webcodex.tools import job_recording
from webcodex.tools.ports import Services

STREAM: Final = "job"
MOST_TOGETHER: Final = 64
"""How many reports one transaction stores: as many as a Runner sends unacknowledged (R-47)."""

_MOST_OF_EACH: Final = 64
_INVENTORY_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Reporter:
    """Which Runner process speaks over which connection."""

    holding: runner_registration.Holding
    instance_id: str
    store_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reconciled:
    """How far each Job that the Runner holds is stored (R-48), and every Job that was ruled on."""

    resume: tuple[messages.Resume, ...]
    job_ids: tuple[str, ...]


def inventory(said: hello.Hello) -> Inventory:
    """Returns the Jobs that a Runner says it holds.

    Raises:
        Malformed: a record is, there are two of one Job, or too many.

    """
    records = said.job_inventory.jobs
    reports = [job_records.read(fields.Fields(record, "hello.job_inventory.jobs")) for record in records]
    ended = sum(report.is_end for report in reports)
    if (
        max(ended, len(reports) - ended) > _MOST_OF_EACH
        or fields.encoded_bytes(list(records)) > _INVENTORY_BYTES
    ):
        raise fields.Malformed("hello.job_inventory holds too much")
    by_id = {report.job_id: report for report in reports}
    if len(by_id) != len(reports):
        raise fields.Malformed("hello.job_inventory names one Job twice")
    return Inventory(
        instance_id=said.runner_instance_id,
        store_id=said.store_id,
        is_complete=said.job_inventory.active_complete,
        reports=by_id,
    )


def report(event: messages.StreamEvent) -> Report:
    """Returns the snapshot in an event of the Job stream.

    Raises:
        Malformed: it is no record, or that of another Job.

    """
    said = job_records.read(fields.Fields(event.snapshot, "event.snapshot"))
    if said.job_id != event.id:
        raise fields.Malformed("event.snapshot is of another Job")
    return said


class JobStreams:
    """Keeps the Jobs of connected Runners as these report them."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def moved(self, job_ids: Iterable[str]) -> None:
        """Wakes those who wait for these Jobs; only after the commit."""
        self._services.moves.tell(job_ids)

    def reconcile(self, tx: Transaction, client_id: str, held: Inventory) -> Reconciled:
        """Rules on the Jobs of a Runner that registers; belongs to the transaction of its lease (R-64)."""
        known = stored_jobs.ids_of_client(tx, client_id, held.reports)
        job_recording.hold_sessions(tx, known)
        stored = {job.job_id: job for job in stored_jobs.of_client(tx, client_id, held.reports)}
        now = self._services.now()
        until = now + self._services.job_grace_s
        for after in job_recovery.reconciled(stored.values(), held, at=now, wait_until=until):
            job_recording.move(tx, self._services, stored[after.job_id], after)
        resume = [_resume(job) for job in stored.values() if job.job_id in held.reports]
        return Reconciled(resume=tuple(resume), job_ids=tuple(stored))

    def store(self, tx: Transaction, reporter: Reporter, reports: Sequence[Report]) -> list[messages.Ack]:
        """Stores the newest snapshot of each Job; returns what to acknowledge after the commit (R-47).

        A Job that is not this Runner's, or not stored, is acknowledged and stays what it is.

        Raises:
            NotHeld: another connection speaks for the Runner; nothing was written.

        """
        runner_registration.check_held(tx, reporter.holding)
        newest = {said.job_id: said for said in sorted(reports, key=lambda said: said.update_seq)}
        job_recording.hold_sessions(tx, (said.job_id for said in newest.values() if said.is_end))
        for job_id in sorted(newest):
            self._take(tx, reporter, newest[job_id])
        return [_ack(said) for said in newest.values()]

    def lose_contact(self, tx: Transaction, holding: runner_registration.Holding) -> list[str]:
        """Leaves the Runner's active Jobs recovering, and returns their ids (R-64).

        Raises:
            NotHeld: another connection speaks for the Runner; nothing was written.

        """
        runner_registration.check_held(tx, holding)
        until = self._services.now() + self._services.job_grace_s
        moved = []
        for job in stored_jobs.active_of_client(tx, holding.client_id):
            after = jobs.out_of_contact(job, until=until)
            if after is not None:
                stored_jobs.save(tx, after)
                moved.append(job.job_id)
        return moved

    def _take(self, tx: Transaction, reporter: Reporter, said: Report) -> None:
        job = stored_jobs.lock(tx, said.job_id)
        if job is None or job.client_id != reporter.holding.client_id:
            return
        if not job_recovery.may_report(job, reporter.instance_id, reporter.store_id, said):
            return
        after = jobs.reported(job, said)
        if after is not None:
            job_recording.move(tx, self._services, job, after)


def _resume(job: Job) -> messages.Resume:
    return messages.Resume(stream=STREAM, id=job.job_id, through_sequence=0, through_revision=job.update_seq)


def _ack(said: Report) -> messages.Ack:
    return messages.Ack(stream=STREAM, id=said.job_id, through_sequence=0, through_revision=said.update_seq)
