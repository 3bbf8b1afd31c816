"""Holds the facts a handoff is made from; each source is there or missing for a stated reason (H-02).

The gatherer fills these records inside one read transaction; the projections only read them.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, Literal

from webcodex.core import observations, sessions
from webcodex.core.json_value import Json, JsonObject


class Missing(StrEnum):
    """Why a source is not there; each value is the basis code that says so (H-13)."""

    LEDGER = "continuation_unavailable"
    MESSAGES = "guidance_unavailable"
    JOBS = "job_summary_unavailable"
    VALIDATION = "validation_unavailable"
    VALIDATION_NOT_REQUESTED = "validation_not_requested"
    WORKSPACE = "workspace_unavailable"
    WORKSPACE_NOT_REQUESTED = "workspace_not_requested"


class ReportsMissing(StrEnum):
    """Why the external reports are not there (H-14)."""

    SESSION_WITHOUT_PROJECT = "session_project_unavailable"
    STORE = "store_unavailable"
    PROJECTION = "projection_unavailable"


class Changed(StrEnum):
    """What moved while the Runner was asked; each value is its basis code (H-40)."""

    SESSION = "session_changed_during_snapshot"
    REPORTS = "external_observations_changed_during_snapshot"


@dataclass(frozen=True, kw_only=True, slots=True)
class PathEvent:
    """What one event says about paths; a total counts the paths before S-12 cut them."""

    write_like: bool = False
    changed_paths: tuple[str, ...] = ()
    observed_paths: tuple[str, ...] = ()
    changed_total: int = 0
    observed_total: int = 0

    @property
    def is_recorded_change(self) -> bool:
        """Says whether this is native evidence of a change (S-42)."""
        return self.write_like and len(self.changed_paths) > 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """The retained events of a Session that name paths, oldest first, and how many events were evicted."""

    events: tuple[PathEvent, ...] = ()
    events_evicted: int = 0


class MessageKind(StrEnum):
    """The kinds of Session message (S-16)."""

    NOTE = "note"
    PROPOSAL = "proposal"
    QUESTION = "question"
    ANSWER = "answer"
    DECISION = "decision"
    RISK = "risk"
    PROGRESS = "progress"
    GUIDANCE = "guidance"
    TODO = "todo"


ATTENTION_KINDS: Final = frozenset(
    {MessageKind.GUIDANCE, MessageKind.RISK, MessageKind.QUESTION, MessageKind.TODO}  # S-17
)


class MessageStatus(StrEnum):
    """A message is open until it is resolved (S-16)."""

    OPEN = "open"
    RESOLVED = "resolved"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One retained Session message; ``created_at`` is Unix s."""

    message_id: str
    kind: MessageKind
    text: str
    redacted: bool
    status: MessageStatus
    superseded: bool
    created_at: int

    @property
    def needs_attention(self) -> bool:
        """Says whether this is an attention message (S-17)."""
        return self.kind in ATTENTION_KINDS and self.status is MessageStatus.OPEN and not self.superseded


class JobState(StrEnum):
    """The states of a Job that has not ended (R-61)."""

    QUEUED = "queued"
    AGENT_QUEUED = "agent_queued"
    RUNNING = "running"
    STOP_REQUESTED = "stop_requested"
    RECOVERING = "recovering"


class JobPurpose(StrEnum):
    """What a Job was started for (S-40)."""

    WORK = "work"
    VALIDATION = "validation"
    SERVICE = "service"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One Job that is active or recovering; ``created_at`` is Unix s."""

    job_id: str
    state: JobState
    purpose: JobPurpose
    created_at: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Jobs:
    """The Jobs not ended, the count of ended ones nobody saw, and of all there ever were (S-45)."""

    unended: tuple[Job, ...] = ()
    terminal_pending: int = 0
    recorded: int = 0


class ValidationStatus(StrEnum):
    """What the retained verdicts say together (S-43)."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    STALE = "stale"
    NOT_RUN = "not_run"


class Verdict(StrEnum):
    """How the newest ended attempt of one scope ended (S-40)."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


class ScopeKind(StrEnum):
    """What kind of check a validation scope is (H-10)."""

    TEST = "test"
    DIAGNOSTIC = "diagnostic"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScopeVerdict:
    """The newest ended attempt of one scope; ``ended_at`` is Unix s, ``is_after`` as in S-42.

    ``ever_failed`` says whether any attempt of the scope has failed (S-41).
    """

    kind: ScopeKind
    identity: str
    verdict: Verdict
    is_after: bool
    event_id: str
    ended_at: int
    ever_failed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """The validation of a Session; ``attempts`` also counts those that have not ended."""

    status: ValidationStatus
    scopes: tuple[ScopeVerdict, ...] = ()
    attempts: int = 0


class Workspace(Enum):
    """A workspace that was read and is no Git repository (H-07)."""

    NON_GIT = "non_git_project"


@dataclass(frozen=True, kw_only=True, slots=True)
class Git:
    """The Git facts of a workspace whose clean state and conflicts are both known.

    ``branch`` is none on a detached head, ``head`` before the first commit, and ``ahead`` and ``behind`` are
    none without an upstream.
    """

    branch: str | None
    head: str | None
    dirty: bool
    conflicted: bool
    ahead: int | None
    behind: int | None


class RunState(StrEnum):
    """The states of a CodingAgentRun (T-41)."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING_PERMISSION = "waiting_permission"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One Run of a Session; ``updated_at`` is Unix s."""

    run_id: str
    state: RunState
    is_outcome_unknown: bool
    updated_at: int


class OutputStatus(StrEnum):
    """What a check found at one output path (S-46)."""

    VERIFIED = "verified"
    MISSING = "missing"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Output:
    """One checked output path."""

    path: str
    status: OutputStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputCheck:
    """The newest output check; without outputs none was made. ``checked_at`` is Unix s.

    ``counter_moved`` says whether the change counter has moved since, or cannot be read (S-46).
    """

    outputs: tuple[Output, ...] = ()
    checked_at: int = 0
    counter_moved: bool = False


LedgerFacts = Ledger | Literal[Missing.LEDGER]
MessageFacts = tuple[Message, ...] | Literal[Missing.MESSAGES]
JobFacts = Jobs | Literal[Missing.JOBS]
ValidationFacts = Validation | Literal[Missing.VALIDATION, Missing.VALIDATION_NOT_REQUESTED]
WorkspaceFacts = Git | Workspace | Literal[Missing.WORKSPACE, Missing.WORKSPACE_NOT_REQUESTED]
ReportFacts = tuple[observations.Observation, ...] | ReportsMissing


@dataclass(frozen=True, kw_only=True, slots=True)
class HandoffFacts:
    """Everything a brief and an acceptance are made from, gathered at one moment (H-02).

    Messages stand in the order they were posted, oldest first. Unreadable Runs make the Jobs missing.
    """

    session: sessions.Session
    ledger: LedgerFacts
    messages: MessageFacts
    validation: ValidationFacts
    jobs: JobFacts
    workspace: WorkspaceFacts
    reports: ReportFacts
    changed: frozenset[Changed] = frozenset()
    runs: tuple[Run, ...] = ()
    output_check: OutputCheck = OutputCheck()

    @property
    def known_validation(self) -> ValidationFacts:
        """Returns the validation, which is unavailable without a readable ledger (S-43)."""
        if self.ledger is Missing.LEDGER and self.validation is not Missing.VALIDATION_NOT_REQUESTED:
            return Missing.VALIDATION
        return self.validation


class Count(Enum):
    """A count that could not be read."""

    UNREADABLE = "unreadable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """What is compared before the Runner is asked and inside the read transaction (H-40)."""

    events_total: int
    message_revision: int | Count
    report_count: int | Count


def changed_between(before: Fence, after: Fence) -> frozenset[Changed]:
    """Returns what moved between two readings of the fence (H-40)."""
    session_moved = (before.events_total, before.message_revision) != (
        after.events_total,
        after.message_revision,
    )
    moved = {Changed.SESSION: session_moved, Changed.REPORTS: before.report_count != after.report_count}
    return frozenset(changed for changed, is_so in moved.items() if is_so)


def process_scope_identity(validation_scope: str, scope_identity: str) -> str:
    """Returns the shown identity of a ``run_process`` scope; an empty ``validation_scope`` is none (H-10)."""
    return validation_scope or f"validation-{scope_identity[:16]}"


def path_event(facts: JsonObject) -> PathEvent:
    """Returns what the optional keys of an event (S-10) say about paths."""
    return PathEvent(
        write_like=facts.get("write_like") is True,
        changed_paths=_texts(facts.get("changed_paths")),
        observed_paths=_texts(facts.get("observed_paths")),
        changed_total=_count(facts.get("changed_total")),
        observed_total=_count(facts.get("observed_total")),
    )


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _count(value: Json) -> int:
    return value if isinstance(value, int) else 0
