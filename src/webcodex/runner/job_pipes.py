"""The pipes between one Job and the Runner: its input is fed, its output goes into its log (R-60, R-61)."""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Final

from webcodex.runner import job_log

_CHUNK_BYTES: Final = 65_536


class Pipes:
    """One Job's standard streams; the child's ends are closed once the child has them."""

    def __init__(self, stdin: bytes | None) -> None:
        self._unsent = memoryview(stdin or b"")
        self._feed = -1
        self._open: dict[int, job_log.Stream] = {}
        self._drained = asyncio.Event()
        self.child_ends: list[int] = []
        try:
            self.child_ends.append(self._input(stdin))
            for stream in job_log.Stream:
                ours, theirs = os.pipe()
                self._open[ours] = stream
                self.child_ends.append(theirs)
        except OSError:
            self.close_child_ends()
            self.close()
            raise

    def _input(self, stdin: bytes | None) -> int:
        if stdin is None:
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs, self._feed = os.pipe()
        os.set_blocking(self._feed, False)
        return theirs

    def close_child_ends(self) -> None:
        """Leaves the child's ends to the child alone, so that its end is seen."""
        while self.child_ends:
            os.close(self.child_ends.pop())

    def begin(self, log: job_log.Log, on_output: Callable[[], None]) -> None:
        """Feeds the input and moves what arrives into the log, telling of each piece, from now on."""
        loop = asyncio.get_running_loop()
        for ours, stream in self._open.items():
            os.set_blocking(ours, False)
            loop.add_reader(ours, self._read, ours, stream, log, on_output)
        if self._feed >= 0:
            loop.add_writer(self._feed, self._write)

    async def drained(self, within_s: float) -> None:
        """Returns once all output has arrived, or after `within_s`: somebody may still hold an end open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._drained.wait()

    def close(self) -> None:
        """Lets go of everything on the Runner's side."""
        self._close_feed()
        for ours in list(self._open):
            self._close_output(ours)

    def _read(
        self, ours: int, stream: job_log.Stream, log: job_log.Log, on_output: Callable[[], None]
    ) -> None:
        chunk = os.read(ours, _CHUNK_BYTES)
        log.add(stream, chunk)
        if chunk:
            on_output()
        else:
            self._close_output(ours)

    def _write(self) -> None:
        try:
            written = os.write(self._feed, self._unsent)
        except BlockingIOError:
            return
        except BrokenPipeError:
            written = len(self._unsent)  # the Job does not want the rest
        self._unsent = self._unsent[written:]
        if not self._unsent:
            self._close_feed()

    def _close_feed(self) -> None:
        if self._feed >= 0:
            asyncio.get_running_loop().remove_writer(self._feed)
            os.close(self._feed)
            self._feed = -1

    def _close_output(self, ours: int) -> None:
        asyncio.get_running_loop().remove_reader(ours)
        os.close(ours)
        del self._open[ours]
        if not self._open:
            self._drained.set()
