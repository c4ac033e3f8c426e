"""Waiting is by view: a source that goes away while a unit is processed stops its readers, and no other view."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from dyda import embedded, faults
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from tests.conftest import Server
from tests.integration.maintenance.test_waiting import opened
from tests.recompute_oracle import printed
from tests.torture.proxy import Proxy
from tests.town import Town


@pytest.fixture
def network(server: Server) -> Iterator[Proxy]:
    """What `crm` is reached through."""
    own = Proxy(embedded.socket_folder(server.folder) / embedded.SOCKET)
    yield own
    own.close()


@pytest.fixture
def shop(new_town: Callable[..., Town], network: Proxy) -> Town:
    """`notes` reads both sources; `items`, `sales` and `sold` read `shop` alone."""
    town = opened(new_town())
    direct = town.sources["crm"]
    town.source_url("crm", network.url(direct.rpartition("/")[2].partition("?")[0]))
    town.sources["crm"] = direct  # the test itself does not go through it
    town.settle()
    return town


def news(town: Town, number: int) -> None:
    town.execute("shop", f"INSERT INTO item VALUES ({number}, 'item {number}', 4)")
    town.execute("crm", f"INSERT INTO note VALUES ({number}, 'note {number}')")


NOTHING_LOST = ("unit.evaluated", "install.committed", "acknowledge.before")
"""What is read is durable and was compared: what the unit has of its readers is installed, too."""

POINTS = ("unit.snapshots-open", "unit.messages-received", "sweep.before-hop", "unit.swept")


@pytest.mark.parametrize("place", [*POINTS, *NOTHING_LOST])
def test_a_source_that_goes_away_in_a_unit_stops_its_readers_alone(shop: Town, network: Proxy, place: str) -> None:
    """The others go on in the same cycle, wherever it happened; what it began for its readers is not lost."""
    news(shop, 3)
    with shop.maintainer() as maintainer:
        with faults.on(place, network.refuse):
            assert maintainer.cycle() is Outcome.WORKED
        shop.check("items", "sold", "sales")
        assert len(shop.extent("notes")) == (2 if place in NOTHING_LOST else 1)
        if place in POINTS:
            state = shop.state("notes")
            assert (state["state"], state["cause"]["kind"], state["cause"]["source"]) == ("stale", "source_away", "crm")
            assert state["since"] is not None
        assert shop.state("items")["state"] == "fresh"
        network.heal()
        until_back(maintainer)
        maintainer.cycle()
    shop.settle()
    shop.check()


def until_back(maintainer: Maintainer) -> None:
    """A source that is away is asked in the background whether it is back."""
    deadline = time.monotonic() + 60
    while maintainer._resting.now():
        assert time.monotonic() < deadline
        time.sleep(0.02)


IN_USE = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()"
)


def test_a_source_that_comes_and_goes_costs_the_others_nothing(shop: Town, network: Proxy) -> None:
    """From its second failure on, the work of the others is installed before the source is asked for anything."""
    installed: list[bool] = []

    def strike() -> None:
        (read,) = printed(shop.sources["crm"], IN_USE)
        if read != "0":
            installed.append(len(shop.extent("items")) == 2 + len(installed) + 1)
            network.refuse()

    with shop.maintainer() as maintainer:
        for number in range(3, 7):
            news(shop, number)
            with faults.on("sweep.before-hop", strike):
                assert maintainer.cycle() is Outcome.WORKED
            shop.check("items", "sold", "sales")
            network.heal()
            until_back(maintainer)
        assert installed == [False, True, True, True]
        while maintainer.cycle() is Outcome.WORKED:
            pass
        shop.check()
        assert maintainer._resting.doubtful() == {}, "it is a source like any other again"
