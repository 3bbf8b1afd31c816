"""Opens SQLite: pooled readers, and one writer thread that groups waiting transactions into one commit.

Never acknowledges a write before it is durable: WAL with ``synchronous=FULL`` (O-09).
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, pool
from sqlalchemy.exc import SQLAlchemyError

from webcodex.core import limits
from webcodex.storage import database, migrate, writer

Result = TypeVar("Result")
READERS: Final = 4


class SqliteDatabase:
    """The embedded database, one file."""

    def __init__(self, path: Path) -> None:
        """Opens ``path``, made if absent, at the present schema.

        Raises:
            database.StoreUnavailable: the file cannot be opened or migrated.
            migrate.UnknownSchema: a newer release made it.

        """
        self._write_engine = _engine(path, "BEGIN IMMEDIATE", pool.StaticPool)
        self._read_engine = _engine(path, "BEGIN", pool.QueuePool)
        try:
            with self._write_engine.begin() as connection:
                migrate.migrate(connection)
        except SQLAlchemyError as error:
            raise database.StoreUnavailable("the database cannot be opened") from error
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")
        self._writer = writer.Writer(self._write_engine)

    async def read(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns over one snapshot (see ``database.Database``)."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read_now, work)

    async def write(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns once its changes are durable (see ``database.Database``)."""
        return await self._writer.submit(work)

    def close(self) -> None:
        """Finishes the writes that wait, then lets go of the file."""
        self._writer.close()
        self._readers.shutdown()
        self._read_engine.dispose()
        self._write_engine.dispose()

    def _read_now(self, work: Callable[[database.Transaction], Result]) -> Result:
        try:
            with self._read_engine.connect() as connection, connection.begin():
                return work(database.Transaction(connection))
        except SQLAlchemyError as error:
            raise database.StoreUnavailable("the database cannot be read") from error


def _engine(path: Path, begin: str, pool_class: type[pool.Pool]) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=pool_class,
        connect_args={"check_same_thread": False, "timeout": limits.STORE_LOCK_WAIT_S},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
