"""Says how quiet the work on a Goal is, from what was recorded and what runs now (G-51 to G-53).

It is derived on read and never stored, so that no read can move it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from webcodex.core.json_value import JsonObject
from webcodex.core.ledger import Kind

IDLE_MS: Final = 300_000  # G-51
RUNNING_SHOWN: Final = 64  # G-51
SCANNED_SESSIONS: Final = 16  # G-53
SCANNED_EVENTS: Final = 64  # G-53
UNCOUNTED_TOOLS: Final = frozenset(
    {"read_session_handoff", "get_goal", "list_goals", "present_goal_plan"}
)  # S-50, G-53
CALL_KINDS: Final = frozenset(
    {Kind.TASK_INSTRUCTION, Kind.CALL_STARTED, Kind.CALL_FINISHED, Kind.SESSION_CLOSED}
)  # S-10: what a call wrote; the end of a Job is no call


class State(StrEnum):
    """What a reader may conclude of a Goal's activity."""

    NOT_APPLICABLE = "not_applicable"
    UNOBSERVED = "unobserved"
    ACTIVE = "active"
    ATTENTION_NEEDED = "attention_needed"


class Activity(Enum):
    """The activity could not be read."""

    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a bounded scan found; ``last_at`` (Unix ms) is none when no counted call was found.

    ``is_partial`` says that the scan met one of its limits before it knew.
    """

    last_at: int | None
    running: int
    is_partial: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What a ledger event says of the call that wrote it; ``at`` is Unix ms."""

    at: int
    kind: str
    tool_name: str | None

    @property
    def counts(self) -> bool:
        """Says whether the event is meaningful work on a linked Session (G-53)."""
        return self.kind in CALL_KINDS and self.tool_name not in UNCOUNTED_TOOLS


def seen(calls: Iterable[Call], *, since: int, running: int, has_more_sessions: bool) -> Seen:
    """Returns what the newest events of the linked Sessions say of the time since ``since`` (Unix ms).

    One event more than is scanned tells that there are more; ``has_more_sessions`` says that a linked
    Session was not looked at.
    """
    newest_first = sorted(calls, key=lambda call: call.at, reverse=True)
    scanned = [call for call in newest_first[:SCANNED_EVENTS] if call.at >= since]
    last = next((call.at for call in scanned if call.counts), None)
    is_cut = len(scanned) == SCANNED_EVENTS < len(newest_first)
    return Seen(last_at=last, running=running, is_partial=has_more_sessions or (last is None and is_cut))


def shown(found: Seen | Activity, *, is_terminal: bool, now: int) -> JsonObject:
    """Returns the closed ``activity`` of a plan projection; ``now`` is Unix ms (G-51)."""
    last, running, is_partial = None, None, True
    if isinstance(found, Seen):
        last, running, is_partial = found.last_at, min(found.running, RUNNING_SHOWN), found.is_partial
    quiet = None if last is None else max(0, now - last)
    return {
        "available": isinstance(found, Seen),
        "state": _state(found, quiet, is_terminal=is_terminal).value,
        "idle_threshold_ms": IDLE_MS,
        "observation_lease_ms": None,
        "last_seen_at_ms": last,
        "last_meaningful_activity_at_ms": last,
        "quiet_for_ms": quiet,
        "linked_window_count": 0,
        "active_meaningful_request_count": running,
        "coverage_partial": is_partial,
    }


def _state(found: Seen | Activity, quiet: int | None, *, is_terminal: bool) -> State:
    if is_terminal:
        return State.NOT_APPLICABLE
    if isinstance(found, Activity):
        return State.UNOBSERVED
    if found.running > 0:
        return State.ACTIVE
    if quiet is None:
        return State.UNOBSERVED
    if quiet < IDLE_MS:
        return State.ACTIVE
    return State.UNOBSERVED if found.is_partial else State.ATTENTION_NEEDED
