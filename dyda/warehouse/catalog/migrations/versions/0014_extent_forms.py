"""The form of each extent's table. One without an entry is counted, as older versions made them; its rows move to a
plain table later, one view at a time.

A table of its own, because readers hold a lock on dyda.extent as long as their transactions last: a new column there
would have to wait for the longest of them, and all others for that.
"""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.get_bind().exec_driver_sql(
        "CREATE TABLE dyda.form ("
        " extent bigint CONSTRAINT form_pkey PRIMARY KEY"
        " CONSTRAINT form_extent_fkey REFERENCES dyda.extent (id) ON DELETE CASCADE,"
        " form text NOT NULL,"
        " key integer[])"
    )
