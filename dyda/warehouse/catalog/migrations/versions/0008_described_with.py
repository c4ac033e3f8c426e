"""Which transactions of its source each relation is described with."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.relation ADD COLUMN position text")
