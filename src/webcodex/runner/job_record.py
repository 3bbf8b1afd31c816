"""What is said of a Job (R-61): its record, and the only ways from one state to the next."""

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import job_log, jobs
from webcodex.protocol import fields, job_records, records

PURPOSES: Final = frozenset({"work", "validation", "service"})

INSTANCE_REPLACED: Final = "runner_instance_replaced"
SUPERVISOR_LOST: Final = "runner_supervisor_lost"


class Event(enum.StrEnum):
    """What moves a Job on."""

    STARTED = "started"
    STOP_ORDERED = "stop_ordered"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ENDED_BY_STOP = "ended_by_stop"
    ENDED_BY_TIME = "ended_by_time"
    LOST_SIGHT = "lost_sight"


_ENDS: Final = {
    Event.SUCCEEDED: jobs.State.COMPLETED,
    Event.FAILED: jobs.State.FAILED,
    Event.ENDED_BY_TIME: jobs.State.TIMED_OUT,
    Event.LOST_SIGHT: jobs.State.LOST,
}
TRANSITIONS: Final[Mapping[jobs.State, Mapping[Event, jobs.State]]] = {
    jobs.State.AGENT_QUEUED: {Event.STARTED: jobs.State.RUNNING, Event.LOST_SIGHT: jobs.State.LOST},
    jobs.State.RUNNING: {Event.STOP_ORDERED: jobs.State.STOP_REQUESTED, **_ENDS},
    jobs.State.STOP_REQUESTED: {Event.ENDED_BY_STOP: jobs.State.STOPPED, Event.LOST_SIGHT: jobs.State.LOST},
    jobs.State.COMPLETED: {},
    jobs.State.FAILED: {},
    jobs.State.STOPPED: {},
    jobs.State.TIMED_OUT: {},
    jobs.State.LOST: {},
}
"""The states that a Runner itself gives a Job; the Server adds its own."""


class IllegalTransition(Exception):
    """A Job cannot go that way from where it is."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One Job as it goes over the link; times are Unix s, `timeout_secs` counts from `started_at`."""

    job_id: str
    project: str
    purpose: str
    state: jobs.State = jobs.State.AGENT_QUEUED
    exit_code: int | None = None
    signal: str | None = None
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    timeout_secs: int
    update_seq: int = 1
    reason_code: str | None = None
    log: job_log.Log = job_log.EMPTY

    @property
    def is_terminal(self) -> bool:
        """Says whether nothing can change the record any more."""
        return not TRANSITIONS[self.state]

    @classmethod
    def read(cls, source: fields.Fields) -> "Record":
        """Reads the record in `source`."""
        return cls(
            job_id=source.matching("job_id", job_records.JOB_ID),
            project=source.text("project", most=512),
            purpose=source.word("purpose", PURPOSES),
            state=jobs.State(source.word("state", frozenset(TRANSITIONS))),
            exit_code=source.integer_or_none("exit_code"),
            signal=source.text_or_none("signal", most=32),
            created_at=source.integer("created_at"),
            started_at=source.integer_or_none("started_at"),
            finished_at=source.integer_or_none("finished_at"),
            timeout_secs=source.integer("timeout_secs", least=1),
            update_seq=source.integer("update_seq", least=1),
            reason_code=source.text_or_none("reason_code", most=64),
            log=job_records.read_log(source.nested("log")),
        )


def advance(record: Record, event: Event, **changes: Any) -> Record:
    """Returns the record after an event, with its `update_seq` grown by one.

    Raises:
        IllegalTransition: the event is not possible in this state.

    """
    following = TRANSITIONS[record.state].get(event)
    if following is None:
        raise IllegalTransition(f"{event} is not possible while {record.state}")
    return dataclasses.replace(record, state=following, update_seq=record.update_seq + 1, **changes)


def with_output(record: Record, log: job_log.Log) -> Record:
    """Returns the record with what was written meanwhile."""
    return dataclasses.replace(record, log=log, update_seq=record.update_seq + 1)


def wire(record: Record) -> dict[str, Any]:
    """Returns the record as it goes over the link."""
    return records.wire(record)


def without_log(record: Record) -> Record:
    """Returns what is kept of a Job that leaves: all but its log, and that there was one."""
    lines, had_text = record.log.next_line, record.log.truncated or bool(record.log.tail)
    log = job_log.Log(first_retained_line=lines, next_line=lines, truncated=had_text)
    return dataclasses.replace(record, log=log)


def wire_without_text(record: Record) -> dict[str, Any]:
    """Returns the record as an inventory holds it: all but the text of its log (R-64)."""
    return records.wire(dataclasses.replace(record, log=dataclasses.replace(record.log, tail="")))
