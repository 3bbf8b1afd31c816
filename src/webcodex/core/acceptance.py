"""Makes the acceptance beside a brief: advisory, bounded, derived on read and never a completion (40.11).

It never says complete or accepted; ``ready_for_review`` only means that no listed code holds it back (H-31).
"""

import hashlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from webcodex.core import (
    handoff_actions,
    handoff_facts,
    handoff_reports,
    handoff_text,
    observations,
    redaction,
)
from webcodex.core.json_value import JsonObject

VERSION: Final = 1
ACCEPTANCE_BYTES: Final = 4096  # H-30
CODES: Final = 16  # H-33
EVIDENCE: Final = 16  # H-35
REF_CHARS: Final = 200  # H-35

ACTIVE_RUNS: Final = frozenset(
    {
        handoff_facts.RunState.STARTING,
        handoff_facts.RunState.RUNNING,
        handoff_facts.RunState.WAITING_PERMISSION,
    }
)


class State(StrEnum):
    """How far a reviewer may get, highest class first (H-33)."""

    UNKNOWN = "unknown"
    BLOCKED = "blocked"
    IN_PROGRESS = "in_progress"
    NEEDS_ATTENTION = "needs_attention"
    READY_FOR_REVIEW = "ready_for_review"


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """What the codes look at."""

    facts: handoff_facts.HandoffFacts
    standing: handoff_actions.Standing
    claims: frozenset[observations.Status]

    def has_output(self, status: handoff_facts.OutputStatus) -> bool:
        """Says whether the newest check found an output in this status."""
        return any(output.status is status for output in self.facts.output_check.outputs)

    @property
    def has_verified_outputs(self) -> bool:
        """Says whether every named output was verified and nothing has changed since (S-46)."""
        check = self.facts.output_check
        verified = (output.status is handoff_facts.OutputStatus.VERIFIED for output in check.outputs)
        return len(check.outputs) > 0 and not check.counter_moved and all(verified)

    @property
    def has_stale_outputs(self) -> bool:
        """Says whether an output was verified before something changed (S-46)."""
        return self.facts.output_check.counter_moved and self.has_output(handoff_facts.OutputStatus.VERIFIED)

    @property
    def has_incomplete_basis(self) -> bool:
        """Says whether the brief lacks anything but a workspace nobody asked for (H-33)."""
        not_asked = handoff_facts.Missing.WORKSPACE_NOT_REQUESTED.value
        return any(code != not_asked for code in handoff_actions.basis_codes(self.facts))


_Claim = Callable[[Case], bool]
_OUTPUT = handoff_facts.OutputStatus
_VALIDATION = handoff_actions.Validation

CODES_BY_STATE: Final[dict[State, dict[str, _Claim]]] = {
    State.UNKNOWN: {
        "ledger_unavailable": lambda case: case.facts.ledger is handoff_facts.Missing.LEDGER,
    },
    State.BLOCKED: {
        "blocking_jobs": lambda case: case.standing.jobs.blocking > 0,
        "open_risks": lambda case: case.standing.messages.risks > 0,
        "outputs_missing": lambda case: case.has_output(_OUTPUT.MISSING),
        "outputs_unavailable": lambda case: case.has_output(_OUTPUT.UNAVAILABLE),
        "recovering_jobs": lambda case: case.standing.jobs.recovering > 0,
        "validation_failed": lambda case: case.standing.validation is _VALIDATION.FAILED,
        "workspace_conflict": lambda case: case.standing.has_conflict,
    },
    State.IN_PROGRESS: {
        "active_runs": lambda case: any(run.state in ACTIVE_RUNS for run in case.facts.runs),
        "outputs_stale": lambda case: case.has_stale_outputs,
        # An attempt that has not ended proves nothing yet, so it does not lift this code.
        "validation_not_run": lambda case: (
            case.standing.validation is _VALIDATION.NOT_RUN and not case.has_verified_outputs
        ),
        "validation_stale": lambda case: case.standing.validation is _VALIDATION.STALE,
    },
    State.NEEDS_ATTENTION: {
        "basis_incomplete": lambda case: case.has_incomplete_basis,
        "open_guidance": lambda case: case.standing.messages.guidance > 0,
        "open_questions": lambda case: case.standing.messages.questions > 0,
        "open_todos": lambda case: case.standing.messages.todos > 0,
        "runs_uncertain": lambda case: any(
            run.state is handoff_facts.RunState.LOST or run.is_outcome_unknown for run in case.facts.runs
        ),
        "validation_inconclusive": lambda case: case.standing.validation is _VALIDATION.INCONCLUSIVE,
        "validation_not_requested": lambda case: case.standing.validation is _VALIDATION.NOT_REQUESTED,
    },
}
ANNOTATIONS: Final[dict[str, _Claim]] = {
    "active_jobs": lambda case: case.standing.jobs.active > 0,
    "external_reports_failure": lambda case: observations.Status.REPORTED_FAILURE in case.claims,
    "external_reports_unknown": lambda case: observations.Status.UNKNOWN in case.claims,
    "outputs_verified": lambda case: case.has_verified_outputs,
    "validation_passed": lambda case: case.standing.validation is _VALIDATION.PASSED,
}


def acceptance(facts: handoff_facts.HandoffFacts) -> JsonObject | None:
    """Returns the acceptance of at most 4,096 bytes, or none when its key must be absent (H-32)."""
    if facts.ledger is handoff_facts.Missing.LEDGER:
        return _shown(State.UNKNOWN, ["ledger_unavailable"], [], total=0)
    if not has_native_evidence(facts):
        return None
    state, codes = judged(facts)
    items = _evidence(facts)
    shown = [item for item in items if redaction.keeps_name(item.ref)][:EVIDENCE]
    while handoff_text.size_bytes(_shown(state, codes, shown, total=len(items))) > ACCEPTANCE_BYTES:
        shown.pop()
    return _shown(state, codes, shown, total=len(items))


def has_native_evidence(facts: handoff_facts.HandoffFacts) -> bool:
    """Says whether the Server or Runner itself produced evidence of this work (H-32)."""
    ledger, jobs, validation = facts.ledger, facts.jobs, facts.known_validation
    return (
        len(facts.runs) > 0
        or len(facts.output_check.outputs) > 0
        or (isinstance(validation, handoff_facts.Validation) and validation.attempts > 0)
        or (isinstance(jobs, handoff_facts.Jobs) and jobs.recorded > 0)
        or (
            isinstance(ledger, handoff_facts.Ledger)
            and any(event.is_recorded_change for event in ledger.events)
        )
    )


def judged(facts: handoff_facts.HandoffFacts) -> tuple[State, list[str]]:
    """Returns the highest class with a code and at most sixteen sorted codes; higher classes win (H-33)."""
    reports = handoff_reports.readable(facts.reports)
    case = Case(
        facts=facts,
        standing=handoff_actions.standing(facts, has_recent_files=False, has_changes=False),
        claims=frozenset(
            ()
            if isinstance(reports, handoff_facts.ReportsMissing)
            else (handoff_reports.claim(report) for report in reports)
        ),
    )
    by_state = {
        state: [code for code, holds in codes.items() if holds(case)]
        for state, codes in CODES_BY_STATE.items()
    }
    state = next((state for state, codes in by_state.items() if codes), State.READY_FOR_REVIEW)
    annotations = [code for code, holds in ANNOTATIONS.items() if holds(case)]
    holding = [code for codes in by_state.values() for code in codes] + annotations
    return state, sorted(holding[:CODES])


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One piece of evidence; ``at`` is Unix s, none for the workspace (H-35)."""

    kind: str
    ref: str
    status: str
    at: int | None


def _shown(state: State, codes: list[str], items: list[Item], *, total: int) -> JsonObject:
    return {
        "version": VERSION,
        "advisory": True,
        "state": state.value,
        "reason_codes": list(codes),
        "source_freshness": "unproven",
        "evidence": {
            "items": [
                {"kind": item.kind, "ref": item.ref, "status": item.status, "at": item.at} for item in items
            ],
            "total": total,
            "returned": len(items),
            "truncated": len(items) < total,
        },
    }


def _evidence(facts: handoff_facts.HandoffFacts) -> list[Item]:
    """Returns the candidates kind by kind in the order of H-35, newest first inside a kind, each ref once."""
    kinds = (
        _newest_first(_validation_items(facts.known_validation)),
        _output_items(facts.output_check),
        _newest_first(_job_items(facts.jobs)),
        _newest_first(
            Item(kind="run", ref=run.run_id, status=run.state.value, at=run.updated_at) for run in facts.runs
        ),
        _message_items(facts.messages),
        _report_items(facts.reports),
        _workspace_items(facts.workspace),
    )
    once: dict[tuple[str, str], Item] = {}
    for item in itertools.chain.from_iterable(kinds):
        once.setdefault((item.kind, item.ref), item)
    return list(once.values())


def _newest_first(items: Iterable[Item]) -> list[Item]:
    return sorted(items, key=lambda item: (item.at or 0, item.ref), reverse=True)


def _validation_items(validation: handoff_facts.ValidationFacts) -> list[Item]:
    if not isinstance(validation, handoff_facts.Validation):
        return []
    return [
        Item(
            kind="validation",
            ref=scope.event_id,
            status=scope.verdict.value if scope.is_after else "stale",
            at=scope.ended_at,
        )
        for scope in validation.scopes
    ]


def _output_items(check: handoff_facts.OutputCheck) -> list[Item]:
    return [
        Item(
            kind="task_output",
            ref=_output_ref(output.path),
            status="stale"
            if check.counter_moved and output.status is _OUTPUT.VERIFIED
            else output.status.value,
            at=check.checked_at,
        )
        for output in check.outputs
    ]


def _output_ref(path: str) -> str:
    """Returns the path, or its hash when it is too long or holds a control character (H-35)."""
    if len(path) <= REF_CHARS and not handoff_text.has_control(path):
        return path
    return "sha256:" + hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest()


def _job_items(jobs: handoff_facts.JobFacts) -> list[Item]:
    if not isinstance(jobs, handoff_facts.Jobs):
        return []
    return [
        Item(kind="job", ref=job.job_id, status=job.state.value, at=job.created_at) for job in jobs.unended
    ]


def _message_items(messages: handoff_facts.MessageFacts) -> list[Item]:
    if not isinstance(messages, tuple):
        return []
    return [
        Item(kind="message", ref=message.message_id, status="open", at=message.created_at)
        for message in reversed(messages)
        if message.needs_attention
    ]


def _report_items(reports: handoff_facts.ReportFacts) -> list[Item]:
    known = handoff_reports.readable(reports)
    if not isinstance(known, tuple):
        return []
    return [
        Item(
            kind="external_observation",
            ref=f"{observation.report.adapter_id}:{observation.report.event_id}",
            status=handoff_reports.claim(observation).value,
            at=observation.recorded_at,
        )
        for observation in reversed(known)
    ]


def _workspace_items(workspace: handoff_facts.WorkspaceFacts) -> list[Item]:
    if not isinstance(workspace, handoff_facts.Git):
        return []
    ref = handoff_text.shown_head(workspace.head) or "workspace"
    dirty_or_clean = "dirty" if workspace.dirty else "clean"
    return [
        Item(
            kind="workspace",
            ref=ref,
            status="conflicted" if workspace.conflicted else dirty_or_clean,
            at=None,
        )
    ]
