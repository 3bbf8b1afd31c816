"""Declares the two handoff tools (40.9): facts are gathered in one transaction, the projection is pure."""

from typing import Annotated, Any, Final

from pydantic import Field

from webcodex.core import (
    acceptance,
    access,
    handoff,
    handoff_facts,
    ids,
    ledger,
    sessions,
)
from webcodex.core.access import Scope
from webcodex.core.handoff_facts import Fence, HandoffFacts, Missing
from webcodex.core.json_value import JsonObject
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import authority, fields, goal_gathering, handoff_gathering, workspace
from webcodex.tools.contract import (
    Audience,
    Done,
    Params,
    Recording,
    Result,
    Target,
    Tool,
    ToolError,
    Work,
)


class ReadParams(Params):
    """What a reader wants to see of a Session's handoff."""

    session_id: fields.SessionName
    project: fields.ProjectName | None = None
    include_workspace: Annotated[bool, Field(description="Ask the Runner for the Git facts.")] = True
    include_checkpoints: Annotated[bool, Field(description="Has no effect.")] = True
    include_validation: Annotated[bool, Field(description="Include the validation status.")] = True
    diagnostic: Annotated[bool | None, Field(description="Add the newest ledger events.")] = None
    summary_only: Annotated[bool | None, Field(description="False means diagnostic.")] = None
    limit: Annotated[int, Field(ge=1, le=100, description="Events of a diagnostic answer.")] = 20

    @property
    def is_diagnostic(self) -> bool:
        """Says whether the ledger is shown; ``diagnostic`` wins over ``summary_only`` (40.9)."""
        return self.summary_only is False if self.diagnostic is None else self.diagnostic


class StateParams(Params):
    """The exact Project and Session of an adapter's read."""

    project: fields.CanonicalProject
    session_id: fields.CanonicalSession


class HandoffResult(Result):
    """The brief and its siblings; the brief's own shape is fixed by docs/spec/40-handoff.md."""

    session_id: str
    session_ref: str
    project: str | None
    handoff_brief: dict[str, Any]
    goal_context: dict[str, Any] | None = None
    acceptance: dict[str, Any] | None = None
    diagnostic: bool | None = None
    ledger: dict[str, Any] | None = None


def _authorize_read(tx: Transaction, caller: access.Caller, params: ReadParams) -> Target:
    return authority.session(tx, caller, params.session_id, params.project)


def _authorize_state(tx: Transaction, caller: access.Caller, params: StateParams) -> Target:
    if ids.parse_project(params.project) is None:
        raise ToolError("unknown_project")
    return authority.session(tx, caller, params.session_id, params.project, canonical=True)


async def _read(work: Work, params: ReadParams) -> Done:
    session = _session(work)
    before: Fence | None = None
    found: handoff_facts.WorkspaceFacts = Missing.WORKSPACE_NOT_REQUESTED
    if params.include_workspace:
        before = await work.services.database.read(lambda tx: handoff_gathering.fence(tx, session.session_id))
        found = await workspace.read(work)

    def answer(tx: Transaction) -> JsonObject:
        facts = handoff_gathering.gather(
            tx,
            session.session_id,
            workspace=found,
            wants_validation=params.include_validation,
            before=before,
        )
        return _answer(tx, work, facts, params)

    return Done(output=await work.services.database.read(answer))


async def _state(work: Work, _params: StateParams) -> Done:
    session_id = _session(work).session_id

    def answer(tx: Transaction) -> JsonObject:
        facts = handoff_gathering.gather(
            tx,
            session_id,
            workspace=Missing.WORKSPACE_NOT_REQUESTED,
            wants_validation=True,
            before=None,
        )
        return _answer(tx, work, facts, None)

    return Done(output=await work.services.database.read(answer))


def _session(work: Work) -> sessions.Session:
    if work.target.session is None:
        raise AssertionError("a handoff tool is authorised with a Session")
    return work.target.session


def _answer(tx: Transaction, work: Work, facts: HandoffFacts, params: ReadParams | None) -> JsonObject:
    session = facts.session
    output: JsonObject = {
        "session_id": session.session_id,
        "session_ref": f"~s{stored_sessions.ref_number(tx, session.session_id)}",
        "project": session.project,
        "handoff_brief": handoff.brief(facts),
    }
    goals = goal_gathering.context(tx, work.caller, session.session_id)
    if goals is not None:
        output["goal_context"] = goals
    accepted = acceptance.acceptance(facts)
    if accepted is not None:
        output["acceptance"] = accepted
    if params is not None and params.is_diagnostic:
        output |= {"diagnostic": True, "ledger": _diagnosed(tx, session, params.limit)}
    return output


def _diagnosed(tx: Transaction, session: sessions.Session, limit: int) -> JsonObject:
    events = stored_sessions.newest_events(tx, session.session_id, limit)
    counters = ledger.Counters(events_total=session.last_sequence, events_retained=session.events_retained)
    return {
        **counters.shown(),
        "events_returned": len(events),
        "events_truncated": len(events) < session.events_retained,
        "events": events,
    }


TOOLS: Final = (
    Tool(
        name="read_session_handoff",
        aliases=("session_handoff_summary",),
        category="sessions",
        summary="Read a Workflow Session's bounded handoff: what is proven, claimed and unknown.",
        params=ReadParams,
        result=HandoffResult,
        scopes=(Scope.RUNTIME_READ,),
        optional_scopes=(Scope.COMMUNICATION_READ,),
        value_words={"session_id": "invalid_session_id", "project": "session_project_mismatch"},
        authorize=_authorize_read,
        handler=_read,
    ),
    Tool(
        name="get_session_handoff_state",
        aliases=("session_handoff_state",),
        category="sessions",
        summary="Read the same handoff without leaving a trace in the Session; for local adapters.",
        params=StateParams,
        result=HandoffResult,
        scopes=(Scope.RUNTIME_READ,),
        optional_scopes=(Scope.COMMUNICATION_READ,),
        audience=Audience.ADAPTER,
        recording=Recording.NONE,
        value_words={"session_id": "invalid_session_id", "project": "session_project_mismatch"},
        authorize=_authorize_state,
        handler=_state,
    ),
)
