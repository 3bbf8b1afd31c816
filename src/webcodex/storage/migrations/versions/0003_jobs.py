"""Makes the tables of Jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Applies the step."""
    _jobs()
    _job_sessions()


def _jobs() -> None:
    op.create_table(
        "wc_jobs",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("signal", sa.String(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        sa.Column("timeout_secs", sa.Integer(), nullable=False),
        sa.Column("update_seq", sa.BigInteger(), nullable=False),
        sa.Column("reason_code", sa.String(), nullable=True),
        sa.Column("recovered_after_server_restart", sa.Boolean(), nullable=False),
        sa.Column("recovery_reason_code", sa.String(), nullable=True),
        sa.Column("recover_until", sa.BigInteger(), nullable=True),
        sa.Column("request_hash", sa.String(), nullable=False),
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("connection_id", sa.String(), nullable=True),
        sa.Column("instance_id", sa.String(), nullable=True),
        sa.Column("store_id", sa.String(), nullable=True),
        sa.Column("is_observed", sa.Boolean(), nullable=False),
        sa.Column("log_tail", sa.Text(), nullable=False),
        sa.Column("log_first_line", sa.BigInteger(), nullable=False),
        sa.Column("log_next_line", sa.BigInteger(), nullable=False),
        sa.Column("log_truncated", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_index("wc_jobs_listed", "wc_jobs", ["project", "created_at", "job_id"])
    op.create_index("wc_jobs_of_client", "wc_jobs", ["client_id", "state"])


def _job_sessions() -> None:
    op.create_table(
        "wc_job_sessions",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["wc_jobs.job_id"]),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id", "job_id"),
        sqlite_with_rowid=False,
    )
