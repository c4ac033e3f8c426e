"""Alembic's environment for the catalog; `Warehouse.upgrade()` runs it, nobody else needs to."""
