"""Declares the tables of native evidence: changes, validations, output checks; times are Unix s."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from webcodex.storage import schema

project_changes: Final = Table(
    "wc_project_changes",
    schema.METADATA,
    Column("project", String, primary_key=True),
    Column("counter", BigInteger, nullable=False),
)

open_changes: Final = Table(
    "wc_open_changes",
    schema.METADATA,
    Column("call_id", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("started_at", BigInteger, nullable=False),
)

validation_attempts: Final = Table(
    "wc_validation_attempts",
    schema.METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("job_id", String, primary_key=True),
    Column("scope", String, nullable=False),
    Column("scope_name", String, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("project", String, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("open_calls", Integer, nullable=False),
    Column("is_kept", Boolean, nullable=False),
    Index("wc_validation_attempts_of_job", "job_id"),
    sqlite_with_rowid=False,
)

validation_verdicts: Final = Table(
    "wc_validation_verdicts",
    schema.METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("scope", String, primary_key=True),
    Column("scope_name", String, nullable=False),
    Column("verdict", String, nullable=False),
    Column("event_id", String, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("project", String, nullable=False),
    Column("counter", BigInteger, nullable=False),
    Column("ever_failed", Boolean, nullable=False),
    sqlite_with_rowid=False,
)

session_evidence: Final = Table(
    "wc_session_evidence",
    schema.METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("attempts", Integer, nullable=False),
    Column("scopes_overflowed", Boolean, nullable=False),
    Column("output_check", Text),
)
