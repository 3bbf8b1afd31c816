"""What is no valid JSON-RPC message is refused before anything else looks at it (M-24a)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.requirements import requirement
from tests.server import mcp_desk
from tests.server.mcp_desk import Desk, Header
from webcodex.server.mcp_answers import Form

PLANTED = "planted-9d1f"
PARSE, REQUEST, METHOD, PARAMS = -32700, -32600, -32601, -32602

ACCEPTS: list[list[Header]] = [[], [("accept", "text/event-stream")], [("accept", "application/json")]]
FORMS: dict[Form, list[Header]] = {
    Form.INITIALIZE: [("mcp-protocol-version", "2025-11-25")],
    Form.STATELESS: [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")],
}


def _deep(levels: int) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * levels + b"1" + b"}" * levels + b"}"
    )


def _with(**changed: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **changed}).encode()


def _number(text: str) -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"{PLANTED}":{text}}}}}'.encode()


BREACHES: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", PARSE),
    "no JSON": (f'{{"{PLANTED}"'.encode(), PARSE),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', PARSE),
    "an encoded surrogate": (b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', PARSE),
    "NaN": (_number("NaN"), PARSE),
    "Infinity": (_number("-Infinity"), PARSE),
    "a float beyond its range": (_number("1e999"), PARSE),
    "an endless integer": (_number("9" * 5000), PARSE),
    "nesting of 65 levels": (_deep(64), PARSE),
    "nesting without end": (b"[" * 100_000, PARSE),
    "an array": (b"[]", REQUEST),
    "an array of messages": (b"[" + _with() + b"]", REQUEST),
    "a number": (b"5", REQUEST),
    "a string": (f'"{PLANTED}"'.encode(), REQUEST),
    "null": (b"null", REQUEST),
    "no jsonrpc": (b'{"id":1,"method":"ping"}', REQUEST),
    "another jsonrpc": (_with(jsonrpc=PLANTED), REQUEST),
    "a number as jsonrpc": (_with(jsonrpc=2.0), REQUEST),
    "no method": (b'{"jsonrpc":"2.0","id":1}', REQUEST),
    "a response": (b'{"jsonrpc":"2.0","id":1,"result":{}}', REQUEST),
    "a number as method": (_with(method=5), REQUEST),
    "a long method": (_with(method=PLANTED * 11), REQUEST),
    "id null": (_with(id=None), REQUEST),
    "id true": (_with(id=True), REQUEST),
    "id 1.5": (_with(id=1.5), REQUEST),
    "id 1.0": (_with(id=1.0), REQUEST),
    "id beyond 2**53": (_with(id=2**53), REQUEST),
    "a long id": (_with(id=PLANTED * 22), REQUEST),
    "id an object": (_with(id={}), REQUEST),
    "params null": (_with(params=None), PARAMS),
    "params an array": (_with(params=[PLANTED]), PARAMS),
    "params a string": (_with(params=PLANTED), PARAMS),
    "a lone surrogate in params": (_with(params={"a": ["\ud800"]}), PARAMS),
    "a lone surrogate in a key": (_with(params={"\udfff": 1}), PARAMS),
    "a lone surrogate in the method": (_with(method="\ud83d"), PARAMS),
    "a lone surrogate in the id": (_with(id="\udc00"), PARAMS),
}


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with mcp_desk.opened(tmp_path) as made:
        yield made


@pytest.mark.parametrize("form", FORMS)
@requirement("M-24a", "M-28", "M-64", "M-02")
async def test_each_breach_has_its_code_whatever_is_accepted(desk: Desk, form: Form) -> None:
    for breach, (body, code) in BREACHES.items():
        status = 200 if code == PARAMS and form is Form.INITIALIZE else 400
        for accept in ACCEPTS:
            reply = await desk.post(body, *FORMS[form], *accept)
            assert (reply.status, reply.code) == (status, code), (breach, accept, reply.text)
            assert set(reply.body) == {"jsonrpc", "id", "error"}, breach
            assert set(reply.body["error"]) == {"code", "message"}, breach
            assert PLANTED not in reply.text, breach
            assert reply.headers["content-type"] == "application/json"


@requirement("M-24a")
async def test_error_carries_the_id_exactly_when_it_is_valid(desk: Desk) -> None:
    assert (await desk.post(_with(method=5, id="a"))).body["id"] == "a"
    assert (await desk.post(_with(params=[], id=-(2**53) + 1))).body["id"] == -(2**53) + 1
    for invalid in (True, 1.5, 2**53, "x" * 257, None, "\ud800"):
        assert (await desk.post(_with(id=invalid))).body["id"] is None


@requirement("M-24a")
async def test_message_at_every_bound_is_served(desk: Desk) -> None:
    ids = ["x" * 256, "", 0, 2**53 - 1, -(2**53) + 1, "é😀"]
    for request_id in ids:
        reply = await desk.post(_with(id=request_id))
        assert reply.body == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert (await desk.post(_deep(63))).result == {}
    assert (await desk.post(_with(params={"a": "\\ud800 \U0001f600", "b": "[" * 80}))).result == {}
    assert (await desk.post(_with(method="m" * 128))).code == METHOD


@requirement("M-28", "M-29", "M-64")
async def test_unknown_method_is_404_only_in_the_stateless_form(desk: Desk) -> None:
    for method in (
        "prompts/list",
        "resources/templates/list",
        "logging/setLevel",
        PLANTED,
        "notifications/x",
    ):
        early = await desk.ask(Form.INITIALIZE, method)
        late = await desk.ask(Form.STATELESS, method)
        assert (early.status, early.code) == (200, METHOD)
        assert (late.status, late.code) == (404, METHOD)
        assert early.body["error"] == late.body["error"] == {"code": METHOD, "message": "Method not found"}
    for method in ("initialize", "ping"):
        assert (await desk.ask(Form.STATELESS, method)).status == 404
    assert (await desk.ask(Form.INITIALIZE, "server/discover")).code == METHOD


@requirement("M-28", "M-29")
async def test_notification_is_accepted_and_answered_with_nothing(desk: Desk) -> None:
    for method in ("notifications/initialized", "notifications/cancelled", "tools/call", PLANTED):
        for headers in ([], FORMS[Form.INITIALIZE], [("mcp-protocol-version", "2026-07-28")]):
            reply = await desk.post({"jsonrpc": "2.0", "method": method}, *headers)
            assert (reply.status, reply.text) == (202, "")


@pytest.mark.parametrize("form", FORMS)
@requirement("M-28", "M-24", "M-29", "M-31")
async def test_bad_params_of_a_served_method_are_refused(desk: Desk, form: Form) -> None:
    bad: list[tuple[str, dict[str, object]]] = [
        ("tools/list", {"cursor": PLANTED}),
        ("resources/list", {"cursor": PLANTED}),
        ("resources/read", {"uri": f"file:///{PLANTED}"}),
    ]
    if form is Form.INITIALIZE:
        bad += [
            ("tools/call", {}),
            ("tools/call", {"name": 5}),
            ("tools/call", {"name": "list_projects", "_meta": PLANTED}),
            ("tools/list", {"_meta": [PLANTED]}),
            ("resources/read", {}),
            ("initialize", {}),
            (
                "initialize",
                {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": PLANTED}},
            ),
            (
                "initialize",
                {"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}},
            ),
        ]
    for method, params in bad:
        reply = await desk.ask(form, method, params)
        expected = 200 if form is Form.INITIALIZE else 400
        assert (reply.status, reply.code) == (expected, PARAMS), (method, params)
        assert set(reply.body["error"]) == {"code", "message"}
        assert PLANTED not in reply.text
