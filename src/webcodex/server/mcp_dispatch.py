"""Serves a screened MCP message through the official SDK's dispatch, in both forms, remembering nothing.

The SDK never sees a byte of a request as it came: it is given the valid message itself (M-24a). What a
client is told of a failure is said here, never by the SDK.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import mcp_types
from mcp.server import runner
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared import inbound
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ValidationError

from webcodex.core import access
from webcodex.core.json_value import JsonObject
from webcodex.server import answers, mcp_answers, mcp_calls, mcp_channel, mcp_envelope, mcp_tools
from webcodex.server.answers import Answer
from webcodex.server.mcp_answers import Breach, Code, Form
from webcodex.server.mcp_envelope import Revision
from webcodex.server.mcp_progress import Progress
from webcodex.server.mcp_screening import Message
from webcodex.tools import registry
from webcodex.tools.contract import Profile
from webcodex.tools.ports import Services

NAME: Final = "webcodex"
VERSION: Final = version("webcodex")

_STATELESS_META: Final = {mcp_envelope.VERSION_KEY: mcp_envelope.REVISION, mcp_envelope.CAPABILITIES_KEY: {}}
_COMPLETE: Final[JsonObject] = {
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}},
}  # M-27
_KEPT: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}  # M-27
_SENTENCES: Final[Mapping[int, str]] = {
    Code.UNKNOWN_METHOD: mcp_answers.UNKNOWN_METHOD,
    Code.INVALID_PARAMS: mcp_answers.OTHER_PARAMS,
}

Handler = Callable[[ServerRequestContext[Any, Any], Any], Awaitable[Any]]


class ServerFault(Exception):
    """The SDK gave no result; the fault is the Server's, and its cause says which."""


class _ExtensionRefused(Exception):
    """A handler of the extension refused; what it says is its own."""

    def __init__(self, error: mcp_types.ErrorData) -> None:
        super().__init__()
        self.error = error


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """Requests served beside the product's own or in their place, such as a conformance suite's (M-24a).

    They are screened like any other; a handler is given ``params`` as they were sent.
    """

    methods: Mapping[Form, frozenset[str]]
    handlers: Mapping[str, tuple[type[BaseModel], Handler]]


NO_EXTENSION: Final = Extension(methods={form: frozenset() for form in Form}, handlers={})


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """What a handler knows beyond its message."""

    caller: access.Caller
    profile: Profile
    client: str | None
    progress: Progress | None = None
    admitted: registry.Admitted | None = None

    @property
    def may_change(self) -> bool:
        """Says whether giving the request up leaves something unknown behind (M-28)."""
        return self.admitted is not None and not self.admitted.tool.annotations.read_only


class Dispatcher:
    """The SDK's low-level server, driven one message at a time."""

    def __init__(
        self,
        services: Services,
        *,
        compact_schemas: bool,
        text_json: bool,
        extension: Extension = NO_EXTENSION,
    ) -> None:
        self._services = services
        self._extension = extension
        self._catalogue = mcp_tools.Catalogue(compact=compact_schemas)
        self._text_json = text_json
        server: Server[Any] = Server(NAME, version=VERSION)
        server.middleware.clear()
        server.add_request_handler("tools/list", mcp_types.PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", mcp_types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("resources/list", mcp_types.PaginatedRequestParams, _list_resources)
        for method, (params, handler) in extension.handlers.items():
            server.add_request_handler(method, params, _speaking_for_itself(handler))
        self._server = server

    async def serve(self, message: Message, revision: Revision, exchange: Exchange) -> Answer:
        """Returns the answer to a request that is valid in its form.

        Raises:
            ServerFault: no result was formed.

        """
        is_extended = message.method in self._extension.methods[revision.form]
        params = message.params if is_extended else _params(message, revision.form)
        channel = mcp_channel.Channel(exchange, message.request_id, exchange.progress)
        spoken = revision.named or mcp_types.DEFAULT_NEGOTIATED_VERSION
        kernel = runner.ServerRunner(self._server, channel.connection(spoken), {})
        try:
            result = await kernel.on_request(channel, message.method, params)
            return mcp_answers.result(result, message.request_id)
        except _ExtensionRefused as refused:
            return _refusal(refused.error, revision.form, message)
        except Exception as error:
            breach = _breach(error)
            if breach is None or exchange.admitted is not None:
                raise ServerFault from error
        return mcp_answers.error(breach, revision.form, message.request_id)

    def unknown_outcome(self, message: Message, form: Form, exchange: Exchange) -> Answer:
        """Returns the answer to a call that was given up after it may have changed something (M-28)."""
        shaped = self._shaped(mcp_calls.outcome_unknown(), exchange)
        result = {**shaped, **_COMPLETE} if form is Form.STATELESS else shaped
        return mcp_answers.result(result, message.request_id)

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], _params: mcp_types.PaginatedRequestParams
    ) -> dict[str, Any]:
        exchange = _exchange(context)
        listed = {"tools": self._catalogue.listed(exchange.caller, exchange.profile)}
        return {**listed, **_KEPT, **_COMPLETE} if _is_stateless(context) else listed

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], _params: mcp_types.CallToolRequestParams
    ) -> dict[str, Any]:
        exchange = _exchange(context)
        if exchange.admitted is None:
            raise AssertionError("only admitted calls are dispatched")
        shaped = self._shaped(await registry.perform(self._services, exchange.admitted), exchange)
        return {**shaped, **_COMPLETE} if _is_stateless(context) else shaped

    def _shaped(self, tool_result: JsonObject, exchange: Exchange) -> JsonObject:
        tool = "" if exchange.admitted is None else exchange.admitted.tool.name
        return mcp_calls.shaped(tool_result, tool=tool, client=exchange.client, text_json=self._text_json)


async def _list_resources(
    context: ServerRequestContext[Any, Any], _params: mcp_types.PaginatedRequestParams
) -> dict[str, Any]:
    return {"resources": [], **_KEPT, **_COMPLETE} if _is_stateless(context) else {"resources": []}


def _is_stateless(context: ServerRequestContext[Any, Any]) -> bool:
    return context.protocol_version == mcp_envelope.REVISION


def _exchange(context: ServerRequestContext[Any, Any]) -> Exchange:
    if isinstance(context.request, Exchange):
        return context.request
    raise AssertionError("every message is dispatched with its exchange")


def _speaking_for_itself(handler: Handler) -> Handler:
    async def handled(context: ServerRequestContext[Any, Any], params: BaseModel) -> Any:
        try:
            return await handler(context, params)
        except MCPError as refused:
            raise _ExtensionRefused(refused.error) from None

    return handled


def _refusal(error: mcp_types.ErrorData, form: Form, message: Message) -> Answer:
    status = inbound.ERROR_CODE_HTTP_STATUS.get(error.code, 200) if form is Form.STATELESS else 200
    shown = error.model_dump(mode="json", exclude_none=True)
    return answers.of(status, {"jsonrpc": "2.0", "id": message.request_id, "error": shown})


def _breach(error: Exception) -> Breach | None:
    """Returns what the SDK found wrong with a message, in our words; none when that is not it."""
    if isinstance(error, ValidationError):
        return Breach(Code.INVALID_PARAMS, mcp_answers.OTHER_PARAMS)
    if not isinstance(error, MCPError) or error.code not in _SENTENCES:
        return None
    return Breach(Code(error.code), _SENTENCES[error.code])


def _params(message: Message, form: Form) -> dict[str, Any]:
    if message.method == "initialize":
        params = message.params
    elif message.method == "tools/call":
        params = {"name": message.params["name"], "arguments": message.params.get("arguments") or {}}
    else:
        params = {}
    if form is Form.STATELESS:
        params["_meta"] = _STATELESS_META
    return params
