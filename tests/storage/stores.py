"""Opens the stores that tests run on: a file of SQLite, or a database of the tests' own PostgreSQL."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.storage import empty_store
from webcodex.storage.database import Database
from webcodex.storage.engine import SqliteDatabase
from webcodex.storage.postgres import PostgresDatabase

SQLITE: Final = "sqlite"
POSTGRES: Final = "postgresql"
BOTH: Final = (SQLITE, POSTGRES)


@contextmanager
def opener(
    engine: str, folder: Path, request: pytest.FixtureRequest, *, changes_tables: bool = False
) -> Iterator[Callable[[], Database]]:
    """Gives what opens one empty store, as often as it is called."""
    if engine == SQLITE:
        path = folder / "webcodex.db"
        path.write_bytes(empty_store.content())
        yield functools.partial(SqliteDatabase, path)
        return
    cluster = request.getfixturevalue("postgres")
    with cluster.fresh() if changes_tables else cluster.emptied() as url:
        yield functools.partial(PostgresDatabase, url)
