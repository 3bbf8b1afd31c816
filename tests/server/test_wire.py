"""What sockets may send to the real Server: it never answers 500, and nothing comes back (M-02)."""

import base64
import contextlib
import json
import random
import socket
from collections.abc import Iterator

import pytest

from tests.requirements import requirement
from tests.server.server_process import ServerProcess

WAIT_S = 20.0
LIMIT = 4 * 1024 * 1024
PLANTED = b"PLANTED-5b1e"
HOST = b"Host: localhost\r\n"
CLOSE = b"Connection: close\r\n"
JSON = b"Content-Type: application/json\r\n"
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: " + base64.b64encode(b"k" * 16) + b"\r\n"
BAD_HOST = (400, {"status": 400, "error": "Host must be named exactly once"})
TOO_LARGE = (413, {"status": 413, "error": "Request body too large"})
NO_REQUEST = (400, {"status": 400, "error": "Invalid HTTP request received."})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("wire")) as running:
        yield running
        assert running.stop() == 0


def credential(server: ServerProcess) -> bytes:
    return f"Authorization: Bearer {server.token}\r\n".encode()


def said(server: ServerProcess, *parts: bytes) -> bytes:
    """Everything the Server says until it closes; the last part ends what it can expect."""
    with socket.create_connection((server.host, server.port), WAIT_S) as connection:
        for part in parts:
            connection.sendall(part)
        answer = b""
        while received := connection.recv(65_536):
            answer += received
    return answer


def first(connection: socket.socket) -> bytes:
    """The first whole answer on a connection that stays open."""
    answer = b""
    while not answer.endswith(b"}"):
        received = connection.recv(65_536)
        assert received
        answer += received
    return answer


def read(answer: bytes) -> tuple[int, object]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@requirement("M-03")
@pytest.mark.parametrize("version", [b"HTTP/1.0", b"HTTP/1.1"])
def test_a_request_names_one_host_in_every_version(server: ServerProcess, version: bytes) -> None:
    for path in (b"/healthz", b"/mcp", b"/api/tools/call", b"/nothing"):
        line = b"GET " + path + b" " + version + b"\r\n" + CLOSE
        for headers in (b"", HOST + HOST, b"Host:\r\n", b"Host: \t \r\n"):
            assert read(said(server, line + headers + b"\r\n")) == BAD_HOST
        refused = read(said(server, line + b"Host: evil.example\r\n\r\n"))
        assert refused == (403, {"status": 403, "error": "Host not allowed"})
        origin = b"Origin: http://evil.example\r\n"
        refused = read(said(server, line + HOST + origin + b"\r\n"))
        assert refused == (403, {"status": 403, "error": "Origin not allowed"})
    line = b"GET /healthz " + version + b"\r\n" + CLOSE
    for host in (b"Host: localhost \t\r\n", b"hOsT: LOCALHOST:1\r\n", b"Host:[::1]\r\n"):
        assert read(said(server, line + host + b"\r\n")) == (200, {"status": "ok"})


@requirement("M-03", "M-05", "C-04")
def test_a_websocket_is_denied_with_an_answer_before_it_is_accepted(server: ServerProcess) -> None:
    def asked(path: bytes, headers: bytes) -> tuple[int, object]:
        return read(said(server, b"GET " + path + b" HTTP/1.1\r\n" + UPGRADE + KEY + headers + b"\r\n"))

    runner = b"/api/agents/ws"
    assert asked(runner, b"") == BAD_HOST
    assert asked(runner, HOST + HOST) == BAD_HOST
    assert asked(runner, b"Host: evil.example\r\n") == (403, {"status": 403, "error": "Host not allowed"})
    foreign = HOST + b"Origin: null\r\n"
    assert asked(runner, foreign) == (403, {"status": 403, "error": "Origin not allowed"})
    assert asked(runner, HOST) == (401, {"error": "Unauthorized"})
    assert asked(b"/mcp", HOST) == (404, {"status": 404, "error": "Not found"})


@requirement("M-02")
@pytest.mark.parametrize(
    "headers",
    [
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + PLANTED + b"\r\n",
        KEY + b"Sec-WebSocket-Version: " + PLANTED + b"\r\n",
        b"Sec-WebSocket-Version: 13\r\n",
    ],
)
def test_a_bad_websocket_handshake_is_not_repeated(server: ServerProcess, headers: bytes) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    answer = said(server, b"GET /api/agents/ws HTTP/1.1\r\n" + HOST + upgrade + headers + b"\r\n")
    assert status(answer) == 400
    assert PLANTED not in answer


@requirement("M-02", "M-08")
@pytest.mark.parametrize(
    "request_",
    [
        PLANTED + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00" + PLANTED + b"\r\n\r\n",
        b"GET /" + PLANTED + b" HTTP/9.9\r\n" + HOST + b"\r\n",
        b"GET /\xff" + PLANTED + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"CONNECT " + PLANTED + b":443 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + PLANTED + b"\0\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X " + PLANTED + b": 1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: " + PLANTED + b"\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n" + PLANTED,
        b"POST /mcp HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        + PLANTED,
    ],
)
def test_what_is_no_http_is_refused_with_one_sentence(server: ServerProcess, request_: bytes) -> None:
    assert read(said(server, request_)) == NO_REQUEST


@requirement("M-02")
def test_an_endless_head_is_cut_off(server: ServerProcess) -> None:
    with socket.create_connection((server.host, server.port), WAIT_S) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"h" * 65_536)
        assert read(first(connection)) == (400, {"status": 400, "error": "Request head too large"})
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


@requirement("M-02", "M-62")
def test_random_bytes_never_end_in_a_500_and_nothing_of_them_comes_back(server: ServerProcess) -> None:
    drawn = random.Random(20261013)
    heads = [
        b"POST /api/tools/call HTTP/1.1\r\n" + HOST + CLOSE + JSON + credential(server),
        b"POST /mcp HTTP/1.1\r\n" + HOST + CLOSE + JSON + credential(server),
        b"POST /api/users/create HTTP/1.1\r\n" + HOST + CLOSE + JSON + credential(server),
        b"POST /api/tokens/create HTTP/1.1\r\n" + HOST + CLOSE + JSON,
    ]
    shapes = [b'{"tool":"%s","params":{"session_id":"%s"}}', b'{"%s":%s}', b'["%s", %s', b"%s%s"]
    for number in range(120):
        noise = bytes(drawn.choices(range(256), k=drawn.randrange(24)))
        body = drawn.choice(shapes) % (PLANTED + noise, noise)
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        answer = said(server, heads[number % len(heads)] + length + body)
        assert status(answer) in {200, 400, 401, 403}, body
        assert PLANTED not in answer
    for _ in range(40):
        noise = bytes(drawn.choices(range(256), k=drawn.randrange(1, 400)))
        assert PLANTED not in said(server, noise + PLANTED + b"\r\n\r\n\r\n")
    assert server.get("/readyz") == (200, {"status": "ready"})
    assert PLANTED.decode() not in server.log()
    assert server.token not in server.log()


@requirement("M-02")
def test_control_characters_and_surrogates_in_a_path_are_a_plain_404(server: ServerProcess) -> None:
    for path in (b"/%00", b"/%ff%fe", b"/%ed%a0%80", b"/api/tools/call%0d%0aX:%20y", b"/" + b"a" * 8000):
        answer = said(server, b"GET " + path + b" HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        assert read(answer) == (404, {"status": 404, "error": "Not found"})


@requirement("M-01", "C-22")
@pytest.mark.parametrize("path", [b"/api/tools/call", b"/api/users/list", b"/mcp"])
def test_a_longer_body_is_refused_by_its_announced_length_before_the_credential(
    server: ServerProcess, path: bytes
) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\n" + HOST + JSON
    for size in (b"%d" % (LIMIT + 1), b"9" * 18):
        announced = head + b"Content-Length: " + size + b"\r\n\r\n"
        with socket.create_connection((server.host, server.port), WAIT_S) as connection:
            connection.sendall(announced)
            assert read(first(connection)) == TOO_LARGE
    whole = b"Content-Length: %d\r\n\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1)
    assert read(said(server, head + whole)) == TOO_LARGE


@requirement("M-01", "C-22")
def test_a_body_of_unannounced_length_is_bounded_while_it_is_read(server: ServerProcess) -> None:
    head = b"POST /api/tools/call HTTP/1.1\r\n" + HOST + JSON + CLOSE + b"Transfer-Encoding: chunked\r\n"
    piece = b"%x\r\n" % 262_144 + b" " * 262_144 + b"\r\n"
    end = b"0\r\n\r\n"
    assert read(said(server, head + credential(server) + b"\r\n", piece * 17, end)) == TOO_LARGE
    assert read(said(server, head + b"\r\n", piece * 17, end)) == (401, {"error": "Unauthorized"})
    exact = piece * 15 + b"%x\r\n" % 262_142 + b" " * 262_142 + b"\r\n2\r\n{}\r\n"
    refused = read(said(server, head + credential(server) + b"\r\n", exact, end))
    assert refused == (400, {"status": 400, "error": "tool must be the name of a tool"})


@requirement("M-01", "M-09")
def test_a_body_of_exactly_four_mebibytes_is_read(server: ServerProcess) -> None:
    body = b'{"tool":"no_such_tool"' + b" " * (LIMIT - 23) + b"}"
    assert server.post("/api/tools/call", body) == (400, {"status": 400, "error": "Unknown tool"})


@requirement("M-05", "C-22")
def test_a_refused_client_may_finish_sending_and_ask_again(server: ServerProcess) -> None:
    head = b"POST /api/tools/call HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: %d\r\n\r\n" % LIMIT
    answer = said(server, head, b"x" * LIMIT, b"GET /healthz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    first, _, second = answer.partition(b'{"error":"Unauthorized"}')
    assert (status(first), read(second)) == (401, (200, {"status": "ok"}))


@requirement("M-01")
def test_a_body_may_come_in_pieces(server: ServerProcess) -> None:
    body = b'{"tool":"no_such_tool"}'
    head = b"POST /api/tools/call HTTP/1.1\r\n" + HOST + JSON + CLOSE + credential(server)
    pieces = [b"%c" % byte for byte in b"Content-Length: %d\r\n\r\n" % len(body) + body]
    assert read(said(server, head, *pieces)) == (400, {"status": 400, "error": "Unknown tool"})


@requirement("M-02")
def test_a_client_that_leaves_in_the_middle_is_no_fault(server: ServerProcess) -> None:
    head = b"POST /api/tools/call HTTP/1.1\r\n" + HOST + JSON + credential(server)
    for sent in (head, head + b"Content-Length: 10\r\n\r\n", head + b"Content-Length: 10\r\n\r\n{"):
        with socket.create_connection((server.host, server.port), WAIT_S) as connection:
            connection.sendall(sent)
    assert server.get("/healthz") == (200, {"status": "ok"})
    assert "level=ERROR" not in server.log()


@requirement("M-01")
def test_many_requests_share_one_connection(server: ServerProcess) -> None:
    one = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    answer = said(server, one * 20 + b"GET /healthz HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert answer.count(b'{"status":"ok"}') == 21
