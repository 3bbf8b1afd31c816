"""Which Jobs a Runner keeps, how many, and until when."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic

import pytest

from tests.requirements import requirement
from tests.runner.job_server import job_id
from webcodex.core import job_log
from webcodex.protocol import calls, messages
from webcodex.runner import (
    failures,
    held_job,
    job_record,
    job_request,
    job_shelf,
    job_store,
    kept_answers,
    streams,
)

Step = Callable[[job_shelf.JobShelf], Awaitable[None]]

KEY = kept_answers.Key(digest="d" * 64, request_hash="a" * 64)


@pytest.fixture
def shelf(tmp_path: Path) -> job_shelf.JobShelf:
    return opened(tmp_path)


def opened(tmp_path: Path) -> job_shelf.JobShelf:
    """Returns the shelf as a process finds it that starts now."""
    return job_shelf.JobShelf(
        job_store.JobStore(tmp_path),
        kept_answers.KeptAnswers(tmp_path),
        streams.Outbox(),
        write_again_s=0.001,
    )


def running(number: int, key: kept_answers.Key | None = None) -> held_job.HeldJob:
    record = job_record.Record(
        job_id=job_id(number), project="agent:r:demo", purpose="work", created_at=1, timeout_secs=60
    )
    record = job_record.advance(record, job_record.Event.STARTED, started_at=1)
    return held_job.HeldJob(job_store.Entry(job=record, request_hash="a" * 64, key=key, tree=None))


def over(job: held_job.HeldJob) -> job_record.Record:
    log = job_log.Log(tail="OK\n", next_line=2)
    return job_record.advance(job.record, job_record.Event.SUCCEEDED, exit_code=0, finished_at=2, log=log)


async def ended(shelf: job_shelf.JobShelf, number: int, key: kept_answers.Key | None = None) -> None:
    job = running(number, key)
    shelf.add(job)
    await shelf.settle(job, over(job))


def acknowledge(shelf: job_shelf.JobShelf, number: int) -> None:
    shelf.outbox.acknowledge(
        messages.Ack(stream="job", id=job_id(number), through_sequence=0, through_revision=9)
    )


def asked(number: int, request_hash: str = "a" * 64) -> job_request.StartRequest:
    body = {
        "job_id": job_id(number),
        "argv": ["true"],
        "cwd": "",
        "timeout_secs": 1,
        "purpose": "work",
        "request_hash": request_hash,
    }
    request = calls.Request(
        request_id="req_1",
        connection_id="conn_1",
        kind="start_process_job",
        budget_ms=1,
        requested_by="me",
        created_at=1,
        body=body,
        project_id="demo",
    )
    return job_request.read(request, "r")


@requirement("R-47", "R-64")
async def test_an_end_has_a_place_until_it_is_acknowledged(shelf: job_shelf.JobShelf) -> None:
    shelf.add(running(0))
    for number in range(1, 63):
        await ended(shelf, number)
    assert shelf.has_room((), most_active=64)
    assert not shelf.has_room((), most_active=1)
    assert not shelf.has_room({job_id(99)}, most_active=2)
    await ended(shelf, 63)
    assert not shelf.has_room((), most_active=64)
    acknowledge(shelf, 5)
    assert shelf.has_room((), most_active=64)
    await ended(shelf, 64)
    await ended(shelf, 65)
    acknowledge(shelf, 6)
    shelf.let_leave()
    left = {job_id(number) for number in range(66)} - shelf.jobs.keys()
    assert left == {job_id(5)}  # 65 ends are one too many, and this one was acknowledged first


@requirement("R-57", "R-64")
async def test_an_acknowledged_end_leaves_after_15_minutes_and_its_key_answers_it_still(
    shelf: job_shelf.JobShelf, tmp_path: Path
) -> None:
    await ended(shelf, 1, KEY)
    told = job_record.wire(shelf.jobs[job_id(1)].record)
    told["log"] = {"tail": "", "first_retained_line": 2, "next_line": 2, "truncated": True}
    await ended(shelf, 2)
    acknowledge(shelf, 1)
    shelf.let_leave()
    assert set(shelf.jobs) == {job_id(1), job_id(2)}
    for number in (1, 2):
        shelf.jobs[job_id(number)].acknowledged_at = monotonic() - 901
    shelf.let_leave()
    assert shelf.jobs == {}
    assert list((tmp_path / "runner-jobs-v1").iterdir()) == []
    keyed = dataclasses.replace(asked(1), key=KEY)
    for known in (shelf, opened(tmp_path)):
        found = known.find(keyed)
        assert found is not None
        assert found.entry.request_hash == KEY.request_hash
        assert found.answer() == {"job": told, "stdout_tail": None, "stderr_tail": None}
    other = dataclasses.replace(keyed, key=dataclasses.replace(KEY, request_hash="b" * 64))
    with pytest.raises(failures.RequestFailed, match="idempotency_conflict"):
        shelf.find(other)
    with pytest.raises(failures.RequestFailed, match="idempotency_conflict"), shelf.key_place(KEY):
        pass
    assert shelf.find(asked(2)) is None


@requirement("R-57", "R-64", "R-66")
async def test_a_key_never_starts_twice_wherever_its_first_start_was_cut_off(tmp_path: Path) -> None:
    keyed = dataclasses.replace(asked(1), key=KEY)
    admitted = job_record.Record(
        job_id=job_id(1), project="agent:r:demo", purpose="work", created_at=1, timeout_secs=60
    )
    entry = job_store.Entry(job=admitted, request_hash=KEY.request_hash, key=KEY, tree=None)
    steps: list[Step] = [
        lambda shelf: shelf.admit(entry),
        lambda shelf: shelf.note(running(1, KEY).entry),
        lambda shelf: shelf.keep_key(running(1, KEY).entry),
    ]
    for reached in range(1, len(steps) + 1):
        state = tmp_path / str(reached)
        state.mkdir()
        cut_off = opened(state)
        for step in steps[:reached]:
            await step(cut_off)
        after = opened(state)
        await after.recover()
        found = after.find(keyed)
        assert found is not None
        assert (found.record.job_id, found.record.state) == (job_id(1), "lost")
        with pytest.raises(failures.RequestFailed, match="idempotency_conflict"), after.key_place(KEY):
            pass


@requirement("R-57")
async def test_a_key_whose_job_cannot_be_told_makes_no_claim_about_it(tmp_path: Path) -> None:
    shelf = opened(tmp_path)
    await shelf.keep_key(running(1, KEY).entry)  # and the Job's own record is gone
    with pytest.raises(failures.RequestFailed, match="internal_error") as refused:
        shelf.find(dataclasses.replace(asked(2), key=KEY))
    assert refused.value.execution is calls.ExecutionState.OUTCOME_UNKNOWN


@requirement("R-47")
async def test_an_end_that_cannot_be_written_is_not_told(shelf: job_shelf.JobShelf, tmp_path: Path) -> None:
    job = running(1)
    shelf.add(job)
    shelf.outbox.begin(())
    assert shelf.outbox.take() is not None
    folder = tmp_path / "runner-jobs-v1"
    folder.rename(tmp_path / "away")
    settling = asyncio.create_task(shelf.settle(job, over(job)))
    await asyncio.wait({settling}, timeout=0.05)
    assert not settling.done()
    assert (job.record.state, shelf.outbox.take()) == ("running", None)
    (tmp_path / "away").rename(folder)
    async with asyncio.timeout(20):
        await settling
    told = shelf.outbox.take()
    assert told is not None
    assert told.snapshot["state"] == "completed"


@requirement("R-61")
def test_every_state_takes_exactly_the_events_of_its_row() -> None:
    for state, exits in job_record.TRANSITIONS.items():
        record = job_record.Record(
            job_id=job_id(1),
            project="agent:r:demo",
            purpose="work",
            created_at=1,
            timeout_secs=1,
            state=state,
        )
        for event in job_record.Event:
            if event in exits:
                moved = job_record.advance(record, event)
                assert (moved.state, moved.update_seq) == (exits[event], 2)
            else:
                with pytest.raises(job_record.IllegalTransition):
                    job_record.advance(record, event)
