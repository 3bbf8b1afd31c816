"""Declares the tables of Goals (G-11, G-12); times are Unix ms."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, Table, Text

from webcodex.storage import schema

goals: Final = Table(
    "wc_goals",
    schema.METADATA,
    Column("goal_id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("title", Text, nullable=False),
    Column("objective", Text, nullable=False),
    Column("controller_agent_id", String),
    Column("lifecycle", String, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_at_unix_ms", BigInteger, nullable=False),
    Column("updated_at_unix_ms", BigInteger, nullable=False),
    Column("terminal_at_unix_ms", BigInteger),
    Column("terminal_reason", Text),
    Column("plan", Text, nullable=False),
    Index("wc_goals_listed", "owner", "updated_at_unix_ms", "goal_id"),
)

correlations: Final = Table(
    "wc_goal_correlations",
    schema.METADATA,
    Column("goal_id", String, ForeignKey("wc_goals.goal_id"), primary_key=True),
    Column("kind", String, primary_key=True),
    Column("reference_id", String, primary_key=True),
    Column("created_at_unix_ms", BigInteger, nullable=False),
    Index("wc_goal_correlations_of", "kind", "reference_id", "goal_id"),
    sqlite_with_rowid=False,
)

idempotency: Final = Table(
    "wc_goal_idempotency",
    schema.METADATA,
    Column("owner", String, primary_key=True),
    Column("operation", String, primary_key=True),
    Column("key_hash", String, primary_key=True),
    Column("request_hash", String, nullable=False),
    Column("goal_id", String, ForeignKey("wc_goals.goal_id"), nullable=False),
    sqlite_with_rowid=False,
)
