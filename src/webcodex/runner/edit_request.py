"""Reads one request for edits (R-54): its form and its sizes; must never look at a file."""

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from webcodex.core import idempotency
from webcodex.protocol import fields
from webcodex.runner import edit_failures, failures

MAX_EDITS: Final = 16
MAX_REPLACEMENTS: Final = 32
MAX_FILE_BYTES: Final = 1024 * 1024
"""What one file may hold after its edit."""

MAX_TOTAL_BYTES: Final = 3 * 1024 * 1024
"""What all files of one request may hold together after it."""

_MAX_KEY_CHARS: Final = 128
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Op(enum.StrEnum):
    """What one edit does to its path."""

    CREATE = "create"
    WRITE = "write"
    REPLACE = "replace"
    DELETE = "delete"


_UNNEEDED: Final[Mapping[Op, tuple[str, ...]]] = {
    Op.CREATE: ("expected_sha256", "replacements"),
    Op.WRITE: ("replacements",),
    Op.REPLACE: ("content",),
    Op.DELETE: ("content", "replacements"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Replacement:
    """A text that occurs exactly `count` times, and what stands there afterwards."""

    old: str
    new: str
    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """One edit; the members that its operation does not need are None or empty."""

    path: str
    op: Op
    expected_sha256: str | None
    content: str | None
    replacements: tuple[Replacement, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked; `key` is the idempotency key."""

    edits: tuple[Edit, ...]
    key: str | None

    def hash(self, project: str) -> str:
        """Returns the G-06 hash of the request in a canonical Project id, without its key."""
        return idempotency.request_hash({"project": project, "edits": [asdict(edit) for edit in self.edits]})


def parse(body: fields.JsonObject) -> Request:
    """Returns what a request body asks for.

    Raises:
        RequestFailed: `invalid_arguments` or `edit_too_large`.

    """
    source = fields.Fields(body, "body")
    try:
        edits = source.each("edits", _edit, most=MAX_EDITS)
        key = source.text_or_none("idempotency_key", most=fields.MAX_INTEGER)
    except fields.Malformed as error:
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS) from error
    key = None if key is None else key.strip()
    if not edits or (key is not None and not 1 <= len(key) <= _MAX_KEY_CHARS):
        raise failures.RequestFailed(failures.INVALID_ARGUMENTS)
    sizes = [len(edit.content.encode()) for edit in edits if edit.content is not None]
    check_sizes(sizes)
    return Request(edits=edits, key=key)


def check_sizes(sizes_bytes: Sequence[int]) -> None:
    """Refuses contents that are too large, alone or together.

    Raises:
        RequestFailed: `edit_too_large`.

    """
    if any(size > MAX_FILE_BYTES for size in sizes_bytes) or sum(sizes_bytes) > MAX_TOTAL_BYTES:
        raise edit_failures.refused("edit_too_large")


def _edit(source: fields.Fields) -> Edit:
    op = Op(source.word("op", frozenset(Op)))
    for name in _UNNEEDED[op]:
        if source.whole().get(name) not in (None, []):
            raise fields.Malformed(f"{name} is not allowed")
    has_content = op in {Op.CREATE, Op.WRITE}
    return Edit(
        path=source.text("path", most=fields.MAX_INTEGER, least=0),
        op=op,
        expected_sha256=None if op is Op.CREATE else source.matching("expected_sha256", _SHA256),
        content=source.text("content", most=fields.MAX_INTEGER, least=0) if has_content else None,
        replacements=_replacements(source) if op is Op.REPLACE else (),
    )


def _replacements(source: fields.Fields) -> tuple[Replacement, ...]:
    replacements = source.each("replacements", _replacement, most=MAX_REPLACEMENTS)
    if not replacements:
        raise fields.Malformed("replacements is empty")
    return replacements


def _replacement(source: fields.Fields) -> Replacement:
    return Replacement(
        old=source.text("old", most=fields.MAX_INTEGER),
        new=source.text("new", most=fields.MAX_INTEGER, least=0),
        count=source.integer_or("count", 1, least=1, most=MAX_FILE_BYTES),
    )
