"""Where the catalog is."""

from __future__ import annotations

__all__ = ["SCHEMA", "VERSION_TABLE"]

SCHEMA = "dyda"
VERSION_TABLE = "migration"
"""Alembic's own: which migrations have been made."""
