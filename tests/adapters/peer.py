"""Scripted HTTP peers on this machine: one that records like a Server, and the many ways to be worse."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

PATH = "/api/tools/call"
WAIT_S = 30


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    head: bytes
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        """The report it carries."""
        params: dict[str, Any] = json.loads(self.body)["params"]
        return params


@dataclass
class Exchange:
    """One request and the connection to answer it on; ``ended`` is set when the test is over."""

    request: Request
    connection: socket.socket
    ended: threading.Event

    def send(self, data: bytes) -> None:
        """The bytes are on their way, or the adapter has gone."""
        with contextlib.suppress(OSError):
            self.connection.sendall(data)


Answer = Callable[[Exchange], None]


class Store:
    """Reports as the Server keeps them: one row per identity, stamped once (O-11, O-12)."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.refusal: str | None = None
        self._lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> None:
        """Records the report, or refuses it with the word set by the test."""
        exchange.send(self.answer(exchange.request.event))

    def answer(self, event: dict[str, Any]) -> bytes:
        """The Server's whole response to one report."""
        with self._lock:
            identity = (event["adapter_id"], event["event_id"])
            stored = self.rows.get(identity)
            if stored is None and self.refusal is not None:
                return response(400, failure(self.refusal))
            if stored is not None and stored["event"] != event:
                return response(400, failure("external_observation_conflict"))
            is_new = stored is None
            row = stored or {"event": event, "recorded_at": 1_790_000_000 + len(self.rows)}
            self.rows[identity] = row
        return response(200, acknowledgement(event, inserted=is_new, recorded_at=row["recorded_at"]))


def acknowledgement(event: dict[str, Any], *, inserted: bool = True, recorded_at: int = 1) -> dict[str, Any]:
    """The ToolResult for a stored report (O-05, O-08)."""
    observation = {key: event[key] for key in ("adapter_id", "event_id", "exit_code")}
    observation |= {"tool": event["observed_tool"], "recorded_at": recorded_at, "status": "unknown"}
    output = {key: event[key] for key in ("session_id", "project")}
    output |= {"provenance": "external_report", "inserted": inserted, "observation": observation}
    return {"success": True, "output": output}


def failure(kind: str) -> dict[str, Any]:
    """The ToolResult of a refused report (O-18)."""
    return {"success": False, "output": {"error_kind": kind, "state_changed": False}, "error": "refused"}


def response(status: int, body: object, *headers: str) -> bytes:
    """One HTTP response; a body that is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = (f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def raw(data: bytes) -> Answer:
    """Answers with exactly these bytes and closes."""
    return lambda exchange: exchange.send(data)


def status(code: int, body: object = b"{}", *headers: str) -> Answer:
    """Answers with this status."""
    return raw(response(code, body, *headers))


def tool_failure(kind: str) -> Answer:
    """Answers as the Server refuses a report."""
    return status(400, failure(kind))


def altered(change: Callable[[dict[str, Any]], object]) -> Answer:
    """Acknowledges, but for what ``change`` does to the ToolResult."""

    def answer(exchange: Exchange) -> None:
        result = acknowledgement(exchange.request.event)
        change(result)
        exchange.send(response(200, result))

    return answer


def silent(exchange: Exchange) -> None:
    """Never answers."""
    exchange.ended.wait(WAIT_S)


def dripping(exchange: Exchange) -> None:
    """Sends a good answer, one byte a second."""
    for byte in response(200, acknowledgement(exchange.request.event)):
        exchange.send(bytes([byte]))
        if exchange.ended.wait(1):
            return


def closing(exchange: Exchange) -> None:
    """Closes without an answer."""


def chunked(exchange: Exchange) -> None:
    """Acknowledges in chunks of seven bytes, with an extension and a trailer."""
    content = json.dumps(acknowledgement(exchange.request.event)).encode()
    parts = [content[at : at + 7] for at in range(0, len(content), 7)]
    body = b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts)
    exchange.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\nX-Late: 1\r\n\r\n")


def close_delimited(exchange: Exchange) -> None:
    """Acknowledges in HTTP/1.0 fashion: the end of the connection ends the body."""
    content = json.dumps(acknowledgement(exchange.request.event)).encode()
    exchange.send(b"HTTP/1.0 200 OK\r\n\r\n" + content)


def interim(exchange: Exchange) -> None:
    """Acknowledges after two 1xx responses."""
    final = response(200, acknowledgement(exchange.request.event))
    exchange.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" + final)


@dataclass
class Gate:
    """Holds its answer back until the test opens it; ``reached`` says that a request is waiting."""

    answer: Answer
    reached: threading.Event = field(default_factory=threading.Event)
    opened: threading.Event = field(default_factory=threading.Event)

    def __call__(self, exchange: Exchange) -> None:
        self.reached.set()
        self.opened.wait(WAIT_S)
        self.answer(exchange)


class Peer:
    """Answers the first connections from ``script``, one each, and all later ones with ``default``."""

    def __init__(
        self,
        *script: Answer,
        default: Answer | None = None,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.store = Store()
        self.requests: list[Request] = []
        self.connections = 0
        self._tls = tls
        self._script = list(script)
        self._default = default or self.store
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.origin = f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def events(self) -> list[str]:
        """The ids of the reports that came, in order."""
        return [request.event["event_id"] for request in self.requests]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):  # wakes the accept
            socket.create_connection(self._listener.getsockname()[:2], timeout=1).close()
        for thread in self._threads:
            thread.join(WAIT_S)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._ended.is_set():
                connection.close()
                return
            self.connections += 1
            answer = self._script.pop(0) if self._script else self._default
            self._start(self._serve, connection, answer)

    def _serve(self, connection: socket.socket, answer: Answer) -> None:
        connection.settimeout(WAIT_S)
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:  # the adapter does not trust this peer
                connection.close()
                return
        with connection:
            request = _received(connection)
            if request is not None:
                self.requests.append(request)
                answer(Exchange(request, connection, self._ended))

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Yields the origin of a listener whose queue is full: a connection to it is never completed."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as held:
        address = listener.getsockname()
        for _ in range(3):
            filler = held.enter_context(socket.socket())
            filler.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                filler.connect(address)
        yield f"http://127.0.0.1:{address[1]}"


def dead_origin() -> str:
    """The origin of a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def ids(events: Iterable[dict[str, Any]]) -> list[str]:
    """The event ids of the reports, sorted."""
    return sorted(event["event_id"] for event in events)


def _received(connection: socket.socket) -> Request | None:
    received = b""
    with contextlib.suppress(OSError):
        while b"\r\n\r\n" not in received:
            part = connection.recv(65_536)
            if not part:
                return None
            received += part
        head, _, body = received.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        while len(body) < length:
            body += connection.recv(65_536)
        return Request(head, body)
    return None
