"""Makes the tables of native evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Applies the step."""
    _project_changes()
    _open_changes()
    _validation_attempts()
    _validation_verdicts()
    _session_evidence()


def _project_changes() -> None:
    op.create_table(
        "wc_project_changes",
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project"),
    )


def _open_changes() -> None:
    op.create_table(
        "wc_open_changes",
        sa.Column("call_id", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("call_id"),
    )


def _validation_attempts() -> None:
    op.create_table(
        "wc_validation_attempts",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("scope_name", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("open_calls", sa.Integer(), nullable=False),
        sa.Column("is_kept", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id", "job_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("wc_validation_attempts_of_job", "wc_validation_attempts", ["job_id"])


def _validation_verdicts() -> None:
    op.create_table(
        "wc_validation_verdicts",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("scope_name", sa.String(), nullable=False),
        sa.Column("verdict", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("counter", sa.BigInteger(), nullable=False),
        sa.Column("ever_failed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id", "scope"),
        sqlite_with_rowid=False,
    )


def _session_evidence() -> None:
    op.create_table(
        "wc_session_evidence",
        sa.Column("session_id", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("scopes_overflowed", sa.Boolean(), nullable=False),
        sa.Column("output_check", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["session_id"], ["wc_sessions.session_id"]),
        sa.PrimaryKeyConstraint("session_id"),
    )
