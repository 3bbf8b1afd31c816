"""Makes and reads the opaque places of console pages, each bound to what was asked and by whom (M-47).

A cursor grants nothing: whoever forged one could only begin somewhere else in a list that is its own.
So it is bound by a hash and needs no secret, and it outlives a restart.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
import string
from collections.abc import Sequence
from typing import Final

CHARS: Final = 256
PATTERN: Final = r"^[A-Za-z0-9_-]{1,256}$"

_FORM: Final = re.compile(PATTERN)
_DIGEST_BYTES: Final = 16
_DOMAIN: Final = "webcodex.console-cursor.v1"
# A place is a numeral, since a Project's id alone can have 209 characters: in base64 it would be too long.
_SYMBOLS: Final = string.ascii_letters + string.digits + "-_.:"
_BASE: Final = len(_SYMBOLS) + 1


class BadCursor(Exception):
    """The cursor was not made for this request."""


def made(bound: Sequence[str | None], place: str) -> str:
    """Returns the cursor of ``place`` for requests that are ``bound`` alike.

    A place has at most 215 characters of letters, digits and ``-_.:``.
    """
    number = 0
    for symbol in place:
        number = number * _BASE + _SYMBOLS.index(symbol) + 1
    packed = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(_digest(bound, place) + packed).decode("ascii").rstrip("=")


def place(bound: Sequence[str | None], cursor: str) -> str:
    """Returns the place that ``cursor`` was made of.

    Raises:
        BadCursor: it was made for another route, caller or question, or by nobody here.

    """
    if _FORM.fullmatch(cursor) is None:
        raise BadCursor
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except binascii.Error:
        raise BadCursor from None
    found = _unpacked(raw[_DIGEST_BYTES:])
    if not hmac.compare_digest(_digest(bound, found), raw[:_DIGEST_BYTES]) or made(bound, found) != cursor:
        raise BadCursor
    return found


def _unpacked(packed: bytes) -> str:
    number = int.from_bytes(packed, "big")
    symbols = []
    while number:
        number, value = divmod(number, _BASE)
        if value == 0:
            raise BadCursor
        symbols.append(_SYMBOLS[value - 1])
    return "".join(reversed(symbols))


def _digest(bound: Sequence[str | None], found: str) -> bytes:
    text = json.dumps([_DOMAIN, *bound, found])
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]
