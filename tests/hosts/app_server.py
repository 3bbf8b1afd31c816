"""Drives ``codex app-server`` over stdio, as an editor does: JSON-RPC lines, each wait with a deadline."""

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.hosts import json_lines

ANSWER_S: Final = 30.0
TURN_S: Final = 90.0
CLIENT: Final = {"name": "webcodex-host-tests", "title": "Host tests", "version": "0"}

Params = Mapping[str, Any]


class Refused(Exception):
    """The app-server answered a request with an error."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What one turn told on its way to its end."""

    status: str
    items: tuple[Params, ...]
    hooks: tuple[Params, ...]
    began_at: float
    ended_at: float

    def completed(self, kind: str) -> list[Params]:
        """Returns the completed items of one kind, in the order of their ends."""
        return [item for item in self.items if item["type"] == kind]

    def runs_of(self, event: str) -> list[Params]:
        """Returns the ended hook runs of one event, such as ``postToolUse``."""
        return [run for run in self.hooks if run["eventName"] == event]

    def disturbed(self) -> list[tuple[str, str, list[str]]]:
        """Returns event, status and texts of each hook run that Codex was not content with."""
        return [
            (run["eventName"], run["status"], [entry["text"] for entry in run["entries"]])
            for run in self.hooks
            if run["status"] != "completed" or any(entry["kind"] != "context" for entry in run["entries"])
        ]


class AppServer:
    """One running app-server; everything that it told is kept in order."""

    def __init__(self, lines: json_lines.JsonLines) -> None:
        self._lines = lines
        self._numbers = itertools.count(1)

    def call(self, method: str, params: Params) -> Any:
        """Returns the result of one request.

        Raises:
            Refused: the app-server answered with an error.
        """
        number = next(self._numbers)
        first = len(self._lines.told)

        def answers() -> list[Params]:
            # Codex asks nothing of a client whose approvals are off, so each id is one of ours.
            return [one for one in self._lines.told[first:] if one.get("id") == number]

        self._lines.tell({"id": number, "method": method, "params": params})
        self._lines.wait(answers, ANSWER_S, method)
        answer = answers()[0]
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self) -> None:
        """The connection is initialised."""
        self.call("initialize", {"clientInfo": CLIENT, "capabilities": {"experimentalApi": True}})
        self._lines.tell({"method": "initialized"})

    def conversation(self, folder: Path, **chosen: Any) -> "Conversation":
        """Returns a new conversation in ``folder``, in which no call waits for an approval."""
        asked = {"cwd": str(folder), "approvalPolicy": "never", "sandbox": "danger-full-access"}
        thread = self.call("thread/start", {**asked, **chosen})["thread"]
        return Conversation(self, thread["id"])

    def turn(self, thread: str, method: str, params: Params) -> Turn:
        """Returns the turn that a request begins, once it has ended."""
        first, began_at = len(self._lines.told), time.monotonic()
        self.call(method, {"threadId": thread, **params})

        def told(kind: str) -> list[Params]:
            notes = [note["params"] for note in self._lines.told[first:] if note.get("method") == kind]
            return [note for note in notes if note.get("threadId") == thread]

        self._lines.wait(lambda: told("turn/completed"), TURN_S, method)
        return Turn(
            status=told("turn/completed")[0]["turn"]["status"],
            items=tuple(one["item"] for one in told("item/completed")),
            hooks=tuple(one["run"] for one in told("hook/completed")),
            began_at=began_at,
            ended_at=time.monotonic(),
        )


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread of Codex; its id is what the hooks are told as ``session_id``."""

    server: AppServer
    id: str

    def turn(self, prompt: str) -> Turn:
        """Returns how the turn of one prompt went."""
        return self.server.turn(self.id, "turn/start", {"input": [{"type": "text", "text": prompt}]})

    def forked(self) -> "Conversation":
        """Returns a new conversation that begins with all that this one holds."""
        thread = self.server.call("thread/fork", {"threadId": self.id})["thread"]
        return Conversation(self.server, thread["id"])

    def compacted(self) -> Turn:
        """Returns how the compaction went that the user asked for."""
        return self.server.turn(self.id, "thread/compact/start", {})


@contextmanager
def running(
    words: Sequence[str], variables: Mapping[str, str], folder: Path, log: Path
) -> Iterator[AppServer]:
    """Yields an initialised app-server; nothing of it is left afterwards."""
    with json_lines.running([*words, "app-server"], variables, folder, log) as lines:
        server = AppServer(lines)
        server.open()
        yield server
