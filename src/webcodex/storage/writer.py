"""One thread that carries out writes: those that wait together share a commit, each in its own savepoint.

A job's own exception undoes that job alone. A statement error that ends the whole transaction
(``SQLITE_FULL`` does) fails every job of the group; each is then run again alone, once (O-16).
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from webcodex.core import limits
from webcodex.storage import database

Result = TypeVar("Result")
JOIN_S: Final = 10.0


@dataclass(slots=True, eq=False)
class _Job:
    work: database.Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class _NotBegun(Exception):
    """The lock on the database was not obtained in time; nothing was written."""


class _GroupLost(Exception):
    """The group's transaction is gone; nothing of it was stored."""


class Writer:
    """Owns the one connection that writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queue: queue.Queue[_Job | None] = queue.Queue(limits.STORE_QUEUE)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    async def submit(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returned, after the commit that holds it.

        Raises:
            database.StoreUnavailable: nothing was written; also when the queue is full.
            database.OutcomeUnknown: the commit failed.

        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        if self._is_closed:
            raise database.StoreUnavailable("the database is closed")
        try:
            self._queue.put_nowait(job)
        except queue.Full:
            raise database.StoreUnavailable("too many writes are waiting") from None
        result: Result = await job.future
        return result

    def close(self) -> None:
        """Finishes what waits and ends the thread."""
        self._is_closed = True
        self._queue.put(None)
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            group = [first]
            is_last = self._gather(group)
            self._carry_out(group)
            if is_last:
                return

    def _gather(self, group: list[_Job]) -> bool:
        while len(group) < limits.STORE_GROUP:
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return False
            if job is None:
                return True
            group.append(job)
        return False

    def _carry_out(self, group: list[_Job]) -> None:
        try:
            self._commit(group)
        except _NotBegun:
            self._gather(group)
            _refuse(group, "the database is locked by another program")
        except _GroupLost:
            self._carry_out_alone(group)
        _settle(group)

    def _carry_out_alone(self, group: Sequence[_Job]) -> None:
        for job in group:
            job.value, job.error = None, None
            try:
                self._commit([job])
            except (_NotBegun, _GroupLost):
                _refuse([job], "the database refused the write")

    def _commit(self, group: Sequence[_Job]) -> None:
        try:
            connection = self._engine.connect()
            transaction = connection.begin()
        except SQLAlchemyError:
            raise _NotBegun from None
        with connection:
            try:
                for job in group:
                    _run_in_savepoint(connection, job)
            except _GroupLost:
                transaction.close()
                raise
            driver: Any = connection.connection.dbapi_connection
            try:
                transaction.commit()
            except SQLAlchemyError:
                for job in group:
                    job.error = job.error or database.OutcomeUnknown("the commit was not confirmed")
                _roll_back(driver)


def _run_in_savepoint(connection: Connection, job: _Job) -> None:
    driver: Any = connection.connection.dbapi_connection
    try:
        driver.execute("SAVEPOINT job")
        try:
            job.value = job.work(database.Transaction(connection))
        except SQLAlchemyError:
            job.error = database.StoreUnavailable("the database refused the write")
        except Exception as error:  # noqa: BLE001 - whatever a job raises belongs to its caller
            job.error = error
        if job.error is not None:
            if not driver.in_transaction:
                raise _GroupLost
            driver.execute("ROLLBACK TO SAVEPOINT job")
        driver.execute("RELEASE SAVEPOINT job")
    except sqlite3.Error:
        raise _GroupLost from None


def _roll_back(driver: Any) -> None:
    """Leaves no transaction open: SQLite keeps one whose commit it refused."""
    with contextlib.suppress(sqlite3.Error):
        driver.rollback()


def _refuse(jobs: Sequence[_Job], reason: str) -> None:
    for job in jobs:
        job.error = database.StoreUnavailable(reason)


def _settle(group: Sequence[_Job]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in group:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, jobs in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_answer, jobs)


def _answer(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.value)
