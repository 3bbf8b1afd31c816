"""Where the work stands, what to do next and what the brief could not rest on (H-09 to H-13)."""

from typing import Any

import pytest

from tests.core import handoff_histories as made
from tests.requirements import requirement
from webcodex.core import handoff, handoff_facts, sessions

Kind = handoff_facts.MessageKind
Missing = handoff_facts.Missing
Purpose = handoff_facts.JobPurpose
State = handoff_facts.JobState
Status = handoff_facts.ValidationStatus
Verdict = handoff_facts.Verdict

CLOSED = made.session(lifecycle=sessions.Lifecycle.CLOSED)
DIRTY = made.git(dirty=True)
CONFLICT = made.git(dirty=True, conflicted=True)
RISK = (made.message(1, Kind.RISK),)
CHANGE = handoff_facts.Ledger(events=(handoff_facts.PathEvent(write_like=True, changed_paths=("clamp.py",)),))
READ = handoff_facts.Ledger(events=(handoff_facts.PathEvent(observed_paths=("clamp.py",)),))
SERVICE = made.job(1, purpose=Purpose.SERVICE)
RECOVERING = made.job(2, state=State.RECOVERING)


def validation(status: Status, *scopes: handoff_facts.ScopeVerdict) -> handoff_facts.Validation:
    return handoff_facts.Validation(status=status, scopes=scopes, attempts=len(scopes))


def brief(**changed: object) -> dict[str, Any]:
    return dict(handoff.brief(made.facts(**changed)))


@requirement("H-09", "H-63")
@pytest.mark.parametrize(
    ("state", "changed"),
    [
        ("closed", {"session": CLOSED}),
        ("closed", {"session": CLOSED, "workspace": CONFLICT, "messages": RISK}),
        ("blocked", {"workspace": CONFLICT}),
        ("blocked", {"jobs": made.jobs(made.job(1))}),
        ("blocked", {"jobs": made.jobs(made.job(1, purpose=Purpose.VALIDATION, state=State.QUEUED))}),
        ("blocked", {"jobs": made.jobs(RECOVERING)}),
        ("blocked", {"validation": validation(Status.FAILED)}),
        ("blocked", {"messages": RISK}),
        ("blocked", {"messages": RISK, "validation": validation(Status.STALE), "jobs": Missing.JOBS}),
        ("needs_validation", {"validation": validation(Status.STALE)}),
        ("needs_validation", {"validation": validation(Status.INCONCLUSIVE), "jobs": Missing.JOBS}),
        ("needs_validation", {"workspace": DIRTY, "validation": validation(Status.NOT_RUN)}),
        ("needs_validation", {"workspace": DIRTY, "validation": Missing.VALIDATION}),
        ("needs_validation", {"workspace": DIRTY, "validation": Missing.VALIDATION_NOT_REQUESTED}),
        ("insufficient_evidence", {"ledger": Missing.LEDGER}),
        ("insufficient_evidence", {"jobs": Missing.JOBS}),
        ("insufficient_evidence", {"messages": Missing.MESSAGES}),
        ("insufficient_evidence", {"workspace": Missing.WORKSPACE}),
        ("insufficient_evidence", {"workspace": Missing.WORKSPACE_NOT_REQUESTED}),
        ("insufficient_evidence", {"validation": Missing.VALIDATION}),
        ("insufficient_evidence", {"validation": Missing.VALIDATION_NOT_REQUESTED}),
        ("ready_to_continue", {}),
        ("ready_to_continue", {"validation": validation(Status.NOT_RUN)}),
        ("ready_to_continue", {"workspace": DIRTY}),
        ("ready_to_continue", {"workspace": handoff_facts.Workspace.NON_GIT}),
        ("ready_to_continue", {"jobs": made.jobs(SERVICE, terminal_pending=3)}),
        ("ready_to_continue", {"messages": (made.message(1, Kind.QUESTION), made.message(2, Kind.TODO))}),
    ],
)
def test_state_is_the_first_row_that_holds(state: str, changed: dict[str, object]) -> None:
    assert brief(**changed)["progress"]["state"] == state


@requirement("H-12", "H-63")
@pytest.mark.parametrize(
    ("action", "changed"),
    [
        ("Resolve the workspace conflict before changing anything else.", {"workspace": CONFLICT}),
        (
            "Observe the recovering jobs; do not start them again.",
            {"jobs": made.jobs(RECOVERING, made.job(1))},
        ),
        (
            "Observe the running jobs to their end; do not start them again.",
            {"jobs": made.jobs(made.job(1))},
        ),
        ("Inspect the failed validation and fix its cause.", {"validation": validation(Status.FAILED)}),
        ("Review the open risks.", {"messages": RISK}),
        ("Run validation for the current files.", {"validation": validation(Status.NOT_RUN)}),
        ("Run validation for the current files.", {"validation": validation(Status.STALE)}),
        ("Run validation for the current files.", {"validation": validation(Status.INCONCLUSIVE)}),
        (
            "Answer the open guidance, questions and todos.",
            {"messages": (made.message(1, Kind.GUIDANCE),)},
        ),
        ("Answer the open guidance, questions and todos.", {"messages": (made.message(1, Kind.QUESTION),)}),
        ("Answer the open guidance, questions and todos.", {"messages": (made.message(1, Kind.TODO),)}),
        ("Read the results of the finished jobs.", {"jobs": made.jobs(terminal_pending=1)}),
        ("Reread the recent files before editing.", {"ledger": READ}),
        ("Continue from the latest instruction after checking the current state.", {}),
        (
            "Continue from the latest instruction after checking the current state.",
            {"jobs": Missing.JOBS, "messages": Missing.MESSAGES, "ledger": Missing.LEDGER},
        ),
        (
            "Continue from the latest instruction after checking the current state.",
            {"jobs": made.jobs(SERVICE), "messages": (made.message(1, Kind.DECISION),)},
        ),
    ],
)
def test_each_trigger_gives_its_own_action(action: str, changed: dict[str, object]) -> None:
    assert brief(**changed)["next_actions"] == [action]


@requirement("H-12", "H-63")
def test_changed_paths_are_reread_and_reviewed() -> None:
    assert brief(ledger=CHANGE)["next_actions"] == [
        "Reread the recent files before editing.",
        "Review the recorded changes against the current workspace.",
    ]


@requirement("H-12")
def test_five_actions_are_shown_in_the_order_of_their_triggers() -> None:
    shown = brief(
        workspace=CONFLICT,
        jobs=made.jobs(RECOVERING, terminal_pending=1),
        validation=validation(Status.FAILED),
        messages=(*RISK, made.message(2, Kind.TODO)),
        ledger=CHANGE,
    )
    assert shown["next_actions"] == [
        "Resolve the workspace conflict before changing anything else.",
        "Observe the recovering jobs; do not start them again.",
        "Inspect the failed validation and fix its cause.",
        "Review the open risks.",
        "Answer the open guidance, questions and todos.",
    ]


@requirement("H-13", "H-63")
@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("continuation_unavailable", {"ledger": Missing.LEDGER, "validation": Missing.VALIDATION}),
        ("guidance_unavailable", {"messages": Missing.MESSAGES}),
        ("job_summary_unavailable", {"jobs": Missing.JOBS}),
        ("validation_unavailable", {"validation": Missing.VALIDATION}),
        ("validation_not_requested", {"validation": Missing.VALIDATION_NOT_REQUESTED}),
        ("workspace_unavailable", {"workspace": Missing.WORKSPACE}),
        ("workspace_not_requested", {"workspace": Missing.WORKSPACE_NOT_REQUESTED}),
        ("session_changed_during_snapshot", {"changed": frozenset({handoff_facts.Changed.SESSION})}),
        (
            "external_observations_changed_during_snapshot",
            {"changed": frozenset({handoff_facts.Changed.REPORTS})},
        ),
    ],
)
def test_each_gap_is_named_in_the_basis(code: str, changed: dict[str, object]) -> None:
    expected = [code, "validation_unavailable"] if code == "continuation_unavailable" else [code]
    assert brief(**changed)["basis"] == {"complete": False, "reason_codes": expected}


@requirement("H-13")
def test_basis_without_a_gap_is_complete() -> None:
    assert brief()["basis"] == {"complete": True, "reason_codes": []}


@requirement("H-13")
def test_first_release_says_which_sources_it_has_not() -> None:
    shown = brief(
        messages=Missing.MESSAGES,
        validation=Missing.VALIDATION,
        jobs=Missing.JOBS,
        workspace=Missing.WORKSPACE_NOT_REQUESTED,
    )
    assert shown["basis"] == {
        "complete": False,
        "reason_codes": [
            "guidance_unavailable",
            "job_summary_unavailable",
            "validation_unavailable",
            "workspace_not_requested",
        ],
    }
    assert shown["progress"]["state"] == "insufficient_evidence"
    assert shown["attention"] == dict.fromkeys(shown["attention"])
    assert shown["validation"]["status"] == "unavailable"
    assert shown["validation"]["reason_code"] == "validation_unavailable"


@requirement("H-40")
def test_change_during_a_snapshot_without_a_window_is_not_named() -> None:
    shown = brief(workspace=Missing.WORKSPACE_NOT_REQUESTED, changed=frozenset(handoff_facts.Changed))
    assert shown["basis"]["reason_codes"] == ["workspace_not_requested"]


@requirement("H-40")
@pytest.mark.parametrize(
    ("after", "changed"),
    [
        ((4, 2, 1), set()),
        ((5, 2, 1), {"session_changed_during_snapshot"}),
        ((4, 3, 1), {"session_changed_during_snapshot"}),
        ((4, 2, 2), {"external_observations_changed_during_snapshot"}),
        ((4, 2, handoff_facts.Count.UNREADABLE), {"external_observations_changed_during_snapshot"}),
        ((5, 2, 2), {"session_changed_during_snapshot", "external_observations_changed_during_snapshot"}),
    ],
)
def test_fence_names_what_moved(after: tuple[int, int, int], changed: set[str]) -> None:
    def fence(events_total: int, message_revision: int, report_count: int) -> handoff_facts.Fence:
        return handoff_facts.Fence(
            events_total=events_total, message_revision=message_revision, report_count=report_count
        )

    assert handoff_facts.changed_between(fence(4, 2, 1), fence(*after)) == changed


@requirement("S-43", "H-09")
def test_unreadable_ledger_makes_validation_unavailable_unless_nobody_asked() -> None:
    passed = validation(Status.PASSED, made.scope(1, Verdict.FAILED))
    asked = brief(ledger=Missing.LEDGER, validation=passed)["validation"]
    assert (asked["status"], asked["open_failures"]["items"]) == ("unavailable", [])
    unasked = brief(ledger=Missing.LEDGER, validation=Missing.VALIDATION_NOT_REQUESTED)["validation"]
    assert unasked["status"] == "not_requested"


@requirement("H-10")
@pytest.mark.parametrize(
    ("source", "status", "reason_code"),
    [
        (validation(Status.PASSED), "passed", None),
        (validation(Status.FAILED), "failed", None),
        (validation(Status.INCONCLUSIVE), "inconclusive", "validation_inconclusive"),
        (validation(Status.STALE), "stale", None),
        (validation(Status.NOT_RUN), "not_run", None),
        (Missing.VALIDATION_NOT_REQUESTED, "not_requested", "validation_not_requested"),
        (Missing.VALIDATION, "unavailable", "validation_unavailable"),
    ],
)
def test_validation_reason_matches_its_status(
    source: handoff_facts.ValidationFacts, status: str, reason_code: str | None
) -> None:
    shown = brief(validation=source)["validation"]
    assert (shown["status"], shown["reason_code"]) == (status, reason_code)


@requirement("H-10")
@pytest.mark.parametrize("status", Status)
def test_open_failures_are_the_newest_unpassed_scopes(status: Status) -> None:
    scopes = tuple(
        made.scope(number, list(Verdict)[number % 3], kind=list(handoff_facts.ScopeKind)[number % 2])
        for number in range(12)
    )
    shown = brief(validation=validation(status, *scopes))["validation"]["open_failures"]
    if status in {Status.STALE, Status.NOT_RUN}:
        assert shown == {"items": [], "total": 0, "returned": 0, "truncated": False}
    else:
        assert shown == {
            "items": [
                "diagnostic:scope-11",
                "test:scope-10",
                "test:scope-8",
                "diagnostic:scope-7",
                "diagnostic:scope-5",
            ],
            "total": 8,
            "returned": 5,
            "truncated": True,
        }


@requirement("H-10", "S-24")
def test_scope_with_an_unshowable_name_is_counted_and_left_out() -> None:
    names = (
        "a b",
        "x" * 233,
        made.SECRETS[0],
        handoff_facts.process_scope_identity("", "0123456789abcdef" * 4),
    )
    scopes = tuple(made.scope(number, Verdict.FAILED, identity=name) for number, name in enumerate(names))
    assert brief(validation=validation(Status.FAILED, *scopes))["validation"]["open_failures"] == {
        "items": ["unknown:validation-0123456789abcdef"],
        "total": 4,
        "returned": 1,
        "truncated": True,
    }
    longest = made.scope(1, Verdict.FAILED, identity="x" * 232)
    shown = brief(validation=validation(Status.FAILED, longest))["validation"]["open_failures"]
    assert shown["items"] == ["unknown:" + "x" * 232]
    assert handoff_facts.process_scope_identity("unit", "0123456789abcdef" * 4) == "unit"


@requirement("H-11", "S-45")
def test_job_counts_follow_state_and_purpose() -> None:
    unended = (
        made.job(1, state=State.QUEUED),
        made.job(2, state=State.AGENT_QUEUED, purpose=Purpose.VALIDATION),
        made.job(3, state=State.RUNNING, purpose=Purpose.SERVICE),
        made.job(4, state=State.STOP_REQUESTED),
        made.job(5, state=State.RECOVERING),
    )
    attention = brief(jobs=made.jobs(*unended, terminal_pending=2))["attention"]
    assert {key: count for key, count in attention.items() if key.endswith("_jobs")} == {
        "active_jobs": 4,
        "blocking_jobs": 3,
        "terminal_pending_jobs": 2,
        "recovering_jobs": 1,
    }


@requirement("H-11", "S-17")
def test_only_open_messages_that_are_not_superseded_ask_for_attention() -> None:
    resolved = {"status": handoff_facts.MessageStatus.RESOLVED}
    messages = (
        *(made.message(number, kind) for number, kind in enumerate(Kind)),
        made.message(20, Kind.RISK),
        made.message(21, Kind.RISK, superseded=True),
        made.message(22, Kind.TODO, **resolved),
    )
    attention = brief(messages=messages)["attention"]
    assert {key: count for key, count in attention.items() if key.startswith("open_")} == {
        "open_guidance": 1,
        "open_risks": 2,
        "open_questions": 1,
        "open_todos": 1,
    }


@requirement("H-11")
def test_unread_jobs_and_messages_are_null_together_and_separately() -> None:
    without_jobs = brief(jobs=Missing.JOBS)["attention"]
    without_messages = brief(messages=Missing.MESSAGES)["attention"]
    for key, count in without_jobs.items():
        assert (count is None) == key.endswith("_jobs"), key
    for key, count in without_messages.items():
        assert (count is None) == key.startswith("open_"), key


@requirement("H-07", "H-11")
def test_conflict_of_an_unread_workspace_is_unknown() -> None:
    for workspace in (Missing.WORKSPACE, Missing.WORKSPACE_NOT_REQUESTED, handoff_facts.Workspace.NON_GIT):
        assert brief(workspace=workspace)["attention"]["workspace_conflict"] is None
    assert brief(workspace=CONFLICT)["attention"]["workspace_conflict"] is True
    assert brief()["attention"]["workspace_conflict"] is False
