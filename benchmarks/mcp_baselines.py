"""Serves one tool with the MCP SDK as it comes: its low-level server, or its FastMCP; prints its port.

``python -m benchmarks.mcp_baselines low_level|fastmcp OUTPUT``: OUTPUT is the JSON that the tool answers.
Both have what the Server's process has besides: uvloop, httptools, no log of calls, the same garbage
collection. They check neither host nor credential.
"""

import asyncio
import gc
import json
import socket
import sys
from collections.abc import Callable
from typing import Any

import mcp_types
import uvicorn
import uvloop
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp

TOOL = "list_projects"
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def low_level(output: dict[str, Any]) -> ASGIApp:
    """Returns the low-level server, whose handlers form their results themselves."""

    async def list_tools(_context: Any, _params: Any) -> mcp_types.ListToolsResult:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name=TOOL, input_schema=schema)])

    async def call_tool(_context: Any, _params: Any) -> mcp_types.CallToolResult:
        answer = {"success": True, "output": output, "error": None}
        text = mcp_types.TextContent(type="text", text=json.dumps(answer, separators=(",", ":")))
        return mcp_types.CallToolResult(content=[text], structured_content=answer, is_error=False)

    server: Server[Any] = Server("baseline", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    return server.streamable_http_app(json_response=True, stateless_http=True, transport_security=OPEN)


def fastmcp(output: dict[str, Any]) -> ASGIApp:
    """Returns the server that forms tools and results from a function."""
    server = MCPServer("baseline", log_level="WARNING")

    @server.tool(name=TOOL)
    async def list_projects() -> dict[str, Any]:
        """List the Projects visible to this credential."""
        return {"success": True, "output": output, "error": None}

    return server.streamable_http_app(json_response=True, stateless_http=True, transport_security=OPEN)


KINDS: dict[str, Callable[[dict[str, Any]], ASGIApp]] = {"low_level": low_level, "fastmcp": fastmcp}


class _Announcing(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        print((sockets or [])[0].getsockname()[1], flush=True)


async def _serve(application: ASGIApp) -> None:
    config = uvicorn.Config(
        application,
        http="httptools",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    await _Announcing(config).serve(sockets=[socket.create_server(("127.0.0.1", 0), backlog=1024)])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(KINDS[sys.argv[1]](json.loads(sys.argv[2]))))
