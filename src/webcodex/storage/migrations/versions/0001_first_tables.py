"""Makes the first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Applies the step."""
    _accounts()
    _runners()
    _sessions()
    _events()
    _messages()
    _observations()


def _accounts() -> None:
    op.create_table(
        "wc_users",
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("username", sa.String(), nullable=False),
        sa.Column("display_name", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user_id"),
        sa.UniqueConstraint("username"),
    )
    op.create_table(
        "wc_tokens",
        sa.Column("token_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("token_prefix", sa.String(), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("allowed_client_id", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["wc_users.user_id"],
        ),
        sa.PrimaryKeyConstraint("token_id"),
        sa.UniqueConstraint("token_hash"),
    )
    with op.batch_alter_table("wc_tokens", schema=None) as batch_op:
        batch_op.create_index(
            batch_op.f("ix_wc_tokens_allowed_client_id"), ["allowed_client_id"], unique=False
        )
        batch_op.create_index(batch_op.f("ix_wc_tokens_user_id"), ["user_id"], unique=False)


def _runners() -> None:
    op.create_table(
        "wc_authorities",
        sa.Column("authority", sa.String(), nullable=False),
        sa.Column("last_session_ref", sa.BigInteger(), nullable=False),
        sa.Column("last_project_ref", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("authority"),
    )
    op.create_table(
        "wc_project_refs",
        sa.Column("authority", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("authority", "number"),
        sa.UniqueConstraint("authority", "project"),
    )
    op.create_table(
        "wc_projects",
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("allow_patch", sa.Boolean(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "project_id"),
    )
    op.create_table(
        "wc_runners",
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=True),
        sa.Column("connection_id", sa.String(), nullable=False),
        sa.Column("instance_id", sa.String(), nullable=False),
        sa.Column("store_id", sa.String(), nullable=False),
        sa.Column("last_seen_at", sa.BigInteger(), nullable=False),
        sa.Column("said_goodbye", sa.Boolean(), nullable=False),
        sa.Column("retired", sa.Text(), nullable=False),
        sa.Column("registered_at", sa.BigInteger(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("client_id"),
    )


def _sessions() -> None:
    op.create_table(
        "wc_sessions",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("authority", sa.String(), nullable=False),
        sa.Column("ref_number", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("title_redacted", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("deny_write_tools", sa.Boolean(), nullable=False),
        sa.Column("deny_shell_tools", sa.Boolean(), nullable=False),
        sa.Column("lifecycle", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("latest_instruction", sa.Text(), nullable=True),
        sa.Column("latest_instruction_redacted", sa.Boolean(), nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=False),
        sa.Column("events_retained", sa.Integer(), nullable=False),
        sa.Column("meaningful_tool_calls", sa.BigInteger(), nullable=False),
        sa.Column("messages_posted", sa.BigInteger(), nullable=False),
        sa.Column("message_revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session_id"),
        sa.UniqueConstraint("authority", "ref_number"),
    )
    with op.batch_alter_table("wc_sessions", schema=None) as batch_op:
        batch_op.create_index(
            "wc_sessions_listed", ["authority", "project", "updated_at", "session_id"], unique=False
        )
        batch_op.create_index(
            "wc_sessions_paged", ["authority", "project", "created_at", "session_id"], unique=False
        )


def _events() -> None:
    op.create_table(
        "wc_session_events",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["wc_sessions.session_id"],
        ),
        sa.PrimaryKeyConstraint("session_id", "sequence"),
        sqlite_with_rowid=False,
    )


def _messages() -> None:
    op.create_table(
        "wc_session_messages",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.Column("reply_to", sa.String(), nullable=True),
        sa.Column("priority", sa.String(), nullable=False),
        sa.Column("requires_ack", sa.Boolean(), nullable=False),
        sa.Column("supersedes", sa.String(), nullable=True),
        sa.Column("redacted", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("resolved_at", sa.BigInteger(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("resolution_redacted", sa.Boolean(), nullable=False),
        sa.Column("superseded_by", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id", "position"),
        sa.UniqueConstraint("message_id"),
    )
    op.create_table(
        "wc_message_deliveries",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("delivery_key", sa.String(), nullable=False),
        sa.Column("payload_hash", sa.String(), nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id", "delivery_key"),
        sqlite_with_rowid=False,
    )


def _observations() -> None:
    op.create_table(
        "wc_counters",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "wc_external_observations",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("adapter_id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("tool", sa.String(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["session_id"],
            ["wc_sessions.session_id"],
        ),
        sa.PrimaryKeyConstraint("session_id", "adapter_id", "event_id"),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO wc_counters (name, value) VALUES ('external_observations', 0)")
