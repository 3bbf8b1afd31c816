"""Declares the tables of Jobs; times are Unix s."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from webcodex.storage import schema

jobs: Final = Table(
    "wc_jobs",
    schema.METADATA,
    Column("job_id", String, primary_key=True),
    Column("client_id", String, nullable=False),
    Column("project", String, nullable=False),
    Column("purpose", String, nullable=False),
    Column("state", String, nullable=False),
    Column("exit_code", Integer),
    Column("signal", String),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("finished_at", BigInteger),
    Column("timeout_secs", Integer, nullable=False),
    Column("update_seq", BigInteger, nullable=False),
    Column("reason_code", String),
    Column("recovered_after_server_restart", Boolean, nullable=False),
    Column("recovery_reason_code", String),
    Column("recover_until", BigInteger),
    Column("request_hash", String, nullable=False),
    Column("call_id", String, nullable=False),
    Column("connection_id", String),
    Column("instance_id", String),
    Column("store_id", String),
    Column("is_observed", Boolean, nullable=False),
    Column("log_tail", Text, nullable=False),
    Column("log_first_line", BigInteger, nullable=False),
    Column("log_next_line", BigInteger, nullable=False),
    Column("log_truncated", Boolean, nullable=False),
    Index("wc_jobs_listed", "project", "created_at", "job_id"),
    Index("wc_jobs_of_client", "client_id", "state"),
)

job_sessions: Final = Table(
    "wc_job_sessions",
    schema.METADATA,
    Column("session_id", String, ForeignKey("wc_sessions.session_id"), primary_key=True),
    Column("job_id", String, ForeignKey("wc_jobs.job_id"), primary_key=True),
    sqlite_with_rowid=False,
)
