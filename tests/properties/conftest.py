"""Spark once per pytest process."""

from tests.integration.maintenance.conftest import engine

__all__ = ["engine"]
