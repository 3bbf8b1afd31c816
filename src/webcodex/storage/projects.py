"""Remembers which Projects each Runner last reported, and the short references to them (C-15, C-16)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
)

from webcodex.core import access, ids
from webcodex.storage import references, schema
from webcodex.storage.database import Transaction
from webcodex.storage.statements import Prepared, Row


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One registered root on one Runner."""

    client_id: str
    project_id: str
    path: str
    name: str | None
    allow_patch: bool
    disabled: bool = False

    @property
    def canonical(self) -> str:
        """Returns the canonical id (C-15)."""
        return str(ids.ProjectId(self.client_id, self.project_id))


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """Which Projects are looked for: of one Runner, with a text in their id, name or path."""

    client_id: str | None = None
    query: str | None = None


_projects: Final = schema.projects
_runners: Final = schema.runners
_VISIBLE: Final = select(_projects).where(_projects.c.disabled.is_(False))
_OWNED: Final = _VISIBLE.join(_runners, _runners.c.client_id == _projects.c.client_id).where(
    _runners.c.user_id == bindparam("user_id")
)
_IS_NAMED: Final = and_(
    _projects.c.client_id == bindparam("client_id"), _projects.c.project_id == bindparam("project_id")
)
_FIND_ANY: Final = Prepared(_VISIBLE.where(_IS_NAMED))
_FIND_OWNED: Final = Prepared(_OWNED.where(_IS_NAMED))
_CANONICAL: Final = literal("agent:") + _projects.c.client_id + ":" + _projects.c.project_id
_ORDER: Final = (_projects.c.client_id, _projects.c.project_id)
LISTED: Final = 1000
_ALL_ANY: Final = Prepared(_VISIBLE.order_by(*_ORDER).limit(LISTED))
_ALL_OWNED: Final = Prepared(_OWNED.order_by(*_ORDER).limit(LISTED))
_REFS: Final = Prepared(
    select(schema.project_refs.c.project, schema.project_refs.c.number).where(
        schema.project_refs.c.authority == bindparam("authority")
    )
)


def visible(tx: Transaction, caller: access.Caller) -> list[Project]:
    """Returns the Projects that ``caller`` sees, by canonical id, at most ``LISTED`` (C-15)."""
    asked, values = (_ALL_ANY, {}) if caller.is_everyone else (_ALL_OWNED, {"user_id": caller.user_id})
    return [_project(row) for row in tx.all(asked, values)]


def find(tx: Transaction, caller: access.Caller, canonical: str) -> Project | None:
    """Returns the Project of that canonical id if ``caller`` sees it, else none."""
    parts = ids.parse_project(canonical)
    if parts is None:
        return None
    values = {"client_id": parts.client_id, "project_id": parts.project_id}
    if caller.is_everyone:
        row = tx.one(_FIND_ANY, values)
    else:
        row = tx.one(_FIND_OWNED, {**values, "user_id": caller.user_id})
    return None if row is None else _project(row)


def named(tx: Transaction, caller: access.Caller, short_name: str) -> list[Project]:
    """Returns the visible Projects whose ``<project_id>`` is ``short_name``, at most two (C-16)."""
    statement, values = _seen_by(caller)
    rows = tx.all(statement.where(_projects.c.project_id == short_name).order_by(*_ORDER).limit(2), values)
    return [_project(row) for row in rows]


def rooted(tx: Transaction, caller: access.Caller, client_id: str, path: str) -> list[Project]:
    """Returns the visible Projects of a Runner at exactly ``path``, at most two (S-60)."""
    statement, values = _seen_by(caller)
    at_path = statement.where(_projects.c.client_id == client_id, _projects.c.path == path)
    return [_project(row) for row in tx.all(at_path.order_by(*_ORDER).limit(2), values)]


def searched(
    tx: Transaction, caller: access.Caller, wanted: Search, *, after: tuple[int, str] | None, limit: int
) -> tuple[int, list[tuple[int, Project]]]:
    """Returns how many visible Projects ``wanted`` finds, and a page of them, each with its rank (M-45).

    Rank 0 has exactly the path that is searched for, rank 1 are all others; a rank is ordered by canonical
    id. ``after`` is rank and canonical id of the last one that was already shown.
    """
    statement, values = _seen_by(caller)
    rank: ColumnElement[int] = literal(1)
    if wanted.client_id is not None:
        statement = statement.where(_projects.c.client_id == wanted.client_id)
    if wanted.query:
        rank = case((_projects.c.path == wanted.query, 0), else_=1)
        texts = (_CANONICAL, _projects.c.name, _projects.c.path)
        statement = statement.where(or_(*(_contains(text, wanted.query) for text in texts)))
    total = tx.one(select(func.count()).select_from(statement.subquery()), values)
    if after is not None:
        shown_rank, shown_id = after
        statement = statement.where(
            or_(rank > shown_rank, and_(rank == shown_rank, shown_id < _CANONICAL)),
        )
    page = statement.add_columns(rank.label("rank")).order_by(rank, _CANONICAL).limit(limit)
    rows = [(int(row.rank), _project(row)) for row in tx.all(page, values)]
    return (0 if total is None else int(total[0])), rows


def replace_inventory(tx: Transaction, client_id: str, inventory: Iterable[Project]) -> None:
    """Leaves exactly ``inventory`` as the Projects of ``client_id`` (C-15)."""
    tx.change(delete(_projects).where(_projects.c.client_id == client_id))
    for project in inventory:
        tx.change(insert(_projects), {name: getattr(project, name) for name in project.__slots__})


def known_refs(tx: Transaction, authority: str) -> dict[str, str]:
    """Returns the references minted for a group so far: Project -> ``~p<N>``."""
    rows = tx.all(_REFS, {"authority": authority})
    return {row.project: f"~p{row.number}" for row in rows}


def mint_ref(tx: Transaction, authority: str, project: str) -> str:
    """Returns the group's reference to ``project``, minted on first use and pinned for ever (C-16)."""
    known = known_refs(tx, authority).get(project)
    if known is not None:
        return known
    number = references.next_number(tx, authority, "last_project_ref")
    tx.change(insert(schema.project_refs), {"authority": authority, "number": number, "project": project})
    return f"~p{number}"


def of_ref(tx: Transaction, authority: str, number: int) -> str | None:
    """Returns the canonical id behind ``~p<number>``, or none."""
    refs = schema.project_refs
    row = tx.one(select(refs.c.project).where(refs.c.authority == authority, refs.c.number == number))
    return None if row is None else str(row[0])


def _contains(text: ColumnElement[str], part: str) -> ColumnElement[bool]:
    # LIKE ignores the case of ASCII letters in SQLite, and its own position functions differ by engine.
    return func.replace(text, part, "") != text


def _seen_by(caller: access.Caller) -> tuple[Select[Any], dict[str, object]]:
    return (_VISIBLE, {}) if caller.is_everyone else (_OWNED, {"user_id": caller.user_id})


def _project(row: Row) -> Project:
    return Project(
        client_id=row.client_id,
        project_id=row.project_id,
        path=row.path,
        name=row.name,
        allow_patch=row.allow_patch,
        disabled=row.disabled,
    )
