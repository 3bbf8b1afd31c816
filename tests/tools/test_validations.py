"""Proves what a Session's validation says after real calls, edits and Job ends (S-40 to S-44, S-74)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import text

from tests.requirements import requirement
from tests.tools import evidence_desk
from tests.tools.evidence_desk import edit, ends, handoff, newest_event, status, validate
from tests.tools.house import DEMO, FOREIGN, OTHER, House
from tests.tools.job_runner import PATIENCE_S
from webcodex.core import ledger, validation
from webcodex.core.handoff_facts import Verdict
from webcodex.core.jobs import DEADLINE_EXCEEDED, State, ruled_lost
from webcodex.core.json_value import JsonObject
from webcodex.storage import changes, jobs, validations
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import job_recording, ports, recording, unfinished, validation_recording


@requirement("S-74", "S-43", "S-42", "S-40", "R-62")
async def test_a_pass_goes_stale_with_an_edit_and_a_new_run_renews_it(house: House) -> None:
    session = await house.session()
    assert await status(house, session) == "not_run"
    await validate(house, session)
    assert await status(house, session) == "passed"
    assert (await newest_event(house, session))["validation"] == {"scope": "unit", "verdict": "passed"}
    await edit(house, session)
    assert await status(house, session) == "stale"
    await validate(house, session)
    shown = await handoff(house, session)
    assert shown["handoff_brief"]["validation"]["status"] == "passed"
    assert shown["acceptance"]["state"] == "ready_for_review"
    assert "validation_passed" in shown["acceptance"]["reason_codes"]


@requirement("S-74", "S-43", "H-10")
async def test_a_failure_of_one_scope_is_not_healed_by_another(house: House) -> None:
    session = await house.session()
    await validate(house, session, "failed", 1, validation_scope="A")
    assert await status(house, session) == "failed"
    await edit(house, session)
    await validate(house, session, validation_scope="B")
    shown = (await handoff(house, session))["handoff_brief"]["validation"]
    assert shown["status"] == "inconclusive"
    assert shown["open_failures"]["items"] == ["unknown:A"]


@requirement("S-74", "S-40")
@pytest.mark.parametrize("state", ["timed_out", "stopped", "lost"])
async def test_an_end_without_a_proven_exit_is_inconclusive(house: House, state: str) -> None:
    session = await house.session()
    await validate(house, session, state, None)
    shown = (await handoff(house, session))["handoff_brief"]["validation"]
    assert (shown["status"], shown["reason_code"]) == ("inconclusive", "validation_inconclusive")


@requirement("S-74", "S-42", "S-10", "S-40")
async def test_an_edit_that_lands_while_an_attempt_runs_makes_it_stale(house: House) -> None:
    session = await house.session()
    job_id = (await validate(house, session, "running", None))["job"]["job_id"]
    assert "validation" not in await newest_event(house, session)
    assert await status(house, session) == "not_run"
    await edit(house, session)
    await ends(house, job_id, State.COMPLETED, 0)
    assert await status(house, session) == "stale"
    event = await newest_event(house, session)
    assert (event["kind"], event["job_id"]) == ("validation_job_terminal", job_id)
    assert event["validation"] == {"scope": "unit", "verdict": "passed"}
    await ends(house, job_id, State.COMPLETED, 0, update_seq=3)
    assert (await newest_event(house, session))["tool_name"] == "read_session_summary"


@requirement("S-74", "S-42")
async def test_an_edit_of_another_session_or_of_none_counts_and_one_elsewhere_does_not(house: House) -> None:
    session, other = await house.session(), await house.session()
    for editor in (other, None):
        await validate(house, session)
        assert await status(house, session) == "passed"
        await edit(house, editor)
        assert await status(house, session) == "stale"
    await validate(house, session)
    await edit(house, project=OTHER)
    assert await house.refusal("edit_project_files", project=FOREIGN, edits=evidence_desk.edits("a"))
    assert await status(house, session) == "passed"


@requirement("S-74", "S-42", "S-12")
async def test_an_edit_of_unknown_outcome_counts_and_a_refused_one_does_not(house: House) -> None:
    session = await house.session()
    await validate(house, session)
    for refusal in (ports.RunnerUnavailable(), ports.RunnerRefused("edit_precondition_failed")):
        house.runner.answers["edit_project_files"] = refusal
        assert (await edit(house, session))["success"] is False
        assert await status(house, session) == "passed"
    house.runner.answers["edit_project_files"] = ports.RunnerOutcomeUnknown()
    assert (await edit(house, session))["success"] is False
    assert await status(house, session) == "stale"


@requirement("S-74", "S-41", "S-13")
async def test_a_failure_older_than_the_ledger_still_counts(house: House) -> None:
    session = await house.session()
    await validate(house, session, "failed", 2)
    await house.database.write(lambda tx: _fill(tx, session, 2000))
    shown = await handoff(house, session)
    assert shown["handoff_brief"]["validation"]["status"] == "failed"
    assert shown["acceptance"]["state"] == "blocked"


def _fill(tx: Transaction, session_id: str, count: int) -> None:
    session = stored_sessions.find(tx, session_id)
    assert session is not None
    kind = ledger.Kind.CALL_STARTED
    written = (ledger.Event(event_id=f"evt_{number:016d}", kind=kind, at=1) for number in range(count))
    stored_sessions.append(tx, session, written, now=1)


@requirement("S-74", "S-41")
async def test_one_scope_word_with_other_arguments_is_one_line_and_without_it_the_arguments_are(
    house: House,
) -> None:
    session = await house.session()
    await validate(house, session, "failed", 1, argv=["pytest", "-x"])
    await validate(house, session, argv=["make", "test"])
    assert await status(house, session) == "passed"
    await validate(house, session, "failed", 1, argv=["ruff"], validation_scope=None)
    await validate(house, session, argv=["ruff"], cwd="src", validation_scope=None)
    shown = (await handoff(house, session))["handoff_brief"]["validation"]
    identity = validation.scope_of(["ruff"], "", None).identity
    assert shown["status"] == "failed"
    assert shown["open_failures"]["items"] == [f"unknown:validation-{identity[:16]}"]
    await validate(house, session, argv=["ruff"], validation_scope=None)
    assert await status(house, session) == "passed"


@requirement("S-74", "S-40", "H-32")
async def test_a_process_that_could_not_be_started_is_no_attempt(house: House) -> None:
    session = await house.session()
    house.runner.answers["start_process_job"] = ports.RunnerRefused("process_spawn_failed")
    arguments = {"argv": ["nothing"], "purpose": "validation", "session_id": session}
    refused = await house.refusal("run_process", project=DEMO, **arguments)
    assert refused["error_kind"] == "process_spawn_failed"
    shown = await handoff(house, session)
    assert shown["handoff_brief"]["validation"]["status"] == "not_run"
    assert "acceptance" not in shown


@requirement("S-74", "S-41", "S-43")
async def test_the_257th_scope_makes_the_status_inconclusive_and_evicts_none(house: House) -> None:
    session = await house.session()
    await house.database.write(lambda tx: _conclude(tx, session, 256))
    assert await status(house, session) == "passed"
    await validate(house, session, validation_scope="one-too-many")
    assert await status(house, session) == "inconclusive"
    await validate(house, session, "failed", 1, validation_scope="scope-0")
    assert await status(house, session) == "failed"
    await validate(house, session, validation_scope="scope-0")
    assert await status(house, session) == "inconclusive"
    kept = await house.database.read(lambda tx: validations.facts(tx, session))
    assert len(kept.scopes) == 256
    assert [scope.ever_failed for scope in kept.scopes if scope.identity == "scope-0"] == [True]


def _conclude(tx: Transaction, session: str, count: int) -> None:
    for number in range(count):
        scope = validation.Scope(identity=f"scope-{number}", name=f"scope-{number}")
        job_id = f"wc_job_{number:016d}"
        validation_recording.begin(
            tx, job_id=job_id, sessions={session: number - 1000}, project=DEMO, scope=scope
        )
        events = {session: f"evt_{number:016d}"}
        validation_recording.close_call(tx, job_id=job_id, events=events, at=number, verdict=Verdict.PASSED)


@requirement("S-74", "S-10", "R-64", "S-41")
async def test_a_corrected_lost_job_replaces_its_verdict_by_a_second_event(house: House) -> None:
    session = await house.session()
    job_id = (await validate(house, session, "running", None))["job"]["job_id"]
    await job_recording.change(
        house.services, job_id, lambda job: ruled_lost(job, DEADLINE_EXCEEDED, at=house.now)
    )
    assert await status(house, session) == "inconclusive"
    first = await newest_event(house, session)
    await ends(house, job_id, State.COMPLETED, 0)
    assert await status(house, session) == "passed"
    second = await newest_event(house, session)
    assert [event["validation"]["verdict"] for event in (first, second)] == ["inconclusive", "passed"]
    refs = [item["ref"] for item in (await handoff(house, session))["acceptance"]["evidence"]["items"]]
    assert second["event_id"] in refs
    assert first["event_id"] not in refs


@requirement("S-74", "S-10", "R-64")
async def test_a_lost_job_that_is_corrected_during_a_replay_replaces_its_verdict_too(house: House) -> None:
    session = await house.session()
    job_id = (await validate(house, session, "running", None, idempotency_key="k"))["job"]["job_id"]
    await job_recording.change(
        house.services, job_id, lambda job: ruled_lost(job, DEADLINE_EXCEEDED, at=house.now)
    )

    async def corrected(_body: Mapping[str, Any]) -> JsonObject:
        await ends(house, job_id, State.FAILED, 1)
        return {"job": {}, "stdout_tail": "", "stderr_tail": ""}

    house.runner.answers["job_snapshot"] = corrected
    await validate(house, session, idempotency_key="k")
    assert await status(house, session) == "failed"


@requirement("H-40", "H-64", "S-10")
async def test_a_validation_that_ends_while_the_runner_is_asked_is_told_and_counted(house: House) -> None:
    session = await house.session()
    job_id = (await validate(house, session, "running", None))["job"]["job_id"]

    async def busy(_body: Mapping[str, Any]) -> JsonObject:
        await ends(house, job_id, State.COMPLETED, 0)
        return {"available": True, "dirty": False, "conflicted": False}

    house.runner.answers["git_status"] = busy
    shown = (await house.output("read_session_handoff", session_id=session))["handoff_brief"]
    assert shown["basis"]["reason_codes"] == ["session_changed_during_snapshot"]
    assert (shown["validation"]["status"], shown["progress"]["state"]) == ("passed", "ready_to_continue")
    assert (shown["attention"]["active_jobs"], shown["attention"]["terminal_pending_jobs"]) == (0, 1)


@requirement("S-41")
async def test_an_older_attempt_that_ends_later_does_not_replace_a_newer_verdict(house: House) -> None:
    session = await house.session()
    slow = (await validate(house, session, "running", None))["job"]["job_id"]
    await validate(house, session)
    await ends(house, slow, State.FAILED, 1)
    kept = await house.database.read(lambda tx: validations.facts(tx, session))
    assert [(scope.verdict, scope.ever_failed) for scope in kept.scopes] == [(Verdict.PASSED, True)]


@requirement("S-07", "S-10", "S-40", "S-77")
async def test_a_closed_session_still_learns_how_its_validation_ended(house: House) -> None:
    session = await house.session()
    job_id = (await validate(house, session, "running", None))["job"]["job_id"]
    await house.output("close_session", session_id=session)
    await ends(house, job_id, State.FAILED, 1)
    assert await status(house, session) == "failed"
    assert (await newest_event(house, session))["kind"] == "validation_job_terminal"


@requirement("S-40", "M-42")
async def test_the_recorder_has_an_attempt_of_its_own(house: House) -> None:
    session, recorder = await house.session(), await house.session()
    await validate(house, session, recorder=recorder)
    assert [await status(house, name) for name in (session, recorder)] == ["passed", "passed"]
    await validate(house, None)
    await validate(house, None, "failed", 1, recorder=recorder)
    assert [await status(house, name) for name in (session, recorder)] == ["passed", "failed"]


@requirement("S-42", "R-57")
async def test_a_replay_is_no_newer_evidence_than_its_job(house: House) -> None:
    session, late = await house.session(), await house.session()
    first = await validate(house, session, idempotency_key="k")
    await edit(house)
    again = await validate(house, session, idempotency_key="k")
    assert (again["replayed"], again["job"]["job_id"]) == (True, first["job"]["job_id"])
    await validate(house, late, idempotency_key="k")
    assert [await status(house, name) for name in (session, late)] == ["stale", "stale"]
    await validate(house, None, idempotency_key="other")
    await validate(house, late, idempotency_key="other")
    assert await status(house, late) == "stale"


@requirement("S-42", "S-40")
async def test_a_conflicting_key_takes_no_attempt_of_another_call_away(house: House) -> None:
    session = await house.session()
    await validate(house, session, idempotency_key="k")
    arguments: dict[str, Any] = {"argv": ["other"], "purpose": "validation", "idempotency_key": "k"}
    refused = await house.refusal("run_process", project=DEMO, session_id=session, **arguments)
    assert refused["error_kind"] == "idempotency_conflict"
    kept = await house.database.read(lambda tx: validations.facts(tx, session))
    assert (kept.attempts, len(kept.scopes)) == (1, 1)


@requirement("S-40", "S-10", "S-14")
async def test_a_validation_whose_call_could_not_be_ended_still_tells_its_end(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "SETTLE_AFTER_S", (0.01,) * 200)
    session = await house.session()
    await validate(house, session)
    await house.database.write(lambda tx: tx.change(text(evidence_desk.NO_MORE_ENDS)))
    evidence_desk.work_of(house, "failed", 1)
    lost = {"argv": ["pytest"], "purpose": "validation", "validation_scope": "unit", "session_id": session}
    refused = await house.refusal("run_process", project=DEMO, **lost)
    assert (refused["error_kind"], refused["state_changed"]) == ("internal_error", None)
    await house.database.write(lambda tx: tx.change(text("DROP TRIGGER no_more_ends")))
    async with asyncio.timeout(PATIENCE_S):
        while await status(house, session) != "failed":  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
    assert (await newest_event(house, session))["kind"] == "validation_job_terminal"


@requirement("S-40", "S-42", "S-14")
async def test_a_start_settles_what_the_server_before_left_open(house: House) -> None:
    session, told = await house.session(), await house.session()
    job_id = (await validate(house, told, "running", None, idempotency_key="k"))["job"]["job_id"]
    await validate(house, session, "running", None, idempotency_key="k")

    def leave_open(tx: Transaction) -> None:
        attempts = validations.of_job(tx, job_id)
        attempt = next(attempt for attempt in attempts if attempt.session_id == session)
        validations.mark(tx, attempt, open_calls=1, is_kept=False)
        changes.begin(tx, call_id="wc_call_gone", project=OTHER, at=1)

    await house.database.write(leave_open)
    await ends(house, job_id, State.COMPLETED, 0)
    assert await status(house, session) == "not_run"
    settled = [await house.database.write(lambda tx: unfinished.settle(tx, house.services)) for _ in range(2)]
    assert settled == [1, 0]
    assert [await status(house, name) for name in (session, told)] == ["passed", "passed"]
    for name in (session, told):
        events = (await house.output("read_session_summary", session_id=name))["events"]
        assert [event["kind"] for event in events].count("validation_job_terminal") == 1
    assert await house.database.read(lambda tx: changes.counter(tx, OTHER)) == 1
    assert await house.database.read(lambda tx: jobs.find(tx, job_id)) is not None
