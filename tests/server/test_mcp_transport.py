"""`/mcp` is one stateless POST; real clients of both eras talk to it and outlive a restart (10.4)."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import BOOTSTRAP, DEADLINE_S, REVISION, Desk, Header
from tests.tools import house
from webcodex.core import limits
from webcodex.server import app, mcp_dispatch, settings
from webcodex.server.mcp_answers import Form

JSON: Header = ("content-type", "application/json")
SENDER: Header = ("authorization", f"Bearer {BOOTSTRAP}")
CAPABILITIES = {"tools": {"listChanged": False}, "resources": {"subscribe": False, "listChanged": False}}
SERVER_INFO = {"name": "webcodex", "version": mcp_dispatch.VERSION}
IDENTITY = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def served(folder: Path, port: int = 0) -> AsyncIterator[int]:
    """Yields the port of a whole Server over the database in ``folder``."""
    variables = {"WEBCODEX_DATA": str(folder), "WEBCODEX_TOKEN": BOOTSTRAP}
    application = app.Application(settings.load(variables))
    listening = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_config=None))
    async with mcp_desk.held(application.running()):
        running = asyncio.create_task(server.serve(sockets=[listening]))
        yield listening.getsockname()[1]
        server.should_exit = True
        async with asyncio.timeout(DEADLINE_S):
            await running


@asynccontextmanager
async def connected(port: int, mode: str) -> AsyncIterator[Client]:
    """Yields the SDK's own client, in one era."""
    async with (
        httpx2.AsyncClient(
            verify=False, headers={"authorization": f"Bearer {BOOTSTRAP}"}, timeout=DEADLINE_S
        ) as transport,
        Client(
            streamable_http_client(f"http://127.0.0.1:{port}/mcp", http_client=transport), mode=mode
        ) as client,
    ):
        yield client


@pytest.mark.parametrize("mode", ["legacy", "auto", REVISION])
@requirement("M-21", "M-23", "M-24", "M-25", "M-27", "M-31")
async def test_client_of_each_era_lists_and_calls(tmp_path: Path, mode: str) -> None:
    async with served(tmp_path) as port, connected(port, mode) as client:
        expected = "2025-11-25" if mode == "legacy" else REVISION
        assert client.session.protocol_version == expected
        listed = (await client.list_tools()).tools
        assert listed[-1].name == "call_runtime_tool"
        assert (await client.list_resources()).resources == []
        done = await client.call_tool("list_projects", {})
        assert isinstance(done, mcp_types.CallToolResult)
        assert done.structured_content == {
            "success": True,
            "output": {"projects": [], "returned": 0, "truncated": False},
            "error": None,
        }
        failed = await client.call_tool("list_sessions", {"project": "agent:r1:none"})
        assert failed.is_error is True


@requirement("A-78", "M-22", "M-64")
async def test_open_client_of_each_era_outlives_a_restart(tmp_path: Path) -> None:
    async with AsyncExitStack() as clients:
        async with served(tmp_path) as port:
            opened = [
                await clients.enter_async_context(connected(port, mode)) for mode in ("legacy", REVISION)
            ]
            for client in opened:
                assert not (await client.call_tool("list_projects", {})).is_error
        async with served(tmp_path, port):
            for client in opened:
                assert not (await client.call_tool("list_projects", {})).is_error


@pytest.mark.parametrize("mode", ["legacy", REVISION])
@requirement("M-19", "M-14", "M-43")
async def test_every_answer_fits_the_schema_that_was_listed(tmp_path: Path, mode: str) -> None:
    """The SDK's client checks what is no error; to an OpenAI client a failure is none either."""
    async with mcp_desk.opened(tmp_path, WEBCODEX_MCP_COMPACT_SCHEMAS="false") as desk:
        token = await desk.pat("ada", *mcp_desk.EVERY_SCOPE)
        recorder = {"_wc": {"record": await desk.house.session()}}
        async with desk.client(mode, token=token, name="openai-mcp") as client:
            await client.list_tools()
            for tool, arguments, success in (
                ("list_projects", {}, True),
                ("list_sessions", {"project": house.DEMO, **recorder}, True),
                ("list_sessions", {"project": "agent:r1:none"}, False),
                ("call_runtime_tool", {"tool": "list_projects", "arguments": {}, **recorder}, True),
                ("call_runtime_tool", {"tool": "list_sessions", "arguments": {"project": "x"}}, False),
                ("work_on_project", {"project": house.DEMO, "instruction": "Go on"}, True),
            ):
                done = await client.call_tool(tool, arguments)
                assert done.structured_content["success"] is success, done
                # Only the stateless form says with each call who the client is (M-30).
                assert done.is_error is (mode == "legacy" and not success)


@requirement("M-21", "M-22", "M-24", "M-30")
async def test_codex_is_served_as_it_speaks(desk: Desk) -> None:
    """The requests of Codex 0.159: Server-sent events first, capabilities and metadata of its own."""
    accept: Header = ("accept", "text/event-stream, application/json")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {"form": {}, "url": {}}},
        "clientInfo": {"name": "codex-mcp-client", "title": "Codex", "version": "0.159.3"},
    }
    begun = await desk.ask(Form.INITIALIZE, "initialize", hello, accept)
    assert begun.result["protocolVersion"] == "2025-06-18"
    headers: list[Header] = [accept, ("mcp-protocol-version", "2025-06-18")]
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await desk.post(note, *headers)).status == 202
    assert (await desk.send("GET", b"", [SENDER, ("accept", "text/event-stream")])).status == 405
    listed = await desk.ask(Form.INITIALIZE, "tools/list", {"_meta": {"progressToken": 0}}, *headers)
    assert listed.result["tools"][0]["name"] == "work_on_project"
    meta = {
        "threadId": "t",
        "callId": "call_1",
        "progressToken": 1,
        "x-codex-turn-metadata": {"session_id": "t", "workspaces": {"cwd": {}}},
    }
    called = {"name": "list_projects", "arguments": {}, "_meta": meta}
    done = await desk.ask(Form.INITIALIZE, "tools/call", called, *headers)
    assert done.result["structuredContent"]["success"] is True


@requirement("M-22", "M-64")
async def test_session_id_is_neither_issued_nor_read(desk: Desk) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    for session_id in ("stale", "00000000-0000-0000-0000-000000000000", ""):
        header = ("mcp-session-id", session_id)
        for reply in (
            await desk.ask(Form.INITIALIZE, "initialize", hello, header),
            await desk.ask(Form.INITIALIZE, "ping", None, header, header),
            await desk.call("list_projects", {}, header, form=Form.INITIALIZE),
            await desk.call("list_projects", {}, header),
        ):
            assert reply.status == 200
            assert "mcp-session-id" not in reply.headers


@requirement("M-21", "M-28")
async def test_only_post_is_served(desk: Desk) -> None:
    for method in ("GET", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD"):
        reply = await desk.send(method, b"", [SENDER, ("accept", "text/event-stream")])
        assert (reply.status, reply.headers["allow"]) == (405, "POST")


@requirement("M-21")
async def test_answer_is_one_json_body_whatever_is_accepted(desk: Desk) -> None:
    for accept in (None, "text/event-stream", "text/html", "application/json;q=0", "*/*"):
        headers = [] if accept is None else [("accept", accept)]
        for form in Form:
            for reply in (
                await desk.ask(form, "tools/list", None, *headers),
                await desk.call("list_projects", {}, *headers, form=form),
            ):
                assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
                assert reply.body["id"] == 7


@requirement("M-24")
async def test_initialize_echoes_each_revision_of_its_era(desk: Desk) -> None:
    for asked, answered in (
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2024-11-05"),
        (REVISION, "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ):
        hello = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        assert (await desk.ask(Form.INITIALIZE, "initialize", hello)).result == {
            "protocolVersion": answered,
            "capabilities": CAPABILITIES,
            "serverInfo": SERVER_INFO,
        }


@requirement("M-27")
async def test_every_stateless_result_is_complete_and_names_the_server(desk: Desk) -> None:
    stamp = {"resultType": "complete", "_meta": IDENTITY}
    kept = {**stamp, "ttlMs": 0, "cacheScope": "private"}
    discovered = (await desk.ask(Form.STATELESS, "server/discover")).result
    assert discovered == {**kept, "supportedVersions": [REVISION], "capabilities": CAPABILITIES}
    assert (await desk.ask(Form.STATELESS, "resources/list")).result == {**kept, "resources": []}
    listed = (await desk.ask(Form.STATELESS, "tools/list")).result
    assert {key: value for key, value in listed.items() if key != "tools"} == kept
    called = (await desk.call("list_projects")).result
    assert {key: called[key] for key in stamp} == stamp
    assert set(called) == {"content", "structuredContent", "isError", *stamp}


@requirement("M-24", "M-29")
async def test_no_result_of_the_initialize_form_has_stateless_keys(desk: Desk) -> None:
    assert (await desk.ask(Form.INITIALIZE, "ping")).result == {}
    assert (await desk.ask(Form.INITIALIZE, "resources/list")).result == {"resources": []}
    assert set((await desk.ask(Form.INITIALIZE, "tools/list")).result) == {"tools"}
    called = (await desk.call("list_projects", form=Form.INITIALIZE)).result
    assert set(called) == {"content", "structuredContent", "isError"}


@requirement("M-23", "C-14")
async def test_credential_without_scopes_may_look_around(desk: Desk) -> None:
    bare = await desk.pat("ada")
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    early: list[tuple[str, dict[str, Any] | None]] = [
        ("initialize", hello),
        ("ping", None),
        ("tools/list", None),
    ]
    for method, params in [*early, ("resources/list", None)]:
        assert (await desk.ask(Form.INITIALIZE, method, params, token=bare)).status == 200
    for method in ("server/discover", "tools/list", "resources/list"):
        assert (await desk.ask(Form.STATELESS, method, token=bare)).status == 200
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await desk.post(note, token=bare)).status == 202


@requirement("C-22", "M-01", "M-05", "M-03", "M-04")
async def test_first_failure_in_the_order_of_c_22_answers(desk: Desk) -> None:
    """Each step mends the first fault of a request that has every fault, and meets the next."""
    bad = b"{"
    large: Header = ("content-length", str(limits.HTTP_BODY_BYTES + 1))
    origin: Header = ("origin", "http://evil.example")
    steps: list[tuple[str, list[Header], int]] = [
        ("GET", [origin, large], 403),
        ("GET", [large], 405),
        ("POST", [large], 415),
        ("POST", [JSON, JSON], 415),
        ("POST", [("content-type", "text/plain")], 415),
        ("POST", [("content-type", "Application/JSON ; charset=utf-8"), large], 413),
        ("POST", [JSON], 401),
        ("POST", [JSON, ("authorization", "Basic x")], 401),
        ("POST", [JSON, SENDER, SENDER], 401),
        ("POST", [JSON, ("authorization", f"Bearer wc_oat_{'0' * 64}")], 401),
        ("POST", [JSON, SENDER], 400),
    ]
    for method, headers, status in steps:
        reply = await desk.send(method, bad, headers)
        assert reply.status == status, (method, headers)
    refused = await desk.send("POST", bad, [JSON])
    assert refused.body == {"error": "Unauthorized"}
    assert refused.headers["www-authenticate"] == "Bearer"


@requirement("M-01", "C-22")
async def test_body_beyond_4_mib_is_refused_after_the_credential(desk: Desk) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 1024 * 1024

    assert (await desk.send_in_parts(endless(), JSON)).status == 401
    assert (await desk.send_in_parts(endless(), JSON, SENDER)).status == 413
    fits = b" " * (limits.HTTP_BODY_BYTES - 100) + b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    assert (await desk.post(fits)).result == {}
