"""Opens the store that the settings name: a file of its own, or a PostgreSQL database."""

import importlib.util
from typing import TYPE_CHECKING

from webcodex.server import settings
from webcodex.storage import engine

if TYPE_CHECKING:
    from webcodex.storage.database import Database


def opened(chosen: settings.Settings) -> "Database":
    """Returns the store at the present schema.

    Raises:
        BadSetting: the data directory or the database cannot be used.
        StoreUnavailable: the database cannot be opened.
        UnknownSchema: a newer release made it.

    """
    if chosen.database_url is None:
        return engine.SqliteDatabase(settings.database_path(chosen))
    if importlib.util.find_spec("psycopg") is None:
        raise settings.BadSetting(
            "WEBCODEX_DATABASE_URL needs the driver for PostgreSQL: pip install 'webcodex[postgres]'."
        )
    from webcodex.storage import postgres  # noqa: PLC0415 - its driver is an extra

    try:
        return postgres.PostgresDatabase(chosen.database_url)
    except postgres.UnfitDatabase as unfit:
        raise settings.BadSetting(f"WEBCODEX_DATABASE_URL names no database to use: {unfit}.") from None
