"""Proves what a call that starts a process is told, whatever the Runner says, loses or refuses (R-60)."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from tests.requirements import requirement
from tests.tools.house import BOOTSTRAP, DEMO, House
from tests.tools.job_runner import ECHO, HANDS_OVER, PATIENCE_S, Jobs, events, job_counts, record
from webcodex.storage import jobs as stored_jobs
from webcodex.storage.database import Database, StoreUnavailable, Work
from webcodex.tools import ports
from webcodex.tools.contract import BadArguments

OTHER = "agent:r1:other"


@pytest.fixture
def jobs(house: House) -> Jobs:
    return Jobs(house)


@requirement("R-60", "R-61")
async def test_a_process_that_ends_in_time_is_told_whole(house: House, jobs: Jobs) -> None:
    jobs.first_report = {"state": "completed", "update_seq": 3, "tail": "OK\n"}
    output = await jobs.call()
    job_id = output["job"]["job_id"]
    assert output == {
        "job": {
            "job_id": job_id,
            "project": DEMO,
            "purpose": "work",
            "state": "completed",
            "exit_code": 0,
            "signal": None,
            "created_at": house.now,
            "started_at": 2,
            "finished_at": 5,
            "timeout_secs": 60,
            "update_seq": 3,
            "reason_code": None,
            "recovered_after_server_restart": False,
            "recovery_reason_code": None,
            "log": {"tail": "OK\n", "first_retained_line": 1, "next_line": 2, "truncated": False},
        },
        "completed": True,
        "replayed": False,
        "stdout_tail": "OK\n",
        "stderr_tail": "",
    }


@requirement("R-60", "S-10", "S-12")
async def test_a_process_is_asked_for_whole_and_recorded_without_its_words(house: House, jobs: Jobs) -> None:
    session = await house.session()
    jobs.first_report = {"state": "completed", "update_seq": 3, "tail": "planted-output\n"}
    output = await jobs.call(session_id=session, argv=[*ECHO, "planted-argument"], stdin="planted-input")
    job_id = output["job"]["job_id"]
    (body,) = jobs.taken
    assert body == {
        "job_id": job_id,
        "argv": [*ECHO, "planted-argument"],
        "cwd": "",
        "stdin": "planted-input",
        "timeout_secs": 60,
        "purpose": "work",
        "request_hash": body["request_hash"],
    }
    started, finished = await events(house, session)
    assert started["input_summary"] == "work process, 3 arguments, at most 60 s"
    assert started["shell_like"] is True
    told = {key: finished[key] for key in ("status", "job_id", "exit_code", "execution_state")}
    assert told == {"status": "succeeded", "job_id": job_id, "exit_code": 0, "execution_state": "completed"}
    assert finished["duration_ms"] >= 0
    for event in (started, finished):
        assert "planted" not in str(event)


REFUSALS = {
    "job_capacity_full": "wait",
    "invalid_cwd": "fix_input",
    "process_spawn_failed": "fix_input",
    "policy_rejected": "user_action",
    "idempotency_capacity": "wait",
    "idempotency_conflict": "fix_input",
    "job_project_mismatch": "fix_input",
    "agent_capability_unavailable": "fix_input",
    "project_root_replaced": "user_action",
}


@requirement("R-63", "S-40", "R-50")
async def test_a_refused_start_leaves_no_job_and_no_attempt(house: House, jobs: Jobs) -> None:
    session = await house.session()
    refusals = {word: ports.RunnerRefused(word) for word in REFUSALS}
    for word, refusal in {**refusals, "runner_unavailable": ports.RunnerUnavailable()}.items():
        jobs.refusal = refusal
        output = await jobs.call(session_id=session, purpose="validation", idempotency_key="k")
        kind = REFUSALS.get(word, "wait")
        assert output == {"error_kind": word, "state_changed": False, "recovery_kind": kind}
        assert await jobs.states() == []
        finished = (await events(house, session))[-1]
        assert (finished["status"], finished["error_kind"]) == ("failed", word)
        assert finished["execution_state"] == "not_started"
    assert (await job_counts(house, session))["active_jobs"] == 0
    jobs.refusal = None
    output = await jobs.call(session_id=session, idempotency_key="k", waits=HANDS_OVER)
    assert (output["replayed"], output["job"]["state"]) == (False, "running")


@requirement("R-45", "R-57", "R-63", "R-64")
@pytest.mark.parametrize("loss", ["lost", "late", "odd", "malformed", "other"])
async def test_a_start_whose_answer_is_lost_is_observed_and_never_repeated(
    house: House, jobs: Jobs, loss: str
) -> None:
    session = await house.session()
    malformed: dict[str, Any] = {"malformed": {"job": {}}, "other": {"job": record("wc_job_another")}}
    errors = {
        "lost": ports.RunnerOutcomeUnknown(),
        "late": ports.RunnerTimeout(),
        "odd": ports.RunnerRefused("word_of_tomorrow"),
    }
    jobs.refusal = errors.get(loss)
    if loss in malformed:
        house.runner.answers["start_process_job"] = malformed[loss]
    output = await jobs.call(session_id=session, idempotency_key="k")
    job_id = output["job_id"]
    assert output == {
        "error_kind": "job_start_outcome_unknown",
        "state_changed": None,
        "recovery_kind": "reconcile",
        "failure_kind": "outcome_unknown",
        "execution_state": "outcome_unknown",
        "job_id": job_id,
        "suggested_call": {"tool": "observe_jobs", "arguments": {"items": [{"job_id": job_id}]}},
    }
    assert (await events(house, session))[-1]["execution_state"] == "outcome_unknown"
    assert (await jobs.observed(job_id))["job"]["state"] == "recovering"
    asked = len(house.runner.asked)
    again = await jobs.call(session_id=session, idempotency_key="k", waits=HANDS_OVER)
    assert (again["replayed"], again["job"]["job_id"]) == (True, job_id)
    assert [kind for _, kind, _ in house.runner.asked[asked:]] == ["job_snapshot"]
    await jobs.report(job_id, "completed", 2)
    again = await jobs.call(session_id=session, idempotency_key="k")
    assert (again["replayed"], again["completed"], again["job"]["state"]) == (True, True, "completed")


@requirement("R-57", "R-60", "G-07")
async def test_racing_calls_of_one_key_start_one_job(house: House, jobs: Jobs) -> None:
    jobs.may_take.clear()
    calls = [asyncio.create_task(jobs.call(idempotency_key="k", waits=HANDS_OVER)) for _ in range(8)]
    async with asyncio.timeout(PATIENCE_S):
        await jobs.was_asked.wait()
        late = asyncio.create_task(jobs.call(idempotency_key=" k ", waits=HANDS_OVER))
        while not house.runner.asked:  # noqa: ASYNC110 - a bounded look at what has no event to offer
            await asyncio.sleep(0)
        jobs.may_take.set()
        outputs = await asyncio.gather(*calls, late)
    assert len(jobs.taken) == 1
    assert {output["job"]["job_id"] for output in outputs} == {jobs.taken[0]["job_id"]}
    assert sorted(output["replayed"] for output in outputs) == [False, *[True] * 8]
    assert await jobs.states() == ["running"]


@requirement("R-57", "R-63")
async def test_racing_calls_of_a_refused_key_are_all_refused(jobs: Jobs) -> None:
    jobs.may_take.clear()
    jobs.refusal = ports.RunnerRefused("process_spawn_failed")
    calls = [asyncio.create_task(jobs.call(idempotency_key="k")) for _ in range(4)]
    async with asyncio.timeout(PATIENCE_S):
        await jobs.was_asked.wait()
        jobs.may_take.set()
        outputs = await asyncio.gather(*calls)
    words = {output["error_kind"] for output in outputs}
    assert "process_spawn_failed" in words
    assert words <= {"process_spawn_failed", "job_not_found"}
    assert await jobs.states() == []


@requirement("R-57", "G-06", "G-07")
async def test_a_key_is_one_request_of_one_principal_in_one_project(house: House, jobs: Jobs) -> None:
    first = await jobs.running(idempotency_key="k")
    changes: list[dict[str, Any]] = [
        {"argv": ["echo", "other"]},
        {"cwd": "src"},
        {"stdin": ""},
        {"timeout_secs": 61},
        {"purpose": "service"},
        {"validation_scope": "unit"},
    ]
    for changed in changes:
        output = await jobs.call(idempotency_key="k", **changed)
        assert output["error_kind"] == "idempotency_conflict", changed
    assert await jobs.states() == ["running"]
    same = await jobs.call(idempotency_key="k", session_id=await house.session(), waits=HANDS_OVER)
    assert (same["job"]["job_id"], same["replayed"]) == (first, True)
    by_ref = (await house.output("work_on_project", project=DEMO, instruction="x"))["project_ref"]
    assert (await jobs.call(idempotency_key="k", project=by_ref, waits=HANDS_OVER))["replayed"] is True
    assert await jobs.running(idempotency_key="k", project=OTHER) != first
    assert await jobs.running(idempotency_key="k", by=BOOTSTRAP) != first
    assert await jobs.running() != await jobs.running()


@requirement("R-57", "R-64")
async def test_a_lost_job_is_still_the_answer_of_its_key(house: House, jobs: Jobs) -> None:
    job_id = await jobs.running(idempotency_key="k")
    await jobs.report(job_id, "lost", 2, reason_code="runner_supervisor_lost")
    output = await jobs.call(idempotency_key="k")
    assert (output["replayed"], output["completed"]) == (True, True)
    assert (output["job"]["state"], output["job"]["reason_code"]) == ("lost", "runner_supervisor_lost")
    assert len(jobs.taken) == 1
    assert len(house.runner.asked) == 3


@requirement("R-60", "R-64", "S-50")
@pytest.mark.parametrize("end", ["taken", "refused"])
async def test_a_call_that_is_given_up_leaves_its_job_going_on(house: House, jobs: Jobs, end: str) -> None:
    session = await house.session()
    jobs.may_take.clear()
    call = asyncio.create_task(jobs.call(session_id=session))
    async with asyncio.timeout(PATIENCE_S):
        await jobs.was_asked.wait()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert call.cancelled()
        assert (await events(house, session))[-1]["execution_state"] == "outcome_unknown"
        jobs.refusal = ports.RunnerRefused("process_spawn_failed") if end == "refused" else None
        jobs.may_take.set()
        while (states := await jobs.states()) == ["queued"]:  # noqa: ASYNC110 - the store has no event
            await asyncio.sleep(0.005)
    assert states == (["running"] if end == "taken" else ["cancelled"])


@requirement("M-21", "R-60")
async def test_a_waiting_call_says_what_it_waits_for(jobs: Jobs) -> None:
    said: list[str] = []
    is_waiting = asyncio.Event()

    async def hear(message: str) -> None:
        said.append(message)
        if message == "Waiting for the process":
            is_waiting.set()

    call = asyncio.create_task(jobs.call(progress=hear))
    async with asyncio.timeout(PATIENCE_S):
        await is_waiting.wait()
        await jobs.report(jobs.taken[0]["job_id"], "stopped", 2, signal="SIGTERM")
        output = await call
    assert said == ["Waiting for the Runner", "Waiting for the process"]
    assert (output["completed"], output["job"]["state"], output["job"]["signal"]) == (
        True,
        "stopped",
        "SIGTERM",
    )


BOUNDS: list[tuple[dict[str, Any], str]] = [
    ({"argv": []}, "invalid_arguments"),
    ({"argv": [""]}, "invalid_arguments"),
    ({"argv": ["x"] * 257}, "invalid_arguments"),
    ({"argv": ["x\0"]}, "invalid_arguments"),
    ({"argv": ["\ud800"]}, "invalid_arguments"),
    ({"stdin": "\u00e4" * 32_769}, "invalid_arguments"),
    ({"timeout_secs": 0}, "invalid_arguments"),
    ({"timeout_secs": 3601}, "invalid_arguments"),
    ({"purpose": "fun"}, "invalid_arguments"),
    ({"validation_scope": ""}, "invalid_arguments"),
    ({"validation_scope": "a b"}, "invalid_arguments"),
    ({"validation_scope": "a" * 65}, "invalid_arguments"),
    ({"validation_scope": "ghp_" + "a" * 16}, "invalid_arguments"),
    ({"idempotency_key": " "}, "invalid_arguments"),
    ({"idempotency_key": "k" * 129}, "invalid_arguments"),
    ({"cwd": "x" * 4097}, "invalid_cwd"),
    ({"session_id": "s" * 137}, "invalid_session_id"),
    ({"project": "demo"}, "invalid_project"),
]


@requirement("R-60", "S-40", "C-16", "M-13")
async def test_each_bound_of_a_process_is_kept_before_anything_is_asked(jobs: Jobs) -> None:
    for changed, word in BOUNDS:
        assert (await jobs.call(**changed))["error_kind"] == word, changed
    with pytest.raises(BadArguments):
        await jobs.call(argv="echo OK")
    assert not jobs.was_asked.is_set()
    at_most: dict[str, Any] = {
        "argv": ["x"] * 256,
        "stdin": "x" * 65_536,
        "timeout_secs": 3600,
        "validation_scope": "a" * 64,
    }
    assert (await jobs.call(**at_most, waits=HANDS_OVER))["job"]["state"] == "running"


@requirement("S-08", "S-52", "R-60")
async def test_a_session_that_denies_programs_starts_none(house: House, jobs: Jobs) -> None:
    guarded = await house.output("start_session", project=DEMO, guards={"deny_shell_tools": True})
    session = guarded["session_id"]
    output = await jobs.call(session_id=session, purpose="validation")
    assert (output["error_kind"], output["guard"]) == ("session_guard_denied", "deny_shell_tools")
    assert not jobs.was_asked.is_set()
    assert await jobs.states() == []
    assert [event["status"] for event in await events(house, session) if "status" in event] == ["failed"]
    assert (await jobs.call(recorder=session, waits=HANDS_OVER))["job"]["state"] == "running"
    assert (await job_counts(house, session))["active_jobs"] == 1


class _Store:
    """The house's store, which answers no read or no write while ``is_down`` is set."""

    def __init__(self, whole: Database, *, reads: bool) -> None:
        self._whole, self._reads = whole, reads
        self.is_down = asyncio.Event()

    async def read(self, work: Work[Any]) -> Any:
        if self._reads and self.is_down.is_set():
            raise StoreUnavailable
        return await self._whole.read(work)

    async def write(self, work: Work[Any]) -> Any:
        if not self._reads and self.is_down.is_set():
            raise StoreUnavailable
        return await self._whole.write(work)

    def close(self) -> None:
        self._whole.close()


@requirement("R-60", "R-57", "M-15")
async def test_a_store_that_fails_after_the_start_never_says_that_nothing_ran(
    house: House, jobs: Jobs
) -> None:
    whole, store = house.services, _Store(house.database, reads=True)
    house.services = replace(whole, database=store)
    store.is_down = jobs.was_asked
    output = await jobs.call()
    assert (output["error_kind"], output["state_changed"], output["recovery_kind"]) == (
        "job_start_outcome_unknown",
        None,
        "reconcile",
    )
    house.services = whole
    assert (await jobs.observed(output["job_id"]))["job"]["state"] == "running"
    house.services = replace(whole, database=store)
    refused = await jobs.call()
    assert (refused["error_kind"], refused["state_changed"]) == ("store_unavailable", False)
    house.services = whole
    assert (len(jobs.taken), await jobs.states()) == (1, ["running"])


@requirement("R-63", "M-15", "S-45")
async def test_what_the_runner_says_of_a_job_is_told_though_it_cannot_be_stored(
    house: House, jobs: Jobs
) -> None:
    job_id = await jobs.running()
    house.runner.answers["stop_job"] = {"job": record(job_id, "stop_requested", 2), "stop_requested": True}
    whole, store = house.services, _Store(house.database, reads=False)
    house.services = replace(whole, database=store)
    store.is_down.set()
    stopped = await jobs.call("stop_job", job_id=job_id)
    assert (stopped["stop_requested"], stopped["job"]["state"]) == (True, "stop_requested")
    house.services = whole
    await jobs.report(job_id, "stopped", 3)
    house.services = replace(whole, database=store)
    assert (await jobs.observed(job_id))["job"]["state"] == "stopped"
    house.services = whole
    stored = await house.database.read(lambda tx: stored_jobs.find(tx, job_id))
    assert stored is not None
    assert stored.is_observed is False
