"""The catalog from nothing."""

from importlib import resources

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    for name in ("0001_catalog.sql", "0001_extent_visible.sql"):
        text = resources.files("dyda.warehouse.catalog").joinpath("migrations", "versions", name).read_text("utf-8")
        # Straight to the driver: a colon in the text is no parameter.
        op.get_bind().exec_driver_sql(text)
