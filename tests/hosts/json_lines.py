"""A host as a process that is told one JSON object a line and tells as many; each wait has a deadline."""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

CLOSE_S: Final = 30.0
LINE_BYTES: Final = 16 * 1024 * 1024
MESSAGES: Final = 20_000

Message = Mapping[str, Any]


class JsonLines:
    """One running host; what it told is kept in order, the first ``MESSAGES`` of it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.told: list[Message] = []
        self._process = process
        self._changed = threading.Condition()
        self._has_ended = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def tell(self, message: Message) -> None:
        """The host has been told this."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def wait(self, found: Callable[[], object], seconds: float, what: str) -> None:
        """Returns once what it told has made ``found`` true."""
        with self._changed:
            self._changed.wait_for(lambda: found() or self._has_ended, seconds)
            assert found(), f"{what}: nothing came of it within {seconds:.0f} s, or the host has ended"

    def close(self) -> int:
        """Returns the exit code after the end of its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(CLOSE_S)
        self._reading.join(CLOSE_S)
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        while len(self.told) < MESSAGES and (line := self._process.stdout.readline(LINE_BYTES)):
            with self._changed:
                self.told.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


@contextmanager
def running(
    words: Sequence[str], variables: Mapping[str, str], folder: Path, log: Path
) -> Iterator[JsonLines]:
    """Yields a host that works in ``folder``, and ends it; nothing of its group is left afterwards."""
    with (
        log.open("ab") as stderr,
        subprocess.Popen(
            words,
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        ) as process,
    ):
        try:
            host = JsonLines(process)
            yield host
            assert host.close() == 0, log.read_text(encoding="utf-8")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
