"""Whatever is killed, no Job runs twice, none is left behind, and none is called what it is not."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import job_server, peer
from tests.runner.job_server import gone, is_alive, job_id, known, read_pids, start_body
from tests.runner.place import Place
from tests.runner.test_supervisor import NAMES, NASTY, supervising
from webcodex.runner import left_processes, supervisor

PYTHON = sys.executable
STAYING = NASTY + "\nopen('count', 'a').write('x'); told('ready'); time.sleep(60)"

PLAIN = NASTY.partition("if os.fork()")[0] + "if os.fork() == 0: os.setsid(); told('other')\ntime.sleep(60)"


@pytest.fixture(autouse=True)
def folder(place: Place) -> Path:
    return place.add_project("demo")


def damage(place: Place, number: int) -> None:
    """Spoils what is on the disk of one Job, in a form that still is JSON."""
    for path in (place.state_dir / "runner-jobs-v1").iterdir():
        entry = json.loads(path.read_text())
        if entry["job"]["job_id"] == job_id(number):
            path.write_text(json.dumps({**entry, "job": {}}))


async def run_and_kill(
    server: peer.Peer, config: Path, folder: Path, *bodies: dict[str, Any]
) -> tuple[job_server.JobServer, list[job_server.Known]]:
    """Kills a Runner while its first Job runs and the others are over; returns what it told, and the tree."""
    async with peer.running(config) as runner, job_server.registered(server) as jobs:
        for body in bodies:
            await jobs.ask("start_process_job", body)
        tree = await read_pids(folder, *NAMES, "ready")
        for number in range(2, len(bodies) + 1):
            await jobs.ended(number)
        tree += job_server.supervisors_of(runner.process.pid)
        runner.process.kill()
        await runner.process.wait()
    return jobs, tree


@requirement("R-57", "R-64", "R-65", "R-66")
async def test_a_killed_runner_leaves_no_process_and_its_jobs_are_lost_not_repeated(
    place: Place, folder: Path
) -> None:
    body = start_body(1, PYTHON, "-c", STAYING, idempotency_key="k")
    damaged = start_body(3, "true")
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        first, tree = await run_and_kill(server, config, folder, body, start_body(2, "true"), damaged)
        damage(place, 3)
        async with peer.running(config), job_server.registered(server) as second:
            left = [process for process in tree if is_alive(process)]
            lost = await second.ended(1)
            again = await second.ended(2)
            replays = [
                await second.ask("start_process_job", body),
                await second.ask("start_process_job", {**body, "job_id": job_id(9)}),
            ]
            closed = await second.ask("start_process_job", damaged)
    inventory = {job["job_id"]: job["state"] for job in second.hello["job_inventory"]["jobs"]}
    assert (len(tree), left) == (len(NAMES) + 2, [])
    assert (lost["state"], lost["reason_code"]) == ("lost", "runner_instance_replaced")
    assert (lost["exit_code"], lost["signal"]) == (None, None)
    assert lost["update_seq"] > first.newest(1)["update_seq"]
    assert inventory == {job_id(1): "lost", job_id(2): "completed"}
    assert again == first.newest(2)
    assert second.hello["store_id"] == first.hello["store_id"]
    assert [(replay["body"]["replayed"], replay["body"]["job"]) for replay in replays] == [(True, lost)] * 2
    assert (replays[0]["body"]["stdout_tail"], replays[0]["body"]["stderr_tail"]) == (None, None)
    assert closed["error"]["code"] == "internal_error"
    assert closed["command_execution_state"] == "outcome_unknown"
    assert (folder / "count").read_text() == "x"


@requirement("R-57", "R-64", "R-66")
async def test_a_runner_killed_amid_a_start_runs_it_once_at_most(place: Place, folder: Path) -> None:
    body = start_body(1, PYTHON, "-c", "open('count', 'a').write('x')")
    store = place.state_dir / "runner-jobs-v1"
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(config) as runner, job_server.registered(server) as first:
            await first.call.send(**first.call.request("start_process_job", body))
            await job_server.so(lambda: any(store.iterdir()), look_s=0.0)
            runner.process.kill()
        async with peer.running(config), job_server.registered(server) as second:
            admitted = second.hello["job_inventory"]["jobs"]
            ran_before = (folder / "count").exists()
            answer = await second.ask("start_process_job", body)
            end = await second.ended(1)
    assert answer["body"]["replayed"] is bool(admitted)
    assert end["state"] == ("lost" if admitted else "completed")
    assert not (ran_before and not admitted)
    assert (not admitted) <= (folder / "count").exists()
    assert not (folder / "count").exists() or (folder / "count").read_text() == "x"


@requirement("R-65")
async def test_a_killed_supervisor_leaves_its_job_lost_and_its_group_ended(
    place: Place, folder: Path
) -> None:
    async with (
        peer.listening() as server,
        peer.running(place.configure(server_url=server.url)) as runner,
        job_server.registered(server) as jobs,
    ):
        script = "import os, time\nos.fork()\nopen(f'pid{os.getpid()}', 'w')\nprint('up', flush=True)\n"
        await jobs.start(1, PYTHON, "-c", script + "time.sleep(60)")
        await jobs.wrote(1, "up\nup\n")
        group = [known(int(name[3:])) for name in job_server.contents(folder)]
        [owner] = job_server.supervisors_of(runner.process.pid)
        os.kill(owner[0], signal.SIGKILL)
        job = await jobs.ended(1)
        await gone(*group, owner)
        free = await jobs.start(2, "true")
    assert len(group) == 2
    assert (job["state"], job["reason_code"]) == ("lost", "runner_supervisor_lost")
    assert (job["exit_code"], job["signal"], job["log"]["tail"]) == (None, None, "up\nup\n")
    assert free["error"] is None


@requirement("R-65")
async def test_an_orderly_shutdown_ends_jobs_tells_their_ends_and_says_goodbye(
    place: Place, folder: Path
) -> None:
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(config) as runner, job_server.registered(server) as first:
            await first.start(1, PYTHON, "-c", PLAIN)
            processes = await read_pids(folder, "child", "other")
            runner.signal(signal.SIGTERM)
            await first.until(lambda: first.others)
            told = first.newest(1)
            assert await runner.ended() == 0
    assert first.others == [{"type": "goodbye", "reason": "shutdown"}]
    assert not any(is_alive(process) for process in processes)
    assert (told["state"], told["signal"], told["reason_code"]) == ("stopped", "SIGTERM", "runner_shutdown")


@requirement("R-47", "R-65")
async def test_a_shutdown_without_a_link_ends_a_job_whose_supervisor_is_halted(
    place: Place, folder: Path
) -> None:
    async with peer.listening() as server:
        config = place.configure(server_url=server.url)
        async with peer.running(config) as runner:
            async with job_server.registered(server) as jobs:
                await jobs.start(1, PYTHON, "-c", STAYING)
                processes = await read_pids(folder, *NAMES, "ready")
                [owner] = job_server.supervisors_of(runner.process.pid)
                await jobs.start(2, "sleep", "60")
                server.refuse_with = 503
                jobs.call.drop()
            await runner.logged("action=link_lost")
            os.kill(owner[0], signal.SIGSTOP)
            runner.signal(signal.SIGTERM)
            async with asyncio.timeout(12):
                assert await runner.ended() == 0
    assert not any(is_alive(process) for process in [*processes, owner])
    kept = job_server.contents(place.state_dir / "runner-jobs-v1")
    ends = [json.loads(text)["job"] for text in kept.values()]
    told = {end["job_id"]: (end["state"], end["signal"], end["reason_code"]) for end in ends}
    assert told == {
        job_id(1): ("lost", None, "runner_supervisor_lost"),
        job_id(2): ("stopped", "SIGTERM", "runner_shutdown"),
    }


@requirement("R-66")
async def test_a_supervisor_that_does_not_end_its_tree_is_ended_after_it(tmp_path: Path) -> None:
    with supervising(tmp_path) as started:
        started.start(PYTHON, "-c", NASTY + "\nstay(); told('ready'); time.sleep(60)")
        _, child, child_mark = started.report()
        processes = await read_pids(tmp_path, *NAMES, "ready")
        os.kill(started.process.pid, signal.SIGSTOP)
        recorded = left_processes.Recorded(
            supervisor_pid=started.process.pid,
            supervisor_mark=supervisor.mark_of(started.process.pid),
            child_pid=int(child),
            child_mark=child_mark,
        )
        started.leave()
        await asyncio.to_thread(left_processes.end_trees, [recorded], patience_s=0.0)
        assert not any(is_alive(process) for process in processes)
        assert started.process.wait(20) == -signal.SIGKILL
