"""Carries out the changes of Goals: replay, ownership, state, then the change (G-03, G-12, C-23).

Each is one write transaction that holds the row, its correlation and its idempotency record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webcodex.core import access, goal_plans, goal_views, idempotency, ids
from webcodex.core import goals as core_goals
from webcodex.core.access import Scope
from webcodex.core.goals import Change, Correlation, Goal, Kind, Operation, Refusal, Refused, Unchanged
from webcodex.core.json_value import JsonObject
from webcodex.storage import goals
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import OutcomeUnknown, Transaction
from webcodex.tools import authority, goal_gathering, goal_params
from webcodex.tools.contract import Done, Target, ToolError, Work

_FAILURES = {
    Refusal.REVISION_CHANGED: "conflict",
    Refusal.IDEMPOTENCY_CONFLICT: "conflict",
    Refusal.CORRELATION_CAPACITY: "capacity",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Changed:
    """What a change left: the Goal, whether it is new, and whether anything is different."""

    goal: Goal
    created: bool = False
    state_changed: bool = True


def refusal(caller: access.Caller, refused: Refused) -> ToolError:
    """Returns the failure for a refusal, with a call that shows this caller the present state (G-01)."""
    extra: dict[str, Any] = {}
    if refused.reason in _FAILURES:
        extra["failure_kind"] = _FAILURES[refused.reason]
    if refused.current_revision is not None:
        extra["current_revision"] = refused.current_revision
    suggested = _suggested(refused)
    if suggested is not None and access.has_scope(caller, Scope.COMMUNICATION_READ):
        extra["suggested_call"] = suggested
    return ToolError(refused.reason.value, **extra)


def _suggested(refused: Refused) -> JsonObject | None:
    if refused.goal_id is not None:
        return {"tool": "get_goal", "arguments": {"goal_id": refused.goal_id}}
    if refused.reason is Refusal.NOT_FOUND:
        return {"tool": "list_goals", "arguments": {}}
    return None


def stored_plan_invalid() -> ToolError:
    """Returns the failure for a Goal whose stored plan breaks a rule (G-22)."""
    return ToolError("invalid_goal_plan", recovery_kind="user_action")


def unavailable() -> ToolError:
    """Returns the failure of a change that was not written; its key makes it safe to send again (G-42)."""
    return ToolError("goal_store_unavailable", recovery_kind="retry_same", failure_kind="unavailable")


def authorize_update(_tx: Transaction, _caller: access.Caller, params: goal_params.UpdateParams) -> Target:
    """Refuses an update that says nothing, or gives a reason for no end (G-13, G-31).

    Raises:
        ToolError: it does.

    """
    given = (params.title, params.objective, params.lifecycle, params.terminal_reason)
    if not params.names_controller and all(value is None for value in given):
        raise ToolError("goal_update_empty")
    if params.terminal_reason is not None and params.lifecycle in {None, "active"}:
        raise ToolError("goal_terminal_reason_requires_terminal_lifecycle")
    return Target()


def authorize_link(tx: Transaction, caller: access.Caller, params: Any) -> Target:
    """Returns the Session that the call is recorded in, if it is the caller's and open.

    What is wrong with it is answered by the change itself, after replay and after the Goal (G-33, C-23).
    """
    try:
        target = authority.session(tx, caller, params.session_id)
    except ToolError:
        return Target()
    return target if target.session is not None and target.session.is_active else Target()


async def create(work: Work, params: goal_params.CreateParams) -> Done:
    """Makes a Goal without links."""

    def make(_tx: Transaction) -> Changed:
        _refuse_controller(params.controller_agent_id)
        return Changed(goal=_new(work, params), created=True)

    return await _changed(work, Operation.CREATE, params, make)


async def prepare(work: Work, params: goal_params.PrepareParams) -> Done:
    """Makes a Goal that is linked to a Session from its first revision on (G-34)."""

    def make(tx: Transaction) -> Changed:
        session_id = _open_session(tx, work, params.session_id)
        _refuse_controller(params.controller_agent_id)
        return Changed(goal=_new(work, params, session_id), created=True)

    return await _changed(work, Operation.PREPARE, params, make)


async def checkpoint(work: Work, params: goal_params.CheckpointParams) -> Done:
    """Records how far the plan of a Goal has come (G-30)."""
    reported = goal_plans.Checkpoint(
        completed_step_ids=params.completed_step_ids,
        current_step_id=params.current_step_id,
        summary=params.summary,
    )

    def change(tx: Transaction) -> Changed:
        goal = goals.lock(tx, work.caller.authority, params.goal_id)
        at = goal_gathering.now_ms(work.services)
        moved = core_goals.checkpoint(goal, reported, expected_revision=params.expected_revision, at=at)
        goals.save(tx, goal, moved)
        return Changed(goal=moved)

    return await _changed(work, Operation.CHECKPOINT, params, change)


async def update(work: Work, params: goal_params.UpdateParams) -> Done:
    """Changes what a Goal says, or ends it (G-31)."""
    asked = Change(
        title=params.title,
        objective=params.objective,
        controller_agent_id=params.controller_agent_id if params.names_controller else Unchanged.UNCHANGED,
        lifecycle=None if params.lifecycle is None else core_goals.Lifecycle(params.lifecycle),
        terminal_reason=params.terminal_reason,
    )

    def change(tx: Transaction) -> Changed:
        goal = goals.lock(tx, work.caller.authority, params.goal_id)
        _refuse_controller(params.controller_agent_id)
        at = goal_gathering.now_ms(work.services)
        updated = core_goals.update(goal, asked, expected_revision=params.expected_revision, at=at)
        goals.save(tx, goal, updated)
        return Changed(goal=updated)

    return await _changed(work, Operation.UPDATE, params, change)


async def associate_session(work: Work, params: goal_params.AssociateSessionParams) -> Done:
    """Links a Goal to a Session of the same caller (G-33)."""

    def change(tx: Transaction) -> Changed:
        goal = goals.lock(tx, work.caller.authority, params.goal_id)
        core_goals.refuse_terminal(goal)
        session_id = _open_session(tx, work, params.session_id)
        at = goal_gathering.now_ms(work.services)
        linked = core_goals.associate(
            goal, Kind.WORKFLOW_SESSION, session_id, expected_revision=params.expected_revision, at=at
        )
        if linked is goal:
            return Changed(goal=goal, state_changed=False)
        goals.save(tx, goal, linked)
        return Changed(goal=linked)

    return await _changed(work, Operation.ASSOCIATE_SESSION, params, change)


async def associate_agent_task(work: Work, params: goal_params.AssociateTaskParams) -> Done:
    """Finds no AgentTask to link to, since none is stored, and says so after the Goal was found (G-33)."""

    def change(tx: Transaction) -> Changed:
        core_goals.refuse_terminal(goals.lock(tx, work.caller.authority, params.goal_id))
        raise Refused(Refusal.AGENT_TASK_NOT_FOUND)

    return await _changed(work, Operation.ASSOCIATE_AGENT_TASK, params, change)


async def _changed(
    work: Work,
    operation: Operation,
    params: goal_params.ChangeParams,
    change: Callable[[Transaction], Changed],
) -> Done:
    def within(tx: Transaction) -> JsonObject:
        key = _key(tx, work.caller, operation, params)
        known = goals.replayed(tx, key)
        if known is not None:
            return _output(Changed(goal=known, state_changed=False), replayed=True)
        changed = change(tx)
        if changed.created:
            goals.add(tx, changed.goal)
        goals.remember(tx, key, changed.goal.goal_id)
        return _output(changed, replayed=False)

    try:
        return Done(output=await work.services.database.write(within))
    except Refused as refused:
        raise refusal(work.caller, refused) from None
    except goal_plans.InvalidPlan:
        raise ToolError("invalid_goal_plan") from None
    except goal_plans.StoredPlanInvalid:
        raise stored_plan_invalid() from None
    except OutcomeUnknown:
        raise ToolError(
            "goal_store_unavailable",
            state_changed=None,
            recovery_kind="retry_same",
            failure_kind="outcome_unknown",
        ) from None


def _key(
    tx: Transaction, caller: access.Caller, operation: Operation, params: goal_params.ChangeParams
) -> goals.Key:
    parameters = params.parameters()
    session = parameters.get("session_id")
    number = ids.session_ref_number(session) if isinstance(session, str) else None
    if number is not None:
        # A selector is resolved first (G-05), so that it and the id it stands for are one request.
        parameters["session_id"] = stored_sessions.of_ref(tx, caller.authority, number) or session
    return goals.Key(
        owner=caller.authority,
        operation=operation,
        key_hash=idempotency.key_hash(params.idempotency_key),
        request_hash=idempotency.request_hash(parameters),
    )


def _output(changed: Changed, *, replayed: bool) -> JsonObject:
    return {
        "goal": goal_views.detail(changed.goal),
        "created": changed.created,
        "replayed": replayed,
        "state_changed": changed.state_changed,
    }


def _new(
    work: Work,
    params: goal_params.CreateParams | goal_params.PrepareParams,
    session_id: str | None = None,
) -> Goal:
    now = goal_gathering.now_ms(work.services)
    steps = [(step.id, step.title) for step in params.steps]
    correlations: tuple[Correlation, ...] = ()
    if session_id is not None:
        linked = Correlation(kind=Kind.WORKFLOW_SESSION, reference_id=session_id, created_at_unix_ms=now)
        correlations = (linked,)
    return Goal(
        goal_id=ids.mint("wc_goal_", work.services.entropy(ids.ENTROPY_BYTES)),
        owner=work.caller.authority,
        title=params.title,
        objective=params.objective,
        controller_agent_id=None,
        lifecycle=core_goals.Lifecycle.ACTIVE,
        revision=1,
        created_at_unix_ms=now,
        updated_at_unix_ms=now,
        terminal_at_unix_ms=None,
        terminal_reason=None,
        plan=goal_plans.planned(params.completion_conditions, steps, created_at=now),
        correlations=correlations,
    )


def _open_session(tx: Transaction, work: Work, name: str) -> str:
    """Returns the id of the caller's open Session, its row held until the link is stored (C-20, S-07)."""
    found = authority.session(tx, work.caller, name).session
    locked = None if found is None else stored_sessions.lock(tx, found.session_id)
    if locked is None:
        raise ToolError("unknown_session_id")
    if not locked.is_active:
        raise ToolError("session_closed")
    return locked.session_id


def _refuse_controller(agent_id: str | None) -> None:
    if agent_id is not None:
        # No durable Agent is stored, so none is the caller's (G-35).
        raise Refused(Refusal.AGENT_NOT_FOUND)
