"""The fingerprint of the steps that a version's rows and states were computed in."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.view_version ADD COLUMN program text")
