"""Refuses every body that is not one JSON-RPC 2.0 message within the bounds of M-24a."""

import json
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from webcodex.core import limits
from webcodex.server import request_body
from webcodex.server.mcp_answers import Breach, Code, RequestId

METHOD_CHARS: Final = 128
ID_CHARS: Final = 256
_NO_OBJECT: Final = "not an object"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One request, or one notification when ``request_id`` is none."""

    method: str
    params: dict[str, Any]
    request_id: RequestId

    @property
    def is_notification(self) -> bool:
        """Says whether no answer is expected."""
        return self.request_id is None


def parsed(body: bytes) -> dict[str, Any]:
    """Returns the one object that ``body`` is.

    Raises:
        Breach: it is no JSON that the parser takes, or no object.

    """
    try:
        return request_body.parse(body)
    except request_body.InvalidJson as invalid:
        if invalid.reason == _NO_OBJECT:
            raise Breach(Code.INVALID_REQUEST, "The body must be one JSON-RPC message") from None
        raise Breach(Code.PARSE_ERROR, f"Invalid JSON: {invalid.reason}") from None


def valid_id(decoded: dict[str, Any]) -> RequestId:
    """Returns the message's ``id`` if an answer may carry it, else none."""
    found = decoded.get("id")
    return found if is_id(found) and (isinstance(found, int) or _is_unicode(found)) else None


def message(body: bytes, decoded: dict[str, Any]) -> Message:
    """Returns the JSON-RPC message that ``decoded``, read from ``body``, is.

    Raises:
        Breach: ``jsonrpc``, ``method``, ``id`` or ``params`` breaks M-24a, or text holds a lone surrogate.

    """
    if decoded.get("jsonrpc") != "2.0":
        raise Breach(Code.INVALID_REQUEST, "jsonrpc must be 2.0")
    method, found_id, params = decoded.get("method"), decoded.get("id"), decoded.get("params", {})
    if not isinstance(method, str) or len(method) > METHOD_CHARS:
        raise Breach(Code.INVALID_REQUEST, "method must be a string of at most 128 characters")
    if "id" in decoded and not is_id(found_id):
        raise Breach(Code.INVALID_REQUEST, "id must be a string of at most 256 characters or a safe integer")
    if not isinstance(params, dict):
        raise Breach(Code.INVALID_PARAMS, "params must be an object")
    if b"\\u" in body and not _is_unicode(decoded):
        raise Breach(Code.INVALID_PARAMS, "Text must not hold a lone surrogate")
    return Message(method=method, params=params, request_id=found_id)


def is_id(value: object) -> TypeGuard[str | int]:
    """Says whether a message may be known by ``value``: a bounded string, or a safe integer (M-24a)."""
    if isinstance(value, str):
        return len(value) <= ID_CHARS
    return type(value) is int and abs(value) <= limits.JSON_INT


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
