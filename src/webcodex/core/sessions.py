"""Says what a Workflow Session is and which calls it takes (30.1, 30.2)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webcodex.core.json_value import JsonObject


class Lifecycle(StrEnum):
    """A Session is active until it is closed, for ever (S-06)."""

    ACTIVE = "active"
    CLOSED = "closed"


class Event(StrEnum):
    """What may happen to a Session's lifecycle."""

    CLOSE = "close"


TRANSITIONS: Final[dict[Lifecycle, dict[Event, Lifecycle]]] = {
    Lifecycle.ACTIVE: {Event.CLOSE: Lifecycle.CLOSED},
    Lifecycle.CLOSED: {},
}


class IllegalTransition(Exception):
    """The Session's lifecycle has no such step."""


class Mode(StrEnum):
    """How much a Session lets its own calls do (S-08)."""

    NORMAL = "normal"
    READ_ONLY = "read_only"


@dataclass(frozen=True, kw_only=True, slots=True)
class Guards:
    """What a Session denies to its own calls (30.1)."""

    deny_write_tools: bool = False
    deny_shell_tools: bool = False

    def shown(self) -> JsonObject:
        """Returns the public form."""
        return {"deny_write_tools": self.deny_write_tools, "deny_shell_tools": self.deny_shell_tools}


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One Workflow Session as stored; times are Unix s."""

    session_id: str
    authority: str
    project: str | None
    title: str
    title_redacted: bool
    mode: Mode
    guards: Guards
    lifecycle: Lifecycle
    created_at: int
    updated_at: int
    latest_instruction: str | None
    latest_instruction_redacted: bool
    last_sequence: int
    events_retained: int
    meaningful_tool_calls: int
    messages_posted: int = 0
    message_revision: int = 0

    @property
    def is_active(self) -> bool:
        """Says whether the Session still takes work."""
        return self.lifecycle is Lifecycle.ACTIVE


class Refusal(StrEnum):
    """Why a Session does not take a call (S-08)."""

    CLOSED = "session_closed"
    GUARD_DENIED = "session_guard_denied"


@dataclass(frozen=True, kw_only=True, slots=True)
class Demand:
    """What a call asks of its business Session."""

    changes_session: bool = False
    writes_files: bool = False
    runs_programs: bool = False


def advance(lifecycle: Lifecycle, event: Event) -> Lifecycle:
    """Returns the lifecycle after ``event``.

    Raises:
        IllegalTransition: the table has no such step (S-06).

    """
    try:
        return TRANSITIONS[lifecycle][event]
    except KeyError:
        raise IllegalTransition(f"a {lifecycle} Session does not {event}") from None


def refuse(session: Session, demand: Demand) -> tuple[Refusal, str | None] | None:
    """Returns the first reason to refuse a call, and its guard if one denied it (S-08)."""
    if not session.is_active and (demand.changes_session or demand.writes_files or demand.runs_programs):
        return Refusal.CLOSED, None
    if session.mode is Mode.READ_ONLY and (demand.writes_files or demand.runs_programs):
        return Refusal.GUARD_DENIED, "read_only"
    if session.guards.deny_write_tools and demand.writes_files:
        return Refusal.GUARD_DENIED, "deny_write_tools"
    if session.guards.deny_shell_tools and demand.runs_programs:
        return Refusal.GUARD_DENIED, "deny_shell_tools"
    return None
