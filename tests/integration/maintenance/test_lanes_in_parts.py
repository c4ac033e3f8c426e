"""What is large is read by a lane in parts, one Spark job after the other, while units go on (rule P5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands
from dyda.maintenance.cycle import Outcome
from tests.integration.maintenance.test_lanes import LANES, cycles, held, resync, running, settle
from tests.town import Town


@pytest.fixture
def depot(new_town: Callable[..., Town]) -> Town:
    """A table of some megabytes, two views that read all of it, and one that does not."""
    town = new_town(LANES)
    town.spark = 'small_scan = "1MB"'
    town.source(
        "depot",
        "CREATE TABLE parcel (id int PRIMARY KEY, city int, weight int, pad text)",
        "ALTER TABLE parcel ALTER pad SET STORAGE PLAIN",
        "INSERT INTO parcel SELECT i, i % 5, i % 100, repeat('x', 1500) FROM generate_series(1, 6000) i",
        "ANALYZE parcel",
    )
    town.source(
        "crm",
        "CREATE TABLE city (id int PRIMARY KEY, name text)",
        "INSERT INTO city SELECT i, 'city ' || i FROM generate_series(0, 4) i",
    )
    town.view("small", "SELECT p.id, p.weight FROM depot.parcel p WHERE p.id < 10")
    town.view("big", "SELECT p.id, p.weight, c.name FROM depot.parcel p JOIN crm.city c ON c.id = p.city")
    town.view("sums", "SELECT p.city, sum(p.weight) AS total, count(*) AS n FROM depot.parcel p GROUP BY p.city")
    town.apply()
    town.check()
    return town


@pytest.mark.parametrize("view", ["big", "sums"])
def test_P5_all_parts_are_of_one_snapshot_whatever_units_do_between_them(depot: Town, view: str) -> None:
    with running(depot) as maintainer, held("lane.resting") as lane:
        cycles(maintainer, lane.there.is_set, resync(view))
        depot.execute(
            "depot",
            "DELETE FROM parcel WHERE id IN (1, 3000, 6000)",
            "UPDATE parcel SET city = 1, weight = weight + 1 WHERE id IN (2, 2999, 5999)",
            "INSERT INTO parcel SELECT i, 2, 7, 'new' FROM generate_series(6001, 6010) i",
        )
        depot.execute("crm", "UPDATE city SET name = 'elsewhere' WHERE id = 1")
        assert cycles(maintainer, lambda: not any(row.startswith("1\t") for row in depot.extent("small")))[-1] is (
            Outcome.WORKED
        )
        depot.check("small")
        assert maintainer.lanes is not None
        running_lane = maintainer.lanes.running(view)
        assert running_lane is not None
        assert running_lane.done < running_lane.total
        lane.go()
        settle(maintainer)
        depot.check()
    assert {one["result"] for one in commands.verify(depot.folder, engine=depot.engine)} == {"equal"}


def test_a_schema_change_between_two_parts_voids_the_lane(depot: Town) -> None:
    with running(depot) as maintainer, held("lane.resting") as lane:
        cycles(maintainer, lane.there.is_set, resync("big"))
        depot.execute("depot", "ALTER TABLE parcel RENAME weight TO grams")
        lane.go()
        settle(maintainer)
        depot.check_definitions("big")
        assert any("big is" in line or "abandoned" in line for line in maintainer.lines)  # type: ignore[attr-defined]
