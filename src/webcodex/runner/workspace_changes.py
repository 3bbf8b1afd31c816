"""Answers `workspace_changes`: what differs from HEAD, and what is untracked, page by page (R-52, R-53)."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webcodex.protocol import bounds, fields
from webcodex.runner import (
    change_diffs,
    change_list,
    deadline,
    failures,
    git_safety,
    git_store,
    own_files,
    page_cursor,
    path_form,
    paths,
    projects,
    refusals,
    root_walk,
)

MAX_FILES: Final = 100
_BATCH: Final = 16
_MAX_LIST_BYTES: Final = 32 * 1024 * 1024
_ROOM_BYTES: Final = bounds.MAX_REPLY_BYTES - page_cursor.MAX_CHARS - 1024
_ENOUGH_S: Final = 5.0
"""With less time than this no further batch is begun."""

_UNAVAILABLE: Final = {"available": False, "files": [], "truncated": False, "next_cursor": None}


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a request asks for; `start` is the place in the order that the page begins with."""

    path: tuple[str, ...]
    context: int
    start: str


def parse(body: fields.JsonObject) -> Query:
    """Returns the query a request body asks for.

    Raises:
        RequestFailed: `invalid_arguments` or `invalid_path`.

    """
    source = fields.Fields(body, "body")
    try:
        path = source.text_or_none("path", most=fields.MAX_INTEGER) or ""
        return Query(
            path=path_form.parse(path) if path else (),
            context=source.integer_or("context", 3, least=0, most=10),
            start=page_cursor.read(source),
        )
    except fields.Malformed as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
    except path_form.PathRefused as error:
        raise refusals.failure(error.reason) from error


def workspace_changes(
    project: projects.Project,
    own: own_files.OwnFiles,
    git: str,
    body: fields.JsonObject,
    until: deadline.Deadline,
) -> dict[str, Any]:
    """Returns the reply of `read_workspace_changes` without its project.

    It is not `available` where the Project's root holds no repository of its own, or Git cannot read it.

    Raises:
        RequestFailed: the body or the path is wrong, the root was replaced, or the deadline passed.

    """
    query = parse(body)
    try:
        with refusals.told(), paths.open_root(project) as root:
            if git_store.of(root, project.root) is not git_store.Store.OWN:
                return dict(_UNAVAILABLE)
            directory = git_safety.directory_of(root, project.root)
            repository = git_safety.Repository(git, directory, until)
            reply = _Page(project, own, repository, until).reply(query)
        with refusals.told(), paths.open_root(project):
            return reply
    except git_safety.GitFailed:
        return dict(_UNAVAILABLE)
    except git_safety.GitLate as error:
        raise failures.RequestFailed(failures.TIMEOUT, failures.TIMED_OUT) from error


class _Page:
    """One page of the changes of one repository."""

    def __init__(
        self,
        project: projects.Project,
        own: own_files.OwnFiles,
        repository: git_safety.Repository,
        until: deadline.Deadline,
    ) -> None:
        self._project = project
        self._own = own
        self._repository = repository
        self._until = until

    def reply(self, query: Query) -> dict[str, Any]:
        """Returns the page that the query's cursor begins."""
        listed = change_list.read(self._repository, query.path)
        due = [change for change in listed.changes if change.key >= query.start]
        files: list[dict[str, Any]] = []
        room_bytes = _ROOM_BYTES
        for change, diff in self._diffs(due[:MAX_FILES], query.context):
            row = _row(change, diff)
            room_bytes -= fields.encoded_bytes(row) + 1
            if room_bytes < 0:
                break
            files.append(row)
        rest = due[len(files) :]
        return {
            "available": True,
            "files": files,
            "truncated": bool(rest) or not listed.is_whole,
            "next_cursor": page_cursor.write(rest[0].key) if rest else None,
            **({"omitted_unnameable": listed.unnameable} if listed.unnameable else {}),
        }

    def _diffs(
        self, changes: Sequence[change_list.Change], context: int
    ) -> Iterator[tuple[change_list.Change, change_diffs.Diff | None]]:
        """Yields each change with its diff, None where it is withheld, as far as the time suffices."""
        base = change_list.base(self._repository) if changes else ""
        for first in range(0, len(changes), _BATCH):
            if first and self._until.remaining_s() < _ENOUGH_S:
                return
            batch = changes[first : first + _BATCH]
            withheld = {change for change in batch if self._withholds(change.path)}
            asked = [
                change.path
                for change in batch
                if change not in withheld and change.status is not change_list.Status.UNTRACKED
            ]
            diffs = change_diffs.tracked(self._repository, base, asked, context) if asked else {}
            for change in batch:
                if change in withheld:
                    yield change, None
                elif change.status is change_list.Status.UNTRACKED:
                    yield change, self._added(change.path)
                else:
                    yield change, diffs[change.path]

    def _withholds(self, path: str) -> bool:
        """Says whether the content stays here: what is sensitive, own, or no path of a request."""
        try:
            with paths.open_file(self._project, path, self._own, root_walk.Links.REFUSE):
                return False
        except path_form.PathRefused as error:
            return error.reason == "sensitive_path" or not _is_path(path)

    def _added(self, path: str) -> change_diffs.Diff:
        try:
            with paths.open_file(self._project, path, self._own, root_walk.Links.REFUSE) as file:
                size_bytes = file.status.st_size
                if size_bytes > change_diffs.MAX_FILE_BYTES:
                    return change_diffs.UNKNOWN
                content = _read(file.descriptor, size_bytes)
        except (path_form.PathRefused, OSError):
            return change_diffs.UNKNOWN
        mode = 0o100755 if file.status.st_mode & stat.S_IXUSR else 0o100644
        return change_diffs.untracked(path, mode, content)


def _is_path(path: str) -> bool:
    try:
        return path_form.parse(path) != ()
    except path_form.PathRefused:
        return False


def _read(descriptor: int, size_bytes: int) -> bytes:
    content = b""
    while len(content) <= size_bytes and (more := os.read(descriptor, size_bytes + 1 - len(content))):
        content += more
    return content


def _row(change: change_list.Change, diff: change_diffs.Diff | None) -> dict[str, Any]:
    shown = change_diffs.UNKNOWN if diff is None else diff
    row: dict[str, Any] = {
        "path": change.path,
        "status": change.status.value,
        "additions": shown.additions,
        "deletions": shown.deletions,
        "binary": shown.binary,
        "withheld": diff is None,
        "diff": shown.text,
    }
    text, is_cut = shown.text or "", shown.is_cut
    while fields.encoded_bytes(row) > _ROOM_BYTES:
        text, is_cut = text[: len(text) // 2], True
        row["diff"] = text
    return {**row, "diff_truncated": True} if is_cut else row
