"""Translates ``/api/tools/*`` to the one road of the tools and back (10.3); decides nothing about a tool."""

from collections import Counter
from typing import Annotated, Any, Final

from pydantic import Field

from webcodex.core import access
from webcodex.core.access import Scope
from webcodex.core.json_value import JsonObject
from webcodex.server import answers, body_fields
from webcodex.tools import registry, schemas
from webcodex.tools.contract import Audience, BadArguments, Call, MissingScope, Params, Refused, Tool
from webcodex.tools.ports import Services

MOST_LISTED: Final = 128
RECORDER_FAULT: Final = "recording_session_id must be a string"

_NOT_ARGUMENTS: Final = frozenset({"tool", "params", "arguments", "recording_session_id"})


class ListBody(Params):
    """What `/api/tools/list` may be asked (M-18)."""

    category: Annotated[str | None, Field(max_length=64)] = None
    features: Annotated[list[Annotated[str, Field(max_length=64)]] | None, Field(max_length=64)] = None
    summary_only: bool = False
    limit: int | None = None


class ToolRoutes:
    """Answers ``/api/tools/call`` and ``/api/tools/list``."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._shown = sorted(
            (tool for tool in registry.TOOLS if tool.audience is Audience.MODEL), key=lambda tool: tool.name
        )
        self._specs = {tool.name: schemas.described(tool, compact=False) for tool in self._shown}

    async def call(self, caller: access.Caller, body: dict[str, Any]) -> answers.Answer:
        """Returns the ToolResult of the call that ``body`` is, with the statuses of M-14."""
        try:
            return shown(await registry.invoke(self._services, _understood(caller, body)))
        except Refused as refused:
            return refusal(refused)

    async def listed(self, caller: access.Caller, body: dict[str, Any]) -> answers.Answer:
        """Returns the specs of the model-visible tools that ``body`` asks for (M-18)."""
        if not access.has_scope(caller, Scope.RUNTIME_READ):
            return refusal(MissingScope(Scope.RUNTIME_READ))
        try:
            wanted = body_fields.read(ListBody, body)
        except body_fields.BadField as refused:
            return answers.error(400, str(refused))
        return answers.of(200, self._listing(wanted))

    def _listing(self, wanted: ListBody) -> JsonObject:
        limit = MOST_LISTED if wanted.limit is None else min(max(wanted.limit, 1), MOST_LISTED)
        matching = [tool for tool in self._shown if _matches(tool, wanted)]
        shown = matching[:limit]
        truncated = len(shown) < len(matching)
        specs = [self._specs[tool.name] for tool in shown]
        if wanted.summary_only:
            specs = [{"name": spec["name"], "description": spec["description"]} for spec in specs]
        return {
            "success": True,
            "tools": specs,
            "names": [tool.name for tool in shown],
            "count": len(shown),
            "returned_count": len(shown),
            "total_count": len(self._shown),
            "filtered_count": len(matching),
            "truncated": truncated,
            "truncation_reason": "limit" if truncated else None,
            "limit_applied": truncated,
            "requested_limit": wanted.limit,
            "category": wanted.category,
            "features": wanted.features,
            "limit": limit,
            "categories": dict(Counter(tool.category for tool in self._shown)),
        }


def shown(result: JsonObject) -> answers.Answer:
    """Returns the answer that a ToolResult is; a success has no ``error`` here (M-14)."""
    if result["success"]:
        return answers.of(200, {"success": True, "output": result["output"]})
    return answers.of(400, result)


def refusal(refused: Refused) -> answers.Answer:
    """Returns the answer to a call that reached no tool (M-07, M-08)."""
    return answers.error(403 if isinstance(refused, MissingScope) else 400, str(refused))


def check_before_structure(caller: access.Caller, name: str, *, is_recorded: bool) -> None:
    """Lets a call pass as far as its structure (C-22 rows 6 and 7).

    Raises:
        Refused: no such tool, or a scope is missing, the recorder's last.

    """
    scopes = registry.find(name, Audience.ADAPTER).scopes
    if is_recorded:
        scopes = (*scopes, Scope.SESSION_COLLABORATE)
    missing = access.first_missing(caller, scopes)
    if missing is not None:
        raise MissingScope(missing)


def _matches(tool: Tool, wanted: ListBody) -> bool:
    """Says whether ``tool`` is of the category and has every feature: its effect or a scope it needs."""
    features = {tool.effect.value, *(scope.value for scope in tool.scopes)}
    return wanted.category in {None, tool.category} and features.issuperset(wanted.features or ())


def _understood(caller: access.Caller, body: dict[str, Any]) -> Call:
    """Returns the call that ``body`` is in one of the forms of M-11.

    Raises:
        Refused: it is in none of them; what C-22 checks before the structure is checked before.

    """
    name = body.get("tool")
    if not isinstance(name, str) or not name:
        raise BadArguments("tool must be the name of a tool")
    params, arguments = body.get("params"), body.get("arguments")
    recorder = body.get("recording_session_id")
    wrapper = arguments if params is None else params
    beside = {key: value for key, value in body.items() if key not in _NOT_ARGUMENTS}
    fault = None
    if any(value is not None and not isinstance(value, dict) for value in (params, arguments)):
        fault = "params and arguments must be objects"
    elif wrapper is not None and beside:
        fault = "Unknown argument beside params or arguments"
    elif recorder is not None and not isinstance(recorder, str):
        fault = RECORDER_FAULT
    if fault is not None:
        check_before_structure(caller, name, is_recorded=recorder is not None)
        raise BadArguments(fault)
    return Call(
        caller=caller,
        audience=Audience.ADAPTER,
        name=name,
        arguments=beside if wrapper is None else wrapper,
        recorder=recorder,
    )
