"""Measures a handoff read at 256 reports, and the Server's memory over ten thousand calls."""

import asyncio
import json
from typing import Final

from benchmarks import http_load, real_server

REPORTS: Final = 256
READS: Final = 400
CALLS: Final = 10_000
CLIENTS: Final = 16


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with real_server.running() as server:
        read, other = _session(server, REPORTS), _session(server, 0)
        _load(server, other, READS // 4, clients=1)
        empty = _load(server, other, READS, clients=1)
        full = _load(server, read, READS, clients=1)
        start_kib = server.resident_kib()
        _load(server, read, CALLS // 2, clients=CLIENTS)
        half_kib = server.resident_kib()
        _load(server, read, CALLS // 2, clients=CLIENTS)
        end_kib = server.resident_kib()
    return [
        (
            f"handoff read at {REPORTS} reports, REST",
            f"p50 {full.percentile_ms(0.5):.1f} ms, p95 {full.percentile_ms(0.95):.1f} ms",
            f"at no report: p50 {empty.percentile_ms(0.5):.1f} ms, p95 {empty.percentile_ms(0.95):.1f} ms",
            f"{full.percentile_ms(0.5) / empty.percentile_ms(0.5):.1f} times p50; target p95 <= 25 ms",
        ),
        (
            f"Server's resident memory after {CALLS:,} calls",
            f"{end_kib / 1024:.1f} MiB",
            f"after {CALLS // 2:,}: {half_kib / 1024:.1f} MiB (before: {start_kib / 1024:.1f})",
            f"{end_kib / half_kib:.3f} of it; target flat",
        ),
    ]


def _session(server: real_server.RunningServer, reports: int) -> str:
    worked = server.call("work_on_project", project=real_server.PROJECT, instruction="measure")
    session = str(worked["session_id"])
    for event in range(reports):
        server.call(
            "record_external_observation",
            project=real_server.PROJECT,
            session_id=session,
            adapter_id="a" * 64,
            event_id=f"{event:064x}",
            observed_tool="Bash",
        )
    return session


def _load(server: real_server.RunningServer, session: str, calls: int, *, clients: int) -> http_load.Load:
    params = {"project": real_server.PROJECT, "session_id": session}
    body = json.dumps({"tool": "get_session_handoff_state", "params": params}).encode()
    request = http_load.post("/api/tools/call", body, server.authorization)
    return asyncio.run(http_load.run(server.port, [[request] * (calls // clients)] * clients))


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
