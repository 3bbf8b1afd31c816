"""Says what of a Job's log an observer has not seen, by line and column (R-61, R-63).

The Runner drops the oldest text first, so a position is lost once its line may have been cut.
"""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Final

TAIL_BYTES: Final = 64 * 1024
TOKEN_CHARS: Final = 192

_TOKEN_PARTS: Final = 5
_MOST: Final = 2**53


class BadToken(Exception):
    """The text is no observation token of this Job (``invalid_observation_token``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """The newest output of a Job; lines count from 1, also those that were dropped.

    ``next_line`` beyond the end of ``tail`` says that more was written, whose text has not come yet.
    """

    tail: str = ""
    first_retained_line: int = 1
    next_line: int = 1
    truncated: bool = False

    @property
    def is_behind(self) -> bool:
        """Says whether text is known to have been written that is not here yet."""
        return self.next_line > self.first_retained_line + self.tail.count("\n")


@dataclass(frozen=True, slots=True)
class Position:
    """The place of the next character: its line and how many characters of that line come before it."""

    line: int = 1
    column: int = 0


EMPTY: Final = Log()


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """Text that was not seen, where it ends, and whether some before it can no longer be shown."""

    text: str
    through: Position
    has_more: bool
    history_lost: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What an observation token stands for: one standing of one Job and a place in its log."""

    job_id: str
    update_seq: int
    state: str
    position: Position


def unseen(job_id: str) -> Seen:
    """Returns what somebody has seen who has seen nothing."""
    return Seen(job_id=job_id, update_seq=0, state="", position=Position())


def news(log: Log, update_seq: int, seen: Seen, *, most_bytes: int) -> News:
    """Returns the text after what was seen, oldest first, at most ``most_bytes`` of it as JSON text.

    ``update_seq`` is the revision of ``log``. The front of its first line may have been dropped, so a place
    in that line holds for this revision only.
    """
    start, is_lost = _found(log, seen.position, is_same=seen.update_seq == update_seq)
    offset = 0 if is_lost else _offset(log, start)
    text = _cut(log.tail[offset:], most_bytes)
    return News(
        text=text,
        through=_moved(start, text),
        has_more=log.is_behind or offset + len(text) < len(log.tail),
        history_lost=is_lost,
    )


def token(seen: Seen) -> str:
    """Returns the observation token of what was seen, at most 192 characters (R-63)."""
    place = seen.position
    parts = [seen.job_id, seen.update_seq, seen.state, place.line, place.column]
    text = json.dumps(parts, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode("ascii").rstrip("=")


def read_token(text: str, job_id: str) -> Seen:
    """Returns what a token of ``job_id`` stands for.

    Raises:
        BadToken: it is no token, or one of another Job.

    """
    try:
        parts = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        raise BadToken from None
    if not isinstance(parts, list) or len(parts) != _TOKEN_PARTS or parts[0] != job_id:
        raise BadToken
    numbers = (parts[1], parts[3], parts[4])
    if not isinstance(parts[2], str) or not all(type(part) is int and 0 <= part < _MOST for part in numbers):
        raise BadToken
    position = Position(parts[3], parts[4])
    return Seen(job_id=job_id, update_seq=parts[1], state=parts[2], position=position)


def _found(log: Log, after: Position, *, is_same: bool) -> tuple[Position, bool]:
    """Returns where the unseen text begins, and whether it begins later than it should."""
    first = log.first_retained_line
    is_cut = after.line < first or (log.truncated and after.line == first and not is_same)
    is_beyond = after.line > first + log.tail.count("\n")
    return (Position(first, 0), True) if is_cut or is_beyond else (after, False)


def _offset(log: Log, start: Position) -> int:
    offset = 0
    for _ in range(start.line - log.first_retained_line):
        offset = log.tail.index("\n", offset) + 1
    return min(offset + start.column, len(log.tail))


def _moved(start: Position, text: str) -> Position:
    lines = text.count("\n")
    if lines == 0:
        return Position(start.line, start.column + len(text))
    return Position(start.line + lines, len(text) - text.rindex("\n") - 1)


def _cut(text: str, most_bytes: int) -> str:
    size = _size(text)
    while size > most_bytes:
        text = text[: len(text) * most_bytes // size]
        size = _size(text)
    return text


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode()) - 2
