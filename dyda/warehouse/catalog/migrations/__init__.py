"""Alembic's environment for the catalog; run by `Warehouse.upgrade()` only."""
