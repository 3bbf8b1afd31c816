"""Proves that two Servers over one PostgreSQL agree, while both write and when one of them is killed."""

import asyncio
import concurrent.futures
import http.client
import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from websockets.sync.client import ClientConnection, connect

from tests.requirements import requirement
from tests.server import server_process
from tests.server.server_process import TOKEN, ServerProcess
from tests.server.station import hello
from tests.storage.postgres_server import Cluster
from tests.tools import evidence_desk
from tests.tools.house import BOOTSTRAP, DEMO, House, report
from tests.tools.job_runner import Jobs
from webcodex.core.jobs import State
from webcodex.core.json_value import JsonObject
from webcodex.server import job_sweep
from webcodex.storage import changes
from webcodex.storage import jobs as stored_jobs
from webcodex.storage.postgres import PostgresDatabase
from webcodex.tools import unfinished

RECORD: Final = "record_external_observation"
LIST: Final = "list_external_observations"
WAIT_S: Final = 30
DYING_SERVER: Final = """#!{python}
import os, signal, sys
from pathlib import Path
from webcodex.server import main
from webcodex.storage import postgres_seat

armed = Path({armed!r})
commit = postgres_seat._commit

def die_at(job, driver):
    step = armed.read_text() if armed.exists() else ""
    reports = driver.execute("SELECT count(*) FROM wc_external_observations").fetchone()[0] if step else 0
    is_it = reports > int(step.partition(" ")[2] or 0)
    if is_it and step.startswith("before"):
        os.kill(os.getpid(), signal.SIGKILL)
    commit(job, driver)
    if is_it:
        os.kill(os.getpid(), signal.SIGKILL)

postgres_seat._commit = die_at
sys.exit(main.main())
"""


@pytest.fixture
async def houses(postgres: Cluster, tmp_path: Path) -> AsyncIterator[tuple[House, House]]:
    """Two Servers' stores and tools, whose ids differ as two machines' entropy does."""
    with postgres.emptied() as url:
        first = await House(tmp_path, lambda: PostgresDatabase(url)).furnish()
        second = House(tmp_path, lambda: PostgresDatabase(url), first_id=2**64)
        yield first, second
        first.database.close()
        second.database.close()


@requirement("O-10", "O-14", "O-15", "O-27")
async def test_two_servers_fill_a_session_to_its_capacity_and_no_further(houses: tuple[House, House]) -> None:
    session = await houses[0].session()
    asked = [houses[event % 2].call(RECORD, **report(session, event)) for event in range(280)]
    answers = await asyncio.gather(*asked)
    outcomes = [answer["output"] for answer in answers if isinstance(answer["output"], dict)]
    assert sum(output.get("inserted") is True for output in outcomes) == 256
    full = [output for output in outcomes if output.get("error_kind") == "external_observation_capacity"]
    assert len(full) == 280 - 256
    for house in houses:
        listed = await house.output(LIST, project=DEMO, session_id=session)
        assert len(listed["observations"]) == 256


@requirement("O-11", "O-12", "O-15", "S-64", "S-73", "S-02", "S-15", "C-16")
async def test_two_servers_agree_on_every_first_time(houses: tuple[House, House]) -> None:
    started = await asyncio.gather(
        *(house.output("start_session", project=DEMO, title="x") for house in houses for _ in range(16)),
        *(house.output("list_projects") for house in houses for _ in range(4)),
    )
    assert sorted(int(answer["session_ref"][2:]) for answer in started[:32]) == list(range(1, 33))
    assert (
        len({json.dumps([row["project_ref"] for row in answer["projects"]]) for answer in started[32:]}) == 1
    )
    session = started[0]["session_id"]
    reports = await asyncio.gather(
        *(house.call(RECORD, **report(session, exit_code=code)) for house in houses for code in range(16))
    )
    kept = [answer["output"] for answer in reports if answer["success"] is True]
    assert [output["inserted"] for output in kept if isinstance(output, dict)].count(True) == 1
    assert len(kept) == len(houses)
    posted = await asyncio.gather(
        *(
            house.output(
                "post_session_message", session_id=session, kind="note", message="once", delivery_key="k"
            )
            for house in houses
            for _ in range(16)
        )
    )
    assert [answer["replayed"] for answer in posted].count(False) == 1
    assert len({answer["message_id"] for answer in posted}) == 1
    await asyncio.gather(
        *(
            house.output("list_sessions", project=DEMO, recorder=session)
            for house in houses
            for _ in range(16)
        )
    )
    summary = await houses[1].output("read_session_summary", session_id=session, limit=200)
    assert [event["sequence"] for event in summary["events"]][:-1] == list(range(1, summary["events_total"]))


async def _start(house: House) -> int:
    """Does what a Server does when it starts; returns how many changes it counted."""
    counted = await house.database.write(lambda tx: unfinished.settle(tx, house.services))
    await job_sweep.at_start(house.services)
    return counted


@requirement("S-42", "S-40", "R-64")
async def test_a_start_takes_nothing_from_a_server_that_serves(
    houses: tuple[House, House],
) -> None:
    first, second = houses
    session = await first.session()
    jobs = Jobs(first)
    job_id = await jobs.running()
    was_asked, may_end = asyncio.Event(), asyncio.Event()

    async def slow(body: Mapping[str, Any]) -> JsonObject:
        was_asked.set()
        await may_end.wait()
        return await evidence_desk.applied(body)

    first.runner.answers["edit_project_files"] = slow
    edit = {"project": DEMO, "edits": evidence_desk.edits("a.py")}
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as calls:
        calls.create_task(first.output("edit_project_files", **edit))
        await was_asked.wait()
        assert await _start(second) == 1
        await evidence_desk.validate(second, session)
        assert await evidence_desk.status(second, session) == "passed"
        may_end.set()
    assert await evidence_desk.status(second, session) == "stale"
    shown = (await jobs.observed(job_id))["job"]
    assert (shown["state"], shown["recovered_after_server_restart"]) == ("running", False)
    jobs.may_take.clear()
    jobs.was_asked.clear()
    jobs.first_report = {"state": "failed", "exit_code": 1, "update_seq": 3}
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as calls:
        calls.create_task(jobs.call(session_id=session, purpose="validation"))
        await jobs.was_asked.wait()
        assert await _start(second) == 0
        jobs.may_take.set()
    assert await evidence_desk.status(second, session) == "failed"


@requirement("S-42", "R-64")
async def test_a_start_settles_what_another_server_left_once_that_is_gone(
    houses: tuple[House, House],
) -> None:
    first, second = houses
    job_id = await Jobs(first).running()
    await first.database.write(lambda tx: changes.begin(tx, call_id="wc_call_cut_off", project=DEMO, at=1))
    assert [await _start(second) for _ in range(2)] == [1, 1]
    first.database.close()
    assert [await _start(second) for _ in range(2)] == [1, 0]
    job = await second.database.read(lambda tx: stored_jobs.find(tx, job_id))
    assert job is not None
    assert (job.state, job.recovered_after_server_restart) == (State.RECOVERING, True)


@dataclass
class Pair:
    """Two Server processes over one database; whichever is asked dies where ``armed`` says."""

    first: ServerProcess
    second: ServerProcess
    armed: Path
    url: str


@contextmanager
def _pair(postgres: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    armed, program = folder / "armed", folder / "dying-server"
    program.write_text(DYING_SERVER.format(python=sys.executable, armed=str(armed)))
    program.chmod(0o700)
    monkeypatch.setattr(server_process, "PROGRAM", program)
    with postgres.fresh() as url:
        made = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            made.append(ServerProcess(folder / name, environment={"WEBCODEX_DATABASE_URL": url}))
        try:
            with concurrent.futures.ThreadPoolExecutor(2) as starting:
                list(starting.map(ServerProcess.start, made))
            yield Pair(first=made[0], second=made[1], armed=armed, url=url)
        finally:
            for server in made:
                server.kill()


@contextmanager
def _runner(server: ServerProcess, **said: Any) -> Iterator[tuple[ClientConnection, dict[str, Any]]]:
    url = server.url.replace("http://", "ws://") + "/api/agents/ws"
    with connect(url, additional_headers={"Authorization": f"Bearer {TOKEN}"}, max_size=None) as runner:
        runner.send(json.dumps(hello(**said)))
        yield runner, json.loads(runner.recv(WAIT_S))


def _output(server: ServerProcess, tool: str, **arguments: Any) -> dict[str, Any]:
    status, answer = server.call(tool, arguments)
    assert status == 200, answer
    output: dict[str, Any] = answer["output"]
    return output


@requirement("O-09", "O-11", "O-16", "O-29", "R-34", "S-15")
def test_two_server_processes_agree_and_one_replays_what_the_other_died_over(
    postgres: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _pair(postgres, tmp_path, monkeypatch) as pair:
        with _runner(pair.first) as (_, admitted):
            assert admitted["success"] is True
            with _runner(pair.second, instance="i2", store="s2") as (_, refused):
                assert refused["code"] == "register_failed"
            _, away = pair.second.call("read_files", {"project": DEMO, "items": [{"path": "a.py"}]})
            assert away["output"]["error_kind"] == "runner_unavailable"
            connected = [
                _output(server, "list_projects")["projects"][0]["connected"]
                for server in (pair.first, pair.second)
            ]
            assert connected == [True, False]
        session = _output(pair.second, "start_session", project=DEMO, title="x")["session_id"]
        _dies(pair.first, pair.armed, "before 0", report(session, 0))
        assert [_output(pair.second, RECORD, **report(session, 0))["inserted"] for _ in range(2)] == [
            True,
            False,
        ]
        _dies(pair.second, pair.armed, "after 1", report(session, 1))
        asyncio.run(_replayed(House(tmp_path, lambda: PostgresDatabase(pair.url)), session))
        for secret in (tmp_path.name, str(postgres.folder)):
            assert secret not in pair.first.log() + pair.second.log()


def _dies(server: ServerProcess, armed: Path, step: str, reported: dict[str, Any]) -> None:
    armed.write_text(step)
    with pytest.raises((OSError, http.client.HTTPException)):
        server.call(RECORD, reported)
    armed.unlink()
    server.kill()
    assert server.exit_code == -9


async def _replayed(house: House, session: str) -> None:
    """Sees, as a third Server does, the report whose answer died with the second."""
    assert (await house.output(RECORD, by=BOOTSTRAP, **report(session, 1)))["inserted"] is False
    listed = await house.output(LIST, by=BOOTSTRAP, project=DEMO, session_id=session)
    assert sorted(int(row["event_id"], 16) for row in listed["observations"]) == [0, 1]
    house.database.close()
