"""Holds the answers that every route shares, M-01 to M-09; none repeats anything of a request (M-02)."""

import json
from dataclasses import dataclass
from typing import Any, Final

from starlette.types import Scope, Send

from webcodex.core.json_value import JsonObject

Header = tuple[bytes, bytes]

_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_JSON: Final[Header] = (b"content-type", b"application/json")
_NOT_KEPT: Final[Header] = (b"cache-control", b"no-store")
CLOSE: Final[Header] = (b"connection", b"close")


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole HTTP answer; ``headers`` are those beside type, length and caching."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = ()


def of(status: int, value: JsonObject, *headers: Header) -> Answer:
    """Returns the answer whose body is ``value`` as compact JSON in UTF-8."""
    return Answer(status, _encode(value).encode("utf-8", "backslashreplace"), headers)


def error(status: int, text: str, *headers: Header) -> Answer:
    """Returns a refusal in the form of M-08."""
    return of(status, {"status": status, "error": text}, *headers)


BAD_HOST: Final = error(400, "Host must be named exactly once")  # M-03
HOST_NOT_ALLOWED: Final = error(403, "Host not allowed")  # M-03
ORIGIN_NOT_ALLOWED: Final = error(403, "Origin not allowed")  # M-04
NOT_FOUND: Final = error(404, "Not found")  # M-01
NOT_JSON_TYPE: Final = error(415, "Content-Type must be application/json")  # M-01
TOO_LARGE: Final = error(413, "Request body too large", CLOSE)  # M-01
TOO_SLOW: Final = error(408, "Request body did not arrive in time", CLOSE)
UNAUTHORIZED: Final = of(401, {"error": "Unauthorized"}, (b"www-authenticate", b"Bearer"))  # M-05
STATE_UNAVAILABLE: Final = error(500, "Server state unavailable")  # M-14


def wrong_method(allowed: str) -> Answer:
    """Returns the refusal of every method but ``allowed`` (M-01)."""
    return error(405, "Method not allowed", (b"allow", allowed.encode()))


def wrong_credential(sentence: str) -> Answer:
    """Returns the refusal of a credential's kind (M-06)."""
    return of(403, {"error": sentence})


async def send_whole(answer: Answer, send: Send) -> None:
    """Sends ``answer``."""
    await send(_start(answer, "http"))
    await send({"type": "http.response.body", "body": answer.body})


async def send_but_for_the_end(answer: Answer, send: Send) -> None:
    """Sends all of ``answer`` and leaves the exchange open, until an empty body is sent."""
    await send(_start(answer, "http"))
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})


async def deny_websocket(answer: Answer, scope: Scope, send: Send) -> None:
    """Answers a WebSocket request with ``answer`` and never accepts it; with 403 where it cannot say more."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close"})
        return
    await send(_start(answer, "websocket.http"))
    await send({"type": "websocket.http.response.body", "body": answer.body})


def _start(answer: Answer, kind: str) -> dict[str, Any]:
    length = (b"content-length", b"%d" % len(answer.body))
    return {
        "type": f"{kind}.response.start",
        "status": answer.status,
        "headers": [_JSON, length, _NOT_KEPT, *answer.headers],
    }
