"""Reads a ``tools/call`` as a call of the one road, and forms its result (M-30, M-40, M-41)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.server.mcp_answers import Form
from webcodex.tools.contract import Audience, BadArguments, Call, Profile, ToolError, Waits
from webcodex.tools.ports import Progress

RECORD_KEY: Final = "_wc"
FLAT_RECORD_KEY: Final = "recording_session_id"
OPENAI_CLIENT: Final = "openai-mcp"  # M-30
LINE_CHARS: Final = 240  # M-30

_encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """The arguments without recorder metadata, and what is wrong with that metadata."""

    arguments: dict[str, Any]
    recorder: str | None = None
    fault: str | None = None


def understood(
    params: Mapping[str, Any],
    form: Form,
    *,
    caller: access.Caller,
    profile: Profile,
    waits: Waits,
    progress: Progress,
) -> Call:
    """Returns the call that the ``params`` of a ``tools/call`` are, with its recorder beside the arguments.

    Raises:
        BadArguments: they name no tool.

    """
    name = params.get("name")
    if not isinstance(name, str):
        raise BadArguments("params.name must be a string")
    found = _read(params.get("arguments"), form)
    return Call(
        caller=caller,
        audience=Audience.MODEL,
        name=name,
        arguments=found.arguments,
        recorder=found.recorder,
        profile=profile,
        waits=waits,
        progress=progress,
        fault=found.fault,
    )


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


def _line(tool_result: JsonObject, tool: str) -> str:
    error = tool_result.get("error")
    line = f"{tool}: {error}" if isinstance(error, str) else f"{tool}: done"
    return " ".join(line.split())[:LINE_CHARS]
