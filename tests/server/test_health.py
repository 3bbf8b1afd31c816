"""Whether the process and its store answer (M-59)."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import Server
from webcodex.server import settings


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with in_process.server(tmp_path) as running:
        yield running


async def state(server: Server, path: str) -> tuple[int, object]:
    answer = await server.client.get(path)
    return answer.status_code, answer.json()


@requirement("M-59")
async def test_health_needs_no_credential_and_tells_no_detail(server: Server) -> None:
    assert await state(server, "/healthz") == (200, {"status": "ok"})
    assert await state(server, "/readyz") == (200, {"status": "ready"})
    assert await state(server, "/metrics") == (404, {"status": 404, "error": "Not found"})
    several = await asyncio.gather(*(state(server, "/readyz") for _ in range(20)))
    assert several == [(200, {"status": "ready"})] * 20


@requirement("M-59")
async def test_a_store_that_is_gone_is_unavailable_and_the_process_alive(server: Server) -> None:
    server.database.close()
    assert await state(server, "/readyz") == (503, {"status": "unavailable"})
    assert await state(server, "/healthz") == (200, {"status": "ok"})


@requirement("M-59")
async def test_a_store_that_hangs_is_unavailable_after_two_seconds_and_ready_again(
    server: Server, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "data" / settings.DATABASE_FILE)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert await state(server, "/readyz") == (503, {"status": "unavailable"})
        assert await state(server, "/healthz") == (200, {"status": "ok"})
        other.rollback()
    await server.database.write(lambda _tx: None)
    assert await state(server, "/readyz") == (200, {"status": "ready"})
