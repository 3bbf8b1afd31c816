"""What the MCP conformance suite wants a server to have: tools, prompts and resources of fixed names (M-24a).

They stand in for the product's own and are served by its real endpoint; no code of the product knows them.
Their names and contents are the suite's. Those that need an event stream try for one, so that the baseline
names what the transport refuses and not what a fixture leaves out.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from tests.hosts import conformance_rounds
from webcodex.server.mcp_answers import Form
from webcodex.server.mcp_dispatch import Extension, Handler

Context = ServerRequestContext[Any, Any]
Result = dict[str, Any]

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE: Final = {"type": "image", "data": PNG, "mimeType": "image/png"}
KEPT: Final = {"ttlMs": 0, "cacheScope": "private"}

TEXT_URI: Final = "test://static-text"
BINARY_URI: Final = "test://static-binary"
TEMPLATE: Final = "test://template/{id}/data"
_TEMPLATED: Final = re.compile(r"test://template/(?P<id>[^/]+)/data")


def _text(text: str) -> Result:
    return {"type": "text", "text": text}


def _resource(uri: str, media_type: str, text: str) -> Result:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": media_type, "text": text}}


CONTENTS: Final[Mapping[str, list[Result]]] = {
    "test_simple_text": [_text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        _resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        _text("Multiple content types test:"),
        IMAGE,
        _resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_logging_tool": [_text("Nothing was logged.")],
    "test_streaming_elicitation": [_text("Nothing was asked.")],
}


async def _fails(_context: Context) -> Result:
    said = _text("This tool intentionally returns an error for testing")
    return {"content": [said], "isError": True}


async def _needs_sampling(context: Context) -> Result:
    if "sampling" not in conformance_rounds.capabilities(context):
        missing: Result = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Sampling is required", missing)
    return {"content": [_text("Sampling is declared.")]}


async def _reports_progress(context: Context) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
    return {"content": [_text("Progress was reported.")]}


async def _logs(context: Context) -> Result:
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        params = mcp_types.LoggingMessageNotificationParams(level="info", data=line)
        await context.session.send_notification(mcp_types.LoggingMessageNotification(params=params))
    return {"content": [_text("The execution was logged.")]}


async def _samples(context: Context) -> Result:
    question = mcp_types.TextContent(type="text", text=_arguments(context).get("prompt", ""))
    message = mcp_types.SamplingMessage(role="user", content=question)
    params = mcp_types.CreateMessageRequestParams(messages=[message], max_tokens=100)
    asked = mcp_types.CreateMessageRequest(params=params)
    answer = await context.session.send_request(asked, mcp_types.CreateMessageResult)
    return {"content": [_text(f"LLM response: {answer.content}")]}


async def _elicits(context: Context) -> Result:
    schema = {"type": "object", "properties": {"username": {"type": "string"}}, "required": ["username"]}
    answer = await context.session.elicit_form(_arguments(context).get("message", "Who?"), schema)
    return {"content": [_text(f"User response: {answer.action}")]}


TOOLS: Final[Mapping[str, Callable[[Context], Awaitable[Result]]]] = {
    "test_error_handling": _fails,
    "test_missing_capability": _needs_sampling,
    "test_tool_with_progress": _reports_progress,
    "test_tool_with_logging": _logs,
    "test_sampling": _samples,
    "test_elicitation": _elicits,
    "test_elicitation_sep1034_defaults": _elicits,
    "test_elicitation_sep1330_enums": _elicits,
    **conformance_rounds.TOOLS,
}
PROMPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def _list_tools(_context: Context) -> Result:
    tools = [
        {"name": name, "description": f"Serves the scenario of {name}.", "inputSchema": {"type": "object"}}
        for name in (*CONTENTS, *TOOLS)
    ]
    return {"tools": tools, **KEPT}


async def _call_tool(context: Context) -> Result:
    name = _given(context)["name"]
    if name in CONTENTS:
        return {"content": CONTENTS[name]}
    if name not in TOOLS:
        raise MCPError(mcp_types.INVALID_PARAMS, "Unknown tool")
    return await TOOLS[name](context)


async def _list_prompts(_context: Context) -> Result:
    prompts = [
        {
            "name": name,
            "description": f"Serves the scenario of {name}.",
            "arguments": [{"name": argument, "required": True} for argument in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    return {"prompts": prompts, **KEPT}


async def _get_prompt(context: Context) -> Result:
    name, given = _given(context)["name"], _arguments(context)
    if name == "test_input_required_result_prompt":
        return conformance_rounds.prompt(context)
    contents = {
        "test_simple_prompt": [_text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [_text(f"Arguments: {given.get('arg1')} and {given.get('arg2')}")],
        "test_prompt_with_embedded_resource": [
            _resource(str(given.get("resourceUri")), "text/plain", "Embedded resource content for testing."),
            _text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [IMAGE, _text("Please analyze the image above.")],
    }
    if name not in contents:
        raise MCPError(mcp_types.INVALID_PARAMS, "Unknown prompt")
    return {"messages": [{"role": "user", "content": content} for content in contents[name]]}


async def _list_resources(_context: Context) -> Result:
    listed = [
        {"uri": TEXT_URI, "name": "text", "description": "A static text.", "mimeType": "text/plain"},
        {"uri": BINARY_URI, "name": "binary", "description": "A static image.", "mimeType": "image/png"},
    ]
    return {"resources": listed, **KEPT}


async def _list_templates(_context: Context) -> Result:
    template = {"uriTemplate": TEMPLATE, "name": "template", "description": "Data for one id."}
    return {"resourceTemplates": [template], **KEPT}


async def _read_resource(context: Context) -> Result:
    uri = str(_given(context)["uri"])
    templated = _TEMPLATED.fullmatch(uri)
    if uri == TEXT_URI:
        found = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
    elif uri == BINARY_URI:
        found = {"mimeType": "image/png", "blob": PNG}
    elif templated is not None:
        body = {"id": templated["id"], "templateTest": True, "data": f"Data for ID: {templated['id']}"}
        found = {"mimeType": "application/json", "text": json.dumps(body)}
    else:
        raise MCPError(mcp_types.INVALID_PARAMS, "Resource not found")
    return {"contents": [{"uri": uri, **found}], **KEPT}


async def _complete(_context: Context) -> Result:
    return {"completion": {"values": [], "total": 0, "hasMore": False}}


async def _nothing(_context: Context, _params: BaseModel) -> Result:
    return {}


def _whole(answer: Callable[[Context], Awaitable[Result]]) -> Handler:
    async def answered(context: Context, _params: BaseModel) -> Result:
        return {"resultType": "complete", **await answer(context)}

    return answered


def _given(context: Context) -> Mapping[str, Any]:
    return context.params or {}


def _arguments(context: Context) -> Mapping[str, Any]:
    return _given(context).get("arguments") or {}


HANDLERS: Final[Mapping[str, tuple[type[BaseModel], Handler]]] = {
    "tools/list": (mcp_types.PaginatedRequestParams, _whole(_list_tools)),
    "tools/call": (mcp_types.CallToolRequestParams, _whole(_call_tool)),
    "prompts/list": (mcp_types.PaginatedRequestParams, _whole(_list_prompts)),
    "prompts/get": (mcp_types.GetPromptRequestParams, _whole(_get_prompt)),
    "resources/list": (mcp_types.PaginatedRequestParams, _whole(_list_resources)),
    "resources/templates/list": (mcp_types.PaginatedRequestParams, _whole(_list_templates)),
    "resources/read": (mcp_types.ReadResourceRequestParams, _whole(_read_resource)),
    "completion/complete": (mcp_types.CompleteRequestParams, _whole(_complete)),
    "logging/setLevel": (mcp_types.SetLevelRequestParams, _nothing),
    "resources/subscribe": (mcp_types.SubscribeRequestParams, _nothing),
    "resources/unsubscribe": (mcp_types.UnsubscribeRequestParams, _nothing),
}
GONE: Final = frozenset({"logging/setLevel", "resources/subscribe", "resources/unsubscribe"})  # 2026-07-28

EXTENSION: Final = Extension(
    methods={Form.INITIALIZE: frozenset(HANDLERS), Form.STATELESS: frozenset(HANDLERS) - GONE},
    handlers=HANDLERS,
)
