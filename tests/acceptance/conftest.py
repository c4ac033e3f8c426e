from tests.integration.maintenance.conftest import engine, new_town, town

__all__ = ["engine", "new_town", "town"]
