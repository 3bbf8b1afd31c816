"""Opens SQLite: reads on the caller's thread, writes on one writer thread that groups them into commits.

A read of the embedded database costs less than handing it to another thread (docs/decisions/0003).
Never acknowledges a write before it is durable: WAL with ``synchronous=FULL`` (O-09).
"""

import sqlite3
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, pool
from sqlalchemy.exc import SQLAlchemyError

from webcodex.core import limits
from webcodex.storage import database, migrate, writer

Result = TypeVar("Result")
PRAGMAS: Final = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "temp_store=MEMORY")


class SqliteDatabase:
    """The embedded database, one file; used from one event loop."""

    def __init__(self, path: Path) -> None:
        """Opens ``path``, made if absent, at the present schema.

        Raises:
            database.StoreUnavailable: the file cannot be opened or migrated.
            migrate.UnknownSchema: a newer release made it.

        """
        self._write_engine = _engine(path, "BEGIN IMMEDIATE", limits.STORE_LOCK_WAIT_S)
        self._read_engine = _engine(path, None, limits.STORE_READ_WAIT_S)
        try:
            with self._write_engine.begin() as connection:
                migrate.migrate(connection)
            self._reader = self._read_engine.connect()
            self._driver: Any = self._reader.connection.dbapi_connection
        except SQLAlchemyError as error:
            raise database.StoreUnavailable("the database cannot be opened") from error
        self._writer = writer.Writer(self._write_engine)

    async def read(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns over one snapshot (see ``database.Database``)."""
        try:
            # The driver begins and ends: SQLAlchemy's own begin costs more than the reads inside it.
            self._driver.execute("BEGIN")
            try:
                return work(database.Transaction(self._reader))
            finally:
                self._reader.rollback()
                self._driver.rollback()
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise database.StoreUnavailable("the database cannot be read") from error

    async def write(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns once its changes are durable (see ``database.Database``)."""
        return await self._writer.submit(work)

    def close(self) -> None:
        """Finishes the writes that wait, then lets go of the file."""
        self._writer.close()
        self._reader.close()
        self._read_engine.dispose()
        self._write_engine.dispose()


def _engine(path: Path, begin: str | None, wait_s: float) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=pool.StaticPool,
        connect_args={"check_same_thread": False, "timeout": wait_s},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None
        for pragma in PRAGMAS:
            connection.execute(f"PRAGMA {pragma}").close()

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(str(begin))

    if begin is not None:
        event.listen(engine, "begin", start)

    return engine
