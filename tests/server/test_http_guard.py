"""Which Host and Origin pass (M-03, M-04, C-22 row 1); what sockets send is in test_wire."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.requirements import requirement
from webcodex.server import http_guard, settings

HOST_REFUSED = (403, b'{"status":403,"error":"Host not allowed"}')
ORIGIN_REFUSED = (403, b'{"status":403,"error":"Origin not allowed"}')
PASSED = (204, b"")

Headers = Sequence[tuple[bytes, bytes]]


class Behind:
    """Whatever stands behind the guard; it remembers what reached it."""

    def __init__(self) -> None:
        self.reached: list[Scope] = []

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.reached.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def answers(headers: Headers, kind: str = "http", **environment: str) -> tuple[int, bytes]:
    status, body, _ = exchange(headers, kind, **environment)
    return status, body


def exchange(headers: Headers, kind: str, **environment: str) -> tuple[int, bytes, list[Scope]]:
    chosen = settings.load({"WEBCODEX_TOKEN": "t", **environment})
    behind = Behind()
    sent: list[dict[str, Any]] = []
    scope = {"type": kind, "headers": list(headers), "extensions": {"websocket.http.response": {}}}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(http_guard.HttpGuard(behind, chosen)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], behind.reached


def hosted(host: str, **environment: str) -> tuple[int, bytes]:
    return answers([(b"host", host.encode("latin-1"))], **environment)


def from_origin(origin: str, host: str = "localhost:8080", **environment: str) -> tuple[int, bytes]:
    return answers([(b"host", host.encode()), (b"origin", origin.encode("latin-1"))], **environment)


@requirement("M-03")
@pytest.mark.parametrize(
    "host",
    ["localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]"],
)
def test_a_loopback_bind_answers_to_every_loopback_name_on_any_port(host: str) -> None:
    assert hosted(host) == PASSED


@requirement("M-03")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.2",
        "10.0.0.1",
        "[::2]",
        "localhost.evil.example",
        "localhost.",
        "localhost:",
        "localhost:99999",
        "localhost:1:2",
        "user@localhost",
        "localhost/path",
        "local host",
        "::1",
        "[::1",
        "[::1%eth0]",
        "lo\xe7alhost",
        "localhost,evil.example",
    ],
)
def test_a_loopback_bind_refuses_every_other_name(host: str) -> None:
    assert hosted(host) == HOST_REFUSED


@requirement("M-03")
def test_public_and_allowed_hosts_pass_case_insensitively() -> None:
    allowed = {
        "WEBCODEX_PUBLIC_URL": "https://Public.example:8443",
        "WEBCODEX_ALLOWED_HOSTS": "any.example,Exact.example:81,[fe80::1]",
    }
    for host in ("public.EXAMPLE", "public.example:1", "ANY.example:9", "exact.example:81", "[FE80:0::1]:7"):
        assert hosted(host, **allowed) == PASSED
    for host in ("exact.example", "exact.example:82", "sub.any.example"):
        assert hosted(host, **allowed) == HOST_REFUSED


@requirement("M-03")
def test_another_bind_answers_to_its_own_host_and_not_to_loopback() -> None:
    bound = {"WEBCODEX_ADDR": "192.0.2.7:80", "WEBCODEX_PUBLIC_URL": "https://public.example"}
    assert hosted("192.0.2.7:80", **bound) == PASSED
    assert hosted("public.example", **bound) == PASSED
    for host in ("localhost", "127.0.0.1", "192.0.2.8"):
        assert hosted(host, **bound) == HOST_REFUSED


@requirement("M-03")
@pytest.mark.parametrize("address", ["0.0.0.0:80", "[::]:80"])
def test_a_wildcard_bind_answers_to_every_address_and_to_no_unknown_name(address: str) -> None:
    bound = {"WEBCODEX_ADDR": address, "WEBCODEX_PUBLIC_URL": "https://public.example"}
    for host in ("198.51.100.1:80", "[2001:db8::1]", "127.0.0.1"):
        assert hosted(host, **bound) == PASSED
    for host in ("localhost", "evil.example", "1.2.3"):
        assert hosted(host, **bound) == HOST_REFUSED


@requirement("M-03", "M-02")
@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [[], [(b"host", b"localhost")] * 2, [(b"host", b"localhost"), (b"host", b"")], [(b"host", b" ")]],
)
def test_a_missing_or_repeated_host_is_a_bad_request(kind: str, headers: Headers) -> None:
    status, body, reached = exchange(headers, kind)
    assert (status, body) == (400, b'{"status":400,"error":"Host must be named exactly once"}')
    assert reached == []


@requirement("M-03", "M-04")
def test_a_websocket_is_denied_before_it_is_accepted() -> None:
    assert answers([(b"host", b"evil.example")], "websocket") == HOST_REFUSED
    foreign = [(b"host", b"localhost"), (b"origin", b"http://evil.example")]
    assert answers(foreign, "websocket") == ORIGIN_REFUSED


@requirement("M-03", "M-04")
def test_header_values_lose_their_surrounding_blanks() -> None:
    headers = [
        (b"host", b" \tlocalhost\t"),
        (b"origin", b"http://localhost "),
        (b"authorization", b" Bearer x "),
    ]
    status, _, reached = exchange(headers, "http")
    assert status == 204
    assert reached[0]["headers"] == [
        (b"host", b"localhost"),
        (b"origin", b"http://localhost"),
        (b"authorization", b"Bearer x"),
    ]


@requirement("M-04")
@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8080", "localhost:8080"),
        ("HTTP://LOCALHOST:8080", "localhost:8080"),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://localhost", "localhost:443"),
        ("http://[::1]:5", "[0:0::1]:5"),
    ],
)
def test_an_origin_that_is_the_host_passes(origin: str, host: str) -> None:
    assert from_origin(origin, host) == PASSED


@requirement("M-04")
@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "http://localhost",
        "http://localhost:8081",
        "https://localhost:8080/",
        "http://localhost:8080.evil.example",
        "http://user@localhost:8080",
        "localhost:8080",
        "file://",
        "http://lo\xe7alhost:8080",
    ],
)
def test_an_origin_from_elsewhere_is_refused(origin: str) -> None:
    assert from_origin(origin) == ORIGIN_REFUSED


@requirement("M-04")
def test_the_public_and_the_allowed_origins_pass() -> None:
    allowed = {
        "WEBCODEX_PUBLIC_URL": "https://public.example",
        "WEBCODEX_ALLOWED_ORIGINS": "https://app.example:8443,chrome-extension://abcdef",
    }
    for origin in ("https://public.example:443", "https://APP.example:8443", "chrome-extension://abcdef"):
        assert from_origin(origin, **allowed) == PASSED
    for origin in ("http://public.example", "https://app.example", "chrome-extension://other", "null"):
        assert from_origin(origin, **allowed) == ORIGIN_REFUSED


@requirement("M-04")
def test_each_of_several_origins_has_to_pass() -> None:
    headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"origin", b"http://evil.example")]
    assert answers(headers) == ORIGIN_REFUSED


@requirement("M-03", "M-04", "C-22")
def test_the_host_is_checked_before_the_origin() -> None:
    assert answers([(b"host", b"evil.example"), (b"origin", b"null")]) == HOST_REFUSED
