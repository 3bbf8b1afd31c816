"""Proves over real WebSockets what becomes of Jobs whose Runner reports, leaves, returns or is replaced."""

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server.station import BOOTSTRAP, DEMO, Frame, Station, token_of
from tests.tools.job_runner import HANDS_OVER, PATIENCE_S, record
from webcodex.core import access
from webcodex.core.handoff_facts import JobPurpose
from webcodex.core.jobs import Job, State
from webcodex.server import job_sweep, settings
from webcodex.storage import jobs as stored_jobs
from webcodex.tools import ports, registry
from webcodex.tools.contract import Audience, Call

JOB = "wc_job_0123456789abcdef"
EVERYONE = access.everyone(access.Credential.BOOTSTRAP)


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    made = await Station(tmp_path, {"WEBCODEX_TOKEN": BOOTSTRAP}).start()
    await made.add_user("ada", "r1")
    await made.add_user("eve", "r2")
    yield made
    await made.stop()


def event(job_id: str, state: str, update_seq: int, **changed: Any) -> Frame:
    return {
        "type": "event",
        "stream": "job",
        "id": job_id,
        "sequence": None,
        "first_retained_sequence": None,
        "body": None,
        "snapshot": record(job_id, state, update_seq, **changed),
    }


def ack(job_id: str, revision: int) -> Frame:
    return {
        "type": "ack",
        "stream": "job",
        "id": job_id,
        "through_sequence": 0,
        "through_revision": revision,
    }


def held(*records: Frame, is_complete: bool = True) -> Frame:
    return {"active_complete": is_complete, "jobs": list(records)}


async def hold(station: Station, job_id: str = JOB, **changed: Any) -> str:
    """Stores a running Job of r1's first process."""
    fields: dict[str, Any] = {
        "job_id": job_id,
        "client_id": "r1",
        "project": "agent:r1:demo",
        "purpose": JobPurpose.WORK,
        "state": State.RUNNING,
        "created_at": station.now,
        "timeout_secs": 60,
        "request_hash": "h",
        "call_id": "wc_call_x",
        "instance_id": "i1",
        "store_id": "s1",
        "update_seq": 1,
    }
    await station.database.write(lambda tx: stored_jobs.add(tx, Job(**{**fields, **changed})))
    return job_id


async def stored(station: Station, job_id: str = JOB) -> Job:
    found = await station.database.read(lambda tx: stored_jobs.find(tx, job_id))
    assert found is not None
    return found


async def told(station: Station, state: State, job_id: str = JOB) -> Job:
    """Returns the Job once it is in that state."""
    async with asyncio.timeout(PATIENCE_S):
        while (job := await stored(station, job_id)).state is not state:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
    return job


def run(station: Station, **arguments: Any) -> asyncio.Task[Any]:
    call = Call(
        caller=EVERYONE,
        audience=Audience.MODEL,
        name="run_process",
        arguments={"project": "agent:r1:demo", "argv": ["true"], **arguments},
        waits=HANDS_OVER,
    )
    return asyncio.create_task(registry.invoke(station.services, call))


@requirement("R-46", "R-47", "R-61")
async def test_a_snapshot_is_acknowledged_once_it_is_on_the_disk(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        await hold(station)
        await peer.send(event(JOB, "running", 2, tail="a\n"))
        assert await peer.next() == ack(JOB, 2)
        await peer.send(event(JOB, "timeout", 7, tail="b\n", signal="SIGKILL"))
        assert await peer.next() == ack(JOB, 7)
        with contextlib.closing(sqlite3.connect(station.path)) as other:
            row = other.execute("SELECT state, update_seq, log_tail FROM wc_jobs").fetchone()
        assert row == ("timed_out", 7, "b\n")
        for late in (event(JOB, "running", 6), event(JOB, "timed_out", 7), event(JOB, "completed", 8)):
            await peer.send(late)
            assert await peer.next() == ack(JOB, late["snapshot"]["update_seq"])
        assert (await stored(station)).state is State.TIMED_OUT
        await peer.send(event("wc_job_unknown", "running", 3))
        assert await peer.next() == ack("wc_job_unknown", 3)


@requirement("R-47", "R-48")
async def test_what_is_not_stored_is_not_acknowledged_and_arrives_once_the_store_is_well(
    station: Station,
) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        await hold(station)
        with contextlib.closing(sqlite3.connect(station.path)) as other:
            other.execute(
                "CREATE TRIGGER no_more BEFORE UPDATE ON wc_jobs BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        await peer.send(event(JOB, "completed", 2))
        assert await peer.close_code() == 1013
        assert (await stored(station)).state is State.RUNNING
    with contextlib.closing(sqlite3.connect(station.path)) as other:
        other.execute("DROP TRIGGER no_more")
    async with station.peer(token_of("r1")) as peer:
        resumed = (await peer.say_hello(job_inventory=held(record(JOB, "completed", 2))))["resume"]
        assert [stream["through_revision"] for stream in resumed] == [1]
        await peer.send(event(JOB, "completed", 2))
        assert await peer.next() == ack(JOB, 2)
        assert (await stored(station)).state is State.COMPLETED


@requirement("R-47", "R-46")
async def test_snapshots_that_wait_together_are_each_covered(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        ids = [await hold(station, f"wc_job_{number}") for number in range(8)]
        for update_seq in range(2, 18):
            for job_id in ids:
                await peer.send(event(job_id, "running", update_seq))
        await peer.send({"type": "ping", "ts": 1})
        covered: dict[str, int] = {}
        while (frame := await peer.next())["type"] == "ack":
            covered[frame["id"]] = frame["through_revision"]
        assert frame["type"] == "pong"
        assert covered == dict.fromkeys(ids, 17)
        assert {(await stored(station, job_id)).update_seq for job_id in ids} == {17}


MALFORMED: list[dict[str, Any]] = [
    {"state": "queued"},
    {"state": "recovering"},
    {"state": "completed", "exit_code": 1},
    {"state": "failed", "exit_code": 0},
    {"update_seq": "2"},
    {"update_seq": -1},
    {"exit_code": True},
    {"state": "failed", "exit_code": 2**31},
    {"log": None},
    {"log": {"tail": "x" * 65_537, "first_retained_line": 1, "next_line": 1, "truncated": False}},
    {"log": {"tail": "", "first_retained_line": 0, "next_line": 1, "truncated": False}},
    {"job_id": "wc_job_another"},
    {"job_id": "job"},
]


@requirement("R-30", "R-46", "R-61")
async def test_a_malformed_snapshot_ends_the_connection_and_stores_nothing(station: Station) -> None:
    for number, changed in enumerate(MALFORMED):
        async with station.peer(token_of("r1")) as peer:
            await peer.say_hello()
            job_id = await hold(station, f"wc_job_{number}")
            frame = event(job_id, "running", 2)
            await peer.send({**frame, "snapshot": {**frame["snapshot"], **changed}})
            assert await peer.close_code() == 1002, changed
        assert (await told(station, State.RECOVERING, job_id)).update_seq == 1


@requirement("R-64", "R-42")
async def test_nobody_but_its_own_runner_moves_a_job(station: Station) -> None:
    await hold(station)
    async with station.peer(token_of("r2")) as other:
        await other.say_hello(client_id="r2", job_inventory=held(record(JOB, "completed", 9)))
        await other.send(event(JOB, "completed", 9))
        assert await other.next() == ack(JOB, 9)
    assert (await stored(station)).state is State.RUNNING
    async with station.peer(token_of("r1")) as later:
        await later.say_hello(instance="i2", store="s1", job_inventory=held(record(JOB, "completed", 2)))
        two = await hold(station, "wc_job_two")
        await later.send(event(two, "running", 5))
        assert await later.next() == ack(two, 5)
        assert (await stored(station, two)).update_seq == 1
        await later.send(event(two, "lost", 6))
        assert await later.next() == ack(two, 6)
        assert (await stored(station, two)).state is State.LOST


VERDICTS: list[tuple[str, str, Frame, tuple[str, str | None]]] = [
    ("i1", "s1", held(record(JOB, "running", 4)), ("running", None)),
    ("i1", "s1", held(record(JOB, "failed", 4, exit_code=3)), ("failed", None)),
    ("i1", "s1", held(), ("lost", "runner_inventory_missing")),
    ("i1", "s1", held(is_complete=False), ("recovering", None)),
    ("i2", "s1", held(record(JOB, "completed", 4)), ("completed", None)),
    ("i2", "s1", held(record(JOB, "running", 4)), ("lost", "runner_instance_replaced")),
    ("i2", "s2", held(record(JOB, "completed", 4)), ("lost", "runner_instance_replaced")),
]


@requirement("R-48", "R-64", "R-34")
@pytest.mark.parametrize(("instance", "store", "inventory", "expected"), VERDICTS)
async def test_a_hello_rules_on_every_job_it_should_know(
    station: Station, instance: str, store: str, inventory: Frame, expected: tuple[str, str | None]
) -> None:
    async with station.peer(token_of("r1")) as first:
        await first.say_hello()
        await hold(station)
        await first.send({"type": "goodbye", "reason": "restart"})
    waiting = await told(station, State.RECOVERING)
    assert waiting.recover_until == station.now + 120
    async with station.peer(token_of("r1")) as second:
        answer = await second.say_hello(instance=instance, store=store, job_inventory=inventory)
        ruled = await stored(station)
        assert (ruled.state.value, ruled.reason_code) == expected
        cursor = {"stream": "job", "id": JOB, "through_sequence": 0, "through_revision": 1}
        assert answer["resume"] == ([cursor] if inventory["jobs"] else [])
        if instance == "i1" and inventory["jobs"]:
            await second.send(event(JOB, inventory["jobs"][0]["state"], 4, tail="whole\n", exit_code=3))
            assert await second.next() == ack(JOB, 4)
            assert (await stored(station)).log.tail == "whole\n"


BAD_INVENTORIES: list[Frame] = [
    held(record(JOB), record(JOB)),
    held({**record(JOB), "state": "dreaming"}),
    held(*(record(f"wc_job_{number}") for number in range(65))),
    held(*(record(f"wc_job_{number}", tail="x" * 32_768) for number in range(33))),
]


@requirement("R-32", "R-64")
async def test_an_unsound_inventory_registers_nobody(station: Station) -> None:
    await hold(station)
    for inventory in BAD_INVENTORIES:
        async with station.peer(token_of("r1")) as peer:
            answer = await peer.say_hello(job_inventory=inventory)
            assert (answer["code"], answer["reason"]) == ("register_failed", "inventory_invalid")
    assert (await stored(station)).state is State.RUNNING


@requirement("R-48", "R-64", "R-61")
async def test_a_server_restart_loses_no_end(station: Station) -> None:
    async with station.peer(token_of("r1")) as first:
        await first.say_hello()
        await hold(station)
    await told(station, State.RECOVERING)
    await station.restart()
    await job_sweep.at_start(station.services)
    station.now += 119
    await job_sweep.sweep(station.services)
    async with station.peer(token_of("r1")) as second:
        await second.say_hello(job_inventory=held(record(JOB, "completed", 9)))
        await second.send(event(JOB, "completed", 9, tail="done\n"))
        assert await second.next() == ack(JOB, 9)
    ended = await stored(station)
    assert (ended.state, ended.exit_code, ended.log.tail) == (State.COMPLETED, 0, "done\n")
    assert (ended.recovered_after_server_restart, ended.recovery_reason_code) == (
        True,
        "server_restart_reconciliation",
    )


@requirement("R-64")
async def test_a_clock_that_jumps_loses_no_job_of_a_runner_that_is_connected(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        await hold(station)
        station.now += 24 * 3600
        await job_sweep.sweep(station.services)
        assert (await stored(station)).state is State.RUNNING
        station.now -= 48 * 3600
    waiting = await told(station, State.RECOVERING)
    assert waiting.recover_until == station.now + 120


@requirement("R-34", "R-45", "R-64")
async def test_an_older_connection_has_no_say_once_another_took_over(station: Station) -> None:
    async with station.peer(token_of("r1")) as first:
        await first.say_hello()
        await hold(station)
        async with station.peer(token_of("r1")) as second:
            await second.say_hello(job_inventory=held(record(JOB, "running", 1)))
            await first.close_code()
            await second.send(event(JOB, "running", 2))
            assert await second.next() == ack(JOB, 2)
            assert (await stored(station)).state is State.RUNNING


@requirement("R-41", "R-64")
async def test_a_start_goes_over_its_own_connection_or_none(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        asked = station.gateway.call(
            DEMO, "start_process_job", {}, budget_s=5, requested_by="x", connection_id="conn_before"
        )
        with pytest.raises(ports.RunnerUnavailable):
            await asked
        await peer.ping()


@requirement("R-60", "R-61", "R-63", "R-45")
async def test_a_process_is_followed_over_a_lost_connection(station: Station) -> None:
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello()
        calling = run(station, idempotency_key="k")
        request = await peer.next()
        assert request["kind"] == "start_process_job"
        job_id = request["body"]["job_id"]
        assert (await stored(station, job_id)).state is State.QUEUED
        peer.connection.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            answer = await calling
        assert (answer["output"]["error_kind"], answer["output"]["job_id"]) == (
            "job_start_outcome_unknown",
            job_id,
        )
    async with station.peer(token_of("r1")) as peer:
        await peer.say_hello(job_inventory=held(record(job_id, "running", 1)))
        calling = run(station, idempotency_key="k")
        request = await peer.next()
        assert request["kind"] == "job_snapshot"
        await peer.answer(request, {"job": record(job_id), "stdout_tail": "out", "stderr_tail": None})
        async with asyncio.timeout(PATIENCE_S):
            output = (await calling)["output"]
        assert (output["replayed"], output["job"]["state"], output["stdout_tail"]) == (True, "running", "out")


@requirement("R-64")
def test_the_grace_is_the_operators_within_its_bounds() -> None:
    def load(value: str) -> int:
        named = {"WEBCODEX_TOKEN": "x", "WEBCODEX_JOB_RECOVERY_GRACE_SECS": value}
        return settings.load(named).job_grace_s

    assert [load(value) for value in ("", "5", "3600")] == [120, 5, 3600]
    for value in ("4", "3601", "0", "-5", "5.5", "x"):
        with pytest.raises(settings.BadSetting, match="WEBCODEX_JOB_RECOVERY_GRACE_SECS"):
            load(value)
