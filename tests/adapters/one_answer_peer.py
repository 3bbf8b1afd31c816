"""A Server with one scripted answer, for adapters that send one request."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

RUN_S = 30


@dataclass
class Peer:
    """A Server that gives every connection the same bytes and keeps what it was sent."""

    answer: bytes = b""
    requests: list[bytes] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)
    is_silent: bool = False
    port: int = 0

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, listener: socket.socket) -> None:
        held = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            self.requests.append(_request(connection))
            self.asked.set()
            if self.is_silent:
                held.append(connection)
                continue
            with contextlib.suppress(OSError):
                connection.sendall(self.answer)
            connection.close()
        for connection in held:
            connection.close()


def _request(connection: socket.socket) -> bytes:
    connection.settimeout(RUN_S)
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, rest = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    while len(rest) < length:
        rest += connection.recv(65536)
    return head + b"\r\n\r\n" + rest


@contextlib.contextmanager
def serving() -> Iterator[Peer]:
    """Serves on a free port of this machine until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    peer = Peer(port=listener.getsockname()[1])
    thread = threading.Thread(target=peer.serve, args=(listener,))
    thread.start()
    try:
        yield peer
    finally:
        with contextlib.suppress(OSError):  # where this does not end an accept, closing does
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(RUN_S)
        assert not thread.is_alive()


def sized(body: bytes, status: str = "200 OK", header: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{header}\r\n".encode() + body


def chunked(body: bytes) -> bytes:
    return (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + f"{len(body):x}\r\n".encode()
        + body
        + b"\r\n0\r\n\r\n"
    )


def until_closed(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n" + body
