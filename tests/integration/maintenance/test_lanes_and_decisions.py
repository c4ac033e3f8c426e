"""Lanes and operators: what an operator holds or rejects is not taken by what is built beside the units."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands, faults
from dyda.commands.pending_decisions import DECISIONS
from dyda.maintenance.catalog_state import BuildRequest
from dyda.model.cause import BuildReason, ToBeBuilt
from tests.integration.maintenance.test_lanes import ADAPTED, cycles, held, resync, running, sales, settle
from tests.integration.maintenance.test_waiting import Received, _received, receive
from tests.town import Town


@pytest.mark.parametrize("late", [False, True], ids=["held before", "held while a lane owes the rows"])
def test_a_lane_does_not_take_a_view_past_a_held_message(new_town: Callable[..., Town], late: bool) -> None:
    town = new_town("lane_size = 1")
    town.source("shop", "CREATE TABLE item (id int, name text, price int)", "INSERT INTO item VALUES (1, 'pen', 2)")
    town.view("items", "SELECT i.name, i.price FROM shop.item i")
    town.apply()
    with running(town) as maintainer:
        settle(maintainer)
        if late:
            town.execute("shop", "ALTER TABLE item ALTER price TYPE bigint")
            cycles(maintainer, lambda: town.state("items")["state"] == "resync")
            assert maintainer.lanes is not None
            maintainer.lanes.close()
        else:
            town.execute("shop", "ALTER TABLE item ALTER price TYPE bigint")
        town.execute("shop", "INSERT INTO item VALUES (2, 'ink', 3)")
    *_, message = receive(town)
    commands.pending_hold(town.folder, message)
    with running(town) as maintainer:
        settle(maintainer)
        assert town.extent("items") == {"pen\t2": 1}
        assert town.state("items")["state"] in ("held", "resync")
        DECISIONS["release"](maintainer, {"message": message})
        settle(maintainer)
    town.check("items")
    assert (town.state("items")["state"], commands.pending(town.folder)) == ("fresh", [])


def test_what_was_rejected_is_not_shown_by_a_lane(new_town: Callable[..., Town]) -> None:
    town = new_town('lane_size = 1\nschema_changes = "approve"')
    town.source("booking", "CREATE TABLE flight (name text, age int, dest text)")
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 7, 'Asia'), ('Bob', 9, 'Asia')")
    town.view("ages", "-- dyda: extent = any\nSELECT f.name, f.age /* dispensable */ FROM booking.flight f")
    town.apply()
    with running(town) as maintainer:
        settle(maintainer)
        with held("lane.computed") as lane:
            cycles(maintainer, lane.there.is_set, resync("ages"))
            town.execute("booking", "ALTER TABLE flight DROP age")
            cycles(maintainer, lambda: bool(commands.pending(town.folder)))
            (message,) = commands.pending(town.folder)
            DECISIONS["reject"](maintainer, {"message": message["id"]})
            maintainer.cycle()
        settle(maintainer)
        state = town.state("ages")
        assert (state["state"], state["cause"]["kind"], state["version"]) == ("broken", "rejected", 1)
        assert town.extent("ages") == {"Ann\t7": 1, "Bob\t9": 1}
        text = "SELECT f.name FROM booking.flight f"
        cycles(
            maintainer,
            lambda: "ages" in maintainer.built,
            BuildRequest("ages", text, text, ToBeBuilt(BuildReason.FILE_CHANGED)),
        )
        settle(maintainer)
    assert town.state("ages")["state"] == "fresh"
    town.check_definitions("ages")


def test_what_was_adapted_in_a_lane_is_shown_as_far_as_a_held_message_lets_it(new_town: Callable[..., Town]) -> None:
    town = sales(new_town("lane_size = 1"), "join")
    town.execute("shop", "CREATE TABLE third (x int)", "INSERT INTO third VALUES (1)")
    town.view("thirds", "SELECT t.x FROM shop.third t")
    town.apply()
    source, ddl = ADAPTED["join"][1]
    with running(town) as maintainer:
        settle(maintainer)
        with held("lane.opened") as lane:
            town.execute(source, ddl)
            cycles(maintainer, lane.there.is_set)
            town.execute("shop", "INSERT INTO sale (id, place) VALUES (0, 4)")
            with faults.on("unit.messages-received", _received), pytest.raises(Received):
                maintainer.cycle()
            *_, message = (one["id"] for one in commands.pending(town.folder))
            DECISIONS["hold"](maintainer, {"message": message})
            town.execute("shop", "INSERT INTO third VALUES (2)")
        settle(maintainer)
        assert town.state("v")["state"] == "held"
        town.check("thirds")
        DECISIONS["release"](maintainer, {"message": message})
        settle(maintainer)
    town.check_definitions("v")
    town.check("thirds")
