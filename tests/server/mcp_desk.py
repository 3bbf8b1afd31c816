"""The MCP endpoint behind its guard, over the real store and tools: what a client sends, and what it gets."""

import asyncio
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.tools import house
from webcodex.core import access, limits
from webcodex.server import (
    authentication,
    connections,
    http_guard,
    mcp_dispatch,
    mcp_endpoint,
    settings,
)
from webcodex.server.mcp_answers import Form
from webcodex.storage import accounts
from webcodex.storage.database import Transaction
from webcodex.tools import ports

BOOTSTRAP = "bootstrap-secret"
REVISION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
URL = "http://localhost:8080/mcp"
DEADLINE_S = 10.0
EVERY_SCOPE = tuple(scope.value for scope in access.CODING_SCOPES)

Header = tuple[str, str | bytes]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One HTTP answer; ``body`` is its JSON, none when it is empty, and the messages of a stream."""

    status: int
    body: Any
    text: str
    headers: httpx2.Headers

    @property
    def code(self) -> int | None:
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return error["code"] if isinstance(error, dict) else None

    @property
    def result(self) -> Any:
        assert self.status == 200, self.text
        return self.body["result"]


class Desk:
    """Where requests are handed in, byte by byte if need be."""

    def __init__(
        self, within: house.House, endpoint: mcp_endpoint.McpEndpoint, guarded: http_guard.HttpGuard
    ) -> None:
        self.house = within
        self.endpoint = endpoint
        self._guarded = guarded
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(guarded))

    async def send(self, method: str, content: bytes, headers: Iterable[Header]) -> Reply:
        request = httpx2.Request(method, URL, headers=_raw(headers), content=content)
        return _reply(await self._client.send(request))

    async def post(self, content: bytes | Any, *headers: Header, token: str = BOOTSTRAP) -> Reply:
        """Hands in bytes, or a value as JSON, with nothing but these headers and what every client sends."""
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        usual: list[Header] = [("authorization", f"Bearer {token}"), ("content-type", "application/json")]
        return await self.send("POST", sent, [*usual, *headers])

    async def ask(
        self,
        form: Form,
        method: str,
        params: dict[str, Any] | None = None,
        *headers: Header,
        token: str = BOOTSTRAP,
    ) -> Reply:
        """Sends a request that is right in its form."""
        if form is Form.INITIALIZE:
            return await self.post(message(method, params), *headers, token=token)
        given = {**(params or {}), "_meta": {**envelope(), **(params or {}).get("_meta", {})}}
        return await self.post(
            message(method, given), *stateless_headers(method, given), *headers, token=token
        )

    async def call(
        self,
        tool: str,
        arguments: Any = None,
        *headers: Header,
        form: Form = Form.STATELESS,
        token: str = BOOTSTRAP,
    ) -> Reply:
        """Sends a ``tools/call``."""
        return await self.ask(
            form, "tools/call", {"name": tool, "arguments": arguments or {}}, *headers, token=token
        )

    @asynccontextmanager
    async def client(
        self, mode: str, *, token: str = BOOTSTRAP, name: str = "tests"
    ) -> AsyncIterator[Client]:
        """Yields the SDK's own client of the endpoint, in one era."""
        through = httpx2.ASGITransport(self._guarded)
        async with (
            httpx2.AsyncClient(transport=through, headers={"authorization": f"Bearer {token}"}) as http,
            Client(
                streamable_http_client(URL, http_client=http),
                mode=mode,
                client_info=mcp_types.Implementation(name=name, version="1"),
            ) as client,
        ):
            yield client

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Yields a URL where requests arrive over a real socket, so that answers can come in parts."""
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            self._guarded, http=connections.HttpConnection, lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server.should_exit = True
        async with asyncio.timeout(DEADLINE_S):
            await serving

    async def send_in_parts(self, parts: AsyncIterator[bytes], *headers: Header) -> Reply:
        """Hands in a body that does not say how long it is."""
        request = httpx2.Request("POST", URL, headers=_raw(headers), content=parts)
        return _reply(await self._client.send(request))

    async def pat(self, user: str, *scopes: str) -> str:
        """Returns a new PAT of a user who is stored on first use."""
        token = f"wc_pat_{hashlib.sha256(repr((user, scopes)).encode()).hexdigest()}"
        await self.house.database.write(lambda tx: _add_pat(tx, user, token, scopes))
        return token

    async def close(self) -> None:
        await self._client.aclose()


def message(method: str, params: dict[str, Any] | None = None, request_id: Any = 7) -> dict[str, Any]:
    plain = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return plain if params is None else {**plain, "params": params}


def envelope(**changed: Any) -> dict[str, Any]:
    return {VERSION_KEY: REVISION, CAPABILITIES_KEY: {}, **changed}


def stateless_headers(method: str, params: dict[str, Any]) -> list[Header]:
    headers: list[Header] = [("mcp-protocol-version", REVISION), ("mcp-method", method)]
    named = params.get({"tools/call": "name", "resources/read": "uri"}.get(method, ""))
    return headers if named is None else [*headers, ("mcp-name", named)]


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    dispatch_s: float = limits.DISPATCH_S,
    progress_every_s: float = limits.PROGRESS_EVERY_S,
    runners: ports.Runners | None = None,
    extension: mcp_dispatch.Extension = mcp_dispatch.NO_EXTENSION,
    **environment: str,
) -> AsyncIterator[Desk]:
    """Yields a desk over a furnished house in ``folder``, under these variables of 10.1."""
    within = await house.House(folder).furnish()
    services = replace(within.services, runners=runners or within.runner)
    chosen = settings.load({"WEBCODEX_DATA": str(folder), "WEBCODEX_TOKEN": BOOTSTRAP, **environment})
    senders = authentication.Authentication(chosen, within.database, lambda: within.now)
    endpoint = mcp_endpoint.McpEndpoint(
        services,
        chosen,
        senders,
        dispatch_s=dispatch_s,
        progress_every_s=progress_every_s,
        extension=extension,
    )
    desk = Desk(within, endpoint, http_guard.HttpGuard(endpoint, chosen))
    yield desk
    await desk.close()
    await senders.close()
    within.database.close()


@asynccontextmanager
async def held(context: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
    """Enters and leaves ``context`` in one task, which a fixture by itself does not."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with context:
            entered.set()
            await leave.wait()

    holding = asyncio.create_task(hold())
    async with asyncio.timeout(DEADLINE_S):
        await entered.wait()
    try:
        yield
    finally:
        leave.set()
        async with asyncio.timeout(DEADLINE_S):
            await holding


def _raw(headers: Iterable[Header]) -> list[tuple[bytes, bytes]]:
    named: list[Header] = [("host", "localhost:8080"), *headers]
    return [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in named]


def _reply(answer: httpx2.Response) -> Reply:
    if answer.headers.get("content-type") == "text/event-stream":
        lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
        body: Any = [json.loads(line.removeprefix("data: ")) for line in lines]
    else:
        body = json.loads(answer.content) if answer.content else None
    return Reply(status=answer.status_code, body=body, text=answer.text, headers=answer.headers)


def _add_pat(tx: Transaction, user: str, token: str, scopes: tuple[str, ...]) -> None:
    if accounts.user(tx, user) is None:
        accounts.add_user(
            tx,
            accounts.User(
                user_id=user,
                username=user,
                display_name=None,
                role="user",
                disabled_at=None,
                created_at=1,
                updated_at=1,
            ),
        )
    token_hash = hashlib.sha256(token.encode()).hexdigest()
    if accounts.token_of_hash(tx, token_hash) is None:
        accounts.add_token(
            tx,
            accounts.Token(
                token_id=token[-12:],
                user_id=user,
                kind="pat",
                name="test",
                token_hash=token_hash,
                token_prefix=token[:16],
                scopes=scopes,
                allowed_client_id=None,
                created_at=1,
                last_used_at=1_790_000_000,
                revoked_at=None,
                expires_at=None,
            ),
        )
