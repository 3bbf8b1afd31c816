"""Drives ``codex app-server`` over stdio, as an editor does: JSON-RPC lines, each wait with a deadline."""

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ANSWER_S: Final = 30.0
TURN_S: Final = 90.0
CLOSE_S: Final = 15.0
LINE_BYTES: Final = 16 * 1024 * 1024
MESSAGES: Final = 20_000
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

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._told: list[Params] = []
        self._answers: dict[int, Params] = {}
        self._changed = threading.Condition()
        self._has_ended = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def call(self, method: str, params: Params) -> Any:
        """Returns the result of one request.

        Raises:
            Refused: the app-server answered with an error.
        """
        number = next(self._numbers)
        self._send({"id": number, "method": method, "params": params})
        self._wait(lambda: number in self._answers, ANSWER_S, method)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self) -> None:
        """The connection is initialised."""
        self.call("initialize", {"clientInfo": CLIENT, "capabilities": {"experimentalApi": True}})
        self._send({"method": "initialized"})

    def conversation(self, folder: Path, **chosen: Any) -> "Conversation":
        """Returns a new conversation in ``folder``, in which no call waits for an approval."""
        asked = {"cwd": str(folder), "approvalPolicy": "never", "sandbox": "danger-full-access"}
        thread = self.call("thread/start", {**asked, **chosen})["thread"]
        return Conversation(self, thread["id"])

    def turn(self, thread: str, method: str, params: Params) -> Turn:
        """Returns the turn that a request begins, once it has ended."""
        first, began_at = len(self._told), time.monotonic()
        self.call(method, {"threadId": thread, **params})

        def told(kind: str) -> list[Params]:
            notes = [note for note in self._told[first:] if note["method"] == kind]
            return [note["params"] for note in notes if note["params"].get("threadId") == thread]

        self._wait(lambda: told("turn/completed"), TURN_S, method)
        return Turn(
            status=told("turn/completed")[0]["turn"]["status"],
            items=tuple(one["item"] for one in told("item/completed")),
            hooks=tuple(one["run"] for one in told("hook/completed")),
            began_at=began_at,
            ended_at=time.monotonic(),
        )

    def close(self) -> int:
        """Returns the exit code after the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(CLOSE_S)
        self._reading.join(CLOSE_S)
        return code

    def _send(self, message: Params) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _wait(self, found: Callable[[], object], seconds: float, what: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: found() or self._has_ended, seconds)
            assert found(), f"{what}: nothing came of it within {seconds:.0f} s, or the app-server ended"

    def _read(self) -> None:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(LINE_BYTES):
            message = json.loads(line)
            with self._changed:
                if "method" in message:
                    self._told.append(message)
                else:
                    self._answers[message["id"]] = message
                self._changed.notify_all()
                if len(self._told) >= MESSAGES:
                    break
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One thread of Codex; its id is what the hooks are told as ``session_id``."""

    server: AppServer
    id: str

    def turn(self, prompt: str) -> Turn:
        """Returns how the turn of one prompt went."""
        return self.server.turn(self.id, "turn/start", {"input": [{"type": "text", "text": prompt}]})

    def compacted(self) -> Turn:
        """Returns how the compaction went that the user asked for."""
        return self.server.turn(self.id, "thread/compact/start", {})


@contextmanager
def running(words: Sequence[str], variables: Mapping[str, str], log: Path) -> Iterator[AppServer]:
    """Yields an initialised app-server; nothing of it is left afterwards."""
    with (
        log.open("ab") as stderr,
        subprocess.Popen(
            [*words, "app-server"],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        ) as process,
    ):
        server = AppServer(process)
        try:
            server.open()
            yield server
            assert server.close() == 0, log.read_text(encoding="utf-8")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
