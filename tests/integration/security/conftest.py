"""Roles that are not the superuser, and the fixtures of sources and towns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from tests.integration.maintenance.conftest import new_town, town
from tests.integration.sources.conftest import Ground, as_role, ground, grounds

__all__ = ["Role", "ground", "grounds", "new_town", "quoted", "role", "town"]

_numbers = itertools.count()


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Role:
    """A role that may log in and nothing else."""

    def __init__(self, ground: Ground, name: str) -> None:
        self.name = name
        self.quoted = quoted(name)
        self.url = as_role(ground.url, name, "x")
        self._ground = ground

    def connect(self) -> psycopg2.extensions.connection:
        return self._ground.connect(self.url)


@pytest.fixture
def role(ground: Ground) -> Iterator[Callable[[str], Role]]:
    """`role("ann")`: a new role whose name begins so; gone at the end, with all that it owns."""
    made: list[Role] = []

    def make(hint: str) -> Role:
        made.append(Role(ground, f"{hint} {next(_numbers)}"))
        ground.run(f"CREATE ROLE {made[-1].quoted} LOGIN PASSWORD 'x'")
        return made[-1]

    yield make
    for one in made:
        ground.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = '" + one.name + "'")
        ground.run(f"REASSIGN OWNED BY {one.quoted} TO CURRENT_USER", f"DROP OWNED BY {one.quoted}")
        ground.run(f"DROP ROLE {one.quoted}")
