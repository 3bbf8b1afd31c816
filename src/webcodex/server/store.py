"""Opens the store that the settings name: a file of its own, or a PostgreSQL database."""

import importlib.util
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from webcodex.server import data_lock, settings
from webcodex.storage import engine

if TYPE_CHECKING:
    from webcodex.storage.database import Database


@contextmanager
def opened(chosen: settings.Settings) -> Iterator["Database"]:
    """Gives the store at the present schema, and closes it; no other Server has the file meanwhile.

    Raises:
        BadSetting: the data directory or the database cannot be used.
        StoreUnavailable: the database cannot be opened.
        UnknownSchema: a newer release made it.

    """
    if chosen.database_url is None:
        path = settings.database_path(chosen)
        with data_lock.held(chosen.data_dir), closing(engine.SqliteDatabase(path)) as embedded:
            yield embedded
    else:
        with closing(_served(chosen.database_url)) as served:
            yield served


def _served(url: str) -> "Database":
    if importlib.util.find_spec("psycopg") is None:
        raise settings.BadSetting(
            "WEBCODEX_DATABASE_URL needs the driver for PostgreSQL: pip install 'webcodex[postgres]'."
        )
    from webcodex.storage import postgres  # noqa: PLC0415 - its driver is an extra

    try:
        return postgres.PostgresDatabase(url)
    except postgres.UnfitDatabase as unfit:
        raise settings.BadSetting(f"WEBCODEX_DATABASE_URL names no database to use: {unfit}.") from None
