"""Says where a page of paths ended, in a form that callers hand back unread (R-52)."""

import base64
import binascii
import re
from typing import Final

from webcodex.protocol import fields

MAX_CHARS: Final = 5632
"""A path of 4,096 bytes with a little beside it, in base64."""

_FORM: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_CHARS}}}")


def write(position: str) -> str:
    """Returns the cursor for a position, which is not empty."""
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def read(source: fields.Fields, name: str = "cursor") -> str:
    """Returns the position that the cursor of a body names; "", the beginning, where it has none.

    Raises:
        Malformed: it is no cursor.

    """
    if source.text_or_none(name, most=MAX_CHARS) is None:
        return ""
    cursor = source.matching(name, _FORM)
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise fields.Malformed("the cursor was not given out") from error
