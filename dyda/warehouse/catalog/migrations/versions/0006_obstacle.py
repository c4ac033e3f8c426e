"""What keeps the holder of the lock from working."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.daemon ADD COLUMN obstacle text")
