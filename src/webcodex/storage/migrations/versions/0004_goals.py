"""Makes the tables of Goals."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Applies the step."""
    _goals()
    _correlations()
    _idempotency()


def _goals() -> None:
    op.create_table(
        "wc_goals",
        sa.Column("goal_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("controller_agent_id", sa.String(), nullable=True),
        sa.Column("lifecycle", sa.String(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at_unix_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_at_unix_ms", sa.BigInteger(), nullable=False),
        sa.Column("terminal_at_unix_ms", sa.BigInteger(), nullable=True),
        sa.Column("terminal_reason", sa.Text(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("goal_id"),
    )
    op.create_index("wc_goals_listed", "wc_goals", ["owner", "updated_at_unix_ms", "goal_id"])


def _correlations() -> None:
    op.create_table(
        "wc_goal_correlations",
        sa.Column("goal_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("reference_id", sa.String(), nullable=False),
        sa.Column("created_at_unix_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["goal_id"], ["wc_goals.goal_id"]),
        sa.PrimaryKeyConstraint("goal_id", "kind", "reference_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("wc_goal_correlations_of", "wc_goal_correlations", ["kind", "reference_id", "goal_id"])


def _idempotency() -> None:
    op.create_table(
        "wc_goal_idempotency",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("operation", sa.String(), nullable=False),
        sa.Column("key_hash", sa.String(), nullable=False),
        sa.Column("request_hash", sa.String(), nullable=False),
        sa.Column("goal_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["goal_id"], ["wc_goals.goal_id"]),
        sa.PrimaryKeyConstraint("owner", "operation", "key_hash"),
        sqlite_with_rowid=False,
    )
