"""Says what a Job is and how it moves on; the Runner alone says that it ran (R-57, R-61).

A Job ends once. The one exception is a ``lost`` that the Server only presumed: its Runner may correct it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from webcodex.core import idempotency, ids, job_log
from webcodex.core.handoff_facts import JobPurpose
from webcodex.core.job_log import Log
from webcodex.core.json_value import JsonObject

PREFIX: Final = "wc_job_"
DEADLINE_EXCEEDED: Final = "runner_recovery_deadline_exceeded"
SERVER_RESTARTED: Final = "server_restart_reconciliation"

_DIGEST_CHARS: Final = 16


class State(StrEnum):
    """The states of a Job (R-61)."""

    QUEUED = "queued"
    AGENT_QUEUED = "agent_queued"
    RUNNING = "running"
    STOP_REQUESTED = "stop_requested"
    RECOVERING = "recovering"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What moves a Job: a report of its Runner, or what the Server finds out by itself."""

    REPORTS_AGENT_QUEUED = "reports_agent_queued"
    REPORTS_RUNNING = "reports_running"
    REPORTS_STOP_REQUESTED = "reports_stop_requested"
    REPORTS_COMPLETED = "reports_completed"
    REPORTS_FAILED = "reports_failed"
    REPORTS_STOPPED = "reports_stopped"
    REPORTS_TIMED_OUT = "reports_timed_out"
    REPORTS_LOST = "reports_lost"
    CONTACT_LOST = "contact_lost"
    RULED_LOST = "ruled_lost"
    START_REFUSED = "start_refused"


class Presumed(StrEnum):
    """An end that nobody reported: the Runner stayed away beyond the deadline (R-64)."""

    LOST = "lost"


_PROVEN_ENDS: Final[Mapping[Event, State]] = {
    Event.REPORTS_COMPLETED: State.COMPLETED,
    Event.REPORTS_FAILED: State.FAILED,
    Event.REPORTS_STOPPED: State.STOPPED,
    Event.REPORTS_TIMED_OUT: State.TIMED_OUT,
}
_ENDS: Final[Mapping[Event, State]] = {
    **_PROVEN_ENDS,
    Event.REPORTS_LOST: State.LOST,
    Event.RULED_LOST: State.LOST,
}
_STOPPING: Final[Mapping[Event, State]] = {**_ENDS, Event.CONTACT_LOST: State.RECOVERING}
_RUNNING: Final[Mapping[Event, State]] = {Event.REPORTS_STOP_REQUESTED: State.STOP_REQUESTED, **_STOPPING}
_WAITING: Final[Mapping[Event, State]] = {Event.REPORTS_RUNNING: State.RUNNING, **_RUNNING}

TRANSITIONS: Final[dict[State, Mapping[Event, State]]] = {
    State.QUEUED: {
        Event.REPORTS_AGENT_QUEUED: State.AGENT_QUEUED,
        **_WAITING,
        Event.START_REFUSED: State.CANCELLED,
    },
    State.AGENT_QUEUED: _WAITING,
    State.RUNNING: _RUNNING,
    State.STOP_REQUESTED: _STOPPING,
    State.RECOVERING: {
        Event.REPORTS_AGENT_QUEUED: State.AGENT_QUEUED,
        Event.REPORTS_RUNNING: State.RUNNING,
        Event.REPORTS_STOP_REQUESTED: State.STOP_REQUESTED,
        **_ENDS,
    },
    State.COMPLETED: {},
    State.FAILED: {},
    State.STOPPED: {},
    State.TIMED_OUT: {},
    State.LOST: {},
    State.CANCELLED: {},
}
CORRECTION_TRANSITIONS: Final[dict[Presumed, Mapping[Event, State]]] = {Presumed.LOST: _PROVEN_ENDS}

ACTIVE: Final = frozenset({State.QUEUED, State.AGENT_QUEUED, State.RUNNING, State.STOP_REQUESTED})  # S-45
TERMINAL: Final = frozenset(state for state, exits in TRANSITIONS.items() if not exits)
REPORTABLE: Final[Mapping[State, Event]] = {
    State.AGENT_QUEUED: Event.REPORTS_AGENT_QUEUED,
    State.RUNNING: Event.REPORTS_RUNNING,
    State.STOP_REQUESTED: Event.REPORTS_STOP_REQUESTED,
    State.COMPLETED: Event.REPORTS_COMPLETED,
    State.FAILED: Event.REPORTS_FAILED,
    State.STOPPED: Event.REPORTS_STOPPED,
    State.TIMED_OUT: Event.REPORTS_TIMED_OUT,
    State.LOST: Event.REPORTS_LOST,
}
"""The states that a Runner may report, each with its event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a Runner says of a Job at one revision; times are its own clock's, Unix s."""

    job_id: str
    state: State
    exit_code: int | None
    signal: str | None
    started_at: int | None
    finished_at: int | None
    update_seq: int
    reason_code: str | None
    log: Log

    @property
    def is_end(self) -> bool:
        """Says whether the Job is over by this report."""
        return self.state in TERMINAL


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One Job as the Server holds it; times are Unix s.

    ``call_id`` is the call that starts it, over ``connection_id`` and no other. ``instance_id`` and
    ``store_id`` are the Runner's at that time. ``recover_until`` is set while it is recovering.
    """

    job_id: str
    client_id: str
    project: str
    purpose: JobPurpose
    state: State
    created_at: int
    timeout_secs: int
    request_hash: str
    call_id: str
    connection_id: str | None = None
    instance_id: str | None = None
    store_id: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    update_seq: int = 0
    reason_code: str | None = None
    recovered_after_server_restart: bool = False
    recovery_reason_code: str | None = None
    recover_until: int | None = None
    is_observed: bool = False
    log: Log = job_log.EMPTY

    @property
    def is_over(self) -> bool:
        """Says whether the Job has ended."""
        return self.state in TERMINAL

    @property
    def is_presumed_lost(self) -> bool:
        """Says whether only the deadline ended it, so that its Runner may correct that once (R-64)."""
        return self.state is State.LOST and self.reason_code == DEADLINE_EXCEEDED

    def shown(self) -> JsonObject:
        """Returns the public form without its log (R-61)."""
        return {
            "job_id": self.job_id,
            "project": self.project,
            "purpose": self.purpose.value,
            "state": self.state.value,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "created_at": self.created_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
            "timeout_secs": self.timeout_secs,
            "update_seq": self.update_seq,
            "reason_code": self.reason_code,
            "recovered_after_server_restart": self.recovered_after_server_restart,
            "recovery_reason_code": self.recovery_reason_code,
        }


def advance(job: Job, event: Event) -> State | None:
    """Returns the state after ``event``, or none where the tables have no such step."""
    if job.is_presumed_lost:
        return CORRECTION_TRANSITIONS[Presumed.LOST].get(event)
    return TRANSITIONS[job.state].get(event)


def reported(job: Job, report: Report) -> Job | None:
    """Returns the Job after a snapshot of its Runner, or none when that is old news or no step (R-61)."""
    if report.update_seq <= job.update_seq:
        return None
    moved = _told(job, report)
    return None if moved is None else replace(moved, update_seq=report.update_seq, log=report.log)


def found(job: Job, report: Report) -> Job | None:
    """Returns the Job after a Runner's inventory, whose records have no log; the snapshot follows (R-64).

    ``update_seq`` stays that of the last whole snapshot, so that the Runner sends the newest one.
    """
    moved = _told(job, report)
    if moved is None:
        return None
    next_line = max(job.log.next_line, report.log.next_line)
    return replace(moved, log=replace(job.log, next_line=next_line))


def out_of_contact(job: Job, *, until: int) -> Job | None:
    """Returns the Job waiting for its Runner until ``until``, Unix s, or none when it waits or is over."""
    state = advance(job, Event.CONTACT_LOST)
    return None if state is None else replace(job, state=state, recover_until=until)


def ruled_lost(job: Job, reason: str, *, at: int) -> Job | None:
    """Returns the Job as lost for ``reason`` since ``at``, Unix s, or none when it is over already."""
    state = advance(job, Event.RULED_LOST)
    if state is None:
        return None
    return replace(job, state=state, reason_code=reason, finished_at=at, recover_until=None)


def refused(job: Job, reason: str, *, at: int) -> Job | None:
    """Returns the Job whose start its Runner refused after its call was gone, or none when it moved on."""
    state = advance(job, Event.START_REFUSED)
    return None if state is None else replace(job, state=state, reason_code=reason, finished_at=at)


def id_of_key(requested_by: str, project: str, key: str) -> str:
    """Returns the id of the one Job that a key stands for (R-57)."""
    digest = idempotency.project_key(requested_by, project, key)
    return PREFIX + base64.urlsafe_b64encode(digest).decode("ascii")[:_DIGEST_CHARS]


def id_of_call(call_id: str) -> str:
    """Returns the id of the Job that a call without a key starts; no other call has it."""
    return PREFIX + call_id.removeprefix("wc_call_")


def client_of(project: str) -> str:
    """Returns the client_id of a canonical Project id (C-15)."""
    parts = ids.parse_project(project)
    if parts is None:
        raise ValueError("a Job belongs to a canonical Project")
    return parts.client_id


def _told(job: Job, report: Report) -> Job | None:
    event = REPORTABLE[report.state]
    state = job.state if report.state is job.state else advance(job, event)
    if state is None:
        return None
    is_corrected = job.is_over and state is not job.state
    return replace(
        job,
        state=state,
        exit_code=report.exit_code,
        signal=report.signal,
        started_at=report.started_at,
        finished_at=report.finished_at,
        reason_code=report.reason_code,
        recover_until=None,
        is_observed=job.is_observed and not is_corrected,
    )
