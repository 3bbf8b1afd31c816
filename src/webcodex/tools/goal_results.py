"""Declares what the Goal tools answer (G-41, G-50, G-51)."""

from typing import Literal

from webcodex.tools.contract import Result

Lifecycle = Literal["active", "completed", "cancelled"]


class GoalSummary(Result):
    """One row of a list."""

    goal_id: str
    title: str
    lifecycle: Lifecycle
    revision: int
    created_at_unix_ms: int
    updated_at_unix_ms: int
    terminal_at_unix_ms: int | None
    agent_task_count: int
    workflow_session_count: int


class StepShown(Result):
    """One step of the plan."""

    id: str
    title: str
    status: Literal["pending", "in_progress", "completed"]
    updated_at_unix_ms: int


class PlanShown(Result):
    """The plan as stored (G-20)."""

    completion_conditions: list[str]
    steps: list[StepShown]
    progress_summary: str | None
    checkpoint_at_unix_ms: int | None


class CorrelationShown(Result):
    """One link of the Goal; it grants nothing."""

    kind: Literal["agent_task", "workflow_session"]
    reference_id: str
    created_at_unix_ms: int


class GoalShown(Result):
    """A Goal as it now is."""

    summary: GoalSummary
    plan: PlanShown
    objective: str
    controller_agent_id: str | None
    terminal_reason: str | None
    correlations: list[CorrelationShown]


class ChangeResult(Result):
    """The Goal after the change, or as it now is when the change was made before."""

    goal: GoalShown
    created: bool
    replayed: bool
    state_changed: bool


class GetResult(Result):
    """One Goal."""

    goal: GoalShown


class ListResult(Result):
    """One page of the caller's Goals, last changed first."""

    total_count: int
    offset: int
    next_offset: int | None
    truncated: bool
    goals: list[GoalSummary]


class ActivityShown(Result):
    """How quiet the work is; numbers are null where they could not be read."""

    available: bool
    state: Literal["not_applicable", "unobserved", "active", "attention_needed"]
    idle_threshold_ms: int
    observation_lease_ms: None
    last_seen_at_ms: int | None
    last_meaningful_activity_at_ms: int | None
    quiet_for_ms: int | None
    linked_window_count: int
    active_meaningful_request_count: int | None
    coverage_partial: bool


class Continuity(Result):
    """Host continuation, which is not served."""

    state: Literal["not_configured", "not_applicable"]


class GoalPlan(Result):
    """The plan and its activity, for display (G-50)."""

    version: Literal[3]
    goal_id: str
    title: str
    total_step_count: int
    completed_step_count: int
    current_step_id: str | None
    steps: list[StepShown]
    progress_summary: str | None
    checkpoint_at_unix_ms: int | None
    controller_agent_id: str | None
    lifecycle: Lifecycle
    revision: int
    updated_at_unix_ms: int
    terminal_at_unix_ms: int | None
    agent_task_count: int
    workflow_session_count: int
    activity: ActivityShown
    continuity: Continuity


class PlanResult(Result):
    """The plan projection."""

    goal_plan: GoalPlan
