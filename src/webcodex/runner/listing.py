"""Answers `list_project_files`: one page of what lies beneath a path, in byte order (R-52)."""

import os
import stat
from dataclasses import dataclass
from typing import Any, Final

from webcodex.protocol import bounds, fields
from webcodex.runner import (
    deadline,
    failures,
    globs,
    own_files,
    page_cursor,
    paths,
    places,
    private_files,
    projects,
    refusals,
    tree_walk,
)

MAX_GLOBS: Final = 20
MAX_VISITS: Final = 500_000
_ROOM_BYTES: Final = bounds.MAX_REPLY_BYTES - page_cursor.MAX_CHARS - 1024
_FORMATS: Final = {
    tree_walk.Kind.FILE: stat.S_IFREG,
    tree_walk.Kind.DIR: stat.S_IFDIR,
    tree_walk.Kind.SYMLINK: stat.S_IFLNK,
}
_STOP_EARLY_S: Final = 1.0
"""How long before its deadline a listing ends its page, so that the page still arrives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a request asks for; `start` is the path that the page begins with."""

    path: str
    globs: tuple[str, ...]
    depth: int
    limit: int
    start: str


def parse(body: fields.JsonObject) -> Query:
    """Returns the query a request body asks for.

    Raises:
        RequestFailed: `invalid_arguments`.

    """
    source = fields.Fields(body, "body")
    try:
        return Query(
            path=source.text_or_none("path", most=fields.MAX_INTEGER) or "",
            globs=globs.listed(body.get("globs"), most=MAX_GLOBS),
            depth=source.integer_or("depth", 4, least=1, most=16),
            limit=source.integer_or("limit", 200, least=1, most=1000),
            start=page_cursor.read(source),
        )
    except (fields.Malformed, globs.InvalidGlob) as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error


def list_files(
    project: projects.Project,
    own: own_files.OwnFiles,
    body: fields.JsonObject,
    until: deadline.Deadline,
    most_visits: int = MAX_VISITS,
) -> dict[str, Any]:
    """Returns the reply of `list_project_files` without its project.

    The entries, and what is counted as omitted, are those from the cursor up to the next one; so over all
    pages each counts once. A page ends early where the tree is too large or too slow to be walked at once.

    Raises:
        RequestFailed: the body or the path is wrong, the root was replaced, or the time passed before
            anything could be told.

    """
    query = parse(body)
    try:
        level = globs.root(query.globs)
    except globs.InvalidGlob as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
    scope = tree_walk.Scope(level=level, depth=query.depth, most_visits=most_visits, start=query.start)
    ends_early = deadline.Deadline(at=until.at - _STOP_EARLY_S, given_up=until.given_up)
    with (
        refusals.told(),
        paths.open_root(project) as root,
        places.hold(root, query.path, own) as place,
    ):
        walk = tree_walk.Walk(place=place, scope=scope, own=own, until=ends_early)
        entries, next_start = _page(walk, query)
    unnameable = walk.tally.unnameable
    return {
        "entries": entries,
        "returned": len(entries),
        "truncated": next_start is not None,
        "next_cursor": None if next_start is None else page_cursor.write(next_start),
        "omitted_sensitive": walk.tally.omitted_sensitive,
        **({"omitted_unnameable": unnameable} if unnameable else {}),
    }


def _page(walk: tree_walk.Walk, query: Query) -> tuple[list[dict[str, Any]], str | None]:
    """Returns the entries, and the path that the next page begins with."""
    entries: list[dict[str, Any]] = []
    room_bytes = _ROOM_BYTES
    try:
        for found in walk.found():
            entry = _entry(found, walk)
            if entry is None:
                continue
            room_bytes -= fields.encoded_bytes(entry) + 1
            if len(entries) == query.limit or room_bytes < 0:
                return entries, found.path
            entries.append(entry)
    except tree_walk.Stopped as stopped:
        beginning = "".join(f"{name}/" for name in walk.place.shown)
        if stopped.position <= max(query.start, beginning):
            raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT) from stopped
        return entries, stopped.position
    return entries, None


def _entry(found: tree_walk.Found, walk: tree_walk.Walk) -> dict[str, Any] | None:
    """Returns how an entry is shown; None for one that is gone, became something else, or is an own file."""
    try:
        status = os.stat(found.name, dir_fd=found.holder, follow_symlinks=False)
    except OSError:
        return None
    if _FORMATS[found.kind] != stat.S_IFMT(status.st_mode):
        return None
    is_file = found.kind is tree_walk.Kind.FILE
    identity = private_files.Identity.of(status)
    if walk.own.holds_file(status) if is_file else walk.own.holds_directory(identity):
        walk.tally.omit_own(found.path)
        return None
    return {"path": found.path, "type": found.kind.value, "size": status.st_size if is_file else None}
