"""The form of each extent's table. Those of older versions are counted; their rows move to plain tables later, one view
at a time."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.get_bind().exec_driver_sql(
        "ALTER TABLE dyda.extent ADD COLUMN form text NOT NULL DEFAULT 'counted', ADD COLUMN key integer[]"
    )
