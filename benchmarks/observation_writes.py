"""Measures durable observation writes through REST, against the bare group commit of the same rows."""

import asyncio
import json
from typing import Final

from benchmarks import bare_store, http_load, real_server

CLIENTS: Final = 16
EACH: Final = 250
ROUNDS: Final = 3
GROUP: Final = 16
TABLE: Final = (
    "(session, adapter, event, project, tool, exit_code, recorded_at,"
    " PRIMARY KEY (session, adapter, event)) WITHOUT ROWID"
)


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with real_server.running() as server:
        rates = [asyncio.run(http_load.run(server.port, _requests(server))).rate for _ in range(ROUNDS)]
    best, bare = max(rates), max(_bare_group_commits() for _ in range(ROUNDS))
    return [
        (
            f"durable report writes, REST, {CLIENTS} clients",
            f"{best:,.0f} /s",
            f"raw SQLite, {GROUP} rows a commit: {bare:,.0f} /s",
            f"{best / bare:.2f} of it; target 1,000 /s",
        )
    ]


def _requests(server: real_server.RunningServer) -> list[list[bytes]]:
    return [_session_of_reports(server) for _ in range(CLIENTS)]


def _session_of_reports(server: real_server.RunningServer) -> list[bytes]:
    session = server.call("work_on_project", project=real_server.PROJECT, instruction="measure")["session_id"]
    return [
        http_load.post("/api/tools/call", _report(session, event), server.authorization)
        for event in range(EACH)
    ]


def _report(session: str, event: int) -> bytes:
    params = {
        "project": real_server.PROJECT,
        "session_id": session,
        "adapter_id": "a" * 64,
        "event_id": f"{event:064x}",
        "observed_tool": "Bash",
        "exit_code": None,
    }
    return json.dumps({"tool": "record_external_observation", "params": params}).encode()


def _bare_group_commits() -> float:
    session, adapter = "wc_sess_0123456789abcdef", "a" * 64
    reports = [
        (session, adapter, f"{event:064x}", real_server.PROJECT, "Bash", None, 1)
        for event in range(CLIENTS * EACH)
    ]
    return bare_store.rows_a_second(TABLE, reports, group=GROUP)


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
