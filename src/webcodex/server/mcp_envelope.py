"""Reads what stands around an MCP message: its revision, its headers and ``params._meta`` (M-24 to M-26)."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mcp.shared import inbound
from mcp_types import version

from webcodex.server.mcp_answers import Breach, Code, Form
from webcodex.server.mcp_screening import Message

Headers = Mapping[bytes, list[str]]

REVISION: Final = "2026-07-28"
VERSION_HEADER: Final = b"mcp-protocol-version"
METHOD_HEADER: Final = b"mcp-method"
NAME_HEADER: Final = b"mcp-name"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
OPENAI_SESSION_KEY: Final = "openai/session"

NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}  # M-25

_REPEATED: Final = "MCP-Protocol-Version, MCP-Method and MCP-Name must not be repeated"
_SHOWABLE: Final = re.compile(r"[0-9A-Za-z.-]{1,64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Revision:
    """Which form a request has, and the revision its header names; empty when the header is absent."""

    form: Form
    named: str


def collected(raw: Iterable[tuple[bytes, bytes]], heard: Container[bytes]) -> dict[bytes, list[str]]:
    """Returns every value of each header in ``heard``, lower-case names, without surrounding blanks."""
    found: dict[bytes, list[str]] = {}
    for name, value in raw:
        if name in heard:
            found.setdefault(name, []).append(value.decode("latin-1").strip(" \t"))
    return found


def revision(headers: Headers) -> Revision:
    """Returns the form that the version header asks for (M-24, M-25); a repeated one names no revision."""
    values = headers.get(VERSION_HEADER, [])
    if not values:
        return Revision(form=Form.INITIALIZE, named="")
    is_handshake = len(values) == 1 and values[0] in version.HANDSHAKE_PROTOCOL_VERSIONS
    return Revision(form=Form.INITIALIZE if is_handshake else Form.STATELESS, named=values[0])


def check_stateless(message: Message, headers: Headers, *, named: str) -> None:
    """Returns when the message keeps every rule of M-25; the first breach in the order of M-26 answers.

    Raises:
        Breach: a header, ``_meta`` or the revision is not as it must be.

    """
    if len(headers.get(VERSION_HEADER, ())) > 1:
        raise Breach(Code.HEADER_DIFFERS, _REPEATED)
    if message.is_notification:
        _check_served(named)
        return
    methods, names = headers.get(METHOD_HEADER, ()), headers.get(NAME_HEADER, ())
    if len(methods) > 1 or len(names) > 1:
        raise Breach(Code.HEADER_DIFFERS, _REPEATED)
    meta = message.params.get("_meta")
    if not isinstance(meta, dict):
        raise Breach(Code.INVALID_PARAMS, "params._meta must be an object")
    if VERSION_KEY not in meta or CAPABILITIES_KEY not in meta:
        raise Breach(
            Code.INVALID_PARAMS, "params._meta must name the protocol version and the client capabilities"
        )
    if named != meta[VERSION_KEY]:
        raise Breach(Code.HEADER_DIFFERS, "MCP-Protocol-Version must equal the version in params._meta")
    if not methods or methods[0] != message.method:
        raise Breach(Code.HEADER_DIFFERS, "MCP-Method must equal the method of the body")
    _check_name(message, names)
    _check_served(named)
    _check_shapes(meta)


def client_name(params: Mapping[str, Any]) -> str | None:
    """Returns ``clientInfo.name`` of ``params._meta``, or none (M-30)."""
    meta = params.get("_meta")
    client = meta.get(CLIENT_KEY) if isinstance(meta, dict) else None
    name = client.get("name") if isinstance(client, dict) else None
    return name if isinstance(name, str) else None


def _check_name(message: Message, names: Sequence[str]) -> None:
    key = NAMED_BY.get(message.method)
    if key is None:
        return
    wanted = message.params.get(key)
    if wanted is None:
        raise Breach(Code.INVALID_PARAMS, f"params.{key} is missing")
    if not names or inbound.decode_header_value(names[0]) != wanted:
        raise Breach(Code.HEADER_DIFFERS, f"MCP-Name must equal params.{key}")


def _check_served(named: str) -> None:
    if named == REVISION:
        return
    shown = named if _SHOWABLE.fullmatch(named) else None
    raise Breach(
        Code.UNSERVED_REVISION,
        "Unsupported protocol version",
        details={"supported": [REVISION], "requested": shown},
    )


def _check_shapes(meta: dict[str, Any]) -> None:
    if not isinstance(meta[CAPABILITIES_KEY], dict):
        raise Breach(Code.INVALID_PARAMS, "The client capabilities in params._meta must be an object")
    client = meta.get(CLIENT_KEY)
    if client is not None and not (isinstance(client, dict) and _names_itself(client)):
        raise Breach(Code.INVALID_PARAMS, "clientInfo in params._meta must have a name and a version")
    if not isinstance(meta.get(OPENAI_SESSION_KEY, ""), str):
        raise Breach(Code.INVALID_PARAMS, "openai/session in params._meta must be a string")


def _names_itself(client: dict[str, Any]) -> bool:
    return isinstance(client.get("name"), str) and isinstance(client.get("version"), str)
