"""Keeps a projection below its size by shortening its lists in a fixed order (H-41)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from webcodex.core import handoff_text
from webcodex.core.json_value import Json, JsonObject

BRIEF_BYTES: Final = 8192  # H-41: a brief is strictly below this


class Part(StrEnum):
    """The lists of a brief that may be shortened, in the order in which they are (H-41)."""

    RECENT_FILES = "recent_files"
    CHANGES = "changes"
    OPEN_FAILURES = "open_failures"
    RECENT_PROGRESS = "recent_progress"
    DECISIONS = "decisions"
    NEXT_ACTIONS = "next_actions"


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A list as shown: its items, how many there are in all, and whether something was left out."""

    items: tuple[Json, ...]
    total: int
    truncated: bool

    def shortened(self) -> "Shown":
        """Returns the list without its last item."""
        return replace(self, items=self.items[:-1], truncated=True)

    def block(self) -> JsonObject:
        """Returns the public form of a list (40.1)."""
        return {
            "items": list(self.items),
            "total": self.total,
            "returned": len(self.items),
            "truncated": self.truncated,
        }


@dataclass(frozen=True, slots=True)
class Unread:
    """A list whose source cannot be read (H-06)."""

    items: tuple[Json, ...] = ()

    def shortened(self) -> "Unread":
        """Returns itself: nothing is shown of it."""
        return self

    def block(self) -> JsonObject:
        """Returns the public form, which counts nothing (H-06)."""
        return {"items": [], "total": None, "returned": None, "truncated": None}


Parts = Mapping[Part, Shown | Unread]


def first(items: tuple[Json, ...], limit: int, *, total: int | None = None, was_cut: bool = False) -> Shown:
    """Returns the first ``limit`` items; ``total`` counts more than ``items`` when some were filtered."""
    in_all = len(items) if total is None else total
    kept = items[:limit]
    return Shown(items=kept, total=in_all, truncated=was_cut or len(kept) < in_all)


def fitted(parts: Parts, render: Callable[[Parts], JsonObject]) -> JsonObject:
    """Returns what ``render`` makes of the parts, below 8,192 bytes, with the fewest items dropped (H-41).

    What is left when every part is empty is below the limit by the bounds of its texts (H-62).
    """
    rendered = render(parts)
    for part in Part:
        while handoff_text.size_bytes(rendered) >= BRIEF_BYTES and parts[part].items:
            parts = {**parts, part: parts[part].shortened()}
            rendered = render(parts)
    return rendered
