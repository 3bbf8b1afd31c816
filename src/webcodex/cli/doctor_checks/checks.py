"""Says what one look found: right, wrong or not known, and the one step to take next."""

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_LONGEST_WORD: Final = 80
_WORD: Final = re.compile(r"[A-Za-z0-9_.:/+-]+")


class Area(StrEnum):
    """What a check is about, in the order of the report."""

    INSTALLATION = "installation"
    SERVER = "server"
    RUNNER = "runner"
    PROJECTS = "projects"
    CREDENTIALS = "credentials"
    HOST = "host"
    ADAPTERS = "adapters"


NEEDED: Final = frozenset(
    {Area.INSTALLATION, Area.SERVER, Area.RUNNER, Area.PROJECTS, Area.CREDENTIALS}
)  # a host's registration and the adapters are a choice


class Status(StrEnum):
    """What is known of one thing."""

    OK = "ok"
    ATTENTION = "attention"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One line of the report; ``next_step`` is a command to paste into a shell, or none."""

    area: Area
    name: str
    status: Status
    found: str
    next_step: str | None = None


def ok(area: Area, name: str, found: str) -> Check:
    """Returns that it is right."""
    return Check(area=area, name=name, status=Status.OK, found=found)


def attention(area: Area, name: str, found: str, next_step: str) -> Check:
    """Returns that it is wrong, and what to do."""
    return Check(area=area, name=name, status=Status.ATTENTION, found=found, next_step=next_step)


def unknown(area: Area, name: str, found: str, next_step: str | None = None) -> Check:
    """Returns that it is not known, and what would tell."""
    return Check(area=area, name=name, status=Status.UNKNOWN, found=found, next_step=next_step)


def all_right(found: Iterable[Check]) -> bool:
    """Says whether all that is needed is known to be right, and nothing else is known to be wrong."""
    return all(
        check.status is Status.OK or (check.status is Status.UNKNOWN and check.area not in NEEDED)
        for check in found
    )


def shape(found: Iterable[Check]) -> dict[str, Any]:
    """Returns the report as ``--json`` prints it: closed objects, in the order of the report."""
    looked_at = list(found)
    return {
        "ok": all_right(looked_at),
        "checks": [
            {
                "area": check.area.value,
                "name": check.name,
                "status": check.status.value,
                "found": check.found,
                "next_step": check.next_step,
            }
            for check in looked_at
        ],
    }


def age(seconds: float) -> str:
    """Returns how long ago something was, in words."""
    for unit_s, unit in ((_DAY_S, "days"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= 2 * unit_s:
            return f"{int(seconds // unit_s)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"


def word(value: object) -> str:
    """Returns a word that another program said, or that it said no such word (M-02)."""
    is_word = isinstance(value, str) and len(value) <= _LONGEST_WORD and _WORD.fullmatch(value)
    return str(value) if is_word else "no known word"


def quoted(path: Path) -> str:
    """Returns ``path`` as a shell reads it."""
    return shlex.quote(str(path))
