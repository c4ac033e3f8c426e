from tests.integration.maintenance.conftest import new_town, town

__all__ = ["new_town", "town"]
