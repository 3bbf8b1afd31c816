"""Watches one running Job from the start of its process to the end of its whole tree (R-60, R-61)."""

import asyncio
import enum
import time
from collections.abc import Callable
from typing import Any, Final

from webcodex.runner import job_log, job_pipes, job_record, processes

UPDATE_EVERY_S: Final = 0.25
GRACE_S: Final = 2.0
"""How long a Job has between the polite end and the hard one (R-65)."""

_DRAIN_S: Final = 1.0


class Cause(enum.Enum):
    """Why a Job ends; the first cause counts."""

    ITSELF = enum.auto()
    STOP = enum.auto()
    TIME = enum.auto()


_EVENTS: Final = {Cause.STOP: job_record.Event.ENDED_BY_STOP, Cause.TIME: job_record.Event.ENDED_BY_TIME}


class RunningJob:
    """One process tree and its log; `show` takes each snapshot but the last, which `watch` returns."""

    def __init__(
        self,
        record: job_record.Record,
        tree: processes.Tree,
        pipes: job_pipes.Pipes,
        *,
        most_bytes: int,
        show: Callable[[job_record.Record], None],
    ) -> None:
        self._record = record
        self._tree = tree
        self._pipes = pipes
        self._show = show
        self._log = job_log.Log(most_bytes)
        self._cause = Cause.ITSELF
        self._reason: str | None = None
        self._shown_at = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._time: asyncio.TimerHandle | None = None
        self._finished_at: int | None = None
        tree.exited.add_done_callback(self._note_exit)

    def begin(self) -> None:
        """Lets output flow and the Job's time run."""
        self._pipes.begin(self._log, self._note_output)
        self._time = asyncio.get_running_loop().call_later(self._record.timeout_secs, self._run_out)

    def stop(self, grace_s: float = GRACE_S, reason: str | None = None) -> bool:
        """Says whether the Job ends because it was told to; one that has ended by itself does not."""
        if self._cause is Cause.STOP:
            return True
        if self._tree.exited.done() or self._cause is not Cause.ITSELF:
            return False
        self._cause, self._reason = Cause.STOP, reason
        self._publish(job_record.advance(self._record, job_record.Event.STOP_ORDERED, log=self._log.view()))
        self._tree.stop(grace_s)
        return True

    def hurry(self, grace_s: float, overdue_s: float, reason: str) -> None:
        """Stops the Job, and ends its tree within these times whatever has ended it already."""
        self.stop(grace_s, reason)
        self._tree.stop(grace_s, overdue_s)

    async def watch(self) -> job_record.Record:
        """Returns the last record, once nothing of the Job's tree is left and its output has arrived."""
        end = await self._tree.ended()
        for timer in (self._time, self._due):
            if timer is not None:
                timer.cancel()
        await self._pipes.drained(_DRAIN_S)
        self._pipes.close()
        if self._due is not None:
            self._due.cancel()
        return self._last(end)

    def tails(self) -> tuple[str, str]:
        """Returns the ends of what was written to stdout and to stderr."""
        return self._log.tail_of(job_log.Stream.STDOUT), self._log.tail_of(job_log.Stream.STDERR)

    def _last(self, end: processes.End) -> job_record.Record:
        facts: dict[str, Any] = {
            "log": self._log.view(),
            "finished_at": self._finished_at or _now(),
            "reason_code": self._reason,
        }
        if end is processes.End.SUPERVISOR_LOST or not self._tree.exited.done():
            facts["reason_code"] = job_record.SUPERVISOR_LOST
            return job_record.advance(self._record, job_record.Event.LOST_SIGHT, **facts)
        left = self._tree.exited.result()
        by_itself = job_record.Event.SUCCEEDED if left.code == 0 else job_record.Event.FAILED
        event = _EVENTS.get(self._cause, by_itself)
        return job_record.advance(self._record, event, exit_code=left.code, signal=left.signal, **facts)

    def _note_exit(self, _exited: "asyncio.Future[processes.Exit]") -> None:
        self._finished_at = _now()

    def _run_out(self) -> None:
        if self._cause is Cause.ITSELF and not self._tree.exited.done():
            self._cause = Cause.TIME
            self._tree.stop(GRACE_S)

    def _note_output(self) -> None:
        """Shows new output now, or as soon as 250 ms have passed since the last time (R-61)."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._shown_at + UPDATE_EVERY_S), self._show_output)

    def _show_output(self) -> None:
        self._due = None
        self._shown_at = asyncio.get_running_loop().time()
        self._publish(job_record.with_output(self._record, self._log.view()))

    def _publish(self, record: job_record.Record) -> None:
        self._record = record
        self._show(record)


def _now() -> int:
    return int(time.time())
