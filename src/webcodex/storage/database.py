"""The port to what is remembered: plain functions run inside one transaction.

``StoreError``
  ``StoreUnavailable``  nothing was written; the same request may be sent again
  ``OutcomeUnknown``    a write may have been committed; look before acting again
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import Connection, Executable
from sqlalchemy.exc import SQLAlchemyError

from webcodex.storage import statements
from webcodex.storage.statements import Prepared, Row

Result = TypeVar("Result")
Values = Mapping[str, object]
_NONE: Final[Values] = {}


class StoreError(Exception):
    """The store did not do what was asked."""


class StoreUnavailable(StoreError):
    """Nothing was written."""


class OutcomeUnknown(StoreError):
    """A write failed at or after its commit and may have been stored (O-16)."""


class Transaction:
    """What a transaction function may do; it never sees a connection and cannot await."""

    __slots__ = ("_connection", "_driver", "_driver_error")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._driver: Any = connection.connection.dbapi_connection
        self._driver_error: type[Exception] = connection.dialect.loaded_dbapi.Error

    @property
    def engine(self) -> str:
        """Returns which database this is: ``sqlite`` or ``postgresql``."""
        return self._connection.dialect.name

    def one(self, statement: Executable | Prepared, values: Values = _NONE) -> Row | None:
        """Returns the first row of ``statement``, or none."""
        if isinstance(statement, Prepared):
            rows = self._rows(statement, values)
            return rows[0] if rows else None
        return self._connection.execute(statement, values).first()

    def all(self, statement: Executable | Prepared, values: Values = _NONE) -> Sequence[Row]:
        """Returns every row of ``statement``; the statement bounds their number."""
        if isinstance(statement, Prepared):
            return self._rows(statement, values)
        return self._connection.execute(statement, values).all()

    def change(self, statement: Executable | Prepared, values: Values = _NONE) -> int:
        """Carries out ``statement`` and returns how many rows it changed."""
        if isinstance(statement, Prepared):
            return int(self._sent(statement.compiled(self._connection.dialect), values).rowcount)
        return self._connection.execute(statement, values).rowcount

    def attempt(self, part: Callable[[], Result]) -> Result:
        """Returns what ``part`` returns; its failure leaves the rest of the transaction as it was (H-02).

        Raises:
            StoreUnavailable: ``part`` could not be read.

        """
        try:
            # SQLAlchemy's own savepoint costs more than most parts.
            self._driver.execute("SAVEPOINT part")
            try:
                result = part()
            except Exception:
                self._driver.execute("ROLLBACK TO SAVEPOINT part")
                raise
            finally:
                self._driver.execute("RELEASE SAVEPOINT part")
        except (SQLAlchemyError, self._driver_error) as error:
            raise StoreUnavailable("a part of the store cannot be read") from error
        return result

    def _rows(self, statement: Prepared, values: Values) -> list[Row]:
        compiled = statement.compiled(self._connection.dialect)
        cells = self._sent(compiled, values).fetchall()
        if compiled.row is None:
            raise TypeError("only a select has rows")
        return [compiled.row(row) for row in cells]

    def _sent(self, compiled: Any, values: Values) -> Any:
        try:
            return self._driver.execute(compiled.sql, statements.bound(compiled, values))
        except self._driver_error as error:
            raise StoreUnavailable("the database refused a statement") from error


Work = Callable[[Transaction], Result]


class Database(Protocol):
    """Runs transaction functions; each sees one consistent state of the store."""

    async def read(self, work: Work[Result]) -> Result:
        """Returns what ``work`` returns over one snapshot.

        Raises:
            StoreUnavailable: the store could not be read.

        """

    async def write(self, work: Work[Result]) -> Result:
        """Returns what ``work`` returns, after its changes are durable.

        An exception of ``work`` itself undoes its changes and is raised here.

        Raises:
            StoreUnavailable: nothing was written.
            OutcomeUnknown: the changes may have been stored.

        """

    def close(self) -> None:
        """Finishes what waits, then lets go of the store."""
