"""kill -9 between any two steps: nothing is lost, nothing happens twice."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from dyda import commands, faults
from dyda.engine import Engine
from tests.town import Town

pytestmark = pytest.mark.long


class Crashing:
    """A town whose daemon is killed again and again; each time the same two changes are new."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.times = 0
        town.source(
            "crm", "CREATE TABLE customer (name text, city text)", "INSERT INTO customer VALUES ('Ann', 'Rome')"
        )
        town.source(
            "booking", "CREATE TABLE flight (name text, no int)", "INSERT INTO flight VALUES ('Ann', 1), ('Bob', 2)"
        )
        town.view("v", "SELECT c.name, c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
        town.view("w", "SELECT f.no FROM booking.flight f")
        # Its operators keep states: they must be installed with the rows, or not at all.
        town.view(
            "cities",
            "SELECT c.city, count(*) AS times, max(f.no) AS last FROM crm.customer c"
            " LEFT JOIN booking.flight f ON c.name = f.name GROUP BY c.city",
        )
        town.apply()

    def change(self) -> None:
        """A row that comes twice, and one that is replaced."""
        self.times += 1
        bob = "INSERT INTO customer VALUES ('Bob', 'Oslo')"
        self.town.execute("crm", bob, bob)
        self.town.execute("booking", "UPDATE flight SET no = no + 10 WHERE name = 'Ann'")

    @property
    def rows(self) -> Counter[str]:
        """What `v` is after all changes."""
        return Counter({f"Ann\tRome\t{1 + 10 * self.times}": 1}) + Counter({"Bob\tOslo\t2": 2 * self.times})


@pytest.fixture(scope="module")
def crashing(
    tmp_path_factory: pytest.TempPathFactory, module_database: Callable[..., str], engine: Engine
) -> Iterator[Crashing]:
    town = Town(tmp_path_factory.mktemp("crashing"), module_database, engine)
    yield Crashing(town)
    town.close()


@pytest.mark.parametrize("point", faults.POINTS)
def test_kill_9_at_every_point_then_restart(crashing: Crashing, point: str) -> None:
    town, before = crashing.town, crashing.rows
    assert town.extent("v") == before
    crashing.change()
    killed = town.run("daemon", "--until-idle", fault=f"{point}=kill", check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    installed = faults.POINTS.index(point) >= faults.POINTS.index("install.committed")
    after = crashing.rows
    assert town.extent("v") == (after if installed else before), "a unit is installed whole or not at all"
    town.settle()
    assert town.extent("v") == after
    town.check()
    assert town.state("v")["positions"].keys() == {"crm", "booking"}
    verified = commands.verify(town.folder, engine=town.engine)
    assert {answer["name"]: answer["result"] for answer in verified} == dict.fromkeys(["v", "w", "cities"], "equal")


def test_a_killed_build_leaves_no_view_and_no_rows(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (name text)", "INSERT INTO customer SELECT generate_series(1, 100)::text")
    town.view("v", "SELECT c.name FROM crm.customer c")
    town.view(
        "lengths", "SELECT length(c.name) AS size, count(DISTINCT c.name) AS names FROM crm.customer c GROUP BY 1"
    )
    killed = town.run("apply", "--yes", fault="install.before-commit=kill", check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    town.apply()
    town.check()
