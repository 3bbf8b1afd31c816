"""Rules on edits against the files as they are (R-55, step 1); must never change anything."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from webcodex.runner import edit_failures, edit_request, own_files, path_form, root_walk, write_places

MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""The longest file that is hashed, as for reads (R-51)."""

_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One edit that may be made: its place, and what stands there before and after; None is absence."""

    op: edit_request.Op
    place: write_places.Place
    before: str | None
    after: str | None
    content: bytes | None

    @property
    def path(self) -> str:
        """The place as replies name it."""
        return "/".join(self.place.names)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The bytes of a file as one read found them; `content` is kept only where it is short enough to edit."""

    sha256: str
    content: bytes | None


class TooLong(Exception):
    """The file is longer than any that is hashed."""


def check(root: int, edits: Sequence[edit_request.Edit], own: own_files.OwnFiles) -> tuple[Change, ...]:
    """Returns the changes that the edits ask for, each allowed as the files are now.

    Raises:
        RequestFailed: a word of R-56; nothing was changed.

    """
    changes: list[Change] = []
    failed: list[dict[str, Any]] = []
    for index, edit in enumerate(edits):
        checked = _checked(root, edit, own)
        if isinstance(checked, Change):
            changes.append(checked)
        else:
            failed.append({"index": index, "path": "/".join(path_form.parse(edit.path)), **checked})
    if failed:
        raise edit_failures.refused("edit_precondition_failed", {"failed": failed})
    _refuse_entangled([change.place.names for change in changes])
    edit_request.check_sizes([len(change.content or b"") for change in changes])
    return tuple(changes)


def found_at(directory: int, name: str) -> tuple[Found, os.stat_result]:
    """Returns what a regular file holds, and which file it was.

    Raises:
        PathRefused: `not_file`.
        TooLong: it is longer than 64 MiB.
        OSError: it is not there, a link, or cannot be read.

    """
    descriptor = os.open(name, root_walk.READ, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise path_form.PathRefused("not_file")
        return _read(descriptor, status.st_size), status
    finally:
        os.close(descriptor)


def sha256(content: bytes) -> str:
    """Returns the hex SHA-256 of a content."""
    return hashlib.sha256(content).hexdigest()


def _read(descriptor: int, size_bytes: int) -> Found:
    if size_bytes > MAX_READ_BYTES:
        raise TooLong
    digest, kept, read_bytes = hashlib.sha256(), bytearray(), 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        read_bytes += len(chunk)
        if read_bytes > MAX_READ_BYTES:
            raise TooLong
        digest.update(chunk)
        if read_bytes <= edit_request.MAX_FILE_BYTES:
            kept += chunk
    is_short = read_bytes <= edit_request.MAX_FILE_BYTES
    return Found(sha256=digest.hexdigest(), content=bytes(kept) if is_short else None)


def _checked(root: int, edit: edit_request.Edit, own: own_files.OwnFiles) -> Change | dict[str, Any]:
    """Returns the change, or why its precondition fails."""
    try:
        with write_places.look(root, edit.path, own) as (place, directory):
            if edit.op is edit_request.Op.CREATE:
                return _created(edit, place, directory)
            if place.status is None:
                return {"reason": "missing", "actual_sha256": None}
            found, _ = found_at(directory, place.names[-1])
            if found.sha256 != edit.expected_sha256:
                return {"reason": "sha_mismatch", "actual_sha256": found.sha256}
            return _changed(edit, place, found)
    except path_form.PathRefused as error:
        if error.reason != "not_found":
            raise edit_failures.refused(error.reason) from error
        if edit.op is edit_request.Op.CREATE:
            raise edit_failures.refused("invalid_path") from error
        return {"reason": "missing", "actual_sha256": None}
    except TooLong as error:
        raise edit_failures.refused("edit_too_large") from error
    except FileNotFoundError:
        return {"reason": "missing", "actual_sha256": None}


def _created(edit: edit_request.Edit, place: write_places.Place, directory: int) -> Change | dict[str, Any]:
    if place.status is not None:
        if place.names[-1] != place.asked[-1]:
            raise edit_failures.refused("path_conflict")
        with contextlib.suppress(TooLong):
            found, _ = found_at(directory, place.names[-1])
            return {"reason": "exists", "actual_sha256": found.sha256}
        return {"reason": "exists", "actual_sha256": None}
    assert edit.content is not None
    content = edit.content.encode()
    return Change(op=edit.op, place=place, before=None, after=sha256(content), content=content)


def _changed(edit: edit_request.Edit, place: write_places.Place, found: Found) -> Change:
    content: bytes | None = None
    if edit.op is edit_request.Op.WRITE:
        content = (edit.content or "").encode()
    elif edit.op is edit_request.Op.REPLACE:
        content = replaced(found.content, edit.replacements)
    after = None if content is None else sha256(content)
    return Change(op=edit.op, place=place, before=found.sha256, after=after, content=content)


def replaced(content: bytes | None, replacements: Iterable[edit_request.Replacement]) -> bytes:
    """Returns a content with each replacement made, in order, in what the earlier ones left.

    Raises:
        RequestFailed: `edit_too_large`, `invalid_utf8`, `edit_text_not_found` or `edit_text_ambiguous`.

    """
    if content is None:
        raise edit_failures.refused("edit_too_large")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise edit_failures.refused("invalid_utf8") from error
    for replacement in replacements:
        _check_occurrences(text, replacement)
        grown = replacement.count * (len(replacement.new) - len(replacement.old))
        if len(text) + grown > edit_request.MAX_FILE_BYTES:
            raise edit_failures.refused("edit_too_large")
        text = text.replace(replacement.old, replacement.new)
    return text.encode()


def _check_occurrences(text: str, replacement: edit_request.Replacement) -> None:
    """Refuses any other number of places than stated; places that overlap are never the ones meant."""
    places, earlier = 0, -len(replacement.old)
    at = text.find(replacement.old)
    while at >= 0:
        places += 1
        if places > replacement.count or at < earlier + len(replacement.old):
            raise edit_failures.refused("edit_text_ambiguous")
        earlier = at
        at = text.find(replacement.old, at + 1)
    if places < replacement.count:
        raise edit_failures.refused("edit_text_not_found")


def _refuse_entangled(paths: Sequence[tuple[str, ...]]) -> None:
    """Refuses two edits of one path, and an edit beneath what another one makes or removes."""
    named = set(paths)
    beneath = {path[:depth] for path in paths for depth in range(1, len(path))}
    if len(named) < len(paths) or named & beneath:
        raise edit_failures.refused("duplicate_edit_path")
