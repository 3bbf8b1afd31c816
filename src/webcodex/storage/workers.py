"""Threads that carry out transactions of a database behind a network, one connection each.

Every job is answered within ``limits.STORE_ANSWER_S``, whatever the network does. A job that was answered
"nothing was written" can never commit afterwards: both sides decide under the job's lock.
"""

import asyncio
import contextlib
import enum
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from webcodex.core import limits
from webcodex.storage import database

Result = TypeVar("Result")
JOIN_S: Final = 10.0


class Stage(enum.StrEnum):
    """How far a job has come; it cannot be undone while it is committing."""

    WAITING = "waiting"
    WORKING = "working"
    COMMITTING = "committing"
    OVER = "over"


class Job:
    """One transaction function on its way; ``answer`` tells its end on the loop that asked."""

    def __init__(self, work: database.Work[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._lock = threading.Lock()
        self._stage = Stage.WAITING
        self._free: Callable[[], None] | None = None

    def begin(self, free: Callable[[], None] | None) -> bool:
        """Says whether the work may run, now or once more; ``free`` ends a wait for the network."""
        with self._lock:
            if self._stage is Stage.OVER:
                return False
            self._stage, self._free = Stage.WORKING, free
            return True

    def may_commit(self) -> bool:
        """Says whether the work may still be committed; if so, its end is unknown until it is told."""
        with self._lock:
            if self._stage is not Stage.WORKING:
                return False
            self._stage = Stage.COMMITTING
            return True

    def let_go(self) -> None:
        """Forgets the connection, which is about to serve somebody else."""
        with self._lock:
            self._free = None

    def give_up(self) -> None:
        """Answers a job whose time is over, as truly as its stage allows; runs on the loop."""
        with self._lock:
            stage, self._stage = self._stage, Stage.OVER
            if self._free is not None:
                self._free()
        if stage is Stage.OVER or self.answer.done():
            return  # its end is told already, or on its way to the loop
        if stage is Stage.COMMITTING:
            self.answer.set_exception(database.OutcomeUnknown("the commit was not confirmed in time"))
        else:
            self.answer.set_exception(database.StoreUnavailable("the database did not answer in time"))

    def settle(self, value: object, error: Exception | None) -> None:
        """Tells how the job ended, unless it was given up."""
        with self._lock:
            self._stage, self._free = Stage.OVER, None
        with contextlib.suppress(RuntimeError):  # nobody waits on a loop that is closed
            self._loop.call_soon_threadsafe(self._tell, value, error)

    def _tell(self, value: object, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(value)
        else:
            self.answer.set_exception(error)


class Seat(Protocol):
    """What one thread works with."""

    def carry_out(self, job: Job) -> Any:
        """Returns what the job's work returned, after the end of its transaction."""

    def close(self) -> None:
        """Lets go of the connection."""


class Crew:
    """A fixed number of threads over one bounded queue."""

    def __init__(self, name: str, size: int, seat: Callable[[], Seat]) -> None:
        self._queue: queue.Queue[Job | None] = queue.Queue(limits.STORE_QUEUE)
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._run, args=(seat(),), name=f"{name}-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returned, after the end of its transaction.

        Raises:
            database.StoreUnavailable: nothing was written; also when the queue is full.
            database.OutcomeUnknown: the commit was not confirmed.

        """
        if self._is_closed:
            raise database.StoreUnavailable("the database is closed")
        loop = asyncio.get_running_loop()
        job = Job(work, loop)
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise database.StoreUnavailable("too many transactions are waiting") from None
        deadline = loop.call_later(limits.STORE_ANSWER_S, job.give_up)
        job.answer.add_done_callback(lambda _answer: deadline.cancel())
        # A caller that leaves does not end its transaction, nor the deadline of that.
        result: Result = await asyncio.shield(job.answer)
        return result

    def close(self) -> None:
        """Finishes what waits and ends the threads; those that do not end in time are left behind."""
        self._is_closed = True
        until = time.monotonic() + JOIN_S
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=max(0.0, until - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, seat: Seat) -> None:
        while (job := self._queue.get()) is not None:
            value, error = None, None
            try:
                value = seat.carry_out(job)
            except Exception as raised:  # noqa: BLE001 - whatever a job raises belongs to its caller
                error = raised
            job.settle(value, error)
        seat.close()
