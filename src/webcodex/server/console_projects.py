"""Lists the visible Projects for the console (M-45): the one at the searched path first, then by id."""

import functools
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from webcodex.core import handoff_text
from webcodex.core.json_value import JsonObject
from webcodex.server import console_cursor, console_pages
from webcodex.server.console_pages import Asked
from webcodex.storage import projects
from webcodex.storage import sessions as stored_sessions
from webcodex.storage.database import Transaction
from webcodex.storage.projects import Project
from webcodex.tools.contract import Params

QUERY_BYTES: Final = 4096
PATH_BYTES: Final = 4096
NAME_CHARS: Final = 160


class AgentStatus(StrEnum):
    """Whether the Runner of a Project can be asked now (R-34)."""

    ONLINE = "online"
    OFFLINE = "offline"


def _within_query_bytes(value: str) -> str:
    if len(value.encode()) > QUERY_BYTES:
        raise ValueError("at most 4,096 bytes")
    return value


class ProjectsBody(Params):
    """Which Projects are wanted; ``query`` is a literal part of their id, name or path."""

    client_id: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9._-]{1,80}$")] = None
    query: Annotated[str, AfterValidator(_within_query_bytes)] | None = None
    limit: int = 50
    cursor: Annotated[str | None, Field(pattern=console_cursor.PATTERN)] = None


def page(tx: Transaction, asked: Asked[ProjectsBody]) -> JsonObject:
    """Returns one page of the Projects that the caller sees.

    Raises:
        BadCursor: the cursor is not of this request.

    """
    body, caller = asked.body, asked.caller
    bound = asked.bound(body.client_id, body.query)
    limit = console_pages.clamped(body.limit)
    after = console_pages.placed(bound, body.cursor)
    total, found = projects.searched(
        tx,
        caller,
        projects.Search(client_id=body.client_id, query=body.query),
        after=None if after is None else (after[0], f"agent:{after[1]}"),
        limit=limit + 1,
    )
    finding = console_pages.Finding(found=found, total=total, limit=limit)
    return console_pages.filled(
        "projects",
        finding,
        functools.partial(_rows, tx, asked),
        lambda ranked: console_cursor.made(bound, f"{ranked[0]}:{ranked[1].canonical.partition(':')[2]}"),
    )


def _rows(
    tx: Transaction, asked: Asked[ProjectsBody], found: Sequence[tuple[int, Project]]
) -> Iterable[JsonObject]:
    shown = [project for _, project in found]
    counts = stored_sessions.counts(tx, asked.caller.authority, [project.canonical for project in shown])
    for project in shown:
        yield _row(
            project,
            connected=asked.services.runners.is_connected(project.client_id),
            sessions=counts.get(project.canonical, 0),
        )


def _row(project: Project, *, connected: bool, sessions: int) -> JsonObject:
    row: JsonObject = {"id": project.canonical, "client_id": project.client_id}
    if project.name is not None:
        row["name"] = handoff_text.spaced(project.name)[:NAME_CHARS]
    if len(project.path.encode()) <= PATH_BYTES and not handoff_text.has_control(project.path):
        row["path"] = project.path
    status = AgentStatus.ONLINE if connected else AgentStatus.OFFLINE
    return row | {"connected": connected, "agent_status": status.value, "sessions": sessions}
