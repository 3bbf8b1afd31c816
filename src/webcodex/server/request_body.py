"""Reads the body of a request within 4 MiB and a deadline, and as one JSON object (M-01, M-09, C-22 row 5).

``TooLarge``, ``TooSlow``, ``Gone``  the body cannot be read
``InvalidJson``                      it is no JSON object; the text is a fixed reason
"""

import asyncio
import json
import math
from typing import Any, Final, NoReturn

from starlette.types import Receive, Send

from webcodex.core import limits
from webcodex.server import answers

BODY_S: Final = 30.0
_LINGER_S: Final = 2.0
_LINGER_BYTES: Final = 16 * 1024 * 1024
_CONTAINERS: Final = (dict, list)


class TooLarge(Exception):
    """The body is longer than M-01 allows."""


class TooSlow(Exception):
    """The body was not complete in time."""


class Gone(Exception):
    """The client left before its body was complete; nobody waits for an answer."""


class InvalidJson(Exception):
    """The body is not one JSON object; ``reason`` is one of a few fixed words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def read(receive: Receive, within_s: float = BODY_S) -> bytes:
    """Returns the whole body, at most ``limits.HTTP_BODY_BYTES``.

    Raises:
        TooLarge: it is longer.
        TooSlow: it took longer than ``within_s`` seconds.
        Gone: the client closed the connection.

    """
    try:
        async with asyncio.timeout(within_s):
            return await _read(receive)
    except TimeoutError:
        raise TooSlow from None


async def _read(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body", False) and _fits(len(body)):
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body", False) and _fits(size):
        message = await receive()
        parts.append(message.get("body", b""))
        size += len(parts[-1])
    if message["type"] != "http.request":
        raise Gone
    if not _fits(size):
        raise TooLarge
    return b"".join(parts)


def _fits(size: int) -> bool:
    return size <= limits.HTTP_BODY_BYTES


async def refuse_rest(answer: answers.Answer, receive: Receive, send: Send) -> None:
    """Sends ``answer`` while the body is still coming, and takes a little more of it.

    Without that, closing the connection could take the answer from a client that is still sending.
    """
    await answers.send_but_for_the_end(answer, send)
    taken = 0
    try:
        async with asyncio.timeout(_LINGER_S):
            while taken < _LINGER_BYTES:
                message = await receive()
                taken += len(message.get("body", b""))
                if not message.get("more_body", False):
                    break
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b""})


def parse(body: bytes) -> dict[str, Any]:
    """Returns the one JSON object that ``body`` is; its numbers are finite, its depth at most 64.

    Raises:
        InvalidJson: it is none.

    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidJson("not UTF-8") from None
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError:
        raise InvalidJson("not JSON") from None
    except RecursionError:
        raise InvalidJson("nested too deeply") from None
    except ValueError:
        raise InvalidJson("a number is out of range") from None
    if not isinstance(value, dict):
        raise InvalidJson("not an object")
    # Counting brackets is cheap and never too low: those inside strings only cost the exact look.
    if body.count(b"{") + body.count(b"[") > limits.JSON_DEPTH and _is_too_deep(value):
        raise InvalidJson("nested too deeply")
    return value


def _is_too_deep(value: object) -> bool:
    level = [value]
    for _ in range(limits.JSON_DEPTH):
        level = [
            item
            for parent in level
            for item in (parent.values() if isinstance(parent, dict) else parent)  # type: ignore[attr-defined]
            if isinstance(item, _CONTAINERS)
        ]
        if not level:
            return False
    return True


def _refuse(_constant: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a float cannot hold it")
    return number


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
