"""Proves how Jobs are followed, listed, stopped and ruled on when their Runner stays away (R-61 to R-64)."""

import asyncio
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import BOOTSTRAP, DEMO, EVE, House, user
from tests.tools.job_runner import PATIENCE_S, Jobs, events, job_counts, record
from webcodex.core import jobs as core_jobs
from webcodex.core import limits
from webcodex.server import job_sweep
from webcodex.storage import jobs as stored_jobs
from webcodex.tools import ports

OTHER = "agent:r1:other"


@pytest.fixture
def jobs(house: House) -> Jobs:
    return Jobs(house)


@requirement("R-60", "R-63", "S-45", "M-38")
async def test_a_process_that_goes_on_is_the_same_job_until_its_end(house: House, jobs: Jobs) -> None:
    session = await house.session()
    job_id = await jobs.running(session_id=session, purpose="validation")
    assert (await events(house, session))[-1]["execution_state"] == "started"
    counts = {
        "active_jobs": 1,
        "blocking_jobs": 1,
        "recovering_jobs": 0,
        "terminal_pending_jobs": 0,
    }
    assert counts.items() <= (await job_counts(house, session)).items()
    await jobs.report(job_id, "failed", 2, exit_code=3, tail="boom\n")
    ended = {"active_jobs": 0, "blocking_jobs": 0, "terminal_pending_jobs": 1}
    assert ended.items() <= (await job_counts(house, session)).items()
    shown = await jobs.observed(job_id, wait_secs=60)
    assert (shown["job"]["state"], shown["job"]["exit_code"], shown["log_text"]) == ("failed", 3, "boom\n")
    assert (await job_counts(house, session))["terminal_pending_jobs"] == 0
    assert len(jobs.taken) == 1


@requirement("S-45")
@pytest.mark.parametrize("purpose", ["work", "service"])
async def test_a_service_is_active_and_blocks_nothing(house: House, jobs: Jobs, purpose: str) -> None:
    session = await house.session()
    await jobs.running(session_id=session, purpose=purpose)
    shown = await job_counts(house, session)
    assert (shown["active_jobs"], shown["blocking_jobs"]) == (1, 1 if purpose == "work" else 0)


@requirement("R-64", "S-10", "S-45")
async def test_the_deadline_ends_a_job_and_its_runner_corrects_that_once(house: House, jobs: Jobs) -> None:
    session = await house.session()
    jobs.refusal = ports.RunnerOutcomeUnknown()
    job_id = (await jobs.call(session_id=session, purpose="validation", validation_scope="unit"))["job_id"]
    house.now += 119
    await job_sweep.sweep(house.services)
    assert (await job_counts(house, session))["recovering_jobs"] == 1
    house.now += 1
    await job_sweep.sweep(house.services)
    shown = (await jobs.observed(job_id))["job"]
    assert (shown["state"], shown["reason_code"]) == ("lost", "runner_recovery_deadline_exceeded")
    await jobs.report(job_id, "running", 4)
    await jobs.report(job_id, "failed", 5, exit_code=2)
    await jobs.report(job_id, "completed", 6)
    assert (await jobs.observed(job_id))["job"]["state"] == "failed"
    summary = await house.output("read_session_summary", session_id=session)
    told = [event for event in summary["events"] if event["kind"] == "validation_job_terminal"]
    assert [(event["job_id"], event["validation"]["verdict"]) for event in told] == [
        (job_id, "inconclusive"),
        (job_id, "failed"),
    ]


@requirement("R-63", "R-61")
async def test_tokens_give_only_new_text_and_belong_to_one_job(jobs: Jobs) -> None:
    one, two = await jobs.running(), await jobs.running()
    first = await jobs.observed(one)
    assert (first["log_text"], first["history_lost"]) == ("", False)
    await jobs.report(one, "running", 2, tail="a\nb")
    second = await jobs.observed(one, token=first["observation_token"])
    assert (second["log_text"], second["has_more"]) == ("a\nb", False)
    await jobs.report(one, "running", 3, tail="a\nbc\n")
    third = await jobs.observed(one, token=second["observation_token"])
    assert third["log_text"] == "c\n"
    log = {"tail": "z\n", "first_retained_line": 9, "next_line": 10, "truncated": True}
    await jobs.report(one, "running", 4, log=log)
    fourth = await jobs.observed(one, token=third["observation_token"])
    assert (fourth["log_text"], fourth["history_lost"]) == ("z\n", True)
    for token in ("x", third["observation_token"]):
        refused = await jobs.observed(two, token=token, wait_secs=60)
        assert refused["error"] == {"reason": "invalid_observation_token"}
        assert refused["job"] is None


@requirement("R-50", "R-63")
async def test_many_long_logs_come_in_parts_that_fit_one_answer(jobs: Jobs) -> None:
    ids = [await jobs.running() for _ in range(16)]
    tail = "0123456789abcde\n" * 4096
    for job_id in ids:
        await jobs.report(job_id, "running", 2, tail=tail)
    items: list[dict[str, Any]] = [{"job_id": job_id} for job_id in ids]
    text = ""
    shown: list[dict[str, Any]] = []
    for _ in range(8):
        shown = (await jobs.call("observe_jobs", items=items))["items"]
        assert len(str(shown)) < 256 * 1024
        text += shown[3]["log_text"]
        items = [
            {"job_id": item["job_id"], "after_observation_token": item["observation_token"]} for item in shown
        ]
    assert text == tail
    assert shown[3]["has_more"] is False


@requirement("R-63")
@pytest.mark.parametrize("by", ["this_server", "another_server"])
async def test_an_observer_waits_until_a_job_moves(house: House, jobs: Jobs, by: str) -> None:
    job_id = await jobs.running()
    token = (await jobs.observed(job_id))["observation_token"]
    is_waiting = asyncio.Event()

    async def hear(_message: str) -> None:
        is_waiting.set()

    arguments = {"token": token, "wait_secs": 60, "progress": hear}
    waiting = asyncio.create_task(jobs.observed(job_id, **arguments))
    async with asyncio.timeout(PATIENCE_S):
        await is_waiting.wait()
        if by == "this_server":
            await jobs.report(job_id, "running", 2, tail="news\n")
        else:
            services, house.services = (
                house.services,
                ports.Services(
                    database=house.database,
                    runners=house.runner,
                    now=house.services.now,
                    entropy=house.services.entropy,
                ),
            )
            await jobs.report(job_id, "running", 2, tail="news\n")
            house.services = services
        assert (await waiting)["log_text"] == "news\n"


@requirement("R-63", "C-15", "G-04")
async def test_a_job_of_a_project_that_is_not_seen_is_as_one_that_is_not_there(jobs: Jobs) -> None:
    job_id = await jobs.running()
    absent = await jobs.observed("wc_job_absent", by=EVE)
    assert {**absent, "job_id": job_id} == await jobs.observed(job_id, by=EVE, wait_secs=60)
    assert absent["error"] == {"reason": "job_not_found"}
    foreign = await jobs.call("stop_job", by=EVE, job_id=job_id)
    assert foreign == await jobs.call("stop_job", by=EVE, job_id="wc_job_absent")
    assert foreign["error_kind"] == "job_not_found"
    assert await jobs.states(by=EVE) == []
    assert await jobs.states(by=BOOTSTRAP) == ["running"]
    assert await jobs.states(by=user("ada", "runtime:read")) == ["running"]


@requirement("R-63", "C-16", "S-45")
async def test_jobs_are_listed_by_project_session_and_state(house: House, jobs: Jobs) -> None:
    session = await house.session()
    ids = []
    for number in range(3):
        house.now += 1
        ids.append(await jobs.running(session_id=session if number else None))
    house.now += 1
    elsewhere = await jobs.running(project=OTHER)
    page = await jobs.call("list_jobs", limit=3)
    assert [job["job_id"] for job in page["jobs"]] == [elsewhere, ids[2], ids[1]]
    assert (page["total_count"], page["next_offset"], page["truncated"]) == (4, 3, True)
    assert "log" not in page["jobs"][0]
    rest = await jobs.call("list_jobs", offset=3)
    assert [job["job_id"] for job in rest["jobs"]] == [ids[0]]
    assert (rest["next_offset"], rest["truncated"]) == (None, False)
    of_session = await jobs.call("list_jobs", session_id=session)
    assert [job["job_id"] for job in of_session["jobs"]] == [ids[2], ids[1]]
    await jobs.report(ids[1], "completed", 2)
    assert await jobs.states(project="demo", state="completed") == ["completed"]
    assert await jobs.states(state="cancelled") == []
    assert (await job_counts(house, session))["terminal_pending_jobs"] == 0
    other = await jobs.call("list_jobs", project=OTHER, session_id=session)
    assert other["error_kind"] == "session_project_mismatch"
    assert (await jobs.call("list_jobs", project=DEMO, session_id="~s9"))["error_kind"] == (
        "unknown_session_ref"
    )


@requirement("R-63")
async def test_stopping_asks_the_runner_unless_the_job_is_over(house: House, jobs: Jobs) -> None:
    job_id = await jobs.running()
    assert (await jobs.call("stop_job", job_id=job_id))["error_kind"] == "runner_unavailable"
    house.runner.answers["stop_job"] = {
        "job": record(job_id, "stop_requested", 2),
        "stop_requested": True,
    }
    output = await jobs.call("stop_job", job_id=job_id)
    assert (output["stop_requested"], output["job"]["state"]) == (True, "stop_requested")
    await jobs.report(job_id, "stopped", 3)
    asked = len(house.runner.asked)
    output = await jobs.call("stop_job", job_id=job_id)
    assert (output["stop_requested"], output["job"]["state"]) == (False, "stopped")
    assert len(house.runner.asked) == asked


@requirement("R-60", "R-61")
async def test_a_job_survives_the_server_that_started_it(house: House, jobs: Jobs) -> None:
    job_id = await jobs.running()
    await house.reopen()
    await job_sweep.at_start(house.services)
    shown = (await jobs.observed(job_id))["job"]
    assert (shown["state"], shown["recovered_after_server_restart"]) == ("recovering", True)
    assert shown["recovery_reason_code"] == "server_restart_reconciliation"
    await jobs.report(job_id, "timeout", 2)
    assert (await jobs.observed(job_id))["job"]["state"] == "timed_out"


@requirement("R-64")
async def test_a_job_that_stays_queued_or_without_its_runner_is_swept(house: House, jobs: Jobs) -> None:
    house.now = 60  # the Runner was last seen at 1
    job_id = await jobs.running()
    house.now = 92
    house.runner.answers.clear()
    await job_sweep.sweep(house.services)
    assert await jobs.states() == ["recovering"]
    stored = await house.database.read(lambda tx: stored_jobs.find(tx, job_id))
    assert stored is not None
    assert (stored.state, stored.recover_until) == (core_jobs.State.RECOVERING, 212)


@requirement("R-61", "R-63")
async def test_logs_of_the_newest_ended_jobs_are_kept_and_every_end_is(
    house: House, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "JOB_LOGS", 2)
    ended = []
    for number in range(1, 5):
        house.now += 1
        ended.append(await jobs.running())
        await jobs.report(ended[-1], "failed", 2, exit_code=number, tail=f"{number}\n")
    shown = [await jobs.observed(job_id) for job_id in ended]
    assert [(one["job"]["exit_code"], one["log_text"], one["history_lost"]) for one in shown] == [
        (1, "", True),
        (2, "", True),
        (3, "3\n", False),
        (4, "4\n", False),
    ]
    assert not any(one["has_more"] for one in shown)


@requirement("R-63")
async def test_many_unended_jobs_are_all_marked_at_a_start(
    house: House, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_jobs, "SWEPT", 2)
    for _ in range(5):
        await jobs.running()
    await job_sweep.at_start(house.services)
    assert await jobs.states() == ["recovering"] * 5
    house.now += 120
    await job_sweep.sweep(house.services)
    assert await jobs.states() == ["lost"] * 5
