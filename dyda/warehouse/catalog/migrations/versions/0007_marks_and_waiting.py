"""The mark that the last installation left at each source, and the daemons that wait for their turn."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    execute = op.get_bind().exec_driver_sql
    execute("ALTER TABLE dyda.source ADD COLUMN mark text")
    execute(
        "CREATE TABLE dyda.waiting (backend integer NOT NULL PRIMARY KEY, pid integer NOT NULL, host text NOT NULL,"
        " since timestamptz DEFAULT now() NOT NULL)"
    )
