"""Sends every route what it should never get: bounded answers of the right class that repeat nothing."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.requirements import requirement
from tests.server import in_process
from tests.server.in_process import TOKEN, Server

PLANTED: Final = "planted-secret-in-a-request"
OPEN: Final = {"/healthz", "/readyz", "/openapi.json"}
SOCKET: Final = "/api/agents/ws"
DEEP: Final = b'{"a":' * 5_000 + b"1" + b"}" * 5_000
BODIES: Final[dict[str, bytes]] = {
    "empty": b"",
    "blank": b"   ",
    "random bytes": bytes(range(256)),
    "cut": b'{"a":',
    "array": b"[]",
    "number": b"1",
    "deep": DEEP,
    "huge number": b'{"a":' + b"9" * 5_000 + b"}",
    "huge exponent": b'{"a":1e999999}',
    "not a number": b'{"a":NaN}',
    "byte order mark": b"\xef\xbb\xbf{}",
    "other encoding": json.dumps({"a": PLANTED}).encode("utf-16"),
    "lone surrogate": b'{"tool":"\\ud800","' + PLANTED.encode() + b'":"\\udfff"}',
    "lone surrogate key": b'{"\\ud800":1}',
    "null byte": b'{"tool":"a\\u0000b","jsonrpc":"2.0"}',
    "duplicate keys": b'{"tool":"list_projects","tool":"' + PLANTED.encode() + b'"}',
    "unknown fields": json.dumps({PLANTED: PLANTED, "jsonrpc": "2.0", "method": PLANTED, "id": 1}).encode(),
}
REFUSED: Final = {400, 403, 404, 405, 415, 422, 426}


def _posted(server: Server) -> list[str]:
    return sorted(set(server.application.paths) - OPEN - {SOCKET})


async def _send(server: Server, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    method = "GET" if path in OPEN or path == SOCKET else "POST"
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}", **headers}
    answer = await server.client.request(method, path, content=body, headers=sent)
    return answer.status_code, answer.text


@requirement("M-01", "M-02", "M-09", "M-62")
@pytest.mark.parametrize("kind", BODIES)
async def test_no_route_fails_or_repeats_a_bad_body(tmp_path: Path, kind: str) -> None:
    async with in_process.server(tmp_path) as server:
        answers = {path: await _send(server, path, BODIES[kind]) for path in _posted(server)}
    assert {path: status for path, (status, _) in answers.items() if status >= 500} == {}
    assert [path for path, (_, text) in answers.items() if PLANTED in text or "Traceback" in text] == []
    # No rule bounds an answer that lists every tool; a refusal is a fixed sentence around a key of a schema.
    assert [path for path, (status, text) in answers.items() if status != 200 and len(text) > 500] == []
    if kind not in {"empty", "duplicate keys"}:
        # In the initialize form an unknown method is a JSON-RPC error inside a 200 (M-28).
        wrapped = {"/mcp"} if kind == "unknown fields" else set()
        assert {path for path, (status, _) in answers.items() if status not in REFUSED} == wrapped


@requirement("M-03", "M-04", "M-05", "M-62", "C-22")
async def test_every_route_checks_host_origin_and_credential_in_this_order(tmp_path: Path) -> None:
    async with in_process.server(tmp_path) as server:
        for path in sorted(server.application.paths):
            evil: list[tuple[dict[str, str], Any]] = [
                ({"Host": "evil.example"}, {"status": 403, "error": "Host not allowed"}),
                ({"Origin": "http://evil.example"}, {"status": 403, "error": "Origin not allowed"}),
            ]
            for headers, expected in evil:
                status, text = await _send(server, path, b"{}", **{**headers, "Authorization": "Bearer x"})
                assert (status, json.loads(text)) == (403, expected), path
            if path not in OPEN:
                status, text = await _send(server, path, b"{}", Authorization="Bearer wc_pat_0")
                assert (status, json.loads(text)) == (401, {"error": "Unauthorized"}), path


@requirement("M-01", "C-22")
async def test_every_route_refuses_another_method_type_and_size(tmp_path: Path) -> None:
    async with in_process.server(tmp_path) as server:
        for path in _posted(server):
            refused = await server.client.put(path, content=b"{}")
            assert (refused.status_code, refused.headers["allow"]) == (405, "POST"), path
            status, _ = await _send(server, path, b"{}", **{"Content-Type": "text/plain"})
            assert status == 415, path
            status, text = await _send(server, path, b"x" * (4 * 1024 * 1024 + 1))
            assert (status, json.loads(text)) == (
                413,
                {"status": 413, "error": "Request body too large"},
            ), path
        unknown = await _send(server, "/api/nothing", b"{}")
        assert (unknown[0], json.loads(unknown[1])) == (404, {"status": 404, "error": "Not found"})
