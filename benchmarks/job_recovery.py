"""Measures how long a Server takes in what a Runner's Jobs did while it was away, against bare SQLite."""

import asyncio
import itertools
import json
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from websockets.asyncio import client

from benchmarks import bare_store, real_server

EVENTS: Final = 1000
ACTIVE: Final = 64
IN_FLIGHT: Final = 64
TAIL: Final = "a line of output\n" * 16
ROUNDS: Final = 3
TABLE: Final = "(job, revision, state, tail, PRIMARY KEY (job, revision))"

Frame = dict[str, Any]


def rows() -> list[tuple[str, str, str, str]]:
    """Returns the figures: name, measured, baseline, ratio and target."""
    best = min(_recovery_s() for _ in range(ROUNDS))
    stored = [(f"wc_job_{number:016d}", number, "running", TAIL) for number in range(EVENTS)]
    bare = EVENTS / max(bare_store.rows_a_second(TABLE, stored, group=IN_FLIGHT) for _ in range(ROUNDS))
    return [
        (
            f"{EVENTS:,} unacknowledged snapshots of {ACTIVE} Jobs, from the hello to the last ack",
            f"{best * 1000:,.0f} ms",
            f"raw SQLite, {IN_FLIGHT} rows a commit: {bare * 1000:,.0f} ms",
            f"{best / bare:.1f} times; target 2,000 ms",
        )
    ]


def _recovery_s() -> float:
    with real_server.running() as server:
        _hold_jobs(server.database)
        return asyncio.run(_recover(server))


async def _recover(server: real_server.RunningServer) -> float:
    url = f"ws://127.0.0.1:{server.port}/api/agents/ws"
    headers = {"Authorization": f"Bearer {server.token}"}
    events = _events()
    async with client.connect(url, additional_headers=headers, proxy=None, compression=None) as link:
        began = time.perf_counter()
        await link.send(json.dumps(_hello()))
        if len(json.loads(await link.recv())["resume"]) != ACTIVE:
            raise RuntimeError("the Server does not know the Jobs")
        await _deliver(link, events)
        return time.perf_counter() - began


async def _deliver(link: client.ClientConnection, events: Sequence[Frame]) -> None:
    """Sends every event with at most ``IN_FLIGHT`` unacknowledged, and returns after the last ack."""
    coming, waiting = iter(events), set[tuple[str, int]]()
    while True:
        for event in itertools.islice(coming, IN_FLIGHT - len(waiting)):
            waiting.add((event["id"], event["snapshot"]["update_seq"]))
            await link.send(json.dumps(event))
        if not waiting:
            return
        ack = json.loads(await link.recv())
        covered = range(ack["through_revision"] + 1)
        waiting = {
            (job, revision) for job, revision in waiting if job != ack["id"] or revision not in covered
        }


def _events() -> list[Frame]:
    beside = {"type": "event", "stream": "job", "sequence": None, "first_retained_sequence": None}
    return [
        {**beside, "body": None, "id": record["job_id"], "snapshot": record}
        for record in (_record(number % ACTIVE, 2 + number // ACTIVE, TAIL) for number in range(EVENTS))
    ]


def _record(number: int, update_seq: int, tail: str = "") -> Frame:
    return {
        "job_id": f"wc_job_{number:016d}",
        "project": real_server.PROJECT,
        "purpose": "work",
        "state": "running",
        "exit_code": None,
        "signal": None,
        "created_at": 1,
        "started_at": 1,
        "finished_at": None,
        "timeout_secs": 3600,
        "update_seq": update_seq,
        "reason_code": None,
        "log": {"tail": tail, "first_retained_line": 1, "next_line": 17, "truncated": False},
    }


def _hello() -> Frame:
    return {
        "type": "hello",
        "protocol": 2,
        "client_id": "bench",
        "runner_instance_id": "i1",
        "store_id": "s1",
        "process_started_at": 1,
        "build": {"version": "1"},
        "host_context": {},
        "policy": {},
        "capabilities": {"jobs": True},
        "projects": [{"id": "demo", "path": "/srv/demo", "allow_patch": True, "disabled": False}],
        "job_concurrency_limit": ACTIVE,
        "job_inventory": {"active_complete": True, "jobs": [_record(job, 17) for job in range(ACTIVE)]},
        "coding_agent_providers": [],
        "coding_agent_inventory": {"complete": True, "runs": []},
    }


def _hold_jobs(database: Path) -> None:
    """Leaves the Jobs as a Server's restart does: recovering."""
    now = int(time.time())
    known = [(f"wc_job_{number:016d}", real_server.PROJECT, now, now + 120) for number in range(ACTIVE)]
    with closing(sqlite3.connect(database)) as connection:
        connection.executemany(
            "INSERT INTO wc_jobs (job_id, client_id, project, purpose, state, created_at, timeout_secs,"
            " update_seq, recovered_after_server_restart, recover_until, request_hash, call_id, instance_id,"
            " store_id, is_observed, log_tail, log_first_line, log_next_line, log_truncated)"
            " VALUES (?, 'bench', ?, 'work', 'recovering', ?, 3600, 1, 1, ?, 'h', 'c', 'i1', 's1', 0, '',"
            " 1, 1, 0)",
            known,
        )
        connection.commit()


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
