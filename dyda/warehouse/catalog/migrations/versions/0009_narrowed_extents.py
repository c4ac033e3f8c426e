"""Which columns of its extent a version shows, where some of them were dropped."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.view_version ADD COLUMN places integer[]")
