"""Rules on stored Jobs when a Runner registers, from what it holds (R-64); it cannot express a start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webcodex.core import jobs
from webcodex.core.jobs import Job, Report

MISSING: Final = "runner_inventory_missing"
REPLACED: Final = "runner_instance_replaced"


class Registrant(StrEnum):
    """How the Runner that registers stands to the one that a Job was given to."""

    SAME_INSTANCE = "same_instance"
    SAME_STORE = "same_store"
    OTHER = "other"


class Holding(StrEnum):
    """What the inventory says of a Job."""

    ACTIVE = "active"
    ENDED = "ended"
    ABSENT = "absent"
    ABSENT_FROM_A_PART = "absent_from_a_part"


class Verdict(StrEnum):
    """What becomes of a Job that has not ended."""

    AS_REPORTED = "as_reported"
    WAIT = "wait"
    LOST_MISSING = "lost_missing"
    LOST_REPLACED = "lost_replaced"


TABLE: Final[Mapping[tuple[Registrant, Holding], Verdict]] = {
    (Registrant.SAME_INSTANCE, Holding.ACTIVE): Verdict.AS_REPORTED,
    (Registrant.SAME_INSTANCE, Holding.ENDED): Verdict.AS_REPORTED,
    (Registrant.SAME_INSTANCE, Holding.ABSENT): Verdict.LOST_MISSING,
    (Registrant.SAME_INSTANCE, Holding.ABSENT_FROM_A_PART): Verdict.WAIT,
    (Registrant.SAME_STORE, Holding.ACTIVE): Verdict.LOST_REPLACED,
    (Registrant.SAME_STORE, Holding.ENDED): Verdict.AS_REPORTED,
    (Registrant.SAME_STORE, Holding.ABSENT): Verdict.LOST_REPLACED,
    (Registrant.SAME_STORE, Holding.ABSENT_FROM_A_PART): Verdict.LOST_REPLACED,
    (Registrant.OTHER, Holding.ACTIVE): Verdict.LOST_REPLACED,
    (Registrant.OTHER, Holding.ENDED): Verdict.LOST_REPLACED,
    (Registrant.OTHER, Holding.ABSENT): Verdict.LOST_REPLACED,
    (Registrant.OTHER, Holding.ABSENT_FROM_A_PART): Verdict.LOST_REPLACED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventory:
    """What a Runner process says it holds; ``is_complete`` covers the Jobs that have not ended."""

    instance_id: str
    store_id: str
    is_complete: bool
    reports: Mapping[str, Report]


def reconciled(stored: Iterable[Job], inventory: Inventory, *, at: int, wait_until: int) -> list[Job]:
    """Returns those stored Jobs that the inventory moves, as they are from now on; times in Unix s.

    A Job that is over stays, but for one that only the deadline ended and whose end is now reported.
    """
    ruled = (_ruled(job, inventory, at=at, wait_until=wait_until) for job in stored)
    return [job for job in ruled if job is not None]


def registrant(job: Job, instance_id: str, store_id: str) -> Registrant:
    """Returns how a Runner process stands to the one that ``job`` was given to."""
    if job.instance_id == instance_id:
        return Registrant.SAME_INSTANCE
    return Registrant.SAME_STORE if job.store_id == store_id else Registrant.OTHER


def may_report(job: Job, instance_id: str, store_id: str, report: Report) -> bool:
    """Says whether what a Runner process says of ``job`` counts: its own, or an end that its store kept."""
    who = registrant(job, instance_id, store_id)
    return who is Registrant.SAME_INSTANCE or (who is Registrant.SAME_STORE and report.is_end)


def _ruled(job: Job, inventory: Inventory, *, at: int, wait_until: int) -> Job | None:
    report = inventory.reports.get(job.job_id)
    verdict = TABLE[registrant(job, inventory.instance_id, inventory.store_id), _held(report, inventory)]
    if job.is_over:
        is_told = report is not None and verdict is Verdict.AS_REPORTED
        return jobs.found(job, report) if report is not None and is_told and job.is_presumed_lost else None
    match verdict:
        case Verdict.AS_REPORTED:
            return None if report is None else jobs.found(job, report)
        case Verdict.WAIT:
            return jobs.out_of_contact(job, until=wait_until)
        case Verdict.LOST_MISSING:
            return jobs.ruled_lost(job, MISSING, at=at)
        case Verdict.LOST_REPLACED:
            return jobs.ruled_lost(job, REPLACED, at=at)


def _held(report: Report | None, inventory: Inventory) -> Holding:
    if report is not None:
        return Holding.ENDED if report.is_end else Holding.ACTIVE
    return Holding.ABSENT if inventory.is_complete else Holding.ABSENT_FROM_A_PART
