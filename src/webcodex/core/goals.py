"""Says what a Goal is and decides each of its changes: revision, lifecycle, associations (G-10 to G-33).

A Goal runs nothing, schedules nothing and grants nothing. Times are Unix ms.
"""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from typing import Final

from webcodex.core import goal_plans
from webcodex.core.goal_plans import Checkpoint, Plan

TITLE_CHARS: Final = 200  # G-14, as are all bounds here
OBJECTIVE_BYTES: Final = 8192
TERMINAL_REASON_BYTES: Final = 4096
KEY_CHARS: Final = 128
CORRELATIONS: Final = 64
GOAL_ID: Final = r"^wc_goal_(?:[A-Za-z0-9_-]{16}|[0-9a-f]{32})$"  # G-05
AGENT_TASK_ID: Final = r"^wc_agent_task_(?:[A-Za-z0-9_-]{16}|[0-9a-f]{32})$"  # G-05


class Lifecycle(StrEnum):
    """A Goal is active until it is completed or cancelled, for ever (G-13)."""

    ACTIVE = "active"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Event(StrEnum):
    """What may happen to a Goal's lifecycle."""

    COMPLETE = "complete"
    CANCEL = "cancel"


TRANSITIONS: Final[dict[Lifecycle, dict[Event, Lifecycle]]] = {
    Lifecycle.ACTIVE: {Event.COMPLETE: Lifecycle.COMPLETED, Event.CANCEL: Lifecycle.CANCELLED},
    Lifecycle.COMPLETED: {},
    Lifecycle.CANCELLED: {},
}


_ENDS: Final = {Lifecycle.COMPLETED: Event.COMPLETE, Lifecycle.CANCELLED: Event.CANCEL}


class Kind(StrEnum):
    """What a Goal may be linked to (G-11)."""

    AGENT_TASK = "agent_task"
    WORKFLOW_SESSION = "workflow_session"


class Operation(StrEnum):
    """The changes that an idempotency key may name (G-11)."""

    CREATE = "create_goal"
    PREPARE = "prepare_goal_workflow"
    UPDATE = "update_goal"
    CHECKPOINT = "checkpoint_goal"
    ASSOCIATE_AGENT_TASK = "associate_goal_agent_task"
    ASSOCIATE_SESSION = "associate_goal_workflow_session"


class Unchanged(Enum):
    """The controller label was not named in an update."""

    UNCHANGED = "unchanged"


class Refusal(StrEnum):
    """Why a change is not made; the words of G-42 that depend on what is stored."""

    NOT_FOUND = "goal_not_found"
    TERMINAL = "goal_terminal"
    REVISION_CHANGED = "goal_revision_changed"
    PLAN_INCOMPLETE = "goal_plan_incomplete"
    INVALID_CHECKPOINT = "invalid_goal_checkpoint"
    INVALID_PLAN = "invalid_goal_plan"
    IDEMPOTENCY_CONFLICT = "goal_idempotency_conflict"
    CORRELATION_CAPACITY = "goal_correlation_capacity_exceeded"
    AGENT_NOT_FOUND = "agent_not_found"
    AGENT_TASK_NOT_FOUND = "agent_task_not_found"


class Refused(Exception):
    """The change is not made; ``goal_id`` is set when the caller may read that Goal now."""

    def __init__(
        self, reason: Refusal, *, goal_id: str | None = None, current_revision: int | None = None
    ) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.goal_id = goal_id
        self.current_revision = current_revision


class IllegalTransition(Exception):
    """The Goal's lifecycle has no such step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Correlation:
    """A link that somebody made on purpose; it grants nothing."""

    kind: Kind
    reference_id: str
    created_at_unix_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """One Goal as stored, its correlations by kind and time."""

    goal_id: str
    owner: str
    title: str
    objective: str
    controller_agent_id: str | None
    lifecycle: Lifecycle
    revision: int
    created_at_unix_ms: int
    updated_at_unix_ms: int
    terminal_at_unix_ms: int | None
    terminal_reason: str | None
    plan: Plan
    correlations: tuple[Correlation, ...] = ()

    @property
    def is_active(self) -> bool:
        """Says whether the Goal still takes changes."""
        return self.lifecycle is Lifecycle.ACTIVE

    def linked(self, kind: Kind) -> tuple[str, ...]:
        """Returns the ids of what the Goal is linked to of that kind."""
        return tuple(one.reference_id for one in self.correlations if one.kind is kind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What an update asks for; none and ``UNCHANGED`` leave a field as it is."""

    title: str | None = None
    objective: str | None = None
    controller_agent_id: str | Unchanged | None = Unchanged.UNCHANGED
    lifecycle: Lifecycle | None = None
    terminal_reason: str | None = None


def advance(lifecycle: Lifecycle, event: Event) -> Lifecycle:
    """Returns the lifecycle after ``event``.

    Raises:
        IllegalTransition: the table has no such step (G-13).

    """
    try:
        return TRANSITIONS[lifecycle][event]
    except KeyError:
        raise IllegalTransition(f"a {lifecycle} Goal does not {event}") from None


def checkpoint(goal: Goal, reported: Checkpoint, *, expected_revision: int, at: int) -> Goal:
    """Returns the Goal after a checkpoint, one revision later, also when no step changed (G-30).

    Raises:
        Refused: the Goal is terminal, then its revision is another, then the batch does not fit (G-32).

    """
    refuse_terminal(goal)
    _refuse_other_revision(goal, expected_revision)
    try:
        plan = goal_plans.checkpointed(goal.plan, reported, created_at=goal.created_at_unix_ms, at=at)
    except goal_plans.InvalidCheckpoint:
        raise Refused(Refusal.INVALID_CHECKPOINT, goal_id=goal.goal_id) from None
    except goal_plans.InvalidPlan:
        raise Refused(Refusal.INVALID_PLAN, goal_id=goal.goal_id) from None
    return _revised(replace(goal, plan=plan), at)


def update(goal: Goal, change: Change, *, expected_revision: int, at: int) -> Goal:
    """Returns the Goal after an update, one revision later (G-31).

    Raises:
        Refused: its revision is another, then the Goal is terminal (G-32), then its plan is incomplete.

    """
    _refuse_other_revision(goal, expected_revision)
    refuse_terminal(goal)
    updated = _revised(goal, at)
    if change.title is not None:
        updated = replace(updated, title=change.title)
    if change.objective is not None:
        updated = replace(updated, objective=change.objective)
    if not isinstance(change.controller_agent_id, Unchanged):
        updated = replace(updated, controller_agent_id=change.controller_agent_id)
    event = None if change.lifecycle is None else _ENDS.get(change.lifecycle)
    return updated if event is None else _ended(updated, event, change.terminal_reason)


def _ended(goal: Goal, event: Event, reason: str | None) -> Goal:
    if event is Event.COMPLETE and not goal.plan.is_complete:
        raise Refused(Refusal.PLAN_INCOMPLETE, goal_id=goal.goal_id)
    return replace(
        goal,
        lifecycle=advance(goal.lifecycle, event),
        terminal_at_unix_ms=goal.updated_at_unix_ms,
        terminal_reason=reason,
    )


def associate(goal: Goal, kind: Kind, reference_id: str, *, expected_revision: int | None, at: int) -> Goal:
    """Returns the Goal linked to ``reference_id``, one revision later; the same Goal if it was (G-33).

    Raises:
        Refused: its revision is another, then no correlation more fits.

    """
    if reference_id in goal.linked(kind):
        return goal
    if expected_revision is not None:
        _refuse_other_revision(goal, expected_revision)
    if len(goal.correlations) >= CORRELATIONS:
        raise Refused(Refusal.CORRELATION_CAPACITY, goal_id=goal.goal_id)
    revised = _revised(goal, at)
    made = Correlation(kind=kind, reference_id=reference_id, created_at_unix_ms=revised.updated_at_unix_ms)
    return replace(revised, correlations=(*goal.correlations, made))


def _revised(goal: Goal, at: int) -> Goal:
    # A clock that went back never makes a Goal older than it was.
    return replace(goal, revision=goal.revision + 1, updated_at_unix_ms=max(at, goal.updated_at_unix_ms))


def refuse_terminal(goal: Goal) -> None:
    """Lets an active Goal pass.

    Raises:
        Refused: the Goal is terminal.

    """
    if not goal.is_active:
        raise Refused(Refusal.TERMINAL, goal_id=goal.goal_id)


def _refuse_other_revision(goal: Goal, expected: int) -> None:
    if goal.revision != expected:
        raise Refused(Refusal.REVISION_CHANGED, goal_id=goal.goal_id, current_revision=goal.revision)
