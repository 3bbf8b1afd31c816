"""The MCP conformance suite runs against the real endpoint, and fails exactly where the baseline says so."""

import asyncio
import json
import os
import re
import socket
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import uvicorn

from tests.hosts import conformance_profile, packages
from tests.requirements import requirement
from tests.tools import house
from webcodex.server import authentication, connections, http_guard, mcp_endpoint, settings

BASELINE: Final = Path(__file__).with_name("conformance_baseline.toml")
SUITE_S: Final = 240
STOP_S: Final = 20
OF_SERVERS: Final = re.compile(r"Server scenarios.*?:\n(?P<names>(?:  - \S+\n)+)")
RESULT: Final = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
REQUIRED: Final = {"2026-07-28": 37, "2025-11-25": 30}


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[str]:
    """Yields the URL of the endpoint, guarded as ever, with the suite's fixtures and without a credential."""
    within = house.House(folder)
    chosen = settings.load({"WEBCODEX_DATA": str(folder), "WEBCODEX_AUTH_DISABLED": "true"})
    senders = authentication.Authentication(chosen, within.database, lambda: within.now)
    endpoint = mcp_endpoint.McpEndpoint(
        within.services, chosen, senders, extension=conformance_profile.EXTENSION
    )
    guarded = http_guard.HttpGuard(endpoint, chosen)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(guarded, http=connections.HttpConnection, lifespan="off", log_config=None)
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    server.should_exit = True
    async with asyncio.timeout(STOP_S):
        await serving
    await senders.close()
    within.database.close()


async def said(folder: Path, *words: str) -> str:
    """Returns what the suite printed; its exit code says less than its results."""
    process = await asyncio.create_subprocess_exec(
        *packages.command(packages.CONFORMANCE),
        *words,
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(SUITE_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return printed.decode()


def failures(results: Path) -> dict[str, list[str]]:
    """Returns, for each scenario that left a result, what its failed checks say."""
    found = {}
    for checks in results.glob("*/checks.json"):
        named = RESULT.fullmatch(checks.parent.name)
        assert named is not None, checks.parent.name
        read = json.loads(checks.read_text(encoding="utf-8"))
        found[named["scenario"]] = [
            f"{check['id']}: {check.get('errorMessage')}" for check in read if check["status"] == "FAILURE"
        ]
    return found


@pytest.mark.parametrize("revision", REQUIRED)
@requirement("M-21", "M-23", "M-24", "M-24a", "M-25", "M-26", "M-27", "M-28", "M-03", "M-04")
async def test_every_required_scenario_passes_but_those_of_the_baseline(
    revision: str, tmp_path: Path
) -> None:
    listed = OF_SERVERS.search(await said(tmp_path, "list", "--requirements", revision))
    assert listed is not None
    required = listed["names"].split()[1::2]
    assert len(required) == REQUIRED[revision]
    baseline = tomllib.loads(BASELINE.read_text(encoding="utf-8"))[revision]
    results = tmp_path / "results"
    async with served(tmp_path) as url:
        words = ("server", "--url", url, "--requirements", revision, "--output-dir", str(results))
        printed = await said(tmp_path, *words)
    failed = failures(results)
    assert set(required) <= set(failed), f"some scenarios left no result:\n{printed}"
    unexpected = {name: failed[name] for name in required if failed[name] and name not in baseline}
    stale = [name for name in baseline if name not in required or not failed[name]]
    assert (unexpected, stale) == ({}, [])
