"""The doctor asks only this machine, sends no secret to a stranger, and waits for nobody for long."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from webcodex.cli import credentials, installation
from webcodex.cli.doctor_checks import conversation, exchange, standing
from webcodex.cli.doctor_checks.exchange import Answer, Conversation, Request, Silence

READY = b'HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{"status":"ready"}'
SHORT_S = 0.2
WAIT_S = 10.0


class Peer:
    """Somebody who listens on this machine and keeps what was said to them."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self.heard: list[bytes] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.addr = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(WAIT_S)
                    self.heard.append(connection.recv(65536))
                    self._answer(connection)

    def close(self) -> None:
        """Listens no longer."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


@contextlib.contextmanager
def peer(answer: Callable[[socket.socket], None]) -> Iterator[Peer]:
    """Yields somebody who answers so."""
    listening = Peer(answer)
    try:
        yield listening
    finally:
        listening.close()


def silent(connection: socket.socket) -> None:
    """Says nothing until the other side goes."""
    while connection.recv(65536):
        pass


def dripping(connection: socket.socket) -> None:
    """Sends a byte now and then, and never ends a line of the header."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    _drip(connection)


def dripping_body(connection: socket.socket) -> None:
    """Sends a body of known length a byte now and then."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n")
    _drip(connection)


def _drip(connection: socket.socket) -> None:
    connection.settimeout(SHORT_S / 20)
    while True:
        try:
            if not connection.recv(65536):
                return
        except TimeoutError:
            connection.sendall(b" ")


@pytest.mark.parametrize("answer", [silent, dripping, dripping_body])
def test_peer_without_an_end_is_left_in_time_and_not_asked_again(
    answer: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "ONE_ANSWER_S", SHORT_S)
    with peer(answer) as listening:
        talk = Conversation(f"http://{listening.addr}")
        assert talk.ask(Request(path="/readyz")) is Silence.LATE
        assert talk.ask(Request(path="/readyz")) is Silence.NOT_ASKED
        assert len(listening.heard) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-x\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{x}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff{}",
        b"HTTP/1.1 200 OK\r\n\r\n" + 5 * 1024 * 1024 * b" ",
    ],
)
def test_whatever_else_answers_is_no_server(said: bytes) -> None:
    with peer(lambda connection: connection.sendall(said)) as listening:
        assert Conversation(f"http://{listening.addr}").ask(Request(path="/readyz")) is Silence.FOREIGN


def test_answer_is_read_and_everything_together_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with peer(lambda connection: connection.sendall(READY)) as listening:
        talk = Conversation(f"http://{listening.addr}")
        wanted = Answer(status=200, body={"status": "ready"})
        assert [talk.ask(Request(path="/readyz")) for _ in range(2)] == [wanted, wanted]
        monkeypatch.setattr(exchange, "ALL_ANSWERS_S", 0.0)
        assert Conversation(f"http://{listening.addr}").ask(Request(path="/readyz")) is Silence.NOT_ASKED


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1:80", "http://example.invalid:80", "http://127.0.0.1", "http://127.0.0.1:x", ""]
)
def test_nothing_is_sent_to_another_machine(url: str) -> None:
    assert Conversation(url).ask(Request(path="/readyz")) is Silence.NOT_ASKED


def test_nobody_at_the_address_ends_the_conversation() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        addr = f"127.0.0.1:{listener.getsockname()[1]}"
    talk = Conversation(f"http://{addr}")
    assert talk.ask(Request(path="/readyz")) is Silence.NOBODY
    assert talk.ask(Request(path="/readyz")) is Silence.NOT_ASKED


def test_stranger_at_the_address_gets_no_credential_while_up_does_not_run(tmp_path: Path) -> None:
    with peer(lambda connection: connection.sendall(READY)) as listening:
        found = installation.Installation(directory=tmp_path)
        installation.prepare(found)
        credentials.make_missing(found, f"http://{listening.addr}")
        installation.remember_addr(found, listening.addr)
        now = standing.gathered(found, {"HOME": str(tmp_path)})
        heard = conversation.heard(now, conversation.held(now))
    assert heard == conversation.Heard(ready=Answer(status=200, body={"status": "ready"}))
    (only,) = listening.heard
    assert only.startswith(b"GET /readyz HTTP/1.1\r\n")
    assert b"authorization" not in only.lower()
