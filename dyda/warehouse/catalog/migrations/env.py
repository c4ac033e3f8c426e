"""Alembic calls this with the connection that `Warehouse.upgrade()` holds its lock on."""

from alembic import context

from dyda.warehouse.catalog.schema import SCHEMA, VERSION_TABLE
from dyda.warehouse.catalog.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    version_table_schema=SCHEMA,
    include_schemas=True,
)
with context.begin_transaction():
    context.run_migrations()
