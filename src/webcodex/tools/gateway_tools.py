"""Declares the gateway: one listed tool through which every model-visible tool can be called (M-34)."""

from typing import Annotated, Any, Final

from pydantic import Field

from webcodex.tools.contract import Annotations, Done, Effect, Params, Result, Tool, Work


class GatewayParams(Params):
    """Names the tool to call and holds its arguments."""

    tool: Annotated[str, Field(min_length=1, max_length=128, description="Name of the tool to call.")]
    arguments: Annotated[dict[str, Any], Field(description="The arguments of that tool.")]


class GatewayResult(Result):
    """The output of the tool that was called."""


async def _never(_work: Work, _params: GatewayParams) -> Done:
    raise AssertionError("the registry calls the target, never the gateway")


GATEWAY: Final = Tool(
    name="call_runtime_tool",
    category="discovery",
    summary="Call any WebCodex tool by name, also one that this host does not list.",
    params=GatewayParams,
    result=GatewayResult,
    scopes=(),
    effect=Effect.EXECUTE,
    annotations=Annotations(read_only=False, destructive=True, idempotent=False, open_world=True),
    handler=_never,
)
