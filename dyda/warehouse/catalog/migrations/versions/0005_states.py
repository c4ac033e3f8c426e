"""What the keyed operators of a version keep, and where."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.view_version ADD COLUMN states jsonb DEFAULT '[]' NOT NULL")
