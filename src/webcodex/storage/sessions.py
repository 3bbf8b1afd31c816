"""Remembers Workflow Sessions and their ledgers (30.1 to 30.3)."""

import json
from collections.abc import Collection, Iterable
from typing import Final

from sqlalchemy import bindparam, delete, func, insert, or_, select, update

from webcodex.core import ledger, limits
from webcodex.core import sessions as core_sessions
from webcodex.core.json_value import JsonObject
from webcodex.core.sessions import Session
from webcodex.storage import references, schema
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row

_sessions: Final = schema.sessions
_events: Final = schema.session_events
_OF_ID: Final = select(_sessions).where(_sessions.c.session_id == bindparam("session_id"))
_BY_ID: Final = Prepared(_OF_ID)
_LOCKED: Final = Prepared(_OF_ID.with_for_update())
_BY_REF: Final = Prepared(
    select(_sessions.c.session_id).where(
        _sessions.c.authority == bindparam("authority"), _sessions.c.ref_number == bindparam("number")
    )
)
_REF: Final = Prepared(
    select(_sessions.c.ref_number).where(_sessions.c.session_id == bindparam("session_id"))
)
_APPEND: Final = Prepared(insert(_events))
_ADVANCE: Final = Prepared(
    update(_sessions)
    .where(_sessions.c.session_id == bindparam("id"))
    .values(
        last_sequence=bindparam("sequence"),
        events_retained=bindparam("retained"),
        updated_at=bindparam("now"),
        meaningful_tool_calls=_sessions.c.meaningful_tool_calls + bindparam("calls"),
    )
)
_EVICT: Final = Prepared(
    delete(_events).where(_events.c.session_id == bindparam("id"), _events.c.sequence <= bindparam("through"))
)
_NEWEST: Final = Prepared(
    select(_events.c.sequence, _events.c.event)
    .where(_events.c.session_id == bindparam("session_id"))
    .order_by(_events.c.sequence.desc())
    .limit(bindparam("limit"))
)

_PATHS: Final = '_paths":'


def add(tx: Transaction, session: Session) -> int:
    """Stores a new Session and returns the number of its reference in its group (S-02)."""
    number = references.next_number(tx, session.authority, "last_session_ref")
    tx.change(insert(_sessions), {**_row(session), "ref_number": number})
    return number


def find(tx: Transaction, session_id: str) -> Session | None:
    """Returns the Session of that id, or none."""
    row = tx.one(_BY_ID, {"session_id": session_id})
    return None if row is None else _session(row)


def lock(tx: Transaction, session_id: str) -> Session | None:
    """Returns the Session of that id, its row held until the transaction ends, or none."""
    row = tx.one(_LOCKED, {"session_id": session_id})
    return None if row is None else _session(row)


def ref_number(tx: Transaction, session_id: str) -> int:
    """Returns the number of a stored Session's reference."""
    row = tx.one(_REF, {"session_id": session_id})
    if row is None:
        raise LookupError("the Session is not stored")
    return int(row[0])


def of_ref(tx: Transaction, authority: str, number: int) -> str | None:
    """Returns the Session id behind ``~s<number>`` of a group, or none (S-02)."""
    row = tx.one(_BY_REF, {"authority": authority, "number": number})
    return None if row is None else str(row[0])


def listed(
    tx: Transaction,
    *,
    authority: str,
    project: str,
    lifecycle: core_sessions.Lifecycle | None,
    offset: int,
    limit: int,
) -> tuple[int, list[tuple[Session, int]]]:
    """Returns how many Sessions match, and one page of them with their reference numbers (S-62)."""
    matching = [_sessions.c.authority == authority, _sessions.c.project == project]
    if lifecycle is not None:
        matching.append(_sessions.c.lifecycle == lifecycle.value)
    total = tx.one(select(func.count()).select_from(_sessions).where(*matching))
    order = (_sessions.c.updated_at.desc(), _sessions.c.session_id)
    page = select(_sessions).where(*matching).order_by(*order).offset(offset).limit(limit)
    rows = [(_session(row), int(row.ref_number)) for row in tx.all(page)]
    return (0 if total is None else int(total[0])), rows


def newest_made(
    tx: Transaction, *, authority: str, project: str, after: tuple[int, str] | None, limit: int
) -> tuple[int, list[Session]]:
    """Returns how many Sessions a group has in a Project, and those made last, newest first (M-46).

    ``after`` is ``created_at`` and id of the last one that was already shown. Both never change, so paging
    by them misses and repeats none.
    """
    matching = [_sessions.c.authority == authority, _sessions.c.project == project]
    total = tx.one(select(func.count()).select_from(_sessions).where(*matching))
    if after is not None:
        created_at, session_id = after
        is_older = _sessions.c.created_at < created_at
        matching += [
            _sessions.c.created_at <= created_at,  # the bound that the index can use
            or_(is_older, _sessions.c.session_id > session_id),
        ]
    order = (_sessions.c.created_at.desc(), _sessions.c.session_id)
    page = select(_sessions).where(*matching).order_by(*order).limit(limit)
    return (0 if total is None else int(total[0])), [_session(row) for row in tx.all(page)]


def counts(tx: Transaction, authority: str, projects: Collection[str]) -> dict[str, int]:
    """Returns how many Sessions a group has in each of a few Projects; none where a Project is missing."""
    counted = (
        select(_sessions.c.project, func.count())
        .where(_sessions.c.authority == authority, _sessions.c.project.in_(projects))
        .group_by(_sessions.c.project)
    )
    return {str(row[0]): int(row[1]) for row in tx.all(counted)}


def close(tx: Transaction, session_id: str) -> None:
    """Stores that a Session is closed."""
    closed = core_sessions.Lifecycle.CLOSED.value
    tx.change(update(_sessions).where(_sessions.c.session_id == session_id).values(lifecycle=closed))


def instruct(tx: Transaction, session_id: str, text: str, *, is_redacted: bool) -> None:
    """Stores the newest instruction of a Session (S-13)."""
    tx.change(
        update(_sessions)
        .where(_sessions.c.session_id == session_id)
        .values(latest_instruction=text, latest_instruction_redacted=is_redacted)
    )


def append(
    tx: Transaction, session: Session, events: Iterable[ledger.Event], *, now: int, calls: int = 0
) -> Session:
    """Adds events in their order, evicts the oldest beyond S-13 and returns the Session as now stored.

    ``calls`` is how many finished meaningful calls these events end (H-08).
    """
    sequence, retained = session.last_sequence, session.events_retained
    for event in events:
        sequence, retained = sequence + 1, retained + 1
        stored = json.dumps(event.shown(sequence), separators=(",", ":"), ensure_ascii=False)
        tx.change(_APPEND, {"session_id": session.session_id, "sequence": sequence, "event": stored})
    if retained > limits.SESSION_EVENTS:
        retained = limits.SESSION_EVENTS
        tx.change(_EVICT, {"id": session.session_id, "through": sequence - retained})
    changed = {
        "id": session.session_id,
        "sequence": sequence,
        "retained": retained,
        "now": now,
        "calls": calls,
    }
    tx.change(_ADVANCE, changed)
    moved = find(tx, session.session_id)
    if moved is None:
        raise LookupError("the Session is not stored")
    return moved


def newest_events(tx: Transaction, session_id: str, limit: int) -> list[JsonObject]:
    """Returns the newest ``limit`` kept events, oldest of them first."""
    rows = tx.all(_NEWEST, {"session_id": session_id, "limit": limit})
    return _events_of(row.event for row in reversed(rows))


def events_with_paths(tx: Transaction, session_id: str) -> list[JsonObject]:
    """Returns the kept events that name paths, oldest first; a few others may be among them."""
    rows = tx.all(_NEWEST, {"session_id": session_id, "limit": limits.SESSION_EVENTS})
    return _events_of(row.event for row in reversed(rows) if _PATHS in row.event)


def _events_of(texts: Iterable[str]) -> list[JsonObject]:
    # One parse of the whole list costs a third of a parse for each.
    found: list[JsonObject] = json.loads(f"[{','.join(texts)}]")
    return found


def _row(session: Session) -> dict[str, object]:
    return {
        "session_id": session.session_id,
        "authority": session.authority,
        "project": session.project,
        "title": session.title,
        "title_redacted": session.title_redacted,
        "mode": session.mode.value,
        "deny_write_tools": session.guards.deny_write_tools,
        "deny_shell_tools": session.guards.deny_shell_tools,
        "lifecycle": session.lifecycle.value,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "latest_instruction": session.latest_instruction,
        "latest_instruction_redacted": session.latest_instruction_redacted,
        "last_sequence": session.last_sequence,
        "events_retained": session.events_retained,
        "meaningful_tool_calls": session.meaningful_tool_calls,
        "messages_posted": session.messages_posted,
        "message_revision": session.message_revision,
    }


def _session(row: Row) -> Session:
    return Session(
        session_id=row.session_id,
        authority=row.authority,
        project=row.project,
        title=row.title,
        title_redacted=row.title_redacted,
        mode=core_sessions.Mode(row.mode),
        guards=core_sessions.Guards(
            deny_write_tools=row.deny_write_tools, deny_shell_tools=row.deny_shell_tools
        ),
        lifecycle=core_sessions.Lifecycle(row.lifecycle),
        created_at=row.created_at,
        updated_at=row.updated_at,
        latest_instruction=row.latest_instruction,
        latest_instruction_redacted=row.latest_instruction_redacted,
        last_sequence=row.last_sequence,
        events_retained=row.events_retained,
        meaningful_tool_calls=row.meaningful_tool_calls,
        messages_posted=row.messages_posted,
        message_revision=row.message_revision,
    )
