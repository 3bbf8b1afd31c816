"""Says what the plan of a Goal is, and what a checkpoint makes of it (G-20 to G-22, G-30).

Written and read plans pass the same check, so a plan that this module wrote is one that it reads.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from webcodex.core.goal_context import StepStatus

STEPS: Final = 32  # G-14, as are all bounds here
STEP_TITLE_CHARS: Final = 120
CONDITIONS: Final = 8
CONDITION_BYTES: Final = 512
SUMMARY_BYTES: Final = 2048
STORED_BYTES: Final = 32_768
STEP_ID: Final = r"^[A-Za-z0-9_-]{1,32}$"
_STEP_ID: Final = re.compile(STEP_ID[1:-1])
_PLAN_KEYS: Final = {"completion_conditions", "steps", "progress_summary", "checkpoint_at_unix_ms"}
_STEP_KEYS: Final = {"id", "title", "status", "updated_at_unix_ms"}


class InvalidPlan(Exception):
    """The plan breaks a bound or a rule of G-14, G-20 or G-21."""


class StoredPlanInvalid(Exception):
    """The plan that is stored breaks a rule; its Goal can be neither read nor changed (G-22)."""


class InvalidCheckpoint(Exception):
    """The checkpoint does not fit the plan; nothing of it is applied (G-30)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of a plan, and when its status last changed."""

    step_id: str
    title: str
    status: StepStatus
    updated_at_unix_ms: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Conditions and steps, fixed at creation, and how far they have come."""

    completion_conditions: tuple[str, ...]
    steps: tuple[Step, ...]
    progress_summary: str | None
    checkpoint_at_unix_ms: int | None

    @property
    def completed_count(self) -> int:
        """Returns how many steps are completed."""
        return sum(step.status is StepStatus.COMPLETED for step in self.steps)

    @property
    def is_complete(self) -> bool:
        """Says whether every step is completed; an empty plan is (G-22)."""
        return self.completed_count == len(self.steps)

    @property
    def current(self) -> Step | None:
        """Returns the step in progress, or none."""
        return next((step for step in self.steps if step.status is StepStatus.IN_PROGRESS), None)

    def shown(self) -> dict[str, Any]:
        """Returns the stored and public form (G-20)."""
        return {
            "completion_conditions": list(self.completion_conditions),
            "steps": [
                {
                    "id": step.step_id,
                    "title": step.title,
                    "status": step.status.value,
                    "updated_at_unix_ms": step.updated_at_unix_ms,
                }
                for step in self.steps
            ],
            "progress_summary": self.progress_summary,
            "checkpoint_at_unix_ms": self.checkpoint_at_unix_ms,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """What a caller reports of a plan: steps that are done, the one now in hand, and a summary."""

    completed_step_ids: tuple[str, ...]
    current_step_id: str | None
    summary: str


def planned(conditions: Sequence[str], steps: Sequence[tuple[str, str]], *, created_at: int) -> Plan:
    """Returns a new plan of ``(id, title)`` steps, all pending since ``created_at`` (Unix ms).

    Raises:
        InvalidPlan: a bound is broken, or an id is repeated.

    """
    plan = Plan(
        completion_conditions=tuple(conditions),
        steps=tuple(
            Step(step_id=step_id, title=title, status=StepStatus.PENDING, updated_at_unix_ms=created_at)
            for step_id, title in steps
        ),
        progress_summary=None,
        checkpoint_at_unix_ms=None,
    )
    return _checked(plan, created_at)


def is_consistent(completed_step_ids: Collection[str], current_step_id: str | None) -> bool:
    """Says whether a batch names each step once, and its current step not as completed (G-30)."""
    has_no_repeats = len(set(completed_step_ids)) == len(completed_step_ids)
    return has_no_repeats and current_step_id not in completed_step_ids


def checkpointed(plan: Plan, checkpoint: Checkpoint, *, created_at: int, at: int) -> Plan:
    """Returns the plan after ``checkpoint``; the whole batch is checked before a step changes (G-30).

    ``at`` is Unix ms; a clock that went back never puts a checkpoint before a step.

    Raises:
        InvalidCheckpoint: the batch does not fit the plan.
        InvalidPlan: with this summary the plan would be larger than can be stored.

    """
    _refuse_misfit(plan, checkpoint)
    at = max([at, created_at, *(step.updated_at_unix_ms for step in plan.steps)])
    advanced = replace(
        plan,
        steps=tuple(_advanced(step, checkpoint, at) for step in plan.steps),
        progress_summary=checkpoint.summary,
        checkpoint_at_unix_ms=at,
    )
    return _checked(advanced, created_at)


def _refuse_misfit(plan: Plan, checkpoint: Checkpoint) -> None:
    done, current_id = checkpoint.completed_step_ids, checkpoint.current_step_id
    by_id = {step.step_id: step for step in plan.steps}
    named = [*done] if current_id is None else [*done, current_id]
    if not is_consistent(done, current_id) or not by_id.keys() >= set(named):
        raise InvalidCheckpoint("unknown, repeated or contradictory steps")
    if current_id is None:
        return
    if by_id[current_id].status is StepStatus.COMPLETED:
        raise InvalidCheckpoint("the current step is completed")
    in_hand = plan.current
    if in_hand is not None and in_hand.step_id not in named:
        raise InvalidCheckpoint("another step is in progress")


def _advanced(step: Step, checkpoint: Checkpoint, at: int) -> Step:
    status = step.status
    if step.step_id in checkpoint.completed_step_ids:
        status = StepStatus.COMPLETED
    elif step.step_id == checkpoint.current_step_id:
        status = StepStatus.IN_PROGRESS
    return step if status is step.status else replace(step, status=status, updated_at_unix_ms=at)


def stored_text(plan: Plan) -> str:
    """Returns the plan as it is stored."""
    return json.dumps(plan.shown(), separators=(",", ":"), ensure_ascii=False)


def parse(text: str, *, created_at: int) -> Plan:
    """Returns the plan that is stored as ``text`` with a Goal of ``created_at`` (Unix ms).

    Raises:
        StoredPlanInvalid: the text breaks any rule; no part of it is used (G-22).

    """
    try:
        return _checked(_plan(_decoded(text)), created_at)
    except (InvalidPlan, ValueError, RecursionError):
        raise StoredPlanInvalid("a stored plan breaks a rule") from None


def _decoded(text: str) -> Any:
    if len(text.encode()) > STORED_BYTES:
        raise InvalidPlan("too large")
    return json.loads(text)


def _plan(value: Any) -> Plan:
    held = _closed(value, _PLAN_KEYS)
    summary, at = held["progress_summary"], held["checkpoint_at_unix_ms"]
    return Plan(
        completion_conditions=tuple(_of(str, one) for one in _of(list, held["completion_conditions"])),
        steps=tuple(_step(one) for one in _of(list, held["steps"])),
        progress_summary=None if summary is None else _of(str, summary),
        checkpoint_at_unix_ms=None if at is None else _of(int, at),
    )


def _step(value: Any) -> Step:
    held = _closed(value, _STEP_KEYS)
    return Step(
        step_id=_of(str, held["id"]),
        title=_of(str, held["title"]),
        status=StepStatus(_of(str, held["status"])),
        updated_at_unix_ms=_of(int, held["updated_at_unix_ms"]),
    )


def _closed(value: Any, keys: set[str]) -> dict[str, Any]:
    held: dict[str, Any] = _of(dict, value)
    if held.keys() != keys:
        raise InvalidPlan("other keys than the plan's")
    return held


def _of(kind: type[Any], value: Any) -> Any:
    # A JSON boolean is an int to Python and never one here (I-05).
    if type(value) is not kind:
        raise InvalidPlan("a value of another type")
    return value


def _checked(plan: Plan, created_at: int) -> Plan:
    for rule in _RULES:
        if not rule(plan, created_at):
            raise InvalidPlan(rule.__name__.strip("_").replace("_", " "))
    return plan


def _conditions_are_within_bounds(plan: Plan, _created_at: int) -> bool:
    conditions = plan.completion_conditions
    return len(conditions) <= CONDITIONS and all(
        1 <= len(condition.encode()) <= CONDITION_BYTES for condition in conditions
    )


def _steps_are_within_bounds(plan: Plan, _created_at: int) -> bool:
    return len(plan.steps) <= STEPS and all(
        _STEP_ID.fullmatch(step.step_id) is not None and 1 <= len(step.title) <= STEP_TITLE_CHARS
        for step in plan.steps
    )


def _ids_are_unique(plan: Plan, _created_at: int) -> bool:
    return len({step.step_id for step in plan.steps}) == len(plan.steps)


def _at_most_one_is_in_progress(plan: Plan, _created_at: int) -> bool:
    return sum(step.status is StepStatus.IN_PROGRESS for step in plan.steps) <= 1


def _times_are_in_order(plan: Plan, created_at: int) -> bool:
    last = plan.checkpoint_at_unix_ms
    if last is not None and last < created_at:
        return False
    return all(
        step.updated_at_unix_ms == created_at
        if step.status is StepStatus.PENDING
        else last is not None and created_at <= step.updated_at_unix_ms <= last
        for step in plan.steps
    )


def _summary_belongs_to_a_checkpoint(plan: Plan, _created_at: int) -> bool:
    summary = plan.progress_summary
    if summary is None or plan.checkpoint_at_unix_ms is None:
        return summary is None and plan.checkpoint_at_unix_ms is None
    return 1 <= len(summary.encode()) <= SUMMARY_BYTES


def _fits_the_store(plan: Plan, _created_at: int) -> bool:
    return len(stored_text(plan).encode()) <= STORED_BYTES


_RULES: Final[tuple[Callable[[Plan, int], bool], ...]] = (
    _conditions_are_within_bounds,
    _steps_are_within_bounds,
    _ids_are_unique,
    _at_most_one_is_in_progress,
    _times_are_in_order,
    _summary_belongs_to_a_checkpoint,
    _fits_the_store,
)
