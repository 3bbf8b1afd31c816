"""Says how a piece of work stands when somebody wants to finish it: facts, reasons and one status (S-68).

A pure function of gathered facts. External reports decide nothing here, and nothing here completes a task.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webcodex.core import handoff_actions, handoff_facts, handoff_text, ledger
from webcodex.core.handoff_facts import Missing, OutputStatus, ScopeVerdict, Verdict
from webcodex.core.json_value import Json, JsonObject

CHANGED_PATHS: Final = 100  # S-68
EXECUTION: Final = "run_process"
UNKNOWN: Final = "outcome_unknown"


class Status(StrEnum):
    """How the work stands."""

    PASSED = "pass"
    WARNED = "warn"
    FAILED = "fail"


class History(StrEnum):
    """What became of the validation scopes that ever failed."""

    CLEAN = "clean"
    MIXED_RESOLVED = "mixed_resolved"
    MIXED_UNRESOLVED = "mixed_unresolved"
    FAILED = "failed"


class Integrity(StrEnum):
    """How much of the ledger is there to read."""

    CLEAN = "clean"
    WARNING = "warning"
    ERROR = "error"


class WorkspaceState(StrEnum):
    """What was seen of the workspace."""

    CLEAN = "clean"
    DIRTY = "dirty"
    CONFLICTED = "conflicted"
    NON_GIT = "non_git"
    NOT_CHECKED = "not_checked"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """What the entries of the Git status show beside the Git facts."""

    has_sensitive_path: bool = False
    has_untracked: bool = False
    is_truncated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """What the retained events tell of the work; paths newest first, at most 100."""

    changed_paths: tuple[str, ...] = ()
    executions: int = 0
    has_unproven_change: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What the tables below look at."""

    facts: handoff_facts.HandoffFacts
    listing: Listing
    recorded: Recorded
    standing: handoff_actions.Standing
    workspace: WorkspaceState

    def has_output(self, status: OutputStatus) -> bool:
        """Says whether the newest check found an output in this status."""
        return any(output.status is status for output in self.facts.output_check.outputs)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One word, what it says to a person in at most 160 characters, and when it holds."""

    word: str
    text: str
    holds: Callable[[Case], bool]


_VALIDATION: Final = handoff_actions.Validation

BLOCKING: Final = (
    Reason(
        word="workspace_conflicts",
        text="The workspace holds conflicts.",
        holds=lambda case: case.standing.has_conflict,
    ),
    Reason(
        word="sensitive_path_risk",
        text="The Git status shows a path that may hold secrets; keep it out of the repository.",
        holds=lambda case: case.listing.has_sensitive_path,
    ),
    Reason(
        word="blocking_active_jobs",
        text="Jobs of this Session are still running or recovering.",
        holds=lambda case: case.standing.jobs.blocking + case.standing.jobs.recovering > 0,
    ),
    Reason(
        word="unexpected_tool_failures",
        text="A change ended with an unknown outcome and its files were not read since.",
        holds=lambda case: case.recorded.has_unproven_change,
    ),
    Reason(
        word="validation_failed",
        text="The newest validation failed.",
        holds=lambda case: case.standing.validation is _VALIDATION.FAILED,
    ),
    Reason(
        word="outputs_missing",
        text="A named output is missing.",
        holds=lambda case: case.has_output(OutputStatus.MISSING),
    ),
    Reason(
        word="outputs_unavailable",
        text="A named output could not be checked.",
        holds=lambda case: case.has_output(OutputStatus.UNAVAILABLE),
    ),
)

WARNING: Final = (
    Reason(
        word="workspace_not_checked",
        text="The workspace was not looked at.",
        holds=lambda case: case.workspace is WorkspaceState.NOT_CHECKED,
    ),
    Reason(
        word="workspace_observation_failed",
        text="The workspace could not be read.",
        holds=lambda case: case.workspace is WorkspaceState.UNAVAILABLE,
    ),
    Reason(
        word="workspace_observation_incomplete",
        text="The Git status lists more entries than were read.",
        holds=lambda case: case.listing.is_truncated,
    ),
    Reason(
        word="workspace_dirty",
        text="The workspace holds changes that are not committed.",
        holds=lambda case: case.standing.is_dirty,
    ),
    Reason(
        word="hygiene_untracked_files",
        text="The workspace holds untracked files.",
        holds=lambda case: case.listing.has_untracked,
    ),
    Reason(
        word="jobs_terminal_pending",
        text="Finished jobs have results that nobody has read.",
        holds=lambda case: case.standing.jobs.terminal_pending > 0,
    ),
    Reason(
        word="validation_not_run",
        text="No validation has ended in this Session.",
        holds=lambda case: case.standing.validation is _VALIDATION.NOT_RUN,
    ),
    Reason(
        word="validation_stale_after_changes",
        text="Every validation is older than a recorded change.",
        holds=lambda case: case.standing.validation is _VALIDATION.STALE,
    ),
    Reason(
        word="validation_inconclusive",
        text="The validations prove neither success nor failure.",
        holds=lambda case: case.standing.validation is _VALIDATION.INCONCLUSIVE,
    ),
    Reason(
        word="validation_unknown",
        text="The validations could not be read.",
        holds=lambda case: case.standing.validation is _VALIDATION.UNAVAILABLE,
    ),
)

NOTES: Final[tuple[tuple[str, Callable[[Case], bool]], ...]] = (
    ("Changes made outside recorded tools are not seen here.", lambda _: True),
    (
        "External reports are claims; none of them counts here.",
        lambda case: isinstance(case.facts.reports, tuple) and len(case.facts.reports) > 0,
    ),
    (
        "The oldest events have left the ledger; counts and paths cover what is kept.",
        lambda case: _integrity(case.facts) is Integrity.WARNING,
    ),
    ("The ledger could not be read.", lambda case: _integrity(case.facts) is Integrity.ERROR),
    ("The jobs could not be read.", lambda case: case.facts.jobs is Missing.JOBS),
    (
        "Verified outputs are older than a recorded change.",
        lambda case: case.facts.output_check.counter_moved and case.has_output(OutputStatus.VERIFIED),
    ),
)

VERDICTS: Final = {
    Status.PASSED: "Nothing recorded here stands against a review of this work.",
    Status.WARNED: "Nothing recorded here blocks a review; look at the warnings first.",
    Status.FAILED: "Something recorded here blocks a review; settle the blocking reasons first.",
}


def outcome(
    facts: handoff_facts.HandoffFacts, listing: Listing, recorded: Recorded, *, summary_only: bool
) -> JsonObject:
    """Returns the closed object of S-68 without its next actions, outputs, brief and siblings.

    With ``summary_only`` the lists among the facts are counts.
    """
    case = Case(
        facts=facts,
        listing=listing,
        recorded=recorded,
        standing=handoff_actions.standing(facts, has_recent_files=False, has_changes=False),
        workspace=_workspace(facts.workspace),
    )
    blocking = [reason for reason in BLOCKING if reason.holds(case)]
    warning = [reason for reason in WARNING if reason.holds(case)]
    status = Status.FAILED if blocking else Status.WARNED if warning else Status.PASSED
    history = _history(facts.known_validation)
    return {
        "facts": _facts(case, summary_only=summary_only),
        "hard_blockers": [reason.text for reason in blocking],
        "advisories": [reason.text for reason in warning],
        "informational_notes": [text for text, holds in NOTES if holds(case)],
        "task_outcome": {
            "status": status.value,
            "blocking": len(blocking) > 0,
            "blocking_reasons": [reason.word for reason in blocking],
            "warning_reasons": [reason.word for reason in warning],
        },
        "evidence_history": {"status": None if history is None else history.value},
        "evidence_integrity": {"status": _integrity(facts).value},
        "verdict": VERDICTS[status],
    }


def recorded(events: Iterable[JsonObject]) -> Recorded:
    """Returns what a Session's events, oldest first, tell of the work."""
    changed: dict[str, None] = {}
    unproven: list[set[str]] = []
    executions = 0
    for event in events:
        if event["kind"] != ledger.Kind.CALL_FINISHED:
            continue
        executions += event.get("tool_name") == EXECUTION
        paths = handoff_facts.path_event(event)
        for path in reversed(paths.changed_paths):
            changed.pop(path, None)
            changed[path] = None
        if paths.write_like and event.get("execution_state") == UNKNOWN:
            unproven.append(_targets(event, paths))
        elif event.get("status") == ledger.Outcome.SUCCEEDED and not paths.write_like:
            unproven = [left for targets in unproven if (left := targets - set(paths.observed_paths))]
    shown = [path for path in reversed(changed) if handoff_text.is_shown_path(path)]
    return Recorded(
        changed_paths=tuple(shown[:CHANGED_PATHS]),
        executions=executions,
        has_unproven_change=len(unproven) > 0,
    )


def _targets(event: JsonObject, paths: handoff_facts.PathEvent) -> set[str]:
    """Returns the paths to read again; the empty one, which nobody reads, stands for those not told."""
    is_cut = event.get("paths_truncated") is True or not paths.observed_paths
    return {*paths.observed_paths, *({""} if is_cut else ())}


def _facts(case: Case, *, summary_only: bool) -> JsonObject:
    facts, changed = case.facts, list(case.recorded.changed_paths)
    jobs = handoff_actions.job_counts(facts)
    shown: dict[str, Json] = {
        "work_performed": _is_work_performed(case),
        "changed_paths": len(changed) if summary_only else [*changed],
        "executions": case.recorded.executions,
    }
    return {
        **shown,
        **_validation_counts(facts.known_validation),
        "workspace_state": case.workspace.value,
        "active_jobs": None if jobs is None else jobs.active,
        "evidence_integrity": _integrity(facts).value,
    }


def _validation_counts(validation: handoff_facts.ValidationFacts) -> JsonObject:
    """Returns how many scopes stand in each verdict; null where the validations are not known."""
    counted: dict[str, Callable[[ScopeVerdict], bool]] = {
        "validations_passed": lambda scope: scope.verdict is Verdict.PASSED,
        "validations_failed": lambda scope: scope.verdict is Verdict.FAILED,
        "validations_skipped": lambda scope: scope.verdict is Verdict.INCONCLUSIVE,
        "resolved_failures": lambda scope: scope.ever_failed and scope.verdict is Verdict.PASSED,
        "unresolved_failures": lambda scope: scope.verdict is Verdict.FAILED,
    }
    if not isinstance(validation, handoff_facts.Validation):
        return dict.fromkeys(counted)
    return {name: sum(counts(scope) for scope in validation.scopes) for name, counts in counted.items()}


def _is_work_performed(case: Case) -> bool:
    facts = case.facts
    has_jobs = isinstance(facts.jobs, handoff_facts.Jobs) and facts.jobs.recorded > 0
    has_change = isinstance(facts.ledger, handoff_facts.Ledger) and any(
        event.is_recorded_change for event in facts.ledger.events
    )
    return has_change or has_jobs or len(facts.runs) > 0


def _history(validation: handoff_facts.ValidationFacts) -> History | None:
    """Returns the history of the scopes that ever failed, or none where the validations are not known."""
    if not isinstance(validation, handoff_facts.Validation):
        return None
    ever_failed = [scope for scope in validation.scopes if scope.ever_failed]
    if not ever_failed:
        return History.CLEAN
    if all(scope.verdict is Verdict.PASSED for scope in ever_failed):
        return History.MIXED_RESOLVED
    some_pass = any(scope.verdict is Verdict.PASSED for scope in validation.scopes)
    return History.MIXED_UNRESOLVED if some_pass else History.FAILED


def _integrity(facts: handoff_facts.HandoffFacts) -> Integrity:
    if facts.ledger is Missing.LEDGER:
        return Integrity.ERROR
    return Integrity.WARNING if facts.ledger.events_evicted > 0 else Integrity.CLEAN


def _workspace(workspace: handoff_facts.WorkspaceFacts) -> WorkspaceState:
    if isinstance(workspace, handoff_facts.Git):
        if workspace.conflicted:
            return WorkspaceState.CONFLICTED
        return WorkspaceState.DIRTY if workspace.dirty else WorkspaceState.CLEAN
    return {
        handoff_facts.Workspace.NON_GIT: WorkspaceState.NON_GIT,
        Missing.WORKSPACE: WorkspaceState.UNAVAILABLE,
        Missing.WORKSPACE_NOT_REQUESTED: WorkspaceState.NOT_CHECKED,
    }[workspace]
