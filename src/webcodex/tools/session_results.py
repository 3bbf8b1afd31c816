"""Declares what the Session tools answer (30.9)."""

from typing import Any, Literal

from webcodex.tools.contract import Result


class GuardsShown(Result):
    """What the Session denies to its own calls."""

    deny_write_tools: bool
    deny_shell_tools: bool


class SessionShown(Result):
    """The fields of one Workflow Session (30.1)."""

    session_id: str
    session_ref: str
    project: str | None
    title: str
    mode: Literal["normal", "read_only"]
    guards: GuardsShown
    lifecycle: Literal["active", "closed"]
    created_at: int
    updated_at: int


class SessionListed(Result):
    """One row of a list; the caller must choose."""

    session_id: str
    session_ref: str
    title: str
    title_truncated: bool
    lifecycle: Literal["active", "closed"]
    created_at: int
    updated_at: int


class ListSessionsResult(Result):
    """One page of the caller's Sessions in one Project (S-62)."""

    project: str
    total: int
    offset: int
    next_offset: int | None
    selection: Literal["caller_must_choose_exact_session"]
    sessions: list[SessionListed]


class MessageCounts(Result):
    """Counts of the Session's messages (S-63); the last four count what needs attention."""

    total: int
    retained: int
    evicted: int
    open: int
    open_guidance: int
    open_risks: int
    open_questions: int
    open_todos: int


class SummaryResult(SessionShown):
    """A Session with its newest ledger events (S-63)."""

    events_total: int
    events_retained: int
    events_evicted: int
    retention_truncated: bool
    ledger_first_retained_sequence: int | None
    events: list[dict[str, Any]]
    events_returned: int
    events_truncated: bool
    first_retained_sequence: int | None
    messages: MessageCounts


class Guidance(Result):
    """Fixed advice on how to work in the Session."""

    profile: Literal["standard", "minimal"]
    text: str


class WorkspaceShown(Result):
    """What the Runner said of the workspace; nulls where it said nothing."""

    status: Literal["available", "unavailable"]
    branch: str | None
    head: str | None
    dirty: bool | None


class GoalReentry(Result):
    """The identities of a resumed Session's active Goals, or that they could not be read (G-60)."""

    available: bool
    truncated: bool
    goals: list[dict[str, Any]]


class WorkResult(Result):
    """The Session that was created or resumed; ``mode`` is the checkout mode (S-60)."""

    session_id: str
    session_ref: str
    project: str
    project_ref: str
    continuation: Literal["created", "resumed_explicitly"]
    mode: Literal["checkout"]
    lifecycle: Literal["active"]
    title: str
    guards: GuardsShown
    guidance: Guidance
    workspace: WorkspaceShown
    goal_reentry: GoalReentry | None = None


class CloseResult(Result):
    """The Session is closed (S-67)."""

    success: Literal[True]
    session_id: str
    lifecycle: Literal["closed"]
    already_closed: bool
    updated_at: int
