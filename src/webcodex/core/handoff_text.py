"""Bounds text, paths and branch names before they are shown in a projection (H-05..H-08, H-22)."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from webcodex.core import redaction
from webcodex.core.json_value import Json

PATH_BYTES: Final = 512  # H-08
BRANCH_BYTES: Final = 200  # H-07

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SCHEME_OR_DRIVE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEPARATOR: Final = re.compile(r"[/\\]")
_HEAD: Final = re.compile(r"[0-9a-f]{7,64}")

Rule = Callable[[str], redaction.Kept]


@dataclass(frozen=True, kw_only=True, slots=True)
class Excerpt:
    """Shown text; ``truncated`` says that redaction or a limit changed it (H-05)."""

    text: str
    truncated: bool


def excerpt(
    text: str, *, rule: Rule, chars: int, size_bytes: int | None = None, was_redacted: bool = False
) -> Excerpt:
    """Returns one line of at most ``chars`` code points and ``size_bytes`` bytes that the rule lets pass.

    The rule sees what would be shown, since a space in place of a control character may complete a marker.
    """
    line = spaced(text)
    if rule(line).redacted:
        return Excerpt(text=redaction.REDACTED, truncated=True)
    shown = cut(line, chars=chars, size_bytes=size_bytes)
    return Excerpt(text=shown, truncated=was_redacted or shown != line)


def spaced(text: str) -> str:
    """Returns the text with a space for each control character and lone surrogate."""
    return _CONTROL.sub(" ", text)


def cut(text: str, *, chars: int, size_bytes: int | None = None) -> str:
    """Returns the longest start of the text within both limits, cut on a code point boundary (I-06)."""
    start = text[:chars]
    if size_bytes is None:
        return start
    return start.encode()[:size_bytes].decode(errors="ignore")


def has_control(text: str) -> bool:
    """Says whether the text holds a control character or a lone surrogate."""
    return _CONTROL.search(text) is not None


def is_shown_path(path: str) -> bool:
    """Says whether a path is project-relative, short enough and free of secrets (H-08, S-24)."""
    return (
        path != ""
        and not has_control(path)
        and len(path.encode()) <= PATH_BYTES
        and path[0] not in "/\\"
        and _SCHEME_OR_DRIVE.match(path) is None
        and ".." not in _SEPARATOR.split(path)
        and redaction.keeps_name(path)
    )


def shown_branch(branch: str | None) -> str | None:
    """Returns the branch, or none when there is none or it may not be shown (H-07)."""
    if not branch or has_control(branch) or len(branch.encode()) > BRANCH_BYTES:
        return None
    return branch if redaction.keeps_name(branch) else None


def shown_head(head: str | None) -> str | None:
    """Returns the commit id, or none when there is no commit or it has another form (H-07)."""
    return head if head is not None and _HEAD.fullmatch(head) else None


def size_bytes(value: Json) -> int:
    """Returns the UTF-8 length of the JSON text as H-41 measures it: ``", "``, ``": "``, non-ASCII kept."""
    return len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
