"""The official Python SDK's client stays open while a real Server is killed and started again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.hosts import machine, wire
from tests.requirements import requirement

ANSWER_S: Final = 30.0
MODERN: Final = "2026-07-28"
READ: Final = {"project": machine.PROJECT, "items": [{"path": machine.SOURCE}]}


@asynccontextmanager
async def connected(url: str, token: str, mode: str) -> AsyncIterator[Client]:
    """Yields the client in one era, with a session id that no Server issued."""
    headers = {"authorization": f"Bearer {token}", "mcp-session-id": "of-a-server-long-gone"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=ANSWER_S) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def read(client: Client) -> bytes:
    """Returns the bytes that a completed call gave."""
    done = await client.call_tool("read_files", READ)
    assert not done.is_error, done
    (item,) = done.structured_content["output"]["items"]
    return bytes(item["output"]["text"].encode())


@pytest.mark.parametrize(
    ("mode", "opening"),
    [
        ("legacy", ["initialize", "notifications/initialized", "tools/list"]),
        (MODERN, ["tools/list"]),
    ],
)
@requirement("M-22", "M-23", "M-24", "M-25", "M-64")
async def test_open_client_reads_on_over_a_killed_server_without_a_new_initialize(
    tmp_path: Path, mode: str, opening: list[str]
) -> None:
    with machine.running(tmp_path) as desk:
        expected = (desk.root / machine.SOURCE).read_bytes()
        line = wire.Wire(desk.server.port)
        with line.running():
            async with connected(line.url, desk.pat("project:read"), mode) as client:
                await client.list_tools()
                assert await read(client) == expected
                await asyncio.to_thread(desk.restart)
                assert await read(client) == expected
        posted = [one for one in line.exchanges if one.request.first_line.startswith("POST")]
        assert [one.asked for one in posted] == [*opening, "tools/call", "tools/call"]
        assert all("mcp-session-id" not in one.answer.headers for one in posted)
