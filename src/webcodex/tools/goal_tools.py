"""Declares the Goal tools (G-40) and the handlers of those that only read."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from webcodex.core import access, goal_plans, goal_views, goals
from webcodex.core.access import Scope
from webcodex.core.json_value import Json, JsonObject
from webcodex.storage import goals as stored_goals
from webcodex.storage.database import Transaction
from webcodex.tools import goal_changes, goal_gathering, goal_params, goal_results
from webcodex.tools.contract import (
    Annotations,
    Audience,
    Authorize,
    Done,
    Effect,
    Handler,
    Params,
    Recording,
    Result,
    Tool,
    ToolError,
    Work,
    no_target,
)

Answer = TypeVar("Answer")


async def _get(work: Work, params: goal_params.GoalParams) -> Done:
    goal = await _read(work, lambda tx: stored_goals.find(tx, work.caller.authority, params.goal_id))
    return Done(output={"goal": goal_views.detail(goal)})


async def _list(work: Work, params: goal_params.ListParams) -> Done:
    lifecycle = None if params.lifecycle is None else goals.Lifecycle(params.lifecycle)
    total, page = await _read(
        work,
        lambda tx: stored_goals.listed(
            tx,
            work.caller.authority,
            lifecycle=lifecycle,
            query=params.query,
            offset=params.offset,
            limit=params.limit,
        ),
    )
    following = params.offset + len(page)
    has_more = bool(page) and following < total
    rows: list[Json] = [goal_views.summary(goal) for goal in page]
    return Done(
        output={
            "total_count": total,
            "offset": params.offset,
            "next_offset": following if has_more else None,
            "truncated": has_more,
            "goals": rows,
        }
    )


async def _plan(work: Work, params: goal_params.GoalParams) -> Done:
    def projected(tx: Transaction) -> JsonObject:
        goal = stored_goals.find(tx, work.caller.authority, params.goal_id)
        return goal_views.plan(goal, goal_gathering.activity(tx, work.services, goal))

    return Done(output={"goal_plan": await _read(work, projected)})


async def _read(work: Work, read: Callable[[Transaction], Answer]) -> Answer:
    try:
        return await work.services.database.read(read)
    except goals.Refused as refused:
        raise goal_changes.refusal(work.caller, refused) from None
    except goal_plans.StoredPlanInvalid:
        raise goal_changes.stored_plan_invalid() from None


def _unreadable() -> ToolError:
    return ToolError("goal_store_unavailable", failure_kind="unavailable")


def _reader(
    name: str, summary: str, params: type[Params], result: type[Result], handler: Handler, **rest: Any
) -> Tool:
    return Tool(
        name=name,
        category="goals",
        summary=summary,
        params=params,
        result=result,
        scopes=(Scope.COMMUNICATION_READ,),
        value_words=goal_params.WORDS,
        store_failure=_unreadable,
        handler=handler,
        **rest,
    )


def _changer(
    name: goals.Operation,
    summary: str,
    params: type[goal_params.ChangeParams],
    handler: Handler,
    *,
    scopes: tuple[access.Scope, ...] = (Scope.COMMUNICATION_MANAGE,),
    authorize: Authorize = no_target,
    value_word: str = "invalid_arguments",
) -> Tool:
    return Tool(
        name=name.value,
        category="goals",
        summary=summary,
        params=params,
        result=goal_results.ChangeResult,
        scopes=scopes,
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False),
        value_word=value_word,
        value_words=goal_params.WORDS,
        authorize=authorize,
        store_failure=goal_changes.unavailable,
        handler=handler,
    )


_LINKING: Final = (Scope.COMMUNICATION_MANAGE, Scope.SESSION_COLLABORATE)

TOOLS: Final = (
    _changer(
        goals.Operation.PREPARE,
        "Create a Goal with a fixed plan, linked to one Workflow Session; it runs and grants nothing.",
        goal_params.PrepareParams,
        goal_changes.prepare,
        scopes=_LINKING,
        authorize=goal_changes.authorize_link,
    ),
    _changer(
        goals.Operation.CREATE,
        "Create a Goal: a durable statement of intent with a fixed plan; it runs and grants nothing.",
        goal_params.CreateParams,
        goal_changes.create,
    ),
    _reader(
        "get_goal",
        "Read one of your Goals: its plan, checkpoint, revision and links.",
        goal_params.GoalParams,
        goal_results.GetResult,
        _get,
    ),
    _reader(
        "list_goals",
        "List your Goals, last changed first; choose one by what it says, never by its place.",
        goal_params.ListParams,
        goal_results.ListResult,
        _list,
    ),
    _changer(
        goals.Operation.CHECKPOINT,
        "Record which steps of a Goal's plan are done, which one is in hand, and a summary.",
        goal_params.CheckpointParams,
        goal_changes.checkpoint,
        value_word="invalid_goal_checkpoint",
    ),
    _changer(
        goals.Operation.UPDATE,
        "Change a Goal's words or label, or end it: completed needs every step done, cancelled does not.",
        goal_params.UpdateParams,
        goal_changes.update,
        authorize=goal_changes.authorize_update,
    ),
    _changer(
        goals.Operation.ASSOCIATE_AGENT_TASK,
        "Link a Goal to one of your AgentTasks; the link grants nothing.",
        goal_params.AssociateTaskParams,
        goal_changes.associate_agent_task,
    ),
    _changer(
        goals.Operation.ASSOCIATE_SESSION,
        "Link a Goal to one of your open Workflow Sessions, so that a later reader finds it there.",
        goal_params.AssociateSessionParams,
        goal_changes.associate_session,
        scopes=_LINKING,
        authorize=goal_changes.authorize_link,
    ),
    _reader(
        "present_goal_plan",
        "Show a Goal's plan with how far it has come and how quiet the work on it is.",
        goal_params.GoalParams,
        goal_results.PlanResult,
        _plan,
    ),
    _reader(
        "sync_goal_plan",
        "Refresh a plan that is on display without counting as work; for programs, not for models.",
        goal_params.GoalParams,
        goal_results.PlanResult,
        _plan,
        audience=Audience.ADAPTER,
        recording=Recording.NONE,
    ),
)
