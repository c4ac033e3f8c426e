"""What kind of unit it was, and which relations voided one."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.unit ADD COLUMN kind text DEFAULT 'data' NOT NULL")
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.abort ADD COLUMN relations text[] DEFAULT '{}' NOT NULL")
