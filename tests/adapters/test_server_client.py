"""One request, one answer, one deadline: the HTTP that the adapters speak themselves (A-18 to A-20)."""

import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.adapters import hook_fixture, kit, peer
from tests.requirements import requirement

FIELDS = ("project", "session_id", "adapter_id", "event_id", "observed_tool")
BODY = json.dumps({"params": dict.fromkeys(FIELDS, "x") | {"exit_code": None}}).encode()
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LIMIT = 131_072
HEADERS = 16_384


def asked(data: bytes, max_bytes: int = LIMIT) -> tuple[int, bytes]:
    """What one request to a peer that answers with these bytes returns."""
    with peer.Peer(peer.raw(data)) as server:
        return posted(server.origin, kit.server_client.Deadline(peer.WAIT_S), max_bytes)


def posted(origin: str, deadline: kit.server_client.Deadline, max_bytes: int = LIMIT) -> tuple[int, bytes]:
    return kit.server_client.post(origin, "/x", "Bearer a", BODY, deadline, max_bytes)


@requirement("A-19", "A-98")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (OK + b"Content-Length: 2\r\n\r\n{}", (200, b"{}")),
        (OK + b"content-LENGTH:  2 \r\nContent-Length: 2\r\n\r\n{}ignored", (200, b"{}")),
        (b"HTTP/1.1 400\r\nContent-Length: 0\r\n\r\n", (400, b"")),
        (b"HTTP/1.0 500 X\r\n\r\nto the end", (500, b"to the end")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n", (307, b"")),
        (CHUNKED + b"2\r\n{}\r\n0\r\n\r\n", (200, b"{}")),
        (CHUNKED + b"1;a=b\r\n{\r\n1 \r\n}\r\n000\r\nX: y\r\n\r\n", (200, b"{}")),
        (b"HTTP/1.1 100 X\r\n\r\n" * 15 + OK + b"Content-Length: 0\r\n\r\n", (200, b"")),
    ],
)
def test_whole_answer_is_returned(data: bytes, expected: tuple[int, bytes]) -> None:
    assert asked(data) == expected


@requirement("A-19", "A-98")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        OK,
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\n\r\n" + OK + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 100 X\r\n\r\n" * 16 + OK + b"Content-Length: 0\r\n\r\n",
        OK + b"Content-Length: 3\r\n\r\n{}",
        OK + b"Content-Length: +2\r\n\r\n{}",
        OK + b"Content-Length: 2, 2\r\n\r\n{}",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        OK + b"X: y\r\n folded\r\nContent-Length: 0\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"Content-Length : 0\r\n\r\n",
        CHUNKED + b"2\r\n{}",
        CHUNKED + b"2\r\n{}x\r\n0\r\n\r\n",
        CHUNKED + b"x\r\n{}\r\n0\r\n\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"-1\r\n\r\n",
        CHUNKED + b"2\r\n{}\r\n0\r\n",
        CHUNKED + b"1" * 1_025,
        CHUNKED + b"0\r\n" + b"X: y\r\n" * 3_000 + b"\r\n",
    ],
)
def test_answer_that_is_not_whole_http_is_a_failure(data: bytes) -> None:
    with pytest.raises(kit.server_client.TransportFailure) as failed:
        asked(data)
    assert not isinstance(failed.value, kit.server_client.DeadlinePassed)


@requirement("A-19", "A-98")
@pytest.mark.parametrize(("size", "is_read"), [(HEADERS, True), (HEADERS + 1, False)])
def test_header_block_is_read_up_to_its_bound(size: int, *, is_read: bool) -> None:
    head = OK + b"Content-Length: 0\r\nX: "
    data = head + b"y" * (size - len(head) - 4) + b"\r\n\r\n"
    assert len(data) == size
    if is_read:
        assert asked(data) == (200, b"")
    else:
        with pytest.raises(kit.server_client.TransportFailure):
            asked(data)


@requirement("A-06", "A-33")
@pytest.mark.parametrize("size", [10, 11])
@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
def test_body_is_read_up_to_its_bound(size: int, framing: str) -> None:
    body = b"x" * size
    data = {
        "length": OK + b"Content-Length: %d\r\n\r\n" % size + body,
        "chunks": CHUNKED + b"6\r\nxxxxxx\r\n%x\r\n%b\r\n0\r\n\r\n" % (size - 6, body[6:]),
        "close": OK + b"\r\n" + body,
    }[framing]
    if size == 10:
        assert asked(data, 10) == (200, body)
        return
    with pytest.raises(kit.server_client.Oversized) as oversized:
        asked(data, 10)
    assert oversized.value.status == 200


@requirement("A-06")
@pytest.mark.parametrize(
    "length", [b"Content-Length: 99999999999999", b"Transfer-Encoding: chunked\r\n\r\nfffffffff"]
)
def test_announced_size_beyond_all_reason_is_oversized_at_once(length: bytes) -> None:
    with pytest.raises(kit.server_client.Oversized):
        asked(OK + length + b"\r\n\r\n")


@requirement("A-20", "A-82")
@pytest.mark.parametrize("answer", [peer.silent, peer.dripping])
def test_deadline_covers_a_peer_that_never_finishes(answer: peer.Answer) -> None:
    with peer.Peer(answer) as server, pytest.raises(kit.server_client.DeadlinePassed):
        posted(server.origin, kit.server_client.Deadline(0.2))


@requirement("A-20")
def test_deadline_that_has_passed_opens_no_connection() -> None:
    with peer.Peer() as server:
        with pytest.raises(kit.server_client.DeadlinePassed):
            posted(server.origin, kit.server_client.Deadline(-1))
        assert server.connections == 0


@requirement("A-20")
def test_deadline_within_another_is_never_later() -> None:
    whole = kit.server_client.Deadline(5)
    assert whole.within(1).remaining() <= 1
    assert whole.within(100).remaining() <= 5
    assert kit.server_client.Deadline(-1).remaining() == 0


@requirement("A-18", "A-19")
def test_origin_that_is_not_allowed_is_refused_by_the_request_too() -> None:
    with pytest.raises(kit.refusal.Refused) as refused:
        posted("http://192.0.2.1", kit.server_client.Deadline(1))
    assert refused.value.reason == "https_or_loopback_origin_required"


@contextmanager
def tls_peer(folder: Path) -> Iterator[tuple[peer.Peer, Path]]:
    """A peer that proves to be ``localhost`` to whoever trusts the certificate in the given file."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415  # only where it is installed
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("::1"))])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    made = made.add_extension(names, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = folder / "certificate.pem"
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(pem) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with peer.Peer(tls=context) as server:
        yield server, certificate


TRUSTING = """
import ssl
_default = ssl.create_default_context
ssl.create_default_context = lambda: _default(cafile={certificate!r})
"""
POST = """
import sys
sys.path.insert(0, {scripts!r})
from adapter_kit import server_client
try:
    status, body = server_client.post(
        {origin!r}, "/x", "Bearer a", {body!r}, server_client.Deadline(30)
    )
    print(status)
except server_client.TransportFailure as failure:
    print(type(failure).__name__)
"""


def posted_by_a_child(origin: str, before: str = "", env: dict[str, str] | None = None) -> str:
    program = before + POST.format(scripts=str(hook_fixture.SCRIPTS), origin=origin, body=BODY)
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, check=True, timeout=hook_fixture.RUN_S
    )
    return done.stdout.decode().strip()


@requirement("A-18", "A-19", "A-01")
def test_https_peer_is_asked_only_if_the_system_store_trusts_it(tmp_path: Path) -> None:
    with tls_peer(tmp_path) as (server, certificate):
        named = f"https://localhost:{server.port}"
        trusting = TRUSTING.format(certificate=str(certificate))
        assert posted_by_a_child(named) == "TransportFailure"
        env = {"SSL_CERT_FILE": str(certificate), "SSLKEYLOGFILE": str(tmp_path / "keys")}
        assert posted_by_a_child(named, env=env) == "TransportFailure"
        assert posted_by_a_child(f"https://127.0.0.1:{server.port}", before=trusting) == "TransportFailure"
        assert server.requests == []
        assert posted_by_a_child(named, before=trusting, env=env) == "200"
        assert not (tmp_path / "keys").exists()
    (request,) = server.requests
    assert f"\r\nHost: localhost:{server.port}\r\n".encode() in request.head
