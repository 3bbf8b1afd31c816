"""Starts the Server and the Runner as children, reads what they say, and ends them."""

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from webcodex.cli import refusal

READY_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 10.0
_READY: Final = re.compile(rb"webcodex-server ready on (?P<url>http://\S{1,300})")
MOST_LOG_BYTES: Final = 4 * 1024 * 1024
_LAST_WORDS_BYTES: Final = 4096
_LAST_WORDS_CHARS: Final = 300
_CHUNK_BYTES: Final = 64 * 1024
_OWN_VARIABLES: Final = "WEBCODEX_"
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class ChildEnded(refusal.Failed):
    """One child ended by itself; the sentence says which, how and where it wrote."""


class Child:
    """One program of ours in a process of its own that ends when this process does."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_file: Path, log: int) -> None:
        self.name = name
        self.log_file = log_file
        self._log = log
        self._process = process
        self._draining: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def begin(self) -> None:
        """Lets the program begin; until then it has only been loaded."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def ready_url(self) -> str:
        """Returns the origin the Server said it is ready on; what else it says goes to its log.

        Raises:
            ChildEnded: it ended before.
            Failed: it said nothing within READY_WITHIN_S.

        """
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                async for line in self._process.stdout:
                    os.write(self._log, line)
                    found = _READY.search(line)
                    if found is not None:
                        self._draining = asyncio.create_task(self._drain())
                        return found["url"].decode()
        except TimeoutError:
            raise refusal.Failed(
                f"The {self.name} was not ready within {READY_WITHIN_S:.0f} s. Its log: {self.log_file}"
            ) from None
        raise await self.ended()

    async def ended(self) -> ChildEnded:
        """Returns how it ended, once it has."""
        code = await self._process.wait()
        how = f"exit code {code}" if code >= 0 else f"exit code {code}, killed by {_signal_name(-code)}"
        return ChildEnded(f"The {self.name} ended: {how}.\n{await self.account()}")

    async def account(self) -> str:
        """Returns what it said last, and where it said all."""
        said = await asyncio.to_thread(_last_line, self.log_file)
        words = f"It said last: {said}\n" if said else ""
        return f"{words}Its log: {self.log_file}"

    def terminate(self) -> None:
        """Asks it to end, if it still runs."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.terminate()

    async def gone(self) -> None:
        """Returns when it has ended, by force after STOP_WITHIN_S."""
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        if self._draining is not None:
            await self._draining
        os.close(self._log)

    async def _drain(self) -> None:
        assert self._process.stdout is not None
        while said := await self._process.stdout.read(_CHUNK_BYTES):
            os.write(self._log, said)


async def start(
    name: str, module: str, *arguments: str, log_file: Path, variables: Mapping[str, str], cwd: Path
) -> Child:
    """Returns a child that has loaded ``module`` and begins when it is told to.

    Of the variables that begin with WEBCODEX_ it gets ``variables`` and nothing else.
    """
    environment = {key: value for key, value in os.environ.items() if not key.startswith(_OWN_VARIABLES)}
    log = opened_log(log_file)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "webcodex.cli.tether", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env={**environment, **variables},
            cwd=cwd,
            start_new_session=True,
        )
    except BaseException:
        os.close(log)
        raise
    return Child(name, process, log_file, log)


def opened_log(path: Path) -> int:
    """Returns a descriptor that appends to a private log; one that has grown long is set aside first."""
    if path.exists() and path.stat().st_size > MOST_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.open(path, _APPEND, 0o600)


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LAST_WORDS_BYTES))
        lines = file.read(_LAST_WORDS_BYTES).decode(errors="replace").split("\n")
    spoken = [line.strip() for line in lines if line.strip()]
    return spoken[-1][:_LAST_WORDS_CHARS] if spoken else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
