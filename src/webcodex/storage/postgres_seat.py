"""Carries out one transaction at a time over one connection to PostgreSQL.

Writers take turns, those of other Servers too: what a write has looked up is still true when it commits, as
on SQLite (docs/decisions/0008). A transaction is run again only while it is certain that nothing of it was
committed: after the loss of a connection that had been idle, and where somebody beside the turns got in the
way; a unique violation is thus answered by looking up again (O-10).
"""

import contextlib
import functools
import socket
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from webcodex.core import limits
from webcodex.storage import database, presence, workers

READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
TURN: Final = f"SELECT pg_advisory_xact_lock({0x77635F7475726E})"
"""Waits for the turn to write and keeps it until the transaction ends; the number spells wc_turn."""
WRITE: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {TURN}"
_HELD_UP: Final = frozenset({"40001", "40P01", "23505"})
# The database says so itself: a constraint or another writer refused, or the turn was over before the commit.
_NOT_COMMITTED: Final = ("23", "25P03", "40")


class _Again(Exception):
    """Nothing was written, and another run may succeed."""


class Seat:
    """A thread's place: the connection it opens when needed, and again after a loss."""

    def __init__(self, engine: Engine, begin: str) -> None:
        """Opens nothing yet; ``begin`` is ``READ`` or ``WRITE``."""
        self._engine = engine
        self._begin = begin
        self._connection: Connection | None = None

    def carry_out(self, job: workers.Job) -> Any:
        """Returns what the job's work returned; a write is durable then.

        Raises:
            database.StoreUnavailable: nothing was written.
            database.OutcomeUnknown: the connection was lost at the commit.

        """
        reason = "the database did not answer in time"
        for _ in range(limits.STORE_ATTEMPTS):
            is_new = self._connection is None
            try:
                return self._once(job, is_new=is_new)
            except _Again as again:
                reason = str(again)
        raise database.StoreUnavailable(reason)

    def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with contextlib.suppress(SQLAlchemyError, psycopg.Error):
            if not connection.invalidated:
                connection.exec_driver_sql(presence.LEAVE)
        with contextlib.suppress(SQLAlchemyError, psycopg.Error):
            connection.close()

    def _once(self, job: workers.Job, *, is_new: bool) -> Any:
        connection = self._opened()
        driver: Any = connection.connection.dbapi_connection
        if not job.begin(functools.partial(_cut, driver)):
            raise database.StoreUnavailable("the database did not answer in time")
        try:
            driver.execute(self._begin, prepare=False)  # two statements in one message cannot be prepared
            value = job.work(database.Transaction(connection))
            if self._begin == WRITE:
                _commit(job, driver)
        except Exception as error:
            self._leave(job, driver)
            judged = _judged(error, is_lost_idle=self._connection is None and not is_new)
            if judged is error:
                raise
            raise judged from error
        self._leave(job, driver)
        return value

    def _opened(self) -> Connection:
        if self._connection is None:
            try:
                self._connection = self._engine.connect()
            except (SQLAlchemyError, psycopg.Error) as error:
                raise database.StoreUnavailable("the database cannot be reached") from error
        return self._connection

    def _leave(self, job: workers.Job, driver: Any) -> None:
        """Ends the transaction; a connection that does not survive this is given away."""
        connection = self._connection
        assert connection is not None
        is_whole = False
        with contextlib.suppress(SQLAlchemyError, psycopg.Error):
            connection.rollback()
            driver.rollback()
            is_whole = not (driver.closed or connection.invalidated)
        job.let_go()
        if not is_whole:
            with contextlib.suppress(SQLAlchemyError, psycopg.Error):
                connection.invalidate()
            self.close()


def _commit(job: workers.Job, driver: Any) -> None:
    if not job.may_commit():
        raise database.StoreUnavailable("the database did not answer in time")
    try:
        ended = driver.execute("COMMIT").statusmessage
    except psycopg.Error as error:
        if (error.sqlstate or "").startswith(_NOT_COMMITTED):
            raise
        raise database.OutcomeUnknown("the commit was not confirmed") from error
    if ended != "COMMIT":
        # A work function went on after a statement had failed; PostgreSQL then undoes all of it.
        raise database.StoreUnavailable("the database refused a statement")


def _judged(error: Exception, *, is_lost_idle: bool) -> Exception:
    """Returns what ``error`` means to the caller of a transaction that is undone."""
    is_of_store = isinstance(error, (database.StoreUnavailable, SQLAlchemyError, psycopg.Error))
    fault = _fault(error) if is_of_store else None
    if fault is None and not isinstance(error, SQLAlchemyError):
        return error
    if is_lost_idle or (fault is not None and fault.sqlstate in _HELD_UP):
        return _Again("the database refused the transaction")
    return database.StoreUnavailable("the database refused the transaction")


def _fault(error: BaseException | None) -> psycopg.Error | None:
    """Returns the driver's own error behind ``error``, or none."""
    while error is not None and not isinstance(error, psycopg.Error):
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return error


def _cut(driver: Any) -> None:
    """Ends whatever the connection waits for; it is lost after this."""
    with contextlib.suppress(psycopg.Error, OSError):
        line = socket.socket(fileno=driver.fileno())
        try:
            line.shutdown(socket.SHUT_RDWR)
        finally:
            line.detach()
