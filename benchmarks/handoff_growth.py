"""Measures the brief of a Session as its history grows, at the end with everything a Session can keep."""

import asyncio
import json
import sqlite3
from typing import Final

from benchmarks import http_load, real_server

EVENTS: Final = (10, 100, 1_000, 2_000)
MESSAGES: Final = 200
REPORTS: Final = 256
READS: Final = 200
EVENTS_A_CALL: Final = 2
CLIENTS: Final = 8


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with real_server.running() as server:
        session = str(
            server.call("work_on_project", project=real_server.PROJECT, instruction="m")["session_id"]
        )
        _say(server, session)
        loads = []
        recorded = EVENTS_A_CALL * MESSAGES + 1
        grown = {events: max(0, events - recorded) for events in EVENTS}
        short = str(
            server.call("work_on_project", project=real_server.PROJECT, instruction="m")["session_id"]
        )
        for events in EVENTS[:2]:
            _work(server, short, events - EVENTS_A_CALL)
            loads.append(_read(server, short))
        done = 0
        for events in EVENTS[2:]:
            _work(server, session, grown[events] - done)
            done = grown[events]
            loads.append(_read(server, session))
    first, last = loads[0], loads[-1]
    times = last.percentile_ms(0.5) / first.percentile_ms(0.5)
    growth = ", ".join(
        f"{events:,}: {load.percentile_ms(0.5):.1f}" for events, load in zip(EVENTS, loads, strict=True)
    )
    return [
        (
            f"brief at {EVENTS[-1]:,} events, {MESSAGES} messages and {REPORTS} reports, REST",
            f"p50 {last.percentile_ms(0.5):.1f} ms, p95 {last.percentile_ms(0.95):.1f} ms",
            f"p50 in ms by events (the two long ones with messages and reports): {growth}",
            f"{times:.1f} times the shortest; target p95 <= 30 ms",
        )
    ]


def _say(server: real_server.RunningServer, session: str) -> None:
    for number in range(MESSAGES):
        server.call("post_session_message", session_id=session, kind="progress", message=f"step {number}")
    for number in range(REPORTS):
        server.call(
            "record_external_observation",
            project=real_server.PROJECT,
            session_id=session,
            adapter_id="a" * 64,
            event_id=f"{number:064x}",
            observed_tool="Bash",
        )


def _work(server: real_server.RunningServer, session: str, events: int) -> None:
    body = json.dumps({"tool": "list_session_messages", "params": {"session_id": session, "limit": 1}})
    request = http_load.post("/api/tools/call", body.encode(), server.authorization)
    calls = events // EVENTS_A_CALL
    asyncio.run(http_load.run(server.port, [[request] * max(1, calls // CLIENTS)] * CLIENTS))


def _name_paths(server: real_server.RunningServer) -> None:
    """Makes every finished call one that read a file, as most calls of real work are."""
    connection = sqlite3.connect(server.database, timeout=10)
    connection.execute(
        "UPDATE wc_session_events SET event ="
        " json_set(event, '$.observed_paths', json_array('src/part_' || sequence || '.py'))"
        " WHERE event LIKE '%tool_call_finished%'"
    )
    connection.commit()
    connection.close()


def _read(server: real_server.RunningServer, session: str) -> http_load.Load:
    _name_paths(server)
    params = {"project": real_server.PROJECT, "session_id": session}
    body = json.dumps({"tool": "get_session_handoff_state", "params": params}).encode()
    request = http_load.post("/api/tools/call", body, server.authorization)
    return asyncio.run(http_load.run(server.port, [[request] * READS]))


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
