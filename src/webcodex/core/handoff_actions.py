"""Decides from the facts where the work stands and what to do next, as two tables (H-09, H-12).

External reports never reach this file: they change no state and no action (H-15).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webcodex.core import handoff_facts, sessions

ACTIONS: Final = 5  # H-12


class State(StrEnum):
    """How far the work is ready to go on (H-09)."""

    CLOSED = "closed"
    BLOCKED = "blocked"
    NEEDS_VALIDATION = "needs_validation"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"
    READY_TO_CONTINUE = "ready_to_continue"


class Validation(StrEnum):
    """The validation status as shown (H-10)."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    STALE = "stale"
    NOT_RUN = "not_run"
    NOT_REQUESTED = "not_requested"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobCounts:
    """The Job counts of a Session (S-45)."""

    active: int
    blocking: int
    terminal_pending: int
    recovering: int


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageCounts:
    """How many attention messages of each kind a Session has (S-17)."""

    guidance: int
    risks: int
    questions: int
    todos: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What the tables look at; an unknown count is zero here and named in ``lacks_evidence``."""

    is_closed: bool
    has_conflict: bool
    is_dirty: bool
    lacks_evidence: bool
    validation: Validation
    jobs: JobCounts
    messages: MessageCounts
    has_recent_files: bool
    has_changes: bool


NO_JOBS: Final = JobCounts(active=0, blocking=0, terminal_pending=0, recovering=0)
NO_MESSAGES: Final = MessageCounts(guidance=0, risks=0, questions=0, todos=0)
UNSETTLED: Final = frozenset({Validation.STALE, Validation.INCONCLUSIVE})
UNPROVEN: Final = UNSETTLED | {Validation.NOT_RUN}

Claim = Callable[[Standing], bool]

STATES: Final[tuple[tuple[State, Claim], ...]] = (
    (State.CLOSED, lambda now: now.is_closed),
    (
        State.BLOCKED,
        lambda now: (
            now.has_conflict
            or now.jobs.blocking > 0
            or now.jobs.recovering > 0
            or now.validation is Validation.FAILED
            or now.messages.risks > 0
        ),
    ),
    (
        State.NEEDS_VALIDATION,
        lambda now: now.validation in UNSETTLED or (now.is_dirty and now.validation is not Validation.PASSED),
    ),
    (State.INSUFFICIENT_EVIDENCE, lambda now: now.lacks_evidence),
    (State.READY_TO_CONTINUE, lambda _: True),
)

NEXT_ACTIONS: Final[tuple[tuple[str, Claim], ...]] = (
    ("Resolve the workspace conflict before changing anything else.", lambda now: now.has_conflict),
    ("Observe the recovering jobs; do not start them again.", lambda now: now.jobs.recovering > 0),
    (
        "Observe the running jobs to their end; do not start them again.",
        lambda now: now.jobs.blocking > 0 and now.jobs.recovering == 0,
    ),
    (
        "Inspect the failed validation and fix its cause.",
        lambda now: now.validation is Validation.FAILED,
    ),
    ("Review the open risks.", lambda now: now.messages.risks > 0),
    ("Run validation for the current files.", lambda now: now.validation in UNPROVEN),
    (
        "Answer the open guidance, questions and todos.",
        lambda now: now.messages.guidance + now.messages.questions + now.messages.todos > 0,
    ),
    ("Read the results of the finished jobs.", lambda now: now.jobs.terminal_pending > 0),
    ("Reread the recent files before editing.", lambda now: now.has_recent_files),
    (
        "Review the recorded changes against the current workspace.",
        lambda now: now.has_changes,
    ),
)
OTHERWISE: Final = "Continue from the latest instruction after checking the current state."


def state(now: Standing) -> State:
    """Returns the first state of H-09 whose condition holds."""
    return next(state for state, holds in STATES if holds(now))


def next_actions(now: Standing) -> tuple[str, ...]:
    """Returns at most five fixed texts in the order of H-12."""
    due = tuple(text for text, is_due in NEXT_ACTIONS if is_due(now))
    return due[:ACTIONS] or (OTHERWISE,)


def standing(facts: handoff_facts.HandoffFacts, *, has_recent_files: bool, has_changes: bool) -> Standing:
    """Returns what the tables look at."""
    git = facts.workspace if isinstance(facts.workspace, handoff_facts.Git) else None
    jobs, messages, validation = job_counts(facts), message_counts(facts), validation_status(facts)
    return Standing(
        is_closed=facts.session.lifecycle is sessions.Lifecycle.CLOSED,
        has_conflict=git is not None and git.conflicted,
        is_dirty=git is not None and git.dirty,
        lacks_evidence=any(
            isinstance(source, handoff_facts.Missing)
            for source in (facts.ledger, facts.messages, facts.jobs, facts.workspace, facts.known_validation)
        ),
        validation=validation,
        jobs=NO_JOBS if jobs is None else jobs,
        messages=NO_MESSAGES if messages is None else messages,
        has_recent_files=has_recent_files,
        has_changes=has_changes,
    )


def job_counts(facts: handoff_facts.HandoffFacts) -> JobCounts | None:
    """Returns the Job counts, or none when they cannot be read: they are all or nothing (H-11)."""
    if facts.jobs is handoff_facts.Missing.JOBS:
        return None
    active = [job for job in facts.jobs.unended if job.state is not handoff_facts.JobState.RECOVERING]
    return JobCounts(
        active=len(active),
        blocking=sum(job.purpose is not handoff_facts.JobPurpose.SERVICE for job in active),
        terminal_pending=facts.jobs.terminal_pending,
        recovering=len(facts.jobs.unended) - len(active),
    )


def message_counts(facts: handoff_facts.HandoffFacts) -> MessageCounts | None:
    """Returns the attention counts, or none when the messages cannot be read (H-11)."""
    if facts.messages is handoff_facts.Missing.MESSAGES:
        return None
    kinds = [message.kind for message in facts.messages if message.needs_attention]
    return MessageCounts(
        guidance=kinds.count(handoff_facts.MessageKind.GUIDANCE),
        risks=kinds.count(handoff_facts.MessageKind.RISK),
        questions=kinds.count(handoff_facts.MessageKind.QUESTION),
        todos=kinds.count(handoff_facts.MessageKind.TODO),
    )


def validation_status(facts: handoff_facts.HandoffFacts) -> Validation:
    """Returns the validation status as shown (H-10, S-43)."""
    validation = facts.known_validation
    if validation is handoff_facts.Missing.VALIDATION_NOT_REQUESTED:
        return Validation.NOT_REQUESTED
    if validation is handoff_facts.Missing.VALIDATION:
        return Validation.UNAVAILABLE
    return Validation(validation.status.value)


def basis_codes(facts: handoff_facts.HandoffFacts) -> list[str]:
    """Returns the sorted codes of everything the brief could not rest on (H-13)."""
    sources = (facts.ledger, facts.messages, facts.jobs, facts.known_validation, facts.workspace)
    codes = {source.value for source in sources if isinstance(source, handoff_facts.Missing)}
    # Without a request for the workspace there is no window in which anything could move (H-40).
    if facts.workspace is not handoff_facts.Missing.WORKSPACE_NOT_REQUESTED:
        codes |= {changed.value for changed in facts.changed}
    return sorted(codes)
