"""Which project the warehouse belongs to, as its folder calls itself. A warehouse that has views has an owner, whose
folder may not know yet what it is called."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.get_bind().exec_driver_sql(
        "ALTER TABLE dyda.project ADD COLUMN owner text;"
        " UPDATE dyda.project SET owner = 'project-' || left(id::text, 8) WHERE EXISTS (SELECT FROM dyda.view)"
    )
