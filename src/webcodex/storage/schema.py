"""Declares the tables; times are Unix s unless a column says otherwise."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

REVISION: Final = "0004"
METADATA: Final = MetaData()

users: Final = Table(
    "wc_users",
    METADATA,
    Column("user_id", String, primary_key=True),
    Column("username", String, nullable=False, unique=True),
    Column("display_name", String),
    Column("role", String, nullable=False),
    Column("disabled_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

tokens: Final = Table(
    "wc_tokens",
    METADATA,
    Column("token_id", String, primary_key=True),
    Column("user_id", String, ForeignKey("wc_users.user_id"), nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("token_hash", String, nullable=False, unique=True),
    Column("token_prefix", String, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("allowed_client_id", String, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("last_used_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("expires_at", BigInteger),
)

runners: Final = Table(
    "wc_runners",
    METADATA,
    Column("client_id", String, primary_key=True),
    Column("user_id", String),
    Column("connection_id", String, nullable=False),
    Column("instance_id", String, nullable=False),
    Column("store_id", String, nullable=False),
    Column("last_seen_at", BigInteger, nullable=False),
    Column("said_goodbye", Boolean, nullable=False),
    Column("retired", Text, nullable=False),
    Column("registered_at", BigInteger, nullable=False),
    Column("facts", Text, nullable=False),
)

projects: Final = Table(
    "wc_projects",
    METADATA,
    Column("client_id", String, primary_key=True),
    Column("project_id", String, primary_key=True),
    Column("path", Text, nullable=False),
    Column("name", String),
    Column("allow_patch", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
)

authorities: Final = Table(
    "wc_authorities",
    METADATA,
    Column("authority", String, primary_key=True),
    Column("last_session_ref", BigInteger, nullable=False),
    Column("last_project_ref", BigInteger, nullable=False),
)

project_refs: Final = Table(
    "wc_project_refs",
    METADATA,
    Column("authority", String, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("project", String, nullable=False),
    UniqueConstraint("authority", "project"),
)

sessions: Final = Table(
    "wc_sessions",
    METADATA,
    Column("session_id", String, primary_key=True),
    Column("authority", String, nullable=False),
    Column("ref_number", BigInteger, nullable=False),
    Column("project", String),
    Column("title", Text, nullable=False),
    Column("title_redacted", Boolean, nullable=False),
    Column("mode", String, nullable=False),
    Column("deny_write_tools", Boolean, nullable=False),
    Column("deny_shell_tools", Boolean, nullable=False),
    Column("lifecycle", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("latest_instruction", Text),
    Column("latest_instruction_redacted", Boolean, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("events_retained", Integer, nullable=False),
    Column("meaningful_tool_calls", BigInteger, nullable=False),
    Column("messages_posted", BigInteger, nullable=False),
    Column("message_revision", BigInteger, nullable=False),
    UniqueConstraint("authority", "ref_number"),
    Index("wc_sessions_listed", "authority", "project", "updated_at", "session_id"),
    Index("wc_sessions_paged", "authority", "project", "created_at", "session_id"),
)

session_events: Final = Table(
    "wc_session_events",
    METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("event", Text, nullable=False),
    sqlite_with_rowid=False,
)

session_messages: Final = Table(
    "wc_session_messages",
    METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("message_id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("message", Text, nullable=False),
    Column("tags", Text, nullable=False),
    Column("reply_to", String),
    Column("priority", String, nullable=False),
    Column("requires_ack", Boolean, nullable=False),
    Column("supersedes", String),
    Column("redacted", Boolean, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("resolved_at", BigInteger),
    Column("resolution", Text),
    Column("resolution_redacted", Boolean, nullable=False),
    Column("superseded_by", String),
)

message_deliveries: Final = Table(
    "wc_message_deliveries",
    METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("delivery_key", String, primary_key=True),
    Column("payload_hash", String, nullable=False),
    Column("message_id", String, nullable=False),
    sqlite_with_rowid=False,
)

external_observations: Final = Table(
    "wc_external_observations",
    METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("adapter_id", String, primary_key=True),
    Column("event_id", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("tool", String, nullable=False),
    Column("exit_code", Integer),
    Column("recorded_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

counters: Final = Table(
    "wc_counters",
    METADATA,
    Column("name", String, primary_key=True),
    Column("value", BigInteger, nullable=False),
)
