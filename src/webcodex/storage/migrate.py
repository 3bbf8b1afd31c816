"""Brings a database to the present schema; does nothing when it is there already."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from webcodex.storage import schema


class UnknownSchema(Exception):
    """The database was made by a newer release."""


def present_revision(connection: Connection) -> str | None:
    """Returns the revision the database is at, or none for an empty one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def migrate(connection: Connection) -> None:
    """Leaves the database at ``schema.REVISION``, inside the caller's transaction.

    Raises:
        UnknownSchema: the database is at a revision this release does not know.

    """
    present = present_revision(connection)
    if present == schema.REVISION:
        return
    # Alembic costs a second to import, so an up-to-date database never pays for it.
    from alembic import command, config, util  # noqa: PLC0415

    settings = config.Config()
    settings.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    settings.attributes["connection"] = connection
    try:
        command.upgrade(settings, "head")
    except util.CommandError:
        raise UnknownSchema("the database was made by a newer release; start that release instead") from None
