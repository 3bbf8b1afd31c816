"""What stands around a stateless message must agree with it, and the first breach answers (M-25, M-26)."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import CAPABILITIES_KEY, CLIENT_KEY, REVISION, VERSION_KEY, Desk, Header, Reply
from webcodex.server.mcp_answers import Form

PLANTED = "planted-9d1f"
PARAMS, DIFFERS, UNSERVED = -32602, -32020, -32022
VERSION: Header = ("mcp-protocol-version", REVISION)
NOT_JSON: list[list[Header]] = [[], [("accept", "text/event-stream")]]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


async def _call(desk: Desk, meta: Any, *headers: Header, **params: Any) -> Reply:
    given = {"name": "list_projects", "arguments": {}, **params}
    if meta is not None:
        given["_meta"] = meta
    return await desk.post(mcp_desk.message("tools/call", given), *headers)


def _headers(
    version: str = REVISION, method: str = "tools/call", name: str = "list_projects"
) -> list[Header]:
    return [("mcp-protocol-version", version), ("mcp-method", method), ("mcp-name", name)]


@requirement("M-25", "M-64")
async def test_message_that_agrees_with_its_headers_is_served(desk: Desk) -> None:
    encoded = base64.b64encode(b"list_projects").decode()
    client = {"name": "a", "version": "1", "title": "A"}
    for meta, headers in (
        (mcp_desk.envelope(), _headers()),
        (mcp_desk.envelope(), [(name.upper(), value) for name, value in _headers()]),
        (mcp_desk.envelope(), [*_headers()[:2], ("mcp-name", f"=?base64?{encoded}?=")]),
        (mcp_desk.envelope(), [*_headers()[:2], ("mcp-name", "  list_projects\t")]),
        (mcp_desk.envelope(**{CLIENT_KEY: client, "openai/session": "s", "progressToken": []}), _headers()),
        (mcp_desk.envelope(**{CAPABILITIES_KEY: {"sampling": 5, PLANTED: [1]}}), _headers()),
    ):
        reply = await _call(desk, meta, *headers)
        assert reply.result["structuredContent"]["success"] is True


BREACHES: dict[str, tuple[Any, list[Header], dict[str, Any], int]] = {
    "no _meta": (None, _headers(), {}, PARAMS),
    "_meta an array": ([PLANTED], _headers(), {}, PARAMS),
    "no version": ({CAPABILITIES_KEY: {}}, _headers(), {}, PARAMS),
    "no capabilities": ({VERSION_KEY: REVISION}, _headers(), {}, PARAMS),
    "another version": (mcp_desk.envelope(**{VERSION_KEY: PLANTED}), _headers(), {}, DIFFERS),
    "version null": (mcp_desk.envelope(**{VERSION_KEY: None}), _headers(), {}, DIFFERS),
    "an older version": (mcp_desk.envelope(**{VERSION_KEY: "2025-11-25"}), _headers(), {}, DIFFERS),
    "no method header": (mcp_desk.envelope(), [VERSION, ("mcp-name", "list_projects")], {}, DIFFERS),
    "another method": (mcp_desk.envelope(), _headers(method=PLANTED), {}, DIFFERS),
    "the method in capitals": (mcp_desk.envelope(), _headers(method="TOOLS/CALL"), {}, DIFFERS),
    "no name": (mcp_desk.envelope(), _headers(), {"name": None}, PARAMS),
    "no name header": (mcp_desk.envelope(), _headers()[:2], {}, DIFFERS),
    "another name": (mcp_desk.envelope(), _headers(name=PLANTED), {}, DIFFERS),
    "a name that is no text": (mcp_desk.envelope(), _headers(name="5"), {"name": 5}, DIFFERS),
    "bad base64": (mcp_desk.envelope(), _headers(name="=?base64?bGlzdF9wcm9qZWN0cw?="), {}, DIFFERS),
    "base64 of no UTF-8": (mcp_desk.envelope(), _headers(name="=?base64?/w==?="), {}, DIFFERS),
    "an unserved version": (
        mcp_desk.envelope(**{VERSION_KEY: "2027-01-01"}),
        _headers("2027-01-01"),
        {},
        UNSERVED,
    ),
    "capabilities no object": (mcp_desk.envelope(**{CAPABILITIES_KEY: [PLANTED]}), _headers(), {}, PARAMS),
    "a client without version": (
        mcp_desk.envelope(**{CLIENT_KEY: {"name": PLANTED}}),
        _headers(),
        {},
        PARAMS,
    ),
    "a client that is text": (mcp_desk.envelope(**{CLIENT_KEY: PLANTED}), _headers(), {}, PARAMS),
    "a client with a number": (
        mcp_desk.envelope(**{CLIENT_KEY: {"name": 5, "version": "1"}}),
        _headers(),
        {},
        PARAMS,
    ),
    "a session that is no text": (mcp_desk.envelope(**{"openai/session": 5}), _headers(), {}, PARAMS),
    "a repeated version": (mcp_desk.envelope(), [VERSION, *_headers()], {}, DIFFERS),
    "two versions": (mcp_desk.envelope(), [*_headers(), ("mcp-protocol-version", "2025-11-25")], {}, DIFFERS),
    "a repeated method": (mcp_desk.envelope(), [*_headers(), ("MCP-Method", "tools/call")], {}, DIFFERS),
    "a repeated name": (mcp_desk.envelope(), [*_headers(), ("Mcp-Name", "list_projects")], {}, DIFFERS),
}


@requirement("M-25", "M-26", "M-64", "M-28", "M-02")
async def test_each_breach_has_its_code_and_says_nothing_of_the_request(desk: Desk) -> None:
    for breach, (meta, headers, params, code) in BREACHES.items():
        for accept in NOT_JSON:
            reply = await _call(desk, meta, *headers, *accept, **params)
            assert (reply.status, reply.code, reply.body["id"]) == (400, code, 7), (breach, reply.text)
            assert ("data" in reply.body["error"]) is (code == UNSERVED), breach
            assert PLANTED not in reply.text, breach


@requirement("M-26")
async def test_first_breach_in_the_order_of_the_rules_answers(desk: Desk) -> None:
    """Each step mends the first breach of a message that breaks every rule, and meets the next."""
    bad_shape = {CLIENT_KEY: 5}
    steps: list[tuple[Any, list[Header], dict[str, Any], int]] = [
        ("x", [*_headers("2027-01-01", "x", "x"), ("mcp-name", "y")], {"name": None}, DIFFERS),
        ("x", _headers("2027-01-01", "x", "x"), {"name": None}, PARAMS),
        (bad_shape, _headers("2027-01-01", "x", "x"), {"name": None}, PARAMS),
        (mcp_desk.envelope(**bad_shape), _headers("2027-01-01", "x", "x"), {"name": None}, DIFFERS),
        (
            {**mcp_desk.envelope(**bad_shape), VERSION_KEY: "2027-01-01"},
            _headers("2027-01-01", "x", "x"),
            {},
            DIFFERS,
        ),
        (
            {**mcp_desk.envelope(**bad_shape), VERSION_KEY: "2027-01-01"},
            _headers("2027-01-01", name="x"),
            {"name": None},
            PARAMS,
        ),
        (
            {**mcp_desk.envelope(**bad_shape), VERSION_KEY: "2027-01-01"},
            _headers("2027-01-01", name="x"),
            {},
            DIFFERS,
        ),
        ({**mcp_desk.envelope(**bad_shape), VERSION_KEY: "2027-01-01"}, _headers("2027-01-01"), {}, UNSERVED),
        (mcp_desk.envelope(**bad_shape), _headers(), {}, PARAMS),
    ]
    for number, (meta, headers, params, code) in enumerate(steps):
        assert (await _call(desk, meta, *headers, **params)).code == code, number
    assert (await _call(desk, mcp_desk.envelope(), *_headers())).status == 200


@requirement("M-25", "M-26", "M-28")
async def test_rules_hold_before_a_method_is_known(desk: Desk) -> None:
    for method, key in (
        ("prompts/get", "name"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
        ("resources/read", "uri"),
    ):
        headers: list[Header] = [VERSION, ("mcp-method", method)]
        named = mcp_desk.message(method, {"_meta": mcp_desk.envelope(), key: "a"})
        unnamed = mcp_desk.message(method, {"_meta": mcp_desk.envelope()})
        assert (await desk.post(unnamed, *headers)).code == PARAMS
        assert (await desk.post(named, *headers)).code == DIFFERS
        served = await desk.post(named, *headers, ("mcp-name", "a"))
        assert served.code == (PARAMS if method == "resources/read" else -32601)


@requirement("M-26", "M-28")
async def test_unserved_revision_names_what_is_served_and_repeats_only_plain_text(desk: Desk) -> None:
    for named, shown in (
        ("2027-01-01", "2027-01-01"),
        ("1" * 64, "1" * 64),
        ("1" * 65, None),
        ("2026_07_28", None),
        ("", None),
    ):
        meta = mcp_desk.envelope(**{VERSION_KEY: named})
        reply = await _call(desk, meta, *_headers(named))
        assert reply.body["error"]["data"] == {"supported": [REVISION], "requested": shown}
        assert reply.status == 400


@requirement("M-26")
async def test_stateless_notification_needs_only_a_served_version_header(desk: Desk) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    assert (await desk.post(note, VERSION)).status == 202
    assert (await desk.post(note, VERSION, ("mcp-method", "x"), ("mcp-method", "y"))).status == 202
    unserved = await desk.post(note, ("mcp-protocol-version", "2027-01-01"))
    assert (unserved.status, unserved.code, unserved.body["id"]) == (400, UNSERVED, None)
    assert (await desk.post(note, VERSION, VERSION)).code == DIFFERS


@requirement("M-24")
async def test_initialize_form_hears_no_other_header_than_the_version(desk: Desk) -> None:
    for version in ([], [("mcp-protocol-version", "2024-11-05")], [("mcp-protocol-version", " 2025-06-18 ")]):
        headers: list[Header] = [*version, ("mcp-method", "x"), ("mcp-method", "y"), ("mcp-name", "z")]
        assert (await desk.ask(Form.INITIALIZE, "ping", None, *headers)).result == {}
        called = await desk.call("list_projects", None, *headers, form=Form.INITIALIZE)
        assert called.result["structuredContent"]["success"] is True
    repeated: list[Header] = [("mcp-protocol-version", "2025-06-18"), ("mcp-protocol-version", "2025-06-18")]
    assert (await desk.ask(Form.INITIALIZE, "ping", None, *repeated)).code == DIFFERS
