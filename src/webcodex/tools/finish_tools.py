"""Declares ``finish_coding_task`` (S-68): how a Session's work stands, and whether its outputs are there.

Never closes the Session (S-06), and never says that a task is done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, ValidationError

from webcodex.core import acceptance, access, handoff, redaction, sensitive_paths, sessions
from webcodex.core import task_outcome as outcomes
from webcodex.core.access import Scope
from webcodex.core.handoff_facts import Fence, Missing
from webcodex.core.json_value import JsonObject
from webcodex.storage import changes, validations
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.tools import (
    authority,
    fields,
    goal_gathering,
    handoff_gathering,
    runner_calls,
    session_results,
    workspace,
)
from webcodex.tools.contract import Annotations, Done, Effect, Params, Result, Target, Tool, ToolError, Work
from webcodex.tools.ports import RunnerError

OUTPUTS: Final = 16  # S-46
OUTPUT_BYTES: Final = 512  # S-46, of one path
CHECK_S: Final = 25.0
"""How long the check of outputs is waited for: the Runner's own 20 s of S-46 and its answer."""


def _output_path(value: str) -> str:
    if not 1 <= len(value.encode()) <= OUTPUT_BYTES or not redaction.keeps_name(value):
        raise ValueError("1 to 512 bytes, and no credential")
    return value


class FinishParams(Params):
    """Whose work is looked at, what is looked at, and which files it should have left."""

    project: fields.ProjectName
    session_id: fields.SessionName
    include_workspace: Annotated[bool, Field(description="Ask the Runner for the Git status.")] = True
    include_checkpoints: Annotated[bool, Field(description="Has no effect.")] = True
    include_validation: Annotated[bool, Field(description="Include the validation status.")] = True
    summary_only: Annotated[bool, Field(description="Tell lists among the facts as counts.")] = False
    outputs: list[Annotated[str, AfterValidator(_output_path)]] = Field(
        default_factory=list,
        max_length=OUTPUTS,
        description="Paths of up to 16 files that the work should have left; the Runner reads each.",
    )


class Facts(Result):
    """What was recorded; null is unknown."""

    work_performed: bool
    changed_paths: list[str] | int
    executions: int
    validations_passed: int | None
    validations_failed: int | None
    validations_skipped: int | None
    resolved_failures: int | None
    unresolved_failures: int | None
    workspace_state: Literal["clean", "dirty", "conflicted", "non_git", "not_checked", "unavailable"]
    active_jobs: int | None
    evidence_integrity: Literal["clean", "warning", "error"]


class TaskOutcome(Result):
    """The reasons, and what they come to."""

    status: Literal["pass", "warn", "fail"]
    blocking: bool
    blocking_reasons: list[str]
    warning_reasons: list[str]


class History(Result):
    """What became of the validation scopes that ever failed; null is unknown."""

    status: Literal["clean", "mixed_resolved", "mixed_unresolved", "failed"] | None


class Integrity(Result):
    """How much of the ledger is there to read."""

    status: Literal["clean", "warning", "error"]


class OutputItem(Result):
    """One output as it was found; size and hash only of a verified one."""

    path: str
    status: Literal["verified", "missing", "unavailable"]
    size: Annotated[int | None, Field(ge=0)]
    sha256: Annotated[str | None, Field(pattern=r"^[0-9a-f]{64}$")]


class TaskOutputs(Result):
    """What the Runner found at the named paths."""

    verified_count: int
    missing_count: int
    unavailable_count: int
    items: list[OutputItem]
    checked_at: int


class FinishResult(Result):
    """How the work stands; the brief's own shape is fixed by docs/spec/40-handoff.md."""

    facts: Facts
    hard_blockers: list[str]
    advisories: list[str]
    informational_notes: list[str]
    suggested_next_actions: list[str]
    task_outcome: TaskOutcome
    evidence_history: History
    evidence_integrity: Integrity
    verdict: str
    task_outputs: TaskOutputs | None = None
    handoff_brief: dict[str, Any]
    acceptance: dict[str, Any] | None = None
    goal_follow_up: session_results.GoalReentry | None = None


class _Checked(Result):
    items: list[OutputItem]


def _authorize(tx: Transaction, caller: access.Caller, params: FinishParams) -> Target:
    return authority.session(tx, caller, params.session_id, params.project)


def _demand(params: FinishParams) -> sessions.Demand:
    """Returns that a call with outputs changes its Session, which keeps their check (S-68)."""
    return sessions.Demand(changes_session=len(params.outputs) > 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Looked:
    """What was seen before the snapshot: the fence, the change counter, and what the Runner said."""

    fence: Fence
    counter: int
    status: JsonObject | None
    checked: JsonObject | None


async def _finish(work: Work, params: FinishParams) -> Done:
    looked = await _look(work, params)
    database = work.services.database
    if looked.checked is None:
        return Done(output=await database.read(lambda tx: _answer(tx, work, params, looked)))

    def kept(tx: Transaction) -> JsonObject:
        _keep(tx, work, looked)
        return {**_answer(tx, work, params, looked), "task_outputs": looked.checked}

    return Done(output=await database.write(kept))


async def _look(work: Work, params: FinishParams) -> _Looked:
    session, project = _named(work)

    def moment(tx: Transaction) -> tuple[Fence, int]:
        return handoff_gathering.fence(tx, session.session_id), changes.counter(tx, project.canonical)

    fence, counter = await work.services.database.read(moment)
    return _Looked(
        fence=fence,
        counter=counter,
        checked=await _checked(work, params.outputs) if params.outputs else None,
        status=await workspace.status(work) if params.include_workspace else None,
    )


def _named(work: Work) -> tuple[sessions.Session, Project]:
    session, project = work.target.session, work.target.project
    assert session is not None
    assert project is not None
    return session, project


def _keep(tx: Transaction, work: Work, looked: _Looked) -> None:
    """Stores the check of outputs with the counter of before it, unless the Session was closed meanwhile."""
    session, project = _named(work)
    locked = stored_sessions.lock(tx, session.session_id)
    if locked is None or not locked.is_active:
        raise ToolError(sessions.Refusal.CLOSED.value)
    check = {**(looked.checked or {}), "project": project.canonical, "counter": looked.counter}
    validations.keep_output_check(tx, session.session_id, check)


def _answer(tx: Transaction, work: Work, params: FinishParams, looked: _Looked) -> JsonObject:
    session_id, status = _named(work)[0].session_id, looked.status
    facts = handoff_gathering.gather(
        tx,
        session_id,
        workspace=Missing.WORKSPACE_NOT_REQUESTED if status is None else workspace.facts(status),
        wants_validation=params.include_validation,
        before=None if status is None else looked.fence,
    )
    recorded = outcomes.recorded(handoff_gathering.events(tx, session_id))
    judged = outcomes.outcome(facts, _listing(status or {}), recorded, summary_only=params.summary_only)
    brief = handoff.brief(facts)
    siblings = {
        "acceptance": acceptance.acceptance(facts),
        "goal_follow_up": goal_gathering.identities(tx, work.caller, session_id),
    }
    return {
        **judged,
        "suggested_next_actions": brief["next_actions"],
        "handoff_brief": brief,
        **{name: sibling for name, sibling in siblings.items() if sibling is not None},
    }


async def _checked(work: Work, paths: Sequence[str]) -> JsonObject:
    """Returns what the Runner found at each path; nothing is found where it does not answer (S-46)."""
    asked = list(dict.fromkeys(paths))
    try:
        budget_s = min(CHECK_S, work.waits.safe_s)
        answer = await runner_calls.ask(work, "check_outputs", {"paths": asked}, budget_s=budget_s)
        told = {item.path: item for item in _Checked.model_validate(answer).items}
    except (RunnerError, ValidationError):
        told = {}
    nothing = {"status": "unavailable", "size": None, "sha256": None}
    items: list[JsonObject] = [
        told[path].model_dump() if path in told else {"path": path, **nothing} for path in asked
    ]
    found = [item["status"] for item in items]
    return {
        "verified_count": found.count("verified"),
        "missing_count": found.count("missing"),
        "unavailable_count": found.count("unavailable"),
        "items": list(items),
        "checked_at": work.services.now(),
    }


def _listing(status: JsonObject) -> outcomes.Listing:
    entries = status.get("entries")
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return outcomes.Listing(
        has_sensitive_path=any(
            sensitive_paths.is_sensitive(path.split("/")) for entry in listed for path in _paths(entry)
        ),
        has_untracked=any(entry.get("index") == "?" for entry in listed),
        is_truncated=status.get("truncated") is True,
    )


def _paths(entry: JsonObject) -> Iterator[str]:
    for name in ("path", "orig_path"):
        path = entry.get(name)
        if isinstance(path, str):
            yield path


TOOLS: Final = (
    Tool(
        name="finish_coding_task",
        category="sessions",
        summary=(
            "Look at how a Workflow Session's work stands: recorded facts, blocking and warning reasons, "
            "and whether named output files are there. It closes nothing."
        ),
        params=FinishParams,
        result=FinishResult,
        scopes=(Scope.RUNTIME_READ,),
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False),
        demand_of=_demand,
        value_words={"session_id": "invalid_session_id", "project": "session_project_mismatch"},
        describe_input=lambda params: {"input_summary": f"{len(params.outputs)} outputs"},
        authorize=_authorize,
        handler=_finish,
    ),
)
