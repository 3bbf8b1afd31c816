"""Declares the tools that start, list, read and close Workflow Sessions (30.9)."""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from webcodex.core import access, ids, ledger, limits, redaction, sessions
from webcodex.core import messages as core_messages
from webcodex.core.access import Scope
from webcodex.core.json_value import Json, JsonObject
from webcodex.storage import messages
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import authority, fields, session_results, work_tools
from webcodex.tools.contract import (
    Annotations,
    Audience,
    Done,
    Effect,
    Params,
    Target,
    Tool,
    ToolError,
    Work,
)
from webcodex.tools.session_shape import shown


class GuardParams(Params):
    """What the Session is to deny to its own calls."""

    deny_write_tools: Annotated[bool, Field(description="Deny tools that write files.")] = False
    deny_shell_tools: Annotated[bool, Field(description="Deny tools that run programs.")] = False


class StartParams(Params):
    """A new, empty Session."""

    project: fields.ProjectName | None = None
    title: Annotated[
        str,
        StringConstraints(strip_whitespace=True, min_length=1, max_length=limits.TITLE_CHARS),
        Field(description="What the work is; 1 to 4,000 characters."),
    ] = "Untitled session"
    mode: Annotated[Literal["normal", "read_only"], Field(description="How much its calls may do.")] = (
        "normal"
    )
    guards: GuardParams = GuardParams()


class ListParams(Params):
    """One page of the Sessions of one Project."""

    project: fields.ProjectName
    lifecycle: Annotated[
        Literal["active", "closed"] | None, Field(description="Only Sessions of this lifecycle.")
    ] = None
    offset: Annotated[int, Field(ge=0, le=2**31, description="Sessions to pass over.")] = 0
    limit: Annotated[int, Field(ge=1, le=20, description="Sessions of a page.")] = 20


class SummaryParams(Params):
    """The Session to read."""

    session_id: fields.SessionName
    limit: Annotated[int, Field(ge=1, le=limits.RESPONSE_EVENTS, description="Newest events shown.")] = 50


class CloseParams(Params):
    """The Session to close."""

    session_id: fields.SessionName


def _authorize_start(tx: Transaction, caller: access.Caller, params: StartParams) -> Target:
    if params.project is None:
        return Target()
    return Target(project=authority.project(tx, caller, params.project, changing=True))


def _authorize_list(tx: Transaction, caller: access.Caller, params: ListParams) -> Target:
    return Target(project=authority.project(tx, caller, params.project, changing=False))


def _authorize_session(tx: Transaction, caller: access.Caller, params: SummaryParams | CloseParams) -> Target:
    return authority.session(tx, caller, params.session_id)


async def _start(work: Work, params: StartParams) -> Done:
    project = None if work.target.project is None else work.target.project.canonical
    session = work_tools.new_session(
        work,
        project=project,
        title=redaction.instruction(params.title),
        mode=sessions.Mode(params.mode),
        guards=sessions.Guards(
            deny_write_tools=params.guards.deny_write_tools, deny_shell_tools=params.guards.deny_shell_tools
        ),
    )
    number = await work.services.database.write(lambda tx: stored_sessions.add(tx, session))
    return Done(output=shown(session, number))


async def _list(work: Work, params: ListParams) -> Done:
    project = work.target.project
    if project is None:
        raise AssertionError("list_sessions is authorised with a Project")
    lifecycle = None if params.lifecycle is None else sessions.Lifecycle(params.lifecycle)
    total, page = await work.services.database.read(
        lambda tx: stored_sessions.listed(
            tx,
            authority=work.caller.authority,
            project=project.canonical,
            lifecycle=lifecycle,
            offset=params.offset,
            limit=params.limit,
        )
    )
    following = params.offset + len(page)
    rows: list[Json] = [_row(session, number) for session, number in page]
    return Done(
        output={
            "project": project.canonical,
            "total": total,
            "offset": params.offset,
            "next_offset": following if page and following < total else None,
            "selection": "caller_must_choose_exact_session",
            "sessions": rows,
        }
    )


def _row(session: sessions.Session, number: int) -> JsonObject:
    return {
        "session_id": session.session_id,
        "session_ref": f"~s{number}",
        "title": session.title[: limits.LIST_TITLE_CHARS],
        "title_truncated": len(session.title) > limits.LIST_TITLE_CHARS,
        "lifecycle": session.lifecycle.value,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }


async def _summarise(work: Work, params: SummaryParams) -> Done:
    return Done(output=await work.services.database.read(lambda tx: _summary(tx, work, params)))


def _summary(tx: Transaction, work: Work, params: SummaryParams) -> JsonObject:
    named = work.target.session
    session = None if named is None else stored_sessions.find(tx, named.session_id)
    if session is None:
        raise ToolError("unknown_session_id")
    events = stored_sessions.newest_events(tx, session.session_id, params.limit)
    kept = messages.retained(tx, session.session_id)
    counters = ledger.Counters(events_total=session.last_sequence, events_retained=session.events_retained)
    return {
        **shown(session, stored_sessions.ref_number(tx, session.session_id)),
        **counters.shown(),
        "events": events,
        "events_returned": len(events),
        "events_truncated": len(events) < session.events_retained,
        "first_retained_sequence": counters.first_retained_sequence,
        "messages": core_messages.counts(kept, session.messages_posted),
    }


async def _close(work: Work, _params: CloseParams) -> Done:
    return Done(output=await work.services.database.write(lambda tx: _closed(tx, work)))


def _closed(tx: Transaction, work: Work) -> JsonObject:
    named = work.target.session
    session = None if named is None else stored_sessions.lock(tx, named.session_id)
    if session is None:
        raise ToolError("unknown_session_id")
    was_closed = not session.is_active
    if not was_closed:
        sessions.advance(session.lifecycle, sessions.Event.CLOSE)
        now = work.services.now()
        event = ledger.Event(
            event_id=ids.mint("evt_", work.services.entropy(ids.ENTROPY_BYTES)),
            kind=ledger.Kind.SESSION_CLOSED,
            at=now,
        )
        stored_sessions.close(tx, session.session_id)
        session = stored_sessions.append(tx, session, [event], now=now)
    return {
        "success": True,
        "session_id": session.session_id,
        "lifecycle": sessions.Lifecycle.CLOSED.value,
        "already_closed": was_closed,
        "updated_at": session.updated_at,
    }


TOOLS: Final = (
    work_tools.WORK_ON_PROJECT,
    Tool(
        name="start_session",
        category="sessions",
        summary="Start an empty Workflow Session without an instruction; for programs, not for models.",
        params=StartParams,
        result=session_results.SessionShown,
        scopes=(Scope.RUNTIME_READ,),
        audience=Audience.ADAPTER,
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False, idempotent=False),
        authorize=_authorize_start,
        handler=_start,
    ),
    Tool(
        name="list_sessions",
        category="sessions",
        summary="List your Workflow Sessions in one Project; choose one by its work, never by recency.",
        params=ListParams,
        result=session_results.ListSessionsResult,
        scopes=(Scope.RUNTIME_READ,),
        authorize=_authorize_list,
        handler=_list,
    ),
    Tool(
        name="read_session_summary",
        category="sessions",
        summary="Read a Workflow Session's fields and its newest ledger events.",
        params=SummaryParams,
        result=session_results.SummaryResult,
        scopes=(Scope.RUNTIME_READ,),
        value_words={"session_id": "invalid_session_id"},
        authorize=_authorize_session,
        handler=_summarise,
    ),
    Tool(
        name="close_session",
        category="sessions",
        summary="Close a Workflow Session for ever; it stays readable.",
        params=CloseParams,
        result=session_results.CloseResult,
        scopes=(Scope.SESSION_COLLABORATE,),
        effect=Effect.COLLABORATE,
        annotations=Annotations(read_only=False),
        writes_own_events=True,
        value_words={"session_id": "invalid_session_id"},
        authorize=_authorize_session,
        handler=_close,
    ),
)
