"""Declares ``read_tool_manifest`` (M-35): which tools there are, what each does and how to reach it.

Hidden tools are unknown here, as wherever a model looks (M-20).
"""

import functools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from webcodex.core.access import Scope
from webcodex.core.json_value import Json, JsonObject
from webcodex.tools import gateway_tools, manifest_flows, schemas
from webcodex.tools.contract import (
    Audience,
    Done,
    Effect,
    Params,
    Profile,
    Recording,
    Result,
    Tool,
    ToolError,
    Work,
)

EffectShown = Annotated[Effect, Field(strict=False)]
UNKNOWN_OUTCOME: Final = "A call whose outcome is unknown is read or observed, never repeated."


class ManifestParams(Params):
    """Which part of the manifest is wanted; a ``tool_name`` wins over every other choice."""

    category: Annotated[str | None, Field(max_length=64, description="Only tools of this category.")] = None
    intent: Annotated[
        manifest_flows.Intent | None,
        Field(strict=False, description="Only tools of the flow that serves this intent."),
    ] = None
    tool_name: Annotated[
        str | None, Field(max_length=128, description="The whole contract of this one tool.")
    ] = None
    include_recommended_flows: Annotated[
        bool, Field(description="Include flows: tools in a useful order.")
    ] = True
    include_risk_summary: Annotated[
        bool, Field(description="Include which of the tools destroy, reach outside or add up when repeated.")
    ] = True


class RouteShown(Result):
    """How the caller reaches a tool: by its own name, or through the gateway."""

    mode: Literal["direct", "gateway"]
    primary: dict[str, str] | None = None
    fallback: dict[str, str] | None = None
    via: str | None = None


class ToolShown(Result):
    """One tool in a few words."""

    name: str
    category: str
    summary: str
    effect: EffectShown
    required_scopes: list[str]
    route: RouteShown


class StepShown(Result):
    """One step of a flow."""

    tool: str
    why: str


class FlowShown(Result):
    """Tools in a useful order for one intent; a step whose tool is not served is left out."""

    intent: str
    steps: list[StepShown]


class RiskShown(Result):
    """Which of the listed tools need care, and one rule for all of them."""

    destructive: list[str]
    open_world: list[str]
    not_idempotent: list[str]
    rule: str


class ManifestResult(Result):
    """A list of tools, or with ``tool_name`` the contract of one: never keys of both."""

    tools: list[ToolShown] | None = None
    count: int | None = None
    categories: dict[str, int] | None = None
    intent: str | None = None
    recommended_flows: list[FlowShown] | None = None
    risk_summary: RiskShown | None = None
    tool_name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    effect: EffectShown | None = None
    required_scopes: list[str] | None = None
    route: RouteShown | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Table:
    """All tools, known once the table is complete, and the names that the short profile lists (M-31)."""

    tools: Callable[[], Sequence[Tool]]
    short_set: Collection[str]

    def shown(self) -> list[Tool]:
        seen = [tool for tool in self.tools() if tool.audience is Audience.MODEL]
        return sorted(seen, key=lambda tool: tool.name)

    def route(self, tool: Tool, profile: Profile) -> JsonObject:
        is_short = tool.name in self.short_set or tool is gateway_tools.GATEWAY
        gateway = gateway_tools.GATEWAY.name
        if profile is Profile.HOST_CODE_MODE and not is_short:
            return {"mode": "gateway", "via": gateway}
        return {"mode": "direct", "primary": {"tool": tool.name}, "fallback": {"via": gateway}}


def declared(tools: Callable[[], Sequence[Tool]], short_set: Collection[str]) -> Tool:
    """Returns the tool; ``tools`` gives the table of all tools once that is complete."""
    return Tool(
        name="read_tool_manifest",
        category="discovery",
        summary="List the tools by category or intent with their effects and scopes, or read one contract.",
        params=ManifestParams,
        result=ManifestResult,
        scopes=(Scope.RUNTIME_READ,),
        recording=Recording.NONE,
        handler=functools.partial(_read, _Table(tools=tools, short_set=short_set)),
    )


async def _read(table: _Table, work: Work, params: ManifestParams) -> Done:
    if params.tool_name is not None:
        return Done(output=_contract(table, params.tool_name, work.profile))
    return Done(output=_listing(table, params, work.profile))


def _contract(table: _Table, name: str, profile: Profile) -> JsonObject:
    tool = next((tool for tool in table.shown() if name in {tool.name, *tool.aliases}), None)
    if tool is None:
        raise ToolError("invalid_arguments")
    return {
        "tool_name": tool.name,
        "description": tool.summary,
        "input_schema": schemas.input_schema(tool.params, description_chars=None),
        "effect": tool.effect.value,
        "required_scopes": [scope.value for scope in tool.scopes],
        "route": table.route(tool, profile),
    }


def _listing(table: _Table, params: ManifestParams, profile: Profile) -> JsonObject:
    shown = table.shown()
    served = {tool.name for tool in shown}
    wanted = served if params.intent is None else manifest_flows.tools_of(params.intent) & served
    listed = [tool for tool in shown if tool.name in wanted and params.category in {None, tool.category}]
    rows: list[Json] = [_row(table, tool, profile) for tool in listed]
    output: JsonObject = {
        "tools": rows,
        "count": len(rows),
        "categories": dict(Counter(tool.category for tool in shown)),
        "intent": None if params.intent is None else params.intent.value,
    }
    if params.include_recommended_flows:
        intents = list(manifest_flows.Intent) if params.intent is None else [params.intent]
        output["recommended_flows"] = [manifest_flows.shown(intent, served) for intent in intents]
    if params.include_risk_summary:
        output["risk_summary"] = _risks(listed)
    return output


def _row(table: _Table, tool: Tool, profile: Profile) -> JsonObject:
    return {
        "name": tool.name,
        "category": tool.category,
        "summary": tool.summary,
        "effect": tool.effect.value,
        "required_scopes": [scope.value for scope in tool.scopes],
        "route": table.route(tool, profile),
    }


def _risks(tools: Sequence[Tool]) -> JsonObject:
    return {
        "destructive": [tool.name for tool in tools if tool.annotations.destructive],
        "open_world": [tool.name for tool in tools if tool.annotations.open_world],
        "not_idempotent": [tool.name for tool in tools if not tool.annotations.idempotent],
        "rule": UNKNOWN_OUTCOME,
    }
