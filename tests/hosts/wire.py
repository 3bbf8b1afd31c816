"""A wire between a client and the Server: it carries every byte unchanged and notes the messages it sees."""

import contextlib
import functools
import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

CHUNK_BYTES: Final = 64 * 1024
IDLE_S: Final = 120.0
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One HTTP message with a body of stated length; header names are lower case."""

    first_line: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's value, or none without a body."""
        return json.loads(self.body) if self.body else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange:
    """One request and the answer to it."""

    request: Message
    answer: Message

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return int(self.answer.first_line.split()[1])

    @property
    def asked(self) -> str:
        """The JSON-RPC method that was asked for, or the HTTP method of a request without a body."""
        body = self.request.json
        return str(body["method"]) if isinstance(body, dict) else self.request.first_line.split()[0]


Note = Callable[[Message], None]


class Wire:
    """Listens on a port of its own and leads to ``port``; each connection has one of its own there."""

    def __init__(self, port: int) -> None:
        self.exchanges: list[Exchange] = []
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Where a client finds the Server through this wire."""
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def asked(self) -> list[str]:
        """Returns what was asked for and has been answered, in the order of the answers."""
        return [exchange.asked for exchange in self.exchanges]

    def answers_to(self, method: str) -> list[Exchange]:
        """Returns the exchanges that asked for one method."""
        return [exchange for exchange in self.exchanges if exchange.asked == method]

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Carries until the block ends."""
        self._begin(self._accept)
        try:
            yield
        finally:
            for one in (self._listening, *self._open):
                _end(one)
            for thread in self._threads:
                thread.join(IDLE_S)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(near)
            try:
                far = socket.create_connection(self._target, timeout=IDLE_S)
            except OSError:
                _end(near)
                continue
            self._open.append(far)
            near.settimeout(IDLE_S)
            waiting: deque[Message] = deque()
            self._begin(functools.partial(_carry, near, far, waiting.append))
            self._begin(functools.partial(_carry, far, near, self._noting(waiting)))

    def _noting(self, waiting: deque[Message]) -> Note:
        def note(answer: Message) -> None:
            self.exchanges.append(Exchange(request=waiting.popleft(), answer=answer))

        return note

    def _begin(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()


def _carry(source: socket.socket, sink: socket.socket, note: Note) -> None:
    seen = bytearray()
    with contextlib.suppress(OSError):
        while part := source.recv(CHUNK_BYTES):
            seen += part
            # Noted before it is passed on: who has an answer can find it here.
            for message in _taken(seen):
                note(message)
            sink.sendall(part)
    _end(source)
    _end(sink)


def _taken(seen: bytearray) -> Iterator[Message]:
    """Yields each whole message at the beginning of ``seen`` and removes it there."""
    while (head_end := seen.find(_HEAD_END)) >= 0:
        first_line, *lines = seen[:head_end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        assert "transfer-encoding" not in headers, "only bodies of stated length can be read here"
        start = head_end + len(_HEAD_END)
        end = start + int(headers.get("content-length", "0"))
        if len(seen) < end:
            return
        yield Message(first_line=first_line, headers=headers, body=bytes(seen[start:end]))
        del seen[:end]


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
