"""Decides what becomes of an external report: stored, replayed, in conflict or refused (O-04, O-10..O-14)."""

from dataclasses import dataclass
from enum import StrEnum

from webcodex.core import limits
from webcodex.core.json_value import JsonObject


class Status(StrEnum):
    """What a report claims; without an exit code its outcome is unknown (O-08)."""

    UNKNOWN = "unknown"
    REPORTED_SUCCESS = "reported_success"
    REPORTED_FAILURE = "reported_failure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One claim about a tool use elsewhere, as submitted (O-01)."""

    session_id: str
    project: str
    adapter_id: str
    event_id: str
    tool: str
    exit_code: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """One stored report with the Server's own time, Unix s."""

    report: Report
    recorded_at: int


class Refusal(StrEnum):
    """Why a new report is not stored."""

    CONFLICT = "external_observation_conflict"
    SESSION_CLOSED = "session_closed"
    CAPACITY = "external_observation_capacity"


def status(exit_code: int | None) -> Status:
    """Returns what an exit code claims; a missing one stays unknown (O-08)."""
    if exit_code is None:
        return Status.UNKNOWN
    return Status.REPORTED_SUCCESS if exit_code == 0 else Status.REPORTED_FAILURE


def replay(stored: Observation, report: Report) -> Refusal | None:
    """Returns none when ``report`` repeats ``stored`` exactly, else the conflict (O-11, O-12)."""
    return None if stored.report == report else Refusal.CONFLICT


def admit(*, session_is_active: bool, stored_in_session: int, stored_in_all: int) -> Refusal | None:
    """Returns why a new identity is refused, or none when there is room for it (O-10, O-14)."""
    if not session_is_active:
        return Refusal.SESSION_CLOSED
    if stored_in_session >= limits.OBSERVATIONS_PER_SESSION or stored_in_all >= limits.OBSERVATIONS_TOTAL:
        return Refusal.CAPACITY
    return None


def shown(observation: Observation) -> JsonObject:
    """Returns the public form of a stored report (O-08)."""
    report = observation.report
    return {
        "adapter_id": report.adapter_id,
        "event_id": report.event_id,
        "tool": report.tool,
        "exit_code": report.exit_code,
        "recorded_at": observation.recorded_at,
        "status": status(report.exit_code).value,
    }
