"""Holds the table of all tools and the one road to invoke them (C-22 rows 6 to 13)."""

import asyncio
import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from webcodex.core import access, ledger
from webcodex.core.json_value import JsonObject
from webcodex.storage.database import OutcomeUnknown, StoreError, StoreUnavailable
from webcodex.tools import (
    arguments,
    edit_tools,
    errors,
    finish_tools,
    gateway_tools,
    goal_tools,
    handoff_tools,
    job_tools,
    manifest_tools,
    message_tools,
    observation_tools,
    project_tools,
    reading_tools,
    recording,
    running_calls,
    runtime_tools,
    session_tools,
)
from webcodex.tools.contract import (
    Audience,
    BadArguments,
    Call,
    Done,
    MissingScope,
    Target,
    Tool,
    ToolError,
    UnknownTool,
    Work,
)
from webcodex.tools.ports import (
    RunnerOutcomeUnknown,
    RunnerRefused,
    RunnerTimeout,
    RunnerUnavailable,
    Services,
)

log = logging.getLogger(__name__)

SHORT_SET: Final = (
    "work_on_project",
    "read_files",
    "search_project_texts",
    "edit_project_files",
    "run_process",
    "read_workspace_changes",
    "observe_jobs",
    "list_jobs",
    "stop_job",
    "read_session_handoff",
    "list_projects",
    "read_tool_manifest",
)  # M-31

TOOLS: Final[tuple[Tool, ...]] = (
    *session_tools.TOOLS,
    *message_tools.TOOLS,
    *project_tools.TOOLS,
    *reading_tools.TOOLS,
    *edit_tools.TOOLS,
    *job_tools.TOOLS,
    *handoff_tools.TOOLS,
    *finish_tools.TOOLS,
    *goal_tools.TOOLS,
    *observation_tools.TOOLS,
    *runtime_tools.declared(lambda: TOOLS),
    manifest_tools.declared(lambda: TOOLS, SHORT_SET),
    gateway_tools.GATEWAY,
)

RETIRED: Final = {
    "session_summary": "read_session_summary",
    "runtime_status": "get_runtime_status",
    "tool_manifest": "read_tool_manifest",
    "show_changes": "read_workspace_changes",
    "git_status": "get_git_status",
    "apply_text_edits": "edit_project_files",
    "coding_agent_start": "start_coding_agent",
    "coding_agent_observe": "observe_coding_agent",
    "coding_agent_cancel": "cancel_coding_agent",
    "memory_search": "search_memory",
    "memory_read": "read_memory",
    "memory_set": "set_memory",
    "memory_delete": "delete_memory",
    "skill_list": "list_skills",
    "skill_read_file": "read_skill_file",
}  # M-17


def _by_name(tools: tuple[Tool, ...]) -> dict[str, Tool]:
    table: dict[str, Tool] = {}
    for tool in tools:
        for name in (tool.name, *tool.aliases):
            if name in table:
                raise ValueError(f"two tools are named {name}")
            table[name] = tool
    return table


_BY_NAME: Final = _by_name(TOOLS)
_CLOSING: Final[set[asyncio.Task[None]]] = set()


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """A call that C-22 rows 6 to 8 let pass; through the gateway its tool and its call are the target's."""

    tool: Tool
    call: Call
    read: arguments.Read


def find(name: str, audience: Audience) -> Tool:
    """Returns the tool of that name or older name on this road.

    Raises:
        UnknownTool: none is served there; the text names the new name of a retired one (M-17).

    """
    tool = _BY_NAME.get(name)
    if tool is not None and tool.is_seen_by(audience):
        return tool
    newer = RETIRED.get(name)
    raise UnknownTool("Unknown tool" if newer is None else f"Unknown tool. Use {newer}.")


def listed(caller: access.Caller) -> list[Tool]:
    """Returns the model-visible tools in the caller's scopes: short set, rest by name, gateway (M-31)."""
    shown = [tool for tool in TOOLS if tool.audience is Audience.MODEL]
    allowed = [tool for tool in shown if access.first_missing(caller, tool.scopes) is None]
    return sorted(allowed, key=_place)


def _place(tool: Tool) -> tuple[int, int, str]:
    if tool is gateway_tools.GATEWAY:
        return 2, 0, tool.name
    if tool.name in SHORT_SET:
        return 0, SHORT_SET.index(tool.name), tool.name
    return 1, 0, tool.name


async def invoke(services: Services, call: Call) -> JsonObject:
    """Returns the ToolResult of one call: ``{success, output, error}`` (M-14).

    Raises:
        Refused: the call was refused before the tool ran.

    """
    return await perform(services, admit(call))


def admit(call: Call) -> Admitted:
    """Returns the call with its tool and its arguments, which are read here and nowhere else.

    Raises:
        Refused: the tool is unknown here, a scope is missing, or the arguments have another structure.

    """
    tool = find(call.name, call.audience)
    if tool is gateway_tools.GATEWAY:
        _refuse_fault(call)
        tool, call = _through_gateway(call)
    _check_scopes(tool, call)
    _refuse_fault(call)
    return Admitted(tool=tool, call=call, read=arguments.read(tool, call.arguments))


async def perform(services: Services, admitted: Admitted) -> JsonObject:
    """Returns the ToolResult of a call that was admitted (C-22 rows 9 to 13)."""
    tool = admitted.tool
    try:
        output = await _perform(services, tool, admitted.call, admitted.read)
    except ToolError as error:
        return _failure(error)
    except Exception as error:  # noqa: BLE001 - the outermost boundary of a call: a fault of ours stays here
        fault, place = type(error).__name__, _place_of(error)
        # The text of an exception may repeat input (M-02).
        log.error("action=call_failed tool=%s error=%s at=%s", tool.name, fault, place)  # noqa: TRY400
        return _failure(_internal_error(tool))
    return {"success": True, "output": output, "error": None}


def _through_gateway(call: Call) -> tuple[Tool, Call]:
    outer = arguments.read(gateway_tools.GATEWAY, call.arguments).params
    if not isinstance(outer, gateway_tools.GatewayParams):
        raise BadArguments("Wrong value of argument: tool")
    if outer.tool == gateway_tools.GATEWAY.name:
        raise BadArguments("call_runtime_tool cannot target itself")
    target = find(outer.tool, Audience.MODEL)
    return target, replace(call, name=target.name, arguments=outer.arguments)


def _refuse_fault(call: Call) -> None:
    if call.fault is not None:
        raise BadArguments(call.fault)


def _check_scopes(tool: Tool, call: Call) -> None:
    scopes = tool.scopes
    if call.recorder is not None:
        scopes = (*scopes, access.Scope.SESSION_COLLABORATE)
    missing = access.first_missing(call.caller, scopes)
    if missing is not None:
        raise MissingScope(missing)


async def _perform(services: Services, tool: Tool, call: Call, read: arguments.Read) -> JsonObject:
    try:
        if recording.is_recorded(tool, call):
            return await _perform_recorded(services, tool, call, read)
        checked = await services.database.read(lambda tx: recording.check(tx, tool, call, read))
        if checked.refusal is not None:
            raise checked.refusal
        output = (await _handle(services, tool, call, checked.target, read.params)).output
    except StoreUnavailable:
        raise tool.store_failure() from None
    except OutcomeUnknown:
        raise _outcome_unknown() from None
    return output if call.recorder is None else {**output, "session_recorded": False}


async def _perform_recorded(services: Services, tool: Tool, call: Call, read: arguments.Read) -> JsonObject:
    opened = await _opened(services, tool, call, read)
    facts: JsonObject = {"error_kind": "internal_error"}
    outcome = ledger.Outcome.FAILED
    written: dict[str, str] | None = None
    try:
        if opened.refusal is not None:
            raise opened.refusal
        with running_calls.noted(services.database, opened.call_id, tool.name, opened.sessions):
            done = await _handle(services, tool, call, opened.target, read.params, call_id=opened.call_id)
        facts, outcome = done.facts, ledger.Outcome.SUCCEEDED
    except ToolError as error:
        facts = {"error_kind": error.error_kind, **error.facts}
        raise
    except asyncio.CancelledError:
        facts = {"execution_state": "cancelled" if tool.annotations.read_only else "outcome_unknown"}
        raise
    finally:
        written = await _closed(services, tool, opened, recording.Closed(outcome=outcome, facts=facts))
    if written is None:
        # What the handler did is done; without its end in the ledger the caller must look before going on.
        raise StoreUnavailable if tool.annotations.read_only else OutcomeUnknown
    if opened.recorder_id is None:
        return done.output
    return {**done.output, "session_recorded": True, "session_event_id": written.get(opened.recorder_id)}


async def _closed(
    services: Services, tool: Tool, opened: recording.Opened, closed: recording.Closed
) -> dict[str, str] | None:
    """Returns the stored finished events, also when the caller is gone, or none where the store failed."""
    close = services.database.write(lambda tx: recording.close_call(tx, services, tool, opened, closed))
    try:
        return await asyncio.shield(close)
    except StoreError as error:
        log.warning("action=call_not_closed tool=%s error=%s", tool.name, type(error).__name__)
        _keep(asyncio.create_task(recording.settle_later(services, tool, opened)))
        return None


def _keep(closing: asyncio.Task[None]) -> None:
    """Holds on to a task that nobody waits for, until it ends."""
    _CLOSING.add(closing)
    closing.add_done_callback(_CLOSING.discard)


async def _opened(services: Services, tool: Tool, call: Call, read: arguments.Read) -> recording.Opened:
    """Returns the call once its start is stored; a call that is given up before gets its end all the same."""
    writing = services.database.write(lambda tx: recording.open_call(tx, services, tool, call, read))
    opening = asyncio.ensure_future(writing)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        _keep(asyncio.create_task(_close_unbegun(services, tool, opening)))
        raise


async def _close_unbegun(services: Services, tool: Tool, opening: asyncio.Future[recording.Opened]) -> None:
    closed = recording.Closed(outcome=ledger.Outcome.FAILED, facts={"execution_state": "not_started"})
    try:
        opened = await opening
    except (ToolError, StoreError) as error:
        log.info("action=call_not_opened tool=%s error=%s", tool.name, type(error).__name__)
    else:
        await _closed(services, tool, opened, closed)


async def _handle(
    services: Services, tool: Tool, call: Call, target: Target, params: Any, *, call_id: str = ""
) -> Done:
    work = Work(
        services=services,
        caller=call.caller,
        target=target,
        profile=call.profile,
        waits=call.waits,
        progress=call.progress,
        call_id=call_id,
    )
    try:
        return await tool.handler(work, params)
    except RunnerUnavailable:
        raise ToolError("runner_unavailable") from None
    except RunnerTimeout:
        raise ToolError("timeout") from None
    except RunnerOutcomeUnknown:
        raise _outcome_unknown() from None
    except RunnerRefused as refused:
        kind = refused.code if refused.code in errors.WORDS else "runner_unavailable"
        raise ToolError(kind) from None


def _internal_error(tool: Tool) -> ToolError:
    if tool.annotations.read_only:
        return ToolError("internal_error", execution_state="completed")
    return _outcome_unknown()


def _outcome_unknown() -> ToolError:
    return ToolError(
        "internal_error",
        state_changed=None,
        failure_kind="outcome_unknown",
        execution_state="outcome_unknown",
    )


def _place_of(error: BaseException) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return "unknown" if frame is None else f"{frame.tb_frame.f_code.co_name}:{frame.tb_lineno}"


def _failure(error: ToolError) -> JsonObject:
    output: JsonObject = {
        "error_kind": error.error_kind,
        "state_changed": error.state_changed,
        "recovery_kind": error.recovery_kind,
        **error.extra,
    }
    return {"success": False, "output": output, "error": error.sentence}
