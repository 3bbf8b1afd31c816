"""Reads a ``tools/call``, refuses what C-22 rows 6 to 8 refuse, and forms its result (M-30, M-40, M-41)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.server.mcp_answers import Form
from webcodex.tools import arguments, gateway_tools, registry
from webcodex.tools.contract import Audience, BadArguments, Call, MissingScope, Profile, Tool, ToolError

RECORD_KEY: Final = "_wc"
FLAT_RECORD_KEY: Final = "recording_session_id"
OPENAI_CLIENT: Final = "openai-mcp"  # M-30
LINE_CHARS: Final = 240  # M-30

_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class Admitted:
    """A call that C-22 rows 6 to 8 let pass, and its tool; through the gateway both are the target's."""

    call: Call
    tool: Tool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """The arguments without recorder metadata, and what is wrong with that metadata."""

    arguments: dict[str, Any]
    recorder: str | None = None
    fault: str | None = None


def admit(params: Mapping[str, Any], caller: access.Caller, profile: Profile, form: Form) -> Admitted:
    """Returns the call that the ``params`` of a ``tools/call`` ask for.

    Raises:
        Refused: the tool is unknown here, a scope is missing, or the arguments have another structure.

    """
    name = params.get("name")
    if not isinstance(name, str):
        raise BadArguments("params.name must be a string")
    tool = registry.find(name, Audience.MODEL)
    read = _read(params.get("arguments"), form)
    given = read.arguments
    if tool is gateway_tools.GATEWAY:
        _refuse_fault(read)
        tool, given = _behind_gateway(given)
    _check_scopes(tool, caller, read.recorder)
    _refuse_fault(read)
    arguments.read(tool, given)
    call = Call(
        caller=caller,
        audience=Audience.MODEL,
        name=tool.name,
        arguments=given,
        recorder=read.recorder,
        profile=profile,
    )
    return Admitted(call=call, tool=tool)


def shaped(tool_result: JsonObject, *, tool: str, client: str | None, text_json: bool) -> JsonObject:
    """Returns the result of ``tools/call``; with ``text_json`` its text is the whole ToolResult (M-30)."""
    text = _encode(tool_result) if text_json else _line(tool_result, tool)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": tool_result,
        "isError": tool_result["success"] is not True and client != OPENAI_CLIENT,
    }


def outcome_unknown() -> JsonObject:
    """Returns the ToolResult of a call that outlived its dispatch and may have changed something (M-28)."""
    error = ToolError("internal_error")
    output: JsonObject = {
        "error_kind": error.error_kind,
        "state_changed": None,
        "execution_state": "outcome_unknown",
        "recovery_kind": error.recovery_kind,
    }
    return {"success": False, "output": output, "error": error.sentence}


def _read(given: object, form: Form) -> _Read:
    if given is None:
        return _Read(arguments={})
    if not isinstance(given, dict):
        return _Read(arguments={}, fault="Arguments must be an object")
    names = (RECORD_KEY,) if form is Form.STATELESS else (RECORD_KEY, FLAT_RECORD_KEY)
    if not any(name in given for name in names):
        return _Read(arguments=given)
    rest = {key: value for key, value in given.items() if key not in names}
    named = {name: given[name] for name in names if given.get(name) is not None}
    if len(named) > 1:
        return _Read(arguments=rest, fault="Name a recorder once: by _wc or by recording_session_id")
    recorder = named.get(FLAT_RECORD_KEY)
    if RECORD_KEY in named:
        closed = named[RECORD_KEY]
        recorder = closed["record"] if isinstance(closed, dict) and set(closed) == {"record"} else None
    if named and not isinstance(recorder, str):
        return _Read(arguments=rest, fault="A recorder is named by the text of _wc.record, and nothing else")
    return _Read(arguments=rest, recorder=recorder)


def _refuse_fault(read: _Read) -> None:
    if read.fault is not None:
        raise BadArguments(read.fault)


def _behind_gateway(given: dict[str, Any]) -> tuple[Tool, dict[str, Any]]:
    outer = arguments.read(gateway_tools.GATEWAY, given).params
    if not isinstance(outer, gateway_tools.GatewayParams):
        raise BadArguments("Wrong value of argument: tool")
    if outer.tool == gateway_tools.GATEWAY.name:
        raise BadArguments("call_runtime_tool cannot target itself")
    return registry.find(outer.tool, Audience.MODEL), outer.arguments


def _check_scopes(tool: Tool, caller: access.Caller, recorder: str | None) -> None:
    scopes = tool.scopes if recorder is None else (*tool.scopes, access.Scope.SESSION_COLLABORATE)
    missing = access.first_missing(caller, scopes)
    if missing is not None:
        raise MissingScope(missing)


def _line(tool_result: JsonObject, tool: str) -> str:
    error = tool_result.get("error")
    line = f"{tool}: {error}" if isinstance(error, str) else f"{tool}: done"
    return " ".join(line.split())[:LINE_CHARS]
