"""How the sources relate, and schema changes that an operator has approved."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.get_bind().exec_driver_sql(
        "ALTER TABLE dyda.project "
        "ADD COLUMN knowledge jsonb DEFAULT '{}' NOT NULL, "
        "ADD COLUMN knowledge_file text, "
        "ADD COLUMN knowledge_evolved boolean DEFAULT false NOT NULL, "
        "ADD COLUMN knowledge_retired jsonb DEFAULT '[]' NOT NULL"
    )
    op.get_bind().exec_driver_sql("ALTER TABLE dyda.message ADD COLUMN approved boolean DEFAULT false NOT NULL")
