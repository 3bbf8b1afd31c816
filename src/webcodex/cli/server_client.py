"""Speaks to the Server over HTTP: one bounded request, one bounded JSON answer, no proxy and no redirect."""

import http.client
import json
import socket
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from webcodex.cli import installation, program, refusal

DEADLINE_S: Final = 10.0
TOOL_DEADLINE_S: Final = 150.0  # M-28: the Server ends every dispatch within it
_MOST_BYTES: Final = 8 * 1024 * 1024


class Unreachable(refusal.Failed):
    """No Server answered; the sentence says how to start one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An HTTP status and the object that came with it."""

    status: int
    body: dict[str, Any]

    @property
    def error(self) -> str:
        """What the Server said was wrong, in its words."""
        said = self.body.get("error")
        return said if isinstance(said, str) else f"HTTP status {self.status}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """The Server at one origin, spoken to with one credential."""

    url: str
    token: str = field(repr=False)

    def post(self, path: str, body: dict[str, Any], *, deadline_s: float = DEADLINE_S) -> Answer:
        """Returns the answer to one POST; each step of it waits at most ``deadline_s``.

        Raises:
            Unreachable: nothing answered, or not in time.
            Failed: what answered does not speak as a Server does.

        """
        connection = self._connection(deadline_s)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            response = connection.getresponse()
            status, content = response.status, response.read(_MOST_BYTES + 1)
        except TimeoutError:
            raise Unreachable(
                f"The Server at {self.url} did not answer within {deadline_s:.0f} s. Whether it did what was "
                "asked is not known: read the state before asking again."
            ) from None
        except OSError:
            raise Unreachable(
                f"No Server answers at {self.url}.\nStart it with: {program.command(installation.START)}"
            ) from None
        except http.client.HTTPException:
            status, content = 0, b""
        finally:
            connection.close()
        answered = _object(content)
        if answered is None:
            raise refusal.Failed(f"What answers at {self.url} is not a WebCodex Server.")
        return Answer(status=status, body=answered)

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Returns the body of a 200.

        Raises:
            Failed: the Server said no; the sentence is its own.

        """
        answer = self.post(path, body)
        if answer.status == http.client.UNAUTHORIZED:
            raise refusal.Failed(unknown_token())
        if answer.status != http.client.OK:
            raise refusal.Failed(f"The Server refused: {answer.error}.")
        return answer.body

    def _connection(self, deadline_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if parts.scheme == "https" and host:
            return http.client.HTTPSConnection(host, port, timeout=deadline_s)
        if parts.scheme == "http" and host:
            return http.client.HTTPConnection(host, port, timeout=deadline_s)
        raise refusal.Refused(f"{self.url} is not the address of a Server, such as http://127.0.0.1:8080")


def unknown_token() -> str:
    """Returns what to say when the Server knows no such token."""
    return (
        "The Server does not know this token; it may be revoked or expired.\n"
        f"Make another with: {program.command('token create')}"
    )


def _object(content: bytes) -> dict[str, Any] | None:
    if len(content) > _MOST_BYTES:
        return None
    try:
        answered = json.loads(content)
    except ValueError:
        return None
    return answered if isinstance(answered, dict) else None


def is_taken(host: str, port: int) -> str | None:
    """Returns why no Server can listen at ``host`` and ``port`` now, or none when one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or "unknown reason"
    return None
