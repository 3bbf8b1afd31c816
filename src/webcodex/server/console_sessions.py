"""Lists the caller's Workflow Sessions of one Project for the console (M-46); never contacts a Runner."""

import functools
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from pydantic import Field

from webcodex.core import limits, session_overview, sessions
from webcodex.core.json_value import JsonObject
from webcodex.server import console_cursor, console_pages
from webcodex.server.console_pages import Asked
from webcodex.storage import projects
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.tools import fields, handoff_gathering
from webcodex.tools.contract import Params

LOOKS: Final = (4, 64, limits.SESSION_EVENTS)
"""How many of a Session's newest events are read at once, until they settle what it is doing."""

PAGE_EVENTS: Final = 4000
"""A page ends early once its rows have taken this many events: some ten milliseconds of reading."""


class SessionsBody(Params):
    """Which Project's Sessions are wanted, by its exact canonical id."""

    project: fields.CanonicalProject
    limit: int = 20
    cursor: Annotated[str | None, Field(pattern=console_cursor.PATTERN)] = None


def page(tx: Transaction, asked: Asked[SessionsBody]) -> JsonObject:
    """Returns one page of the Sessions of the caller's authority group, those made last first.

    Raises:
        BadCursor: the cursor is not of this request.
        NotVisible: no such Project for this caller.

    """
    body, caller = asked.body, asked.caller
    bound = asked.bound(body.project)
    limit = console_pages.clamped(body.limit)
    after = console_pages.placed(bound, body.cursor)
    project = projects.find(tx, caller, body.project)
    if project is None:
        raise console_pages.NotVisible
    total, found = stored_sessions.newest_made(
        tx, authority=caller.authority, project=project.canonical, after=after, limit=limit + 1
    )
    finding = console_pages.Finding(found=found, total=total, limit=limit)
    return console_pages.filled(
        "sessions",
        finding,
        functools.partial(_rows, tx, asked.services.now()),
        lambda session: console_cursor.made(bound, f"{session.created_at}:{session.session_id}"),
    )


class _Ledgers:
    """Reads Sessions' newest events, only as far back as somebody looks, and counts them."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self.events_read = 0

    def newest_first(self, session_id: str) -> Iterator[JsonObject]:
        seen = 0
        for look in LOOKS:
            events = stored_sessions.newest_events(self._tx, session_id, look)
            self.events_read += len(events)
            yield from reversed(events[: len(events) - seen])
            if len(events) < look:
                return
            seen = len(events)


def _rows(tx: Transaction, now: int, found: Sequence[sessions.Session]) -> Iterator[JsonObject]:
    ledgers = _Ledgers(tx)
    for session in found:
        if ledgers.events_read > PAGE_EVENTS:
            return
        yield _row(tx, session, session_overview.activity(ledgers.newest_first(session.session_id), now))


def _row(tx: Transaction, session: sessions.Session, activity: session_overview.Activity) -> JsonObject:
    row: JsonObject = {
        "session_id": session.session_id,
        "title": session.title[: limits.LIST_TITLE_CHARS],
        "lifecycle": session.lifecycle.value,
        "mode": session.mode.value,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "running_call": activity.current is not None,
    }
    if activity.current is not None:
        row["current_activity"] = activity.current
    if activity.last is not None:
        row["last_activity"] = activity.last
    row["overview"] = session_overview.overview(handoff_gathering.gather_for_row(tx, session))
    return row
