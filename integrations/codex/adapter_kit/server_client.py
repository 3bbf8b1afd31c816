"""One bounded POST to the configured Server: no proxy, no redirect, one absolute deadline (A-18 to A-20).

Plain HTTP to this machine is spoken over the C socket itself; ``ssl`` is imported only for https.
"""

import time

from adapter_kit import limits, private_files, refusal

try:
    import _socket as sockets
except ImportError:  # an interpreter without the C module under this name
    import socket as sockets  # type: ignore[no-redef]  # the same calls, at a higher price

_LOOPBACK = {"127.0.0.1": ("127.0.0.1",), "::1": ("::1",), "localhost": ("127.0.0.1", "::1")}
_NAME_CHARS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
_ADDRESS_CHARS = "0123456789abcdefABCDEF:."
_PORT_DIGITS = 5
_PORT_MAX = 65_535
_DEFAULT_PORTS = {"http": 80, "https": 443}
_STATUS_DIGITS = 3
_INTERIM = range(100, 200)
_SWITCHING_PROTOCOLS = 101
_WITHOUT_BODY = (204, 304)
_HEX = b"0123456789abcdefABCDEF"
_HEX_DIGITS_MAX = 8


class Origin:
    """One origin, parsed; ``addresses`` are tried in order and empty if the host must be looked up."""

    __slots__ = ("addresses", "authority", "host", "is_tls", "port")

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.is_tls = scheme == "https"
        self.host = host
        self.port = port
        self.authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.addresses = _LOOPBACK.get(host, ())


class TransportFailure(Exception):  # named for what has happened
    """The answer is not known: network, protocol or TLS failed; the request may have been carried out."""


class DeadlinePassed(TransportFailure):
    """The answer is not known, because it did not come in time."""


class Oversized(Exception):  # named for what has happened
    """The Server answered with ``status`` and more than the bytes allowed."""

    def __init__(self, status: int) -> None:
        super().__init__("the response is larger than the bound")
        self.status = status


class Deadline:
    """A point on the monotonic clock by which everything under it has ended (A-20)."""

    __slots__ = ("_ends",)

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._ends - time.monotonic())

    def within(self, seconds: float) -> "Deadline":
        """A deadline ``seconds`` from now, or this one if it comes first."""
        return Deadline(min(seconds, self.remaining()))


def parse_origin(text: str) -> Origin:
    """The origin that ``text`` names.

    Raises:
        Refused: ``https_or_loopback_origin_required`` for userinfo, a query, a fragment, a path, a host that
            is not plain ASCII, or http to another machine.
    """
    scheme, mark, rest = text.partition("://")
    authority = rest.removesuffix("/")
    host, colon, port = _split(authority)
    if (
        mark
        and scheme in _DEFAULT_PORTS
        and host
        and (scheme == "https" or host in _LOOPBACK)
        and (not colon or _is_port(port))
    ):
        return Origin(scheme, host, int(port) if colon else _DEFAULT_PORTS[scheme])
    raise refusal.Refused("https_or_loopback_origin_required")


def read_authorization(path: str) -> str:
    """The value for the Authorization header, as the operator stored it, blanks around it dropped (A-19).

    Raises:
        Refused: ``invalid_authorization_file``, or the reasons of A-10.
    """
    value = private_files.read(path).strip()
    if not value or not value.isascii() or any(byte in value for byte in b"\r\n\0"):
        raise refusal.Refused("invalid_authorization_file")
    return value.decode("ascii")


def post(  # noqa: PLR0917  # the order is the wire's: where, with what right, what, until when
    origin: str,
    path: str,
    authorization: str,
    body: bytes,
    deadline: Deadline,
    max_bytes: int = limits.MAX_BYTES,
) -> tuple[int, bytes]:
    """Status and body of the one answer to this one request; a redirect is an answer like any other.

    Raises:
        Refused: if the origin is not allowed (A-18).
        TransportFailure: if no whole answer came; ``DeadlinePassed`` if time was the cause.
        Oversized: if the body is longer than ``max_bytes``.
    """
    target = parse_origin(origin)
    request = (
        f"POST {path} HTTP/1.1\r\nHost: {target.authority}\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: application/json\r\nAuthorization: {authorization}\r\nConnection: close\r\n\r\n"
    )
    try:
        connection = _connected(target, deadline)
        try:
            connection.settimeout(_positive(deadline))
            connection.sendall(request.encode("ascii") + body)
            return _Answer(connection, deadline).read(max_bytes)
        finally:
            connection.close()
    except TimeoutError:
        raise DeadlinePassed("the Server did not answer in time") from None
    except (OSError, ValueError):
        raise TransportFailure("the Server could not be asked") from None


def _split(authority: str) -> tuple[str, str, str]:
    """Host, colon and port; the host is empty if it is malformed."""
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        if not bracket or ":" not in host or host.strip(_ADDRESS_CHARS) or (rest and rest[0] != ":"):
            return "", "", ""
        return host, rest[:1], rest[1:]
    host, colon, port = authority.partition(":")
    return ("" if host.strip(_NAME_CHARS) else host), colon, port


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS and 0 < int(text) <= _PORT_MAX


def _positive(deadline: Deadline) -> float:
    """Seconds for the next wait; a socket given 0 would not wait at all."""
    remaining = deadline.remaining()
    if remaining <= 0:
        raise DeadlinePassed("no time is left")
    return remaining


def _connected(target: Origin, deadline: Deadline) -> "sockets.socket":
    if target.is_tls:
        from adapter_kit import tls  # costly, and only for https

        return tls.connected(target, lambda: _positive(deadline))
    return _first_reached(target, deadline)


def _first_reached(target: Origin, deadline: Deadline) -> "sockets.socket":
    failure: OSError = OSError()
    for address in target.addresses:
        family = sockets.AF_INET6 if ":" in address else sockets.AF_INET
        seconds = _positive(deadline)
        connection = sockets.socket(family, sockets.SOCK_STREAM)
        try:
            connection.settimeout(seconds)
            connection.connect((address, target.port))
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    raise failure


class _Answer:
    """The bytes of one HTTP/1.1 response as they arrive."""

    def __init__(self, connection: "sockets.socket", deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline
        self._held = b""

    def read(self, max_bytes: int) -> tuple[int, bytes]:
        """Status and whole body of the final response; 1xx are skipped (A-19)."""
        for _ in range(limits.INTERIM_RESPONSES):
            status, headers = _parsed(self._until(b"\r\n\r\n", limits.HEADER_BYTES))
            if status == _SWITCHING_PROTOCOLS:
                raise TransportFailure("the peer left HTTP")
            if status not in _INTERIM:
                return status, self._body(status, headers, max_bytes)
        raise TransportFailure("the peer does not come to an answer")

    def _body(self, status: int, headers: dict[bytes, bytes], max_bytes: int) -> bytes:
        coding = headers.get(b"transfer-encoding")
        length = headers.get(b"content-length")
        if status in _WITHOUT_BODY:
            return b""
        if coding is not None:
            if coding.lower() != b"chunked" or length is not None:
                raise TransportFailure("the body cannot be delimited")
            return self._chunked(status, max_bytes)
        if length is None:
            return self._rest(status, max_bytes)
        if not length.isdigit():
            raise TransportFailure("the body cannot be delimited")
        if len(length) > _HEX_DIGITS_MAX or int(length) > max_bytes:
            raise Oversized(status)
        return self._exactly(int(length))

    def _chunked(self, status: int, max_bytes: int) -> bytes:
        body = b""
        while True:
            digits = self._until(b"\r\n", limits.CHUNK_LINE_BYTES)[:-2].partition(b";")[0].strip(b" \t")
            if not digits or digits.strip(_HEX):
                raise TransportFailure("a chunk has no size")
            size = int(digits, 16) if len(digits) <= _HEX_DIGITS_MAX else max_bytes + 1
            if size == 0:
                break
            if len(body) + size > max_bytes:
                raise Oversized(status)
            body += self._exactly(size)
            if self._exactly(2) != b"\r\n":
                raise TransportFailure("a chunk has another size")
        left = limits.HEADER_BYTES
        while (trailer := self._until(b"\r\n", left)) != b"\r\n":
            left -= len(trailer)
        return body

    def _rest(self, status: int, max_bytes: int) -> bytes:
        while len(self._held) <= max_bytes and self._more():
            pass
        if len(self._held) > max_bytes:
            raise Oversized(status)
        return self._held

    def _exactly(self, size: int) -> bytes:
        while len(self._held) < size:
            if not self._more():
                raise TransportFailure("the body is cut")
        return self._take(size)

    def _until(self, mark: bytes, max_bytes: int) -> bytes:
        while (at := self._held.find(mark, 0, max_bytes)) < 0:
            if len(self._held) >= max_bytes or not self._more():
                raise TransportFailure("the header block is cut or too large")
        return self._take(at + len(mark))

    def _more(self) -> bool:
        self._connection.settimeout(_positive(self._deadline))
        received = self._connection.recv(limits.RECEIVE_BYTES)
        self._held += received
        return bool(received)

    def _take(self, size: int) -> bytes:
        taken, self._held = self._held[:size], self._held[size:]
        return taken


def _parsed(block: bytes) -> tuple[int, dict[bytes, bytes]]:
    """Status and headers, names in lower case; a header given twice with two values is refused."""
    first, *lines = block[:-4].split(b"\r\n")
    version, _, rest = first.partition(b" ")
    digits = rest.partition(b" ")[0]
    if version not in {b"HTTP/1.1", b"HTTP/1.0"} or len(digits) != _STATUS_DIGITS or not digits.isdigit():
        raise TransportFailure("the peer does not speak HTTP")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if not colon or not name or name.split() != [name]:
            raise TransportFailure("the header block is malformed")
        if name in {b"content-length", b"transfer-encoding"} and headers.setdefault(name, value) != value:
            raise TransportFailure("the body is delimited twice")
    return int(digits), headers
