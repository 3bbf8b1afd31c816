"""Decides which text holds a secret, so that no secret is ever written or shown (30.5).

Every rule takes time linear in the length of the text, also on hostile input.
"""

import re
from dataclasses import dataclass
from typing import Final

REDACTED: Final = "[redacted]"  # S-20

_MARKER: Final = re.compile(
    r"""
    bearer[ ][a-z0-9._~+/=-]{16}
    | wc_(?:pat|oat|ort|oac|acct|pair|csec|agent)_[a-z0-9]{8}
    | client_secret[\s"'`\\]*[=:]
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_KEY_SHAPE: Final = re.compile(
    r"""
    (?: sk- | ghp_ | gho_ | ghs_ | github_pat_ )[A-Za-z0-9_-]{16}
    | xox[abpr]-
    | AKIA[0-9A-Z]{16}
    """,
    re.ASCII | re.VERBOSE,
)
_DOTTED_RUN: Final = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_GIVEN_A_VALUE: Final = re.compile(r"""[\s"'`\\]*(?:[=:]|\bis\b)\s*\S""")
_JOINERS: Final = str.maketrans("", "", "_-")
_SECRET_NAMES: Final = (
    "token",
    "secret",
    "password",
    "passwd",
    "authorization",
    "apikey",
    "accesskey",
    "privatekey",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """Text as it may be kept, and whether a secret made it ``[redacted]`` (S-20)."""

    text: str
    redacted: bool


def instruction(text: str) -> Kept:
    """Returns an instruction or title, replaced as a whole when it holds a credential (S-22)."""
    return _kept(text, redacted=holds_credential(text))


def message(text: str) -> Kept:
    """Returns a message, resolution or tag, replaced as a whole when it holds or names a secret (S-23)."""
    return _kept(text, redacted=holds_credential(text) or names_secret(text))


def keeps_name(name: str) -> bool:
    """Says whether a branch, path or file name may be kept; any other counts as filtered (S-24)."""
    return not holds_credential(name)


def holds_credential(text: str) -> bool:
    """Says whether a credential marker or a key shape stands anywhere in the text (S-21)."""
    return (
        _MARKER.search(text) is not None
        or _KEY_SHAPE.search(text) is not None
        or _holds_private_key(text)
        or _holds_signed_token(text)
    )


def names_secret(text: str) -> bool:
    """Says whether an identifier that names a secret is followed by a value (S-23)."""
    return any(
        found[0].lower().translate(_JOINERS).endswith(_SECRET_NAMES)
        and _GIVEN_A_VALUE.match(text, found.end()) is not None
        for found in _IDENTIFIER.finditer(text)
    )


def _kept(text: str, *, redacted: bool) -> Kept:
    return Kept(text=REDACTED if redacted else text, redacted=redacted)


def _holds_private_key(text: str) -> bool:
    # Two searches instead of one pattern: with a gap in the middle it would be quadratic.
    begin = text.find("-----BEGIN")
    return begin >= 0 and text.find("PRIVATE KEY-----", begin) >= 0


def _holds_signed_token(text: str) -> bool:
    # Whole runs are split once: a pattern would start again at every "eyJ" of one run.
    if "eyJ" not in text:
        return False
    return any(
        "eyJ" in first and second and third
        for run in _DOTTED_RUN.finditer(text)
        for parts in [run[0].split(".")]
        for first, second, third in zip(parts, parts[1:], parts[2:], strict=False)
    )
