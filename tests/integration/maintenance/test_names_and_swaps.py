"""One table is known under one name, and a name means one table, whoever waits or is away meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands
from tests.integration.maintenance.test_lanes import cycles, held, running, settle
from tests.integration.maintenance.test_waiting import TRAVEL, receive
from tests.town import Town


@pytest.mark.parametrize("broken", [False, True], ids=["", "a broken view still has the old name"])
def test_a_new_view_over_a_table_that_was_renamed_behind_a_held_message(
    new_town: Callable[..., Town], broken: bool
) -> None:
    town = new_town()
    town.source("shop", "CREATE TABLE item (id int, name text)", "CREATE TABLE sale (item int, day int, x int)")
    town.execute("shop", "INSERT INTO item VALUES (1, 'pen')", "INSERT INTO sale VALUES (1, 1, 1)")
    town.view("sold", "SELECT i.name, s.day FROM shop.item i JOIN shop.sale s ON i.id = s.item")
    if broken:
        town.view("bad", "SELECT s.x FROM shop.sale s")
    town.apply()
    if broken:
        town.execute("shop", "ALTER TABLE sale DROP x")
        town.settle()
        assert town.state("bad")["state"] == "broken"
    town.execute("shop", "INSERT INTO item VALUES (1, 'ink')")
    (message,) = receive(town)
    commands.pending_hold(town.folder, message)
    town.execute("shop", "ALTER TABLE sale RENAME TO buy")
    town.settle()
    town.view("days", "SELECT s.day FROM shop.buy s")
    town.apply()
    town.check_definitions("days")
    town.execute("shop", "INSERT INTO buy (item, day) VALUES (1, 2)")
    town.settle()
    town.check_definitions("days")
    assert (town.state("sold")["state"], town.extent("sold")) == ("held", {"pen\t1": 1})
    commands.pending_release(town.folder, message)
    town.settle()
    town.check_definitions("sold", "days")
    assert commands.pending(town.folder) == []


SWAP = (
    "CREATE TABLE tour_new (tour_name text, age int)",
    "INSERT INTO tour_new VALUES ('Ann', 7), ('Dan', 4)",
    "ALTER TABLE tour RENAME TO tour_old",
    "ALTER TABLE tour_new RENAME TO tour",
)


def travelling(town: Town) -> Town:
    """`ages` comes to read tours.tour when flight loses its column."""
    town.source("booking", "CREATE TABLE flight (name text, age int, dest text)")
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 7, 'Asia'), ('Bob', 9, 'Asia')")
    town.source(
        "tours", "CREATE TABLE tour (tour_name text, age int)", "INSERT INTO tour VALUES ('Ann', 7), ('Cid', 3)"
    )
    town.view("ages", "-- dyda: extent = any\nSELECT f.name, f.age /* replaceable */ FROM booking.flight f")
    town.view("tourists", "SELECT t.tour_name, t.age FROM tours.tour t")
    (town.folder / "knowledge.toml").write_text(TRAVEL)
    town.apply()
    return town


def test_a_swap_while_a_view_that_is_to_read_the_table_waits_for_its_source(new_town: Callable[..., Town]) -> None:
    town = travelling(new_town())
    url = town.sources["tours"]
    town.source_url("tours", url.replace("/tours_", "/nowhere_"))
    town.execute("booking", "ALTER TABLE flight DROP age")
    with town.maintainer() as maintainer:
        for _ in range(3):
            maintainer.cycle()
    town.sources["tours"] = url
    town.execute("tours", *SWAP)
    town.source_url("tours", url)
    town.settle(12)
    assert "tour_old" not in town.state("tourists")["definition"]
    town.check("tourists")
    town.check_definitions("ages")


def test_a_swap_while_a_view_that_is_to_read_the_table_is_in_a_lane(new_town: Callable[..., Town]) -> None:
    town = travelling(new_town("lane_size = 1"))
    with running(town) as maintainer:
        settle(maintainer)
        with held("lane.opened") as lane:
            town.execute("booking", "ALTER TABLE flight DROP age")
            cycles(maintainer, lane.there.is_set)
            town.execute("tours", *SWAP)
            for _ in range(6):
                maintainer.cycle()
        settle(maintainer)
    assert "tour_old" not in town.state("tourists")["definition"]
    town.check("tourists")
    town.check_definitions("ages")
