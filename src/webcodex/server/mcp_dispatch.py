"""Serves a screened MCP message through the official SDK, in both forms, remembering nothing.

The SDK never sees a byte of a request as it came: it is given a new body and new headers (M-24a).
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared import inbound
from pydantic import BaseModel

from webcodex.core import access, limits
from webcodex.core.json_value import JsonObject
from webcodex.server import mcp_answers, mcp_calls, mcp_envelope, mcp_tools
from webcodex.server.answers import Answer
from webcodex.server.mcp_answers import Form
from webcodex.server.mcp_calls import Admitted
from webcodex.server.mcp_envelope import Revision
from webcodex.server.mcp_screening import Message
from webcodex.tools import registry
from webcodex.tools.contract import Profile
from webcodex.tools.ports import Services

NAME: Final = "webcodex"
VERSION: Final = version("webcodex")

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
_EXCHANGE: Final = "webcodex.exchange"
_COMPLETE: Final = {"resultType": "complete"}  # M-27; the initialize era has no such key and the SDK drops it
_LISTED: Final = {**_COMPLETE, "ttlMs": 0, "cacheScope": "private"}
_STATELESS_META: Final = {mcp_envelope.VERSION_KEY: mcp_envelope.REVISION, mcp_envelope.CAPABILITIES_KEY: {}}
_IDENTITY: Final = {"io.modelcontextprotocol/serverInfo": {"name": NAME, "version": VERSION}}

Event = MutableMapping[str, Any]
Handler = Callable[[ServerRequestContext[Any, Any], Any], Awaitable[Any]]


class ServerFault(Exception):
    """The SDK answered without what the tool returned; the fault is the Server's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Extension:
    """Requests served beside the product's own or in their place, such as a conformance suite's (M-24a).

    They are screened like any other; a handler is given ``params`` as they were sent.
    """

    methods: Mapping[Form, frozenset[str]]
    handlers: Mapping[str, tuple[type[BaseModel], Handler]]


NO_EXTENSION: Final = Extension(methods={form: frozenset() for form in Form}, handlers={})


@dataclass(kw_only=True, slots=True)
class Exchange:
    """What a handler knows beyond its message; ``is_served`` says that a call reached its end."""

    caller: access.Caller
    profile: Profile
    client: str | None
    admitted: Admitted | None = None
    is_served: bool = False


class Dispatcher:
    """The SDK's low-level server behind the SDK's own transport."""

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
        # No schema here mirrors an argument in a header; without this the SDK lists all tools at each call.
        server: Server[Any] = Server(NAME, version=VERSION, get_tool_input_schema=lambda _name: None)
        server.middleware.clear()
        server.add_request_handler("tools/list", mcp_types.PaginatedRequestParams, self._list_tools)
        server.add_request_handler("tools/call", mcp_types.CallToolRequestParams, self._call_tool)
        server.add_request_handler("resources/list", mcp_types.PaginatedRequestParams, _list_resources)
        for method, (params, handler) in extension.handlers.items():
            server.add_request_handler(method, params, handler)
        self._manager = StreamableHTTPSessionManager(
            server,
            json_response=True,
            stateless=True,
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            # The new body is ASCII: an escape takes up to three times the bytes it was sent in.
            max_request_body_size=4 * limits.HTTP_BODY_BYTES,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves until the block ends; once only."""
        async with self._manager.run():
            yield

    async def serve(
        self, message: Message, revision: Revision, exchange: Exchange, scope: MutableMapping[str, Any]
    ) -> Answer:
        """Returns the SDK's answer to a request that is valid in its form.

        Raises:
            ServerFault: a call was answered without its result.

        """
        is_extended = message.method in self._extension.methods[revision.form]
        params = message.params if is_extended else _params(message, revision.form)
        rebuilt = {"jsonrpc": "2.0", "id": message.request_id, "method": message.method, "params": params}
        body = _encode(rebuilt).encode("ascii")
        sent = _Sent()
        given = {**scope, "headers": _headers(message, revision), _EXCHANGE: exchange}
        await self._manager.handle_request(given, _Received(body), sent)
        if exchange.admitted is not None and not exchange.is_served:
            raise ServerFault
        return sent.answer()

    def unknown_outcome(self, message: Message, form: Form, exchange: Exchange) -> Answer:
        """Returns the answer to a call that was given up after it may have changed something (M-28)."""
        result = self._shaped(mcp_calls.outcome_unknown(), exchange)
        if form is Form.STATELESS:
            result = {**result, "_meta": _IDENTITY}
        else:
            del result["resultType"]
        return mcp_answers.result(result, message.request_id)

    async def _list_tools(
        self, context: ServerRequestContext[Any, Any], _params: mcp_types.PaginatedRequestParams
    ) -> dict[str, Any]:
        exchange = _exchange(context)
        return {"tools": self._catalogue.listed(exchange.caller, exchange.profile), **_LISTED}

    async def _call_tool(
        self, context: ServerRequestContext[Any, Any], _params: mcp_types.CallToolRequestParams
    ) -> dict[str, Any]:
        exchange = _exchange(context)
        if exchange.admitted is None:
            raise AssertionError("only admitted calls are dispatched")
        tool_result = await registry.invoke(self._services, exchange.admitted.call)
        exchange.is_served = True
        return self._shaped(tool_result, exchange)

    def _shaped(self, tool_result: JsonObject, exchange: Exchange) -> dict[str, Any]:
        tool = "" if exchange.admitted is None else exchange.admitted.tool.name
        shaped = mcp_calls.shaped(tool_result, tool=tool, client=exchange.client, text_json=self._text_json)
        return {**shaped, **_COMPLETE}


class _Received:
    """Gives one complete body, as an ASGI ``receive``."""

    def __init__(self, body: bytes) -> None:
        self._events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def __call__(self) -> Event:
        return self._events.pop() if self._events else {"type": "http.disconnect"}


class _Sent:
    """Keeps what is sent, as an ASGI ``send``."""

    def __init__(self) -> None:
        self._status = 500
        self._parts: list[bytes] = []

    async def __call__(self, event: Event) -> None:
        if event["type"] == "http.response.start":
            self._status = event["status"]
        else:
            self._parts.append(event.get("body", b""))

    def answer(self) -> Answer:
        return Answer(self._status, b"".join(self._parts))


async def _list_resources(
    _context: ServerRequestContext[Any, Any], _params: mcp_types.PaginatedRequestParams
) -> dict[str, Any]:
    return {"resources": [], **_LISTED}


def _exchange(context: ServerRequestContext[Any, Any]) -> Exchange:
    found = context.request.scope.get(_EXCHANGE) if context.request is not None else None
    if isinstance(found, Exchange):
        return found
    raise AssertionError("every message is dispatched with its exchange")


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


def _headers(message: Message, revision: Revision) -> list[tuple[bytes, bytes]]:
    headers = [(b"content-type", b"application/json"), (b"accept", b"application/json")]
    if revision.named:
        headers.append((mcp_envelope.VERSION_HEADER, revision.named.encode("ascii")))
    if revision.form is Form.STATELESS:
        headers.append((mcp_envelope.METHOD_HEADER, message.method.encode("ascii")))
    named_by = mcp_envelope.NAMED_BY.get(message.method)
    if revision.form is Form.STATELESS and named_by is not None:
        named = inbound.encode_header_value(message.params[named_by])
        headers.append((mcp_envelope.NAME_HEADER, named.encode("ascii")))
    return headers
