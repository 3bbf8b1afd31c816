"""Measures ``tools/call`` in the stateless revision, against the SDK's servers answering the same storeless.

All three take turns on one core while the load runs on another; ratios are of neighbouring turns.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from benchmarks import http_load, mcp_baselines, real_server

CLIENTS: Final = 16
ROUNDS: Final = 9
CALLS: Final = 800
TARGET_LOW_LEVEL: Final = 0.5
REVISION: Final = "2026-07-28"

Turns = dict[str, list[http_load.Load]]


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    turns = measure()
    figures = []
    for kind, name, target in (
        ("low_level", "the SDK's low-level server", TARGET_LOW_LEVEL),
        ("fastmcp", "the SDK's FastMCP", 1.0),
    ):
        ratio = statistics.median(
            ours.rate / other.rate for ours, other in zip(turns["ours"], turns[kind], strict=True)
        )
        figures.append(
            (
                f"MCP tools/call, {CLIENTS} clients",
                f"{_rate(turns['ours'])}, p95 {_late_ms(turns['ours']):.1f} ms",
                f"{name}: {_rate(turns[kind])}, p95 {_late_ms(turns[kind]):.1f} ms",
                f"{ratio:.2f} of its rate; target {'>=' if target < 1 else '>'} {target:.1f}",
            )
        )
    return figures


def measure(rounds: int = ROUNDS) -> Turns:
    """Returns the loads of each server, turn by turn, after one turn that does not count."""
    turns: Turns = {"ours": [], **{kind: [] for kind in mcp_baselines.KINDS}}
    with real_server.running() as server, ExitStack() as baselines:
        output = server.call(mcp_baselines.TOOL)
        ports = {
            kind: baselines.enter_context(_baseline(kind, output, server.pid)) for kind in mcp_baselines.KINDS
        }
        ports["ours"] = server.port
        sent = request(server.authorization)
        for turn in range(-1, rounds):
            for kind, loads in turns.items():
                load = asyncio.run(http_load.run(ports[kind], [[sent] * (CALLS // CLIENTS)] * CLIENTS))
                if turn >= 0:
                    loads.append(load)
    return turns


@contextmanager
def _baseline(kind: str, output: dict[str, Any], beside: int) -> Iterator[int]:
    """Gives the port of a baseline on the core of the process ``beside``."""
    command = [sys.executable, "-m", "benchmarks.mcp_baselines", kind, json.dumps(output)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        os.sched_setaffinity(process.pid, os.sched_getaffinity(beside))
        if process.stdout is None:
            raise RuntimeError("the baseline has no output")
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(real_server.STOP_S)


def request(authorization: str, *, method: str = "tools/call", revision: str = REVISION) -> bytes:
    """Returns what the SDK's own client sends for this method in this revision, with a credential."""
    params: dict[str, Any] = {}
    if method == "tools/call":
        params = {"name": mcp_baselines.TOOL, "arguments": {}}
    headers = [f"MCP-Protocol-Version: {revision}"]
    if revision == REVISION:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "mcp", "version": "0.1.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers.append(f"MCP-Method: {method}")
        if method == "tools/call":
            headers.append(f"MCP-Name: {mcp_baselines.TOOL}")
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return http_load.post(
        "/mcp",
        body,
        "Accept-Encoding: gzip, deflate",
        "Connection: keep-alive",
        "User-Agent: python-httpx2/2.16.2",
        "Accept: application/json, text/event-stream",
        *headers,
        authorization,
    )


def _rate(loads: list[http_load.Load]) -> str:
    return f"{statistics.median(load.rate for load in loads):,.0f}/s"


def _late_ms(loads: list[http_load.Load]) -> float:
    return statistics.median(load.percentile_ms(0.95) for load in loads)


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
