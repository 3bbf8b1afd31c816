"""Fills a page of the console with as many rows as fit, and says where the next page begins (M-47)."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from webcodex.core import access
from webcodex.core.json_value import Json, JsonObject
from webcodex.server import answers, console_cursor
from webcodex.tools.contract import Params
from webcodex.tools.ports import Services

Found = TypeVar("Found")
Body = TypeVar("Body", bound=Params)

MOST_ROWS: Final = 100
BODY_BYTES: Final = 120_000  # M-47
_AROUND_BYTES: Final = 512
_PLACE: Final = re.compile(r"(?P<number>[0-9]{1,15}):(?P<name>.+)")


class NotVisible(Exception):
    """The caller cannot see the Project; whether there is one stays open (M-44)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked(Generic[Body]):
    """One request to a console route whose fields are right."""

    route: str
    caller: access.Caller
    body: Body
    services: Services

    def bound(self, *question: str | None) -> tuple[str | None, ...]:
        """Returns what a cursor of this request is bound to."""
        return self.route, self.caller.authority, *question


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding(Generic[Found]):
    """What the store found: at most one more than the limit, and how many match in all."""

    found: Sequence[Found]
    total: int
    limit: int


def clamped(limit: int) -> int:
    """Returns how many rows a page may have."""
    return min(max(limit, 1), MOST_ROWS)


def filled(
    name: str,
    finding: Finding[Found],
    rows: Callable[[Sequence[Found]], Iterable[JsonObject]],
    cursor: Callable[[Found], str],
) -> JsonObject:
    """Returns the page; it ends where ``rows`` end or no longer fit, and has a row while there is one."""
    shown = _fitting(rows(finding.found[: finding.limit]))
    has_more = len(shown) < len(finding.found)
    return {
        name: shown,
        "total": finding.total,
        "returned": len(shown),
        "truncated": has_more,
        "next_cursor": cursor(finding.found[len(shown) - 1]) if has_more else None,
    }


def placed(bound: Sequence[str | None], cursor: str | None) -> tuple[int, str] | None:
    """Returns the number and the name that a cursor stands for, or none for the first page.

    Raises:
        BadCursor: it is not of this request.

    """
    if cursor is None:
        return None
    parts = _PLACE.fullmatch(console_cursor.place(bound, cursor))
    if parts is None:
        raise console_cursor.BadCursor
    return int(parts["number"]), parts["name"]


def _fitting(rows: Iterable[JsonObject]) -> list[Json]:
    taken: list[Json] = []
    room = BODY_BYTES - _AROUND_BYTES
    for row in rows:
        room -= len(answers.of(200, row).body) + 1
        if taken and room < 0:
            break
        taken.append(row)
    return taken
