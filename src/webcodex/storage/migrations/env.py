"""Runs the migration steps over the connection that the caller holds."""

from alembic import context

from webcodex.storage import schema

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=schema.METADATA,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
