"""The port to what is remembered: plain functions run inside one transaction.

``StoreError``
  ``StoreUnavailable``  nothing was written; the same request may be sent again
  ``OutcomeUnknown``    a write may have been committed; look before acting again
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Executable, Row
from sqlalchemy.exc import SQLAlchemyError

Result = TypeVar("Result")
Values = Mapping[str, object]


class StoreError(Exception):
    """The store did not do what was asked."""


class StoreUnavailable(StoreError):
    """Nothing was written."""


class OutcomeUnknown(StoreError):
    """A write failed at or after its commit and may have been stored (O-16)."""


class Transaction:
    """What a transaction function may do; it never sees a connection and cannot await."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def one(self, statement: Executable, values: Values | None = None) -> Row[Any] | None:
        """Returns the first row of ``statement``, or none."""
        return self._connection.execute(statement, values or {}).first()

    def all(self, statement: Executable, values: Values | None = None) -> Sequence[Row[Any]]:
        """Returns every row of ``statement``; the statement bounds their number."""
        return self._connection.execute(statement, values or {}).all()

    def change(self, statement: Executable, values: Values | None = None) -> int:
        """Carries out ``statement`` and returns how many rows it changed."""
        return self._connection.execute(statement, values or {}).rowcount

    def attempt(self, part: Callable[[], Result]) -> Result:
        """Returns what ``part`` returns; its failure leaves the rest of the transaction as it was (H-02).

        Raises:
            StoreUnavailable: ``part`` could not be read.

        """
        try:
            with self._connection.begin_nested():
                return part()
        except SQLAlchemyError as error:
            raise StoreUnavailable("a part of the store cannot be read") from error


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
