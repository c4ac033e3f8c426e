"""A town per test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dyda.engine import Engine
from tests.town import Town


@pytest.fixture
def new_town(tmp_path: Path, database: Callable[[str], str], engine: Engine) -> Iterator[Callable[..., Town]]:
    """`new_town(maintenance='consistency = "complete"')`: a project folder with databases of its own."""
    towns: list[Town] = []

    def create(maintenance: str = "") -> Town:
        towns.append(Town(tmp_path / f"town{len(towns)}", database, engine, maintenance))
        return towns[-1]

    yield create
    for town in towns:
        town.close()


@pytest.fixture
def town(new_town: Callable[..., Town]) -> Town:
    return new_town()
