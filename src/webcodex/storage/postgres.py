"""Opens PostgreSQL: reads and writes in threads, each over a connection of its own (docs/decisions/0008).

Never shows the URL, which may hold a password: no message, no ``repr``, no log line has any part of it.
"""

import functools
import logging
import secrets
from typing import Any, Final, TypeVar

import psycopg
from psycopg import conninfo
from sqlalchemy import Column, Connection, Engine, String, create_engine, pool, text
from sqlalchemy.dialects.postgresql.base import PGDDLCompiler
from sqlalchemy.exc import SQLAlchemyError

from webcodex.core import limits
from webcodex.storage import database, migrate, postgres_seat, presence, schema, workers

Result = TypeVar("Result")
log = logging.getLogger(__name__)

_CONNECT: Final[dict[str, Any]] = {
    "autocommit": True,  # each transaction is begun and ended by its own words
    "connect_timeout": limits.STORE_CONNECT_S,
    "client_encoding": "UTF8",
    "fallback_application_name": "webcodex",
    "target_session_attrs": "read-write",
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
_WAITS: Final = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


class UnfitDatabase(Exception):
    """The database cannot be used; the text says what is wrong and holds nothing of the URL."""


class PostgresDatabase:
    """A database that several Servers may share; used from one event loop."""

    def __init__(self, url: str) -> None:
        """Opens ``url`` at the present schema; of two that start at once, one waits for the other.

        Raises:
            UnfitDatabase: the URL cannot be read, or the database does not hold Unicode.
            database.StoreUnavailable: the database cannot be reached or migrated.
            migrate.UnknownSchema: a newer release made it.

        """
        self._engine = _engine(url)
        try:
            with self._engine.connect() as connection:
                _check(connection)
                _migrate(connection)
        except (SQLAlchemyError, psycopg.Error) as error:
            raise database.StoreUnavailable("the database cannot be opened") from error
        reading, writing = (
            functools.partial(postgres_seat.Seat, self._engine, begin)
            for begin in (postgres_seat.READ, postgres_seat.WRITE)
        )
        self._readers = workers.Crew("store-reader", limits.STORE_READERS, reading)
        self._writers = workers.Crew("store-writer", limits.STORE_WRITERS, writing)

    async def read(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns over one snapshot (see ``database.Database``)."""
        return await self._readers.submit(work)

    async def write(self, work: database.Work[Result]) -> Result:
        """Returns what ``work`` returns once its changes are durable (see ``database.Database``).

        ``work`` may run several times; only its last run is kept.
        """
        return await self._writers.submit(work)

    def close(self) -> None:
        """Finishes the transactions that wait, then closes every connection."""
        self._readers.close()
        self._writers.close()
        self._engine.dispose()


class _DdlCompiler(PGDDLCompiler):
    """Orders text by its code points in every database, as SQLite does, so pages and keys agree."""

    def get_column_specification(self, column: Column[Any], **options: Any) -> str:
        said: str = super().get_column_specification(column, **options)  # type: ignore[no-untyped-call]
        is_text = isinstance(column.type, String) and column.type.collation is None
        return f'{said} COLLATE "C"' if is_text else said


def _session() -> tuple[str, ...]:
    statement_ms = int(limits.STORE_STATEMENT_S * 1000)
    return (
        "synchronous_commit = on",  # O-09
        f"lock_timeout = {int(limits.STORE_LOCK_WAIT_S * 1000)}",
        f"statement_timeout = {statement_ms}",
        # A Server that stands still in its turn keeps the others waiting no longer than this.
        f"idle_in_transaction_session_timeout = {statement_ms}",
    )


def _engine(url: str) -> Engine:
    try:
        conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UnfitDatabase("it is not a URL that PostgreSQL understands") from None

    serving = presence.hold(secrets.randbits(31))

    def connect() -> Any:
        connection = psycopg.connect(url, **_CONNECT)
        connection.execute("; ".join((*(f"SET {setting}" for setting in _session()), serving)))
        return connection

    made = create_engine(
        "postgresql+psycopg://", creator=connect, poolclass=pool.NullPool, use_native_hstore=False
    )
    made.dialect.ddl_compiler = _DdlCompiler
    return made


def _check(connection: Connection) -> None:
    encoding, fsync = connection.execute(
        text("SELECT current_setting('server_encoding'), current_setting('fsync')")
    ).one()
    connection.rollback()
    if encoding != "UTF8":
        raise UnfitDatabase("it must have the encoding UTF8; create it with: createdb -T template0 -E UTF8")
    if fsync != "on":
        log.warning("action=store_not_durable reason=fsync_off")


def _migrate(connection: Connection) -> None:
    """Leaves the schema of this release, made in a turn of its own, since two Servers may start at once."""
    if migrate.present_revision(connection) == schema.REVISION:
        connection.rollback()
        return
    wait_ms = int(limits.STORE_MIGRATE_S * 1000)
    waits = (f"SET LOCAL {name} = {wait_ms}" for name in _WAITS)
    driver: Any = connection.connection.dbapi_connection
    driver.execute("; ".join(("BEGIN", *waits, postgres_seat.TURN)))
    try:
        migrate.migrate(connection)
        driver.execute("COMMIT")
    finally:
        connection.rollback()
        driver.rollback()
