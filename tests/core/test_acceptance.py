"""The advisory acceptance beside a brief (H-30 to H-35)."""

import hashlib
from typing import Any

import pytest

from tests.core import brief_schema
from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import acceptance, handoff_facts, handoff_text, observations

Kind = handoff_facts.MessageKind
Missing = handoff_facts.Missing
Output = handoff_facts.Output
OutputStatus = handoff_facts.OutputStatus
RunState = handoff_facts.RunState
Status = handoff_facts.ValidationStatus
Verdict = handoff_facts.Verdict

PASSED = handoff_facts.Validation(status=Status.PASSED, attempts=1)
NOT_RUN = handoff_facts.Validation(status=Status.NOT_RUN)
CHANGE = handoff_facts.Ledger(events=(handoff_facts.PathEvent(write_like=True, changed_paths=("clamp.py",)),))


def shown(**changed: object) -> dict[str, Any]:
    given = acceptance.acceptance(made.facts(**changed))
    assert given is not None
    brief_schema.acceptance(given, "acceptance")
    assert handoff_text.size_bytes(given) <= 4096
    return dict(given)


def run(state: RunState, *, is_outcome_unknown: bool = False, number: int = 1) -> handoff_facts.Run:
    return handoff_facts.Run(
        run_id=f"wc_agent_run_{number:016d}",
        state=state,
        is_outcome_unknown=is_outcome_unknown,
        updated_at=made.NOW + number,
    )


def check(*statuses: OutputStatus, counter_moved: bool = False) -> handoff_facts.OutputCheck:
    outputs = tuple(Output(path=f"out{number}", status=status) for number, status in enumerate(statuses))
    return handoff_facts.OutputCheck(outputs=outputs, checked_at=made.NOW, counter_moved=counter_moved)


def validation(status: Status) -> handoff_facts.Validation:
    return handoff_facts.Validation(status=status, attempts=1)


@requirement("H-30", "H-31")
def test_whole_acceptance_of_a_passed_validation() -> None:
    facts = {
        "validation": handoff_facts.Validation(
            status=Status.PASSED, scopes=(made.scope(4, Verdict.PASSED),), attempts=1
        ),
        "workspace": Missing.WORKSPACE_NOT_REQUESTED,
        "reports": (made.report(1),),
    }
    assert shown(**facts) == {
        "version": 1,
        "advisory": True,
        "state": "ready_for_review",
        "reason_codes": ["external_reports_unknown", "validation_passed"],
        "source_freshness": "unproven",
        "evidence": {
            "items": [
                {
                    "kind": "validation",
                    "ref": "evt_0000000000000004",
                    "status": "passed",
                    "at": made.NOW + 4,
                },
                {
                    "kind": "external_observation",
                    "ref": f"{'a' * 64}:{1:064x}",
                    "status": "unknown",
                    "at": made.NOW + 1,
                },
            ],
            "total": 2,
            "returned": 2,
            "truncated": False,
        },
    }


@requirement("H-32")
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"messages": (made.message(1, Kind.RISK),)},
        {"reports": (made.report(1, 1),)},
        {"ledger": handoff_facts.Ledger(events=(handoff_facts.PathEvent(observed_paths=("a",)),))},
        {"ledger": handoff_facts.Ledger(events=(handoff_facts.PathEvent(changed_paths=("a",)),))},
        {"ledger": handoff_facts.Ledger(events=(handoff_facts.PathEvent(write_like=True),))},
        {"jobs": Missing.JOBS, "validation": Missing.VALIDATION, "messages": Missing.MESSAGES},
    ],
)
def test_without_native_evidence_there_is_no_acceptance(changed: dict[str, object]) -> None:
    assert acceptance.acceptance(made.facts(**({"validation": NOT_RUN} | changed))) is None


@requirement("H-32")
@pytest.mark.parametrize(
    "changed",
    [
        {"validation": handoff_facts.Validation(status=Status.NOT_RUN, attempts=1)},
        {"jobs": handoff_facts.Jobs(recorded=1)},
        {"runs": (run(RunState.COMPLETED),)},
        {"output_check": check(OutputStatus.VERIFIED)},
        {"ledger": CHANGE},
    ],
)
def test_each_kind_of_native_evidence_makes_an_acceptance(changed: dict[str, object]) -> None:
    assert acceptance.acceptance(made.facts(**({"validation": NOT_RUN} | changed))) is not None


@requirement("H-32", "H-33")
def test_unreadable_ledger_is_unknown_whatever_else_is_there() -> None:
    expected = {
        "version": 1,
        "advisory": True,
        "state": "unknown",
        "reason_codes": ["ledger_unavailable"],
        "source_freshness": "unproven",
        "evidence": {"items": [], "total": 0, "returned": 0, "truncated": False},
    }
    assert shown(ledger=Missing.LEDGER) == expected
    assert shown(ledger=Missing.LEDGER, runs=(run(RunState.LOST),), reports=(made.report(1),)) == expected


@requirement("H-33", "H-34", "H-63")
@pytest.mark.parametrize(
    ("state", "codes", "changed"),
    [
        ("blocked", ["workspace_conflict"], {"workspace": made.git(conflicted=True)}),
        ("blocked", ["active_jobs", "blocking_jobs"], {"jobs": made.jobs(made.job(1))}),
        (
            "blocked",
            ["recovering_jobs"],
            {"jobs": made.jobs(made.job(1, state=handoff_facts.JobState.RECOVERING))},
        ),
        ("blocked", ["validation_failed"], {"validation": validation(Status.FAILED)}),
        ("blocked", ["open_risks"], {"messages": (made.message(1, Kind.RISK),)}),
        ("blocked", ["outputs_missing"], {"output_check": check(OutputStatus.MISSING)}),
        ("blocked", ["outputs_unavailable"], {"output_check": check(OutputStatus.UNAVAILABLE)}),
        (
            "blocked",
            ["outputs_missing"],
            {"output_check": check(OutputStatus.MISSING, counter_moved=True)},
        ),
        ("in_progress", ["active_runs"], {"runs": (run(RunState.STARTING),)}),
        ("in_progress", ["active_runs"], {"runs": (run(RunState.RUNNING),)}),
        ("in_progress", ["active_runs"], {"runs": (run(RunState.WAITING_PERMISSION),)}),
        ("in_progress", ["validation_stale"], {"validation": validation(Status.STALE)}),
        ("in_progress", ["validation_not_run"], {"validation": NOT_RUN}),
        ("in_progress", ["validation_not_run"], {"validation": validation(Status.NOT_RUN)}),
        (
            "in_progress",
            ["outputs_stale"],
            {"output_check": check(OutputStatus.VERIFIED, counter_moved=True)},
        ),
        (
            "in_progress",
            ["outputs_stale", "validation_not_run"],
            {"output_check": check(OutputStatus.VERIFIED, counter_moved=True), "validation": NOT_RUN},
        ),
        ("needs_attention", ["open_questions"], {"messages": (made.message(1, Kind.QUESTION),)}),
        ("needs_attention", ["open_todos"], {"messages": (made.message(1, Kind.TODO),)}),
        ("needs_attention", ["open_guidance"], {"messages": (made.message(1, Kind.GUIDANCE),)}),
        ("needs_attention", ["basis_incomplete"], {"workspace": Missing.WORKSPACE}),
        ("needs_attention", ["basis_incomplete"], {"jobs": Missing.JOBS}),
        ("needs_attention", ["basis_incomplete"], {"validation": Missing.VALIDATION}),
        (
            "needs_attention",
            ["basis_incomplete"],
            {"changed": frozenset({handoff_facts.Changed.REPORTS})},
        ),
        (
            "needs_attention",
            ["basis_incomplete", "validation_not_requested"],
            {"validation": Missing.VALIDATION_NOT_REQUESTED},
        ),
        ("needs_attention", ["validation_inconclusive"], {"validation": validation(Status.INCONCLUSIVE)}),
        ("needs_attention", ["runs_uncertain"], {"runs": (run(RunState.LOST),)}),
        (
            "in_progress",
            ["active_runs", "runs_uncertain"],
            {"runs": (run(RunState.STARTING, is_outcome_unknown=True),)},
        ),
        ("ready_for_review", [], {"runs": (run(RunState.COMPLETED),)}),
        ("ready_for_review", [], {"workspace": Missing.WORKSPACE_NOT_REQUESTED}),
        ("ready_for_review", ["external_reports_failure"], {"reports": (made.report(1, 7),)}),
        ("ready_for_review", ["external_reports_unknown"], {"reports": (made.report(1, None),)}),
        ("ready_for_review", [], {"reports": (made.report(1, 0),)}),
        ("ready_for_review", [], {"reports": handoff_facts.ReportsMissing.STORE}),
        (
            "ready_for_review",
            ["active_jobs"],
            {"jobs": made.jobs(made.job(1, purpose=handoff_facts.JobPurpose.SERVICE))},
        ),
        ("ready_for_review", ["outputs_verified"], {"output_check": check(OutputStatus.VERIFIED)}),
        (
            "ready_for_review",
            ["outputs_verified"],
            {"output_check": check(OutputStatus.VERIFIED), "validation": NOT_RUN},
        ),
        (
            "blocked",
            ["outputs_missing", "validation_not_run"],
            {"output_check": check(OutputStatus.VERIFIED, OutputStatus.MISSING), "validation": NOT_RUN},
        ),
    ],
)
def test_state_is_the_highest_class_with_a_code(
    state: str, codes: list[str], changed: dict[str, object]
) -> None:
    given = shown(**({"ledger": CHANGE} | changed))
    listed = [code for code in given["reason_codes"] if code != "validation_passed"]
    assert (given["state"], listed) == (state, codes)


@requirement("H-33")
def test_higher_classes_win_when_more_than_sixteen_codes_hold() -> None:
    everything = {
        "workspace": made.git(conflicted=True),
        "jobs": made.jobs(made.job(1), made.job(2, state=handoff_facts.JobState.RECOVERING)),
        "messages": tuple(made.message(number, kind) for number, kind in enumerate(Kind)),
        "validation": validation(Status.FAILED),
        "runs": (run(RunState.RUNNING), run(RunState.LOST, number=2)),
        "output_check": check(*OutputStatus, counter_moved=True),
        "reports": (made.report(1), made.report(2, 1)),
        "changed": frozenset(handoff_facts.Changed),
    }
    given = shown(**everything)
    assert given["state"] == "blocked"
    assert given["reason_codes"] == sorted(
        [
            *acceptance.CODES_BY_STATE[acceptance.State.BLOCKED],
            "active_runs",
            "outputs_stale",
            "basis_incomplete",
            "open_guidance",
            "open_questions",
            "open_todos",
            "runs_uncertain",
            "active_jobs",
            "external_reports_failure",
        ]
    )


@requirement("H-35")
def test_evidence_stands_in_the_order_of_its_kinds() -> None:
    given = shown(
        validation=handoff_facts.Validation(
            status=Status.INCONCLUSIVE,
            scopes=(
                made.scope(1, Verdict.PASSED, is_after=False),
                made.scope(3, Verdict.INCONCLUSIVE),
                made.scope(2, Verdict.FAILED),
            ),
            attempts=3,
        ),
        output_check=check(OutputStatus.VERIFIED, OutputStatus.MISSING, counter_moved=True),
        jobs=made.jobs(made.job(1), made.job(2, state=handoff_facts.JobState.RECOVERING)),
        runs=(run(RunState.LOST, is_outcome_unknown=True),),
        messages=(made.message(1, Kind.RISK), made.message(2, Kind.TODO), made.message(3, Kind.NOTE)),
        reports=(made.report(2, 0), made.report(1, 1)),
        workspace=made.git(dirty=True),
    )["evidence"]
    assert [(item["kind"], item["ref"][-3:], item["status"], item["at"]) for item in given["items"]] == [
        ("validation", "003", "inconclusive", made.NOW + 3),
        ("validation", "002", "failed", made.NOW + 2),
        ("validation", "001", "stale", made.NOW + 1),
        ("task_output", "ut0", "stale", made.NOW),
        ("task_output", "ut1", "missing", made.NOW),
        ("job", "002", "recovering", made.NOW + 2),
        ("job", "001", "running", made.NOW + 1),
        ("run", "001", "lost", made.NOW + 1),
        ("message", "002", "open", made.NOW + 2),
        ("message", "001", "open", made.NOW + 1),
        ("external_observation", "002", "reported_success", made.NOW + 2),
        ("external_observation", "001", "reported_failure", made.NOW + 1),
        ("workspace", "567", "dirty", None),
    ]
    assert (given["total"], given["returned"], given["truncated"]) == (13, 13, False)


@requirement("H-35")
@pytest.mark.parametrize(
    ("workspace", "ref", "status"),
    [
        (made.git(head="0123abc"), "0123abc", "clean"),
        (made.git(head=None, dirty=True), "workspace", "dirty"),
        (made.git(head="0123abc", dirty=True, conflicted=True), "0123abc", "conflicted"),
    ],
)
def test_workspace_evidence_names_its_head(workspace: handoff_facts.Git, ref: str, status: str) -> None:
    assert shown(workspace=workspace)["evidence"]["items"] == [
        {"kind": "workspace", "ref": ref, "status": status, "at": None}
    ]


@requirement("H-35")
def test_workspace_without_git_facts_is_no_evidence() -> None:
    for workspace in (handoff_facts.Workspace.NON_GIT, Missing.WORKSPACE_NOT_REQUESTED):
        assert shown(workspace=workspace)["evidence"]["total"] == 0


@requirement("H-35", "S-24")
def test_output_path_is_hashed_when_long_and_left_out_when_secret() -> None:
    long_path = "d/" * 100 + "x"
    paths = (long_path, "d/" * 100, "a\nb", made.SECRETS[0], long_path)
    outputs = tuple(Output(path=path, status=OutputStatus.VERIFIED) for path in paths)
    given = shown(
        output_check=handoff_facts.OutputCheck(outputs=outputs, checked_at=made.NOW),
        workspace=Missing.WORKSPACE_NOT_REQUESTED,
    )["evidence"]
    assert [item["ref"] for item in given["items"]] == [
        "sha256:" + hashlib.sha256(long_path.encode()).hexdigest(),
        "d/" * 100,
        "sha256:" + hashlib.sha256(b"a\nb").hexdigest(),
    ]
    assert (given["total"], given["truncated"]) == (4, True)


@requirement("H-30", "H-35")
def test_oversized_evidence_is_dropped_from_the_end_and_codes_stay() -> None:
    outputs = tuple(
        Output(path=f"{number:02d}" + "漢" * 198, status=OutputStatus.VERIFIED) for number in range(16)
    )
    given = shown(
        output_check=handoff_facts.OutputCheck(outputs=outputs, checked_at=made.NOW),
        messages=(made.message(1, Kind.TODO),),
    )
    assert given["evidence"]["total"] == 18
    assert [item["ref"][:2] for item in given["evidence"]["items"]] == ["00", "01", "02", "03", "04"]
    assert given["reason_codes"] == ["open_todos", "outputs_verified", "validation_passed"]


@requirement("H-30")
def test_evidence_fills_the_size_to_its_last_byte() -> None:
    def sized(letters: int) -> dict[str, Any]:
        paths = [f"{number:02d}" + "漢" * 198 for number in range(5)] + ["漢" * 130 + "x" * letters]
        outputs = tuple(Output(path=path, status=OutputStatus.VERIFIED) for path in paths)
        output_check = handoff_facts.OutputCheck(outputs=outputs, checked_at=made.NOW)
        return shown(output_check=output_check, workspace=Missing.WORKSPACE_NOT_REQUESTED)

    letters = max(number for number in range(70) if sized(number)["evidence"]["returned"] == 6)
    assert handoff_text.size_bytes(sized(letters)) == 4096
    assert sized(letters + 1)["evidence"]["returned"] == 5


@requirement("H-35", "S-46")
def test_verified_output_is_shown_as_verified_until_something_changes() -> None:
    for counter_moved, status in ((False, "verified"), (True, "stale")):
        given = shown(output_check=check(OutputStatus.VERIFIED, counter_moved=counter_moved))
        assert given["evidence"]["items"][0]["status"] == status


@requirement("H-34", "H-35")
def test_sixteen_items_at_most_and_all_are_counted() -> None:
    reports: tuple[observations.Observation, ...] = tuple(made.report(number, 0) for number in range(256))
    given = shown(reports=reports, workspace=Missing.WORKSPACE_NOT_REQUESTED)["evidence"]
    assert (given["total"], given["returned"]) == (256, 16)
    assert given["items"][0]["ref"].endswith(f"{255:064x}")


@requirement("H-66")
def test_resolving_a_question_changes_the_acceptance() -> None:
    question = made.message(1, Kind.QUESTION)
    answered = made.message(1, Kind.QUESTION, status=handoff_facts.MessageStatus.RESOLVED)
    assert shown(messages=(question,))["state"] == "needs_attention"
    assert shown(messages=(answered,))["state"] == "ready_for_review"
