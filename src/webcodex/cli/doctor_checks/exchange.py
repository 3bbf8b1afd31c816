"""Asks the Server of this machine one thing at a time; every answer, and all of them together, is bounded.

Must never send anything to another machine.
"""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import urlsplit

from webcodex.runner import settings

ONE_ANSWER_S: Final = 2.0
ALL_ANSWERS_S: Final = 6.0
_MOST_BYTES: Final = 4 * 1024 * 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,512}")


class Silence(Enum):
    """Why there is no answer."""

    NOT_ASKED = auto()
    NOBODY = auto()
    LATE = auto()
    FOREIGN = auto()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP status and the object that came with it."""

    status: int
    body: dict[str, Any]

    @property
    def output(self) -> dict[str, Any]:
        """What a tool put out, empty where there is none."""
        output = self.body.get("output")
        return output if isinstance(output, dict) else {}


Reply = Answer | Silence


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked; without a body it is a GET."""

    path: str
    body: dict[str, Any] | None = None
    token: str | None = field(default=None, repr=False)


def is_token(text: str) -> bool:
    """Says whether ``text`` can stand in an Authorization header."""
    return _TOKEN.fullmatch(text) is not None


class Conversation:
    """Questions to one Server; after one that found nobody, or came too late, no other is asked."""

    def __init__(self, url: str) -> None:
        self._address = _loopback(url)
        self._until = time.monotonic() + ALL_ANSWERS_S
        self._is_over = self._address is None

    def ask(self, request: Request) -> Reply:
        """Returns the answer, or why there is none, within ONE_ANSWER_S."""
        within_s = min(ONE_ANSWER_S, self._until - time.monotonic())
        if self._is_over or within_s <= 0 or self._address is None:
            return Silence.NOT_ASKED
        reply = _exchanged(self._address, request, within_s)
        self._is_over = reply is Silence.NOBODY or reply is Silence.LATE
        return reply


def _loopback(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or port is None or not settings.is_loopback(host):
        return None
    return host, port


def _exchanged(address: tuple[str, int], request: Request, within_s: float) -> Reply:
    connection = http.client.HTTPConnection(*address, timeout=within_s)
    headers = {"Content-Type": "application/json"}
    if request.token is not None:
        headers["Authorization"] = f"Bearer {request.token}"
    method, body = ("GET", None) if request.body is None else ("POST", json.dumps(request.body).encode())
    is_late = threading.Event()
    try:
        connection.connect()
        with _ended_after(connection.sock, within_s, is_late):
            connection.request(method, request.path, body, headers)
            response = connection.getresponse()
            status, content = response.status, response.read(_MOST_BYTES + 1)
            is_cut = bool(response.length)
    except TimeoutError:
        return Silence.LATE
    except (OSError, http.client.HTTPException) as error:
        if is_late.is_set():
            return Silence.LATE
        return Silence.FOREIGN if isinstance(error, http.client.HTTPException) else Silence.NOBODY
    finally:
        connection.close()
    if is_late.is_set():
        return Silence.LATE
    return Silence.FOREIGN if is_cut else _read(status, content)


@contextlib.contextmanager
def _ended_after(sock: socket.socket, seconds: float, is_late: threading.Event) -> Iterator[None]:
    """Shuts the connection down once the time is over, however slowly the other side drips."""

    def end() -> None:
        is_late.set()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read(status: int, content: bytes) -> Reply:
    if len(content) > _MOST_BYTES:
        return Silence.FOREIGN
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return Silence.FOREIGN
    return Answer(status=status, body=body) if isinstance(body, dict) else Silence.FOREIGN
