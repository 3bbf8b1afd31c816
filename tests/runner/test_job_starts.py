"""What a start comes to when its disk or its supervisor fails in the middle of it."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.requirements import requirement
from tests.runner import peer
from tests.runner.job_server import job_id, so, start_body
from tests.runner.place import Place, registered, soon
from webcodex.protocol import calls
from webcodex.runner import job_shelf, job_store, jobs, kept_answers, settings, streams


class Disk(job_store.JobStore):
    """A disk that may do something of its own before it writes."""

    before: Callable[[job_store.Entry], None] | None = None

    def write(self, entry: job_store.Entry) -> None:
        if self.before is not None:
            self.before(entry)
        super().write(entry)


@pytest.fixture
def disk(place: Place) -> Disk:
    place.own()
    return Disk(place.state_dir)


@pytest.fixture
def its_jobs(place: Place, disk: Disk) -> jobs.Jobs:
    answers = kept_answers.KeptAnswers(place.state_dir)
    shelf = job_shelf.JobShelf(disk, answers, streams.Outbox(), write_again_s=0.01)
    return jobs.Jobs(settings.load(place.configure(), {"HOME": "/"}), place.own(), shelf)


def start(place: Place, its_jobs: jobs.Jobs, number: int, *argv: str) -> "asyncio.Task[dict[str, Any]]":
    request = calls.Request(
        request_id="req_1",
        connection_id="conn_1",
        kind="start_process_job",
        budget_ms=1,
        requested_by="me",
        created_at=1,
        body=start_body(number, *argv),
        project_id="demo",
    )
    project = registered(place.add_project("demo"))
    return asyncio.get_running_loop().create_task(its_jobs.start(project, request, soon()))


@requirement("R-45", "R-47", "R-65")
async def test_an_unproven_start_on_a_full_disk_keeps_no_hello_waiting_and_is_lost_later(
    place: Place, disk: Disk, its_jobs: jobs.Jobs
) -> None:
    has_room = threading.Event()

    def fail(entry: job_store.Entry) -> None:
        if entry.job.is_terminal and not has_room.is_set():
            raise OSError
        if not entry.job.is_terminal:
            assert entry.tree is not None
            os.kill(entry.tree.supervisor_pid, signal.SIGKILL)

    disk.before = fail
    async with asyncio.timeout(peer.PATIENCE_S):
        answer = await start(place, its_jobs, 1, "touch", "ran")
        await its_jobs.settled()
    [held] = its_jobs.inventory().jobs
    has_room.set()
    await so(lambda: its_jobs.shelf.jobs[job_id(1)].record.is_terminal)
    [lost] = its_jobs.inventory().jobs
    assert (answer["job"]["state"], held["state"]) == ("agent_queued", "agent_queued")
    assert (lost["state"], lost["reason_code"]) == ("lost", "runner_supervisor_lost")
    assert not (place.root / "work" / "demo" / "ran").exists()


@requirement("R-65")
async def test_a_start_that_hangs_keeps_no_other_job_from_ending_at_a_shutdown(
    place: Place, disk: Disk, its_jobs: jobs.Jobs
) -> None:
    goes_on = threading.Event()
    await start(place, its_jobs, 1, "sleep", "60")
    disk.before = lambda entry: None if entry.job.is_terminal else _wait(goes_on)
    hanging = start(place, its_jobs, 2, "sleep", "60")
    await so(lambda: len(its_jobs._starts) == 1)
    shutting = asyncio.get_running_loop().create_task(its_jobs.shut_down(peer.PATIENCE_S))
    await so(lambda: its_jobs.shelf.jobs[job_id(1)].record.is_terminal)
    assert not hanging.done()
    goes_on.set()
    await shutting
    ends = [job.record for job in its_jobs.shelf.jobs.values()]
    assert [(end.job_id, end.state, end.reason_code) for end in ends] == [
        (job_id(1), "stopped", "runner_shutdown"),
        (job_id(2), "stopped", "runner_shutdown"),
    ]


def _wait(event: threading.Event) -> None:
    assert event.wait(peer.PATIENCE_S)
