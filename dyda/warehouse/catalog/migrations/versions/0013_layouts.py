"""What is unique in a version's rows, and what is indexed. Of older versions nothing is known."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.view_version ADD COLUMN layout jsonb")
