"""Lanes and sources that go back in time: what a lane has read of a history that was lost is never shown."""

from __future__ import annotations

from collections.abc import Callable

from tests.conftest import Server
from tests.integration.maintenance.test_drift import Copies, transactions
from tests.integration.maintenance.test_lanes import cycles, held, resync, running, settle
from tests.town import Town


def test_P2_a_lane_that_has_read_what_its_source_lost_is_given_up(
    new_town: Callable[..., Town], new_server: Callable[..., Server]
) -> None:
    server = new_server(fsync="off")
    town = new_town("lane_size = 1")
    town.source("one", "CREATE TABLE r (k int, d int)", "INSERT INTO r VALUES (1, 1), (2, 0)", url=server.url())
    town.view("v", "SELECT r.k, r.d FROM one.r r")
    town.apply()
    copies = Copies(server)
    with running(town) as maintainer:
        settle(maintainer)
        copies.keep()
        town.execute("one", "INSERT INTO r VALUES (50, 0)")
        cycles(maintainer, lambda: "50\t0" in town.extent("v"))
        with held("lane.computed") as lane:
            cycles(maintainer, lane.there.is_set, resync("v"))
            position = int(town.state("v")["positions"]["one"].split(":")[1])
            copies.put_back()
            town.execute("one", "INSERT INTO r VALUES (60, 2)")
            transactions(town, position)  # other transactions now have the ids of those that were lost
            cycles(maintainer, lambda: town.state("v")["state"] == "resync")
        settle(maintainer)
    assert "50\t0" not in town.extent("v")
    town.check("v")
    assert town.state("v")["state"] == "fresh"
