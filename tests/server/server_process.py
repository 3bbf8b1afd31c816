"""Starts the real Server as a process for a test: its own data folder, its own port, its own end."""

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

READY: Final = "webcodex-server ready on "
START_S: Final = 30.0
STOP_S: Final = 15.0
ANSWER_S: Final = 30.0
TOKEN: Final = "bootstrap-of-this-test"
PROGRAM: Final = Path(sys.executable).with_name("webcodex-server")


class NotReady(Exception):
    """The Server ended, or said nothing in time; the text is what it logged."""


class ServerProcess:
    """One Server over ``folder / "data"``; later starts keep the data and the port.

    ``with ServerProcess(tmp_path) as server: status, body = server.post("/api/users/list", {})``
    """

    def __init__(
        self, folder: Path, *, token: str = TOKEN, environment: Mapping[str, str] | None = None
    ) -> None:
        """Prepares a Server; ``environment`` is added to a minimal one and may override it."""
        self.folder = folder
        self.data_dir = folder / "data"
        self.log_path = folder / "server.log"
        self.token = token
        self.url = ""
        self.exit_code: int | None = None
        self._environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "WEBCODEX_ADDR": "127.0.0.1:0",
            "WEBCODEX_DATA": str(self.data_dir),
            "WEBCODEX_TOKEN": token,
            **(environment or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def host(self) -> str:
        """The address it listens on."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port it listens on."""
        return urlsplit(self.url).port or 0

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        assert self._process is not None
        return self._process.pid

    def log(self) -> str:
        """What all its processes have written to stderr."""
        return self.log_path.read_text(encoding="utf-8") if self.log_path.exists() else ""

    def start(self) -> None:
        """Runs the Server until it accepts connections.

        Raises:
            NotReady: it ended or took longer than ``START_S`` seconds.

        """
        assert self._process is None
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM], env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        line = self._first_line()
        if not line.startswith(READY):
            self._end(signal.SIGTERM)
            raise NotReady(self.log())
        self.url = line.removeprefix(READY).strip()
        self._environment["WEBCODEX_ADDR"] = urlsplit(self.url).netloc

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Asks it to end and returns its exit code."""
        return self._end(number)

    def kill(self) -> None:
        """Ends it as a crash would; does nothing when it does not run."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stops it, unless it was killed before, and starts it again."""
        if self._process is not None:
            self.stop()
        self.start()

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        token: str | None = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Returns the status and the decoded body of one POST; no ``token`` sends no credential."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self._exchange("POST", path, content, token, sent)

    def get(self, path: str, token: str | None = None) -> tuple[int, Any]:
        """Returns the status and the decoded body of one GET."""
        return self._exchange("GET", path, None, token, {})

    def call(self, tool: str, arguments: Mapping[str, Any], token: str | None = TOKEN) -> tuple[int, Any]:
        """Returns the status and the ToolResult of one tool call."""
        return self.post("/api/tools/call", {"tool": tool, "params": arguments}, token)

    def _exchange(
        self, method: str, path: str, body: bytes | None, token: str | None, headers: Mapping[str, str]
    ) -> tuple[int, Any]:
        credential = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=ANSWER_S)
        try:
            connection.request(method, path, body, {**credential, **headers})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        return answer.status, json.loads(content) if content else None

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        ends_at = time.monotonic() + START_S
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([descriptor], [], [], max(0.0, ends_at - time.monotonic()))
            part = os.read(descriptor, 4096) if readable else b""
            if not part:
                break
            line += part
        return line.decode()

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        self._process = None
        if process.poll() is None:
            process.send_signal(number)
        try:
            code = process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait(STOP_S)
        if process.stdout is not None:
            process.stdout.close()
        self.exit_code = code
        return code
