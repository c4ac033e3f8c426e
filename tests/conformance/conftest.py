"""Every test here runs once for each way of capture, on real PostgreSQL, through nothing but the adapter interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.place import WAYS, Place, Way


@pytest.fixture(params=WAYS, ids=lambda way: way.name)
def way(request: pytest.FixtureRequest) -> Way:
    found: Way = request.param
    return found


@pytest.fixture
def places(way: Way) -> Iterator[Callable[..., Place]]:
    """`places(url)`: a place on any server."""
    made: list[Place] = []

    def make(url: str, **settings: Any) -> Place:
        made.append(Place(way, url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def place(database: Callable[[str], str], places: Callable[..., Place]) -> Place:
    return places(database("crm"))
