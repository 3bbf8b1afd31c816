"""Measures ledger appends: every meaningful call adds two events, each durable before the next step."""

import asyncio
import json
from typing import Final

from benchmarks import bare_store, http_load, real_server

CLIENTS: Final = 16
EACH: Final = 150
ROUNDS: Final = 3
GROUP: Final = 16
EVENTS_A_CALL: Final = 2
TABLE: Final = "(session, sequence, event, PRIMARY KEY (session, sequence)) WITHOUT ROWID"


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    with real_server.running() as server:
        rates = [asyncio.run(http_load.run(server.port, _requests(server))).rate for _ in range(ROUNDS)]
        session = str(
            server.call("work_on_project", project=real_server.PROJECT, instruction="m")["session_id"]
        )
        server.call("list_session_messages", session_id=session)
        event = json.dumps(server.call("read_session_summary", session_id=session)["events"][2])
    best = EVENTS_A_CALL * max(rates)
    stored = [(session, sequence, event) for sequence in range(EVENTS_A_CALL * CLIENTS * EACH)]
    bare = max(bare_store.rows_a_second(TABLE, stored, group=GROUP) for _ in range(ROUNDS))
    return [
        (
            f"durable ledger appends, REST calls of {CLIENTS} clients",
            f"{best:,.0f} /s",
            f"raw SQLite, {GROUP} rows a commit: {bare:,.0f} /s",
            f"{best / bare:.2f} of it",
        )
    ]


def _requests(server: real_server.RunningServer) -> list[list[bytes]]:
    return [[_read(server)] * EACH for _ in range(CLIENTS)]


def _read(server: real_server.RunningServer) -> bytes:
    session = server.call("work_on_project", project=real_server.PROJECT, instruction="measure")["session_id"]
    body = json.dumps({"tool": "list_session_messages", "params": {"session_id": session, "limit": 1}})
    return http_load.post("/api/tools/call", body.encode(), server.authorization)


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
