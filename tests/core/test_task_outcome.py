"""Proves every fact, reason word and history status of ``finish_coding_task`` (S-68, S-77)."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core import handoff_histories
from tests.requirements import requirement
from webcodex.core import handoff_facts, observations
from webcodex.core import task_outcome as outcomes
from webcodex.core.handoff_facts import Missing, Validation, ValidationStatus, Verdict
from webcodex.core.json_value import JsonObject

SPEC: Final = Path(__file__).parents[2] / "docs/spec/30-sessions-and-evidence.md"
CLEAN: Final = handoff_histories.git()
CALM: Final = handoff_histories.facts()


def job(state: handoff_facts.JobState, purpose: handoff_facts.JobPurpose) -> handoff_facts.Job:
    return handoff_histories.job(1, state=state, purpose=purpose)


def scope(verdict: Verdict, *, ever_failed: bool = False) -> handoff_facts.ScopeVerdict:
    return handoff_histories.scope(1, verdict, ever_failed=ever_failed)


def check(status: handoff_facts.OutputStatus, *, counter_moved: bool = False) -> handoff_facts.OutputCheck:
    outputs = (handoff_facts.Output(path="dist/a", status=status),)
    return handoff_facts.OutputCheck(outputs=outputs, checked_at=1, counter_moved=counter_moved)


def judged(
    listing: outcomes.Listing | None = None,
    recorded: outcomes.Recorded | None = None,
    *,
    summary_only: bool = False,
    **changed: Any,
) -> dict[str, Any]:
    return dict(
        outcomes.outcome(
            replace(CALM, **changed),
            listing or outcomes.Listing(),
            recorded or outcomes.Recorded(),
            summary_only=summary_only,
        )
    )


def status_is(status: ValidationStatus) -> dict[str, Any]:
    return {"validation": Validation(status=status, attempts=1)}


BLOCKED: Final[dict[str, dict[str, Any]]] = {
    "workspace_conflicts": {"workspace": replace(CLEAN, conflicted=True)},
    "sensitive_path_risk": {"listing": outcomes.Listing(has_sensitive_path=True)},
    "blocking_active_jobs": {
        "jobs": handoff_facts.Jobs(
            unended=(job(handoff_facts.JobState.RUNNING, handoff_facts.JobPurpose.WORK),), recorded=1
        )
    },
    "unexpected_tool_failures": {"recorded": outcomes.Recorded(has_unproven_change=True)},
    "validation_failed": status_is(ValidationStatus.FAILED),
    "outputs_missing": {"output_check": check(handoff_facts.OutputStatus.MISSING)},
    "outputs_unavailable": {"output_check": check(handoff_facts.OutputStatus.UNAVAILABLE)},
}
WARNED: Final[dict[str, dict[str, Any]]] = {
    "workspace_not_checked": {"workspace": Missing.WORKSPACE_NOT_REQUESTED},
    "workspace_observation_failed": {"workspace": Missing.WORKSPACE},
    "workspace_observation_incomplete": {"listing": outcomes.Listing(is_truncated=True)},
    "workspace_dirty": {"workspace": replace(CLEAN, dirty=True)},
    "hygiene_untracked_files": {"listing": outcomes.Listing(has_untracked=True)},
    "jobs_terminal_pending": {"jobs": handoff_facts.Jobs(terminal_pending=1, recorded=1)},
    "validation_not_run": status_is(ValidationStatus.NOT_RUN),
    "validation_stale_after_changes": status_is(ValidationStatus.STALE),
    "validation_inconclusive": status_is(ValidationStatus.INCONCLUSIVE),
    "validation_unknown": {"validation": Missing.VALIDATION},
}
RESERVED: Final = {"expectation_mismatches", "validation_not_run_with_review_evidence"}


@requirement("S-68", "S-77")
@pytest.mark.parametrize("word", BLOCKED)
def test_each_blocking_reason_fails_the_outcome(word: str) -> None:
    shown = judged(**BLOCKED[word])
    assert shown["task_outcome"] == {
        "status": "fail",
        "blocking": True,
        "blocking_reasons": [word],
        "warning_reasons": [],
    }
    assert len(shown["hard_blockers"]) == 1
    assert shown["verdict"] == outcomes.VERDICTS[outcomes.Status.FAILED]


@requirement("S-68", "S-77")
@pytest.mark.parametrize("word", WARNED)
def test_each_warning_reason_warns_and_blocks_nothing(word: str) -> None:
    shown = judged(**WARNED[word])
    assert shown["task_outcome"] == {
        "status": "warn",
        "blocking": False,
        "blocking_reasons": [],
        "warning_reasons": [word],
    }
    assert len(shown["advisories"]) == 1
    assert shown["verdict"] == outcomes.VERDICTS[outcomes.Status.WARNED]


@requirement("S-68")
def test_calm_work_passes_and_a_service_or_a_missing_repository_disturbs_nothing() -> None:
    service = job(handoff_facts.JobState.RUNNING, handoff_facts.JobPurpose.SERVICE)
    for changed in (
        {},
        {"workspace": handoff_facts.Workspace.NON_GIT},
        {"jobs": handoff_facts.Jobs(unended=(service,), recorded=1)},
        {"validation": Missing.VALIDATION_NOT_REQUESTED},
        {"output_check": check(handoff_facts.OutputStatus.VERIFIED, counter_moved=True)},
    ):
        shown = judged(**changed)
        assert shown["task_outcome"]["status"] == "pass"
        assert (shown["hard_blockers"], shown["advisories"]) == ([], [])
        assert shown["verdict"] == outcomes.VERDICTS[outcomes.Status.PASSED]
    recovering = job(handoff_facts.JobState.RECOVERING, handoff_facts.JobPurpose.SERVICE)
    shown = judged(jobs=handoff_facts.Jobs(unended=(recovering,), recorded=1))
    assert shown["task_outcome"]["blocking_reasons"] == ["blocking_active_jobs"]


@requirement("S-68", "S-77")
def test_the_reasons_are_those_of_the_specification() -> None:
    text = SPEC.read_text(encoding="utf-8")
    for heading, tested, table in (
        ("Blocking", BLOCKED, outcomes.BLOCKING),
        ("Warning", WARNED, outcomes.WARNING),
    ):
        rows = text.split(f"| {heading} reason | When |\n|---|---|\n")[1].split("\n\n")[0].splitlines()
        words = {word for row in rows for word in re.findall(r"`([a-z_]+)`", row.split("|")[1])} - RESERVED
        assert words == set(tested) == {reason.word for reason in table}


@requirement("S-68")
def test_every_text_is_short_and_none_claims_that_the_task_is_over() -> None:
    texts = [reason.text for reason in (*outcomes.BLOCKING, *outcomes.WARNING)]
    texts += [text for text, _ in outcomes.NOTES]
    texts += outcomes.VERDICTS.values()
    assert len(set(texts)) == len(texts)
    assert all(0 < len(text) <= 160 for text in texts)
    assert not [text for text in texts if "complete" in text.lower() or "accepted" in text.lower()]
    assert max(len(table) for table in (outcomes.BLOCKING, outcomes.WARNING, outcomes.NOTES)) <= 16


@requirement("S-68", "S-77", "S-41")
@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        ((), "clean"),
        ((scope(Verdict.PASSED), scope(Verdict.INCONCLUSIVE)), "clean"),
        ((scope(Verdict.PASSED, ever_failed=True),), "mixed_resolved"),
        (
            (scope(Verdict.PASSED, ever_failed=True), scope(Verdict.FAILED, ever_failed=True)),
            "mixed_unresolved",
        ),
        ((scope(Verdict.PASSED), scope(Verdict.INCONCLUSIVE, ever_failed=True)), "mixed_unresolved"),
        ((scope(Verdict.FAILED, ever_failed=True), scope(Verdict.INCONCLUSIVE)), "failed"),
    ],
)
def test_the_history_tells_what_became_of_failures(
    scopes: tuple[handoff_facts.ScopeVerdict, ...], status: str
) -> None:
    shown = judged(validation=Validation(status=ValidationStatus.PASSED, scopes=scopes, attempts=1))
    assert shown["evidence_history"] == {"status": status}


@requirement("S-68", "S-77")
def test_the_facts_count_scopes_by_their_newest_verdict() -> None:
    scopes = (
        scope(Verdict.PASSED),
        scope(Verdict.PASSED, ever_failed=True),
        scope(Verdict.FAILED, ever_failed=True),
        scope(Verdict.INCONCLUSIVE, ever_failed=True),
    )
    recorded = outcomes.Recorded(changed_paths=("b.py", "a.py"), executions=3)
    shown = judged(
        recorded=recorded,
        validation=Validation(status=ValidationStatus.FAILED, scopes=scopes, attempts=9),
        jobs=handoff_facts.Jobs(
            unended=(job(handoff_facts.JobState.QUEUED, handoff_facts.JobPurpose.WORK),), recorded=1
        ),
        workspace=replace(CLEAN, dirty=True, conflicted=True),
    )
    assert shown["facts"] == {
        "work_performed": True,
        "changed_paths": ["b.py", "a.py"],
        "executions": 3,
        "validations_passed": 2,
        "validations_failed": 1,
        "validations_skipped": 1,
        "resolved_failures": 1,
        "unresolved_failures": 1,
        "workspace_state": "conflicted",
        "active_jobs": 1,
        "evidence_integrity": "clean",
    }
    assert judged(recorded=recorded, summary_only=True)["facts"]["changed_paths"] == 2


@requirement("S-68", "S-45", "S-77")
def test_what_cannot_be_read_is_null_and_said() -> None:
    shown = judged(validation=Missing.VALIDATION, jobs=Missing.JOBS)
    failures = {"resolved_failures", "unresolved_failures"}
    counts = {"validations_passed", "validations_failed", "validations_skipped", "active_jobs"} | failures
    assert {name for name, value in shown["facts"].items() if value is None} == counts
    assert shown["evidence_history"] == {"status": None}
    assert "The jobs could not be read." in shown["informational_notes"]


@requirement("S-68", "S-77")
@pytest.mark.parametrize(
    ("workspace", "state"),
    [
        (CLEAN, "clean"),
        (replace(CLEAN, dirty=True), "dirty"),
        (replace(CLEAN, dirty=True, conflicted=True), "conflicted"),
        (handoff_facts.Workspace.NON_GIT, "non_git"),
        (Missing.WORKSPACE_NOT_REQUESTED, "not_checked"),
        (Missing.WORKSPACE, "unavailable"),
    ],
)
def test_the_workspace_is_told_in_one_word(workspace: handoff_facts.WorkspaceFacts, state: str) -> None:
    assert judged(workspace=workspace)["facts"]["workspace_state"] == state


@requirement("S-68", "S-77")
@pytest.mark.parametrize(
    ("ledger", "status"),
    [
        (handoff_facts.Ledger(), "clean"),
        (handoff_facts.Ledger(events_evicted=1), "warning"),
        (Missing.LEDGER, "error"),
    ],
)
def test_integrity_is_what_the_ledger_still_holds(ledger: handoff_facts.LedgerFacts, status: str) -> None:
    shown = judged(ledger=ledger)
    assert shown["evidence_integrity"] == {"status": status}
    assert shown["facts"]["evidence_integrity"] == status


@requirement("S-68")
@pytest.mark.parametrize(
    "changed",
    [
        {"jobs": handoff_facts.Jobs(recorded=1)},
        {
            "ledger": handoff_facts.Ledger(
                events=(handoff_facts.PathEvent(write_like=True, changed_paths=("a",)),)
            )
        },
        {
            "runs": (
                handoff_facts.Run(
                    run_id="wc_agent_run_1",
                    state=handoff_facts.RunState.COMPLETED,
                    is_outcome_unknown=False,
                    updated_at=1,
                ),
            )
        },
    ],
)
def test_work_was_performed_when_a_change_a_job_or_a_run_is_recorded(changed: dict[str, Any]) -> None:
    assert judged()["facts"]["work_performed"] is False
    assert judged(**changed)["facts"]["work_performed"] is True


def finished(**facts: Any) -> JsonObject:
    return {"kind": "tool_call_finished", "status": "succeeded", **facts}


UNPROVEN: Final = {
    "write_like": True,
    "status": "failed",
    "execution_state": "outcome_unknown",
    "observed_paths": ["a.py", "b.py"],
}


@requirement("S-68", "S-12", "S-77")
@pytest.mark.parametrize(
    ("later", "is_left"),
    [
        ([], True),
        ([finished(observed_paths=["a.py"])], True),
        ([finished(observed_paths=["a.py"]), finished(observed_paths=["c.py", "b.py"])], False),
        ([finished(observed_paths=["a.py", "b.py"], status="failed")], True),
        ([finished(observed_paths=["a.py", "b.py"], write_like=True)], True),
        ([{"kind": "tool_call_started", "observed_paths": ["a.py", "b.py"], "status": "succeeded"}], True),
        ([finished(observed_paths=["a.py", "b.py"]), finished(**UNPROVEN)], True),
    ],
)
def test_an_unknown_change_stands_until_each_of_its_paths_was_read_again(
    later: list[JsonObject], is_left: bool
) -> None:
    earlier = finished(observed_paths=["a.py", "b.py"])
    assert outcomes.recorded([earlier, finished(**UNPROVEN), *later]).has_unproven_change is is_left


@requirement("S-68", "S-12")
def test_an_unknown_change_whose_paths_are_not_all_told_cannot_be_settled_by_reading() -> None:
    reread = finished(observed_paths=["a.py", "b.py"])
    cut = {**UNPROVEN, "paths_truncated": True, "observed_total": 3}
    nameless = {key: value for key, value in UNPROVEN.items() if key != "observed_paths"}
    for unproven in (cut, nameless):
        assert outcomes.recorded([finished(**unproven), reread]).has_unproven_change is True


@requirement("S-68", "S-77")
def test_paths_are_the_newest_hundred_once_each_and_executions_are_finished_processes() -> None:
    events = [finished(write_like=True, changed_paths=[f"{number:03d}.py"]) for number in range(120)]
    events += [finished(write_like=True, changed_paths=["000.py", "/etc/planted"])]
    events += [finished(tool_name="run_process"), finished(tool_name="run_process", status="failed")]
    events += [{"kind": "tool_call_started", "tool_name": "run_process"}]
    told = outcomes.recorded(events)
    assert told.changed_paths[:3] == ("000.py", "119.py", "118.py")
    assert (len(told.changed_paths), told.executions) == (100, 2)
    assert "/etc/planted" not in told.changed_paths


@requirement("S-68", "H-15", "H-34", "H-63")
@settings(max_examples=15)
@given(handoff_histories.histories, handoff_histories.reports_drawn, st.booleans())
def test_external_reports_change_no_outcome(
    facts: handoff_facts.HandoffFacts, reports: tuple[observations.Observation, ...], summary_only: bool
) -> None:
    def outcome(given: tuple[observations.Observation, ...]) -> JsonObject:
        shown = outcomes.outcome(
            replace(facts, reports=given),
            outcomes.Listing(),
            outcomes.Recorded(),
            summary_only=summary_only,
        )
        return {key: value for key, value in shown.items() if key != "informational_notes"}

    assert outcome(()) == outcome(reports)
