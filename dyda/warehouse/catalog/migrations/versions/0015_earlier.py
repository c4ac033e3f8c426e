"""What a view that waits knows of its sources, where the catalog has gone on without it."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.view ADD COLUMN IF NOT EXISTS earlier jsonb")
