"""The catalog in memory: a unit that moves rows alone does not make it be read again; it is still what is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from dyda import commands
from dyda.engine import Engine
from dyda.maintenance.catalog_state import CatalogState, load
from dyda.maintenance.cycle import Outcome
from tests.town import Town

PASSING = {"state", "rows", "fresh_at", "lag_seconds", "pending", "polled_at", "reachable", "error"}
"""What is told to people and no unit goes by."""


def told(known: CatalogState) -> dict[str, object]:
    views = {name: asdict(view.record) for name, view in known.views.items()}
    sources = {name: asdict(record) for name, record in known.sources.items()}
    kept = {
        kind: {name: {k: v for k, v in record.items() if k not in PASSING} for name, record in records.items()}
        for kind, records in (("views", views), ("sources", sources))
    }
    return {**kept, "relations": dict(known.relations), "frozen": dict(known.frozen), "knowledge": known.knowledge}


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_what_is_known_is_what_is_written(
    tmp_path: Path, database: Callable[..., str], engine: Engine, consistency: str
) -> None:
    town = Town(tmp_path, database, engine, f'consistency = "{consistency}"')
    town.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text)")
    town.source("shop", "CREATE TABLE sale (customer int, amount int)")
    town.view("bought", "SELECT c.name, s.amount FROM crm.customer c JOIN shop.sale s ON c.id = s.customer")
    town.view("total", "SELECT s.customer, sum(s.amount) AS amount FROM shop.sale s GROUP BY s.customer")
    town.view("names", "SELECT name FROM crm.customer")
    town.apply()
    with town.maintainer() as maintainer:
        for number in range(4):
            town.execute("crm", f"INSERT INTO customer VALUES ({number}, 'n{number}')")
            town.execute("shop", f"INSERT INTO sale VALUES ({number}, 1), ({number}, 2)")
            town.execute("shop", f"UPDATE sale SET amount = amount + 1 WHERE customer = {number}")
            if number == 2:
                town.execute("crm", "ALTER TABLE customer RENAME COLUMN name TO called")
            while maintainer.cycle() is not Outcome.IDLE:
                assert told(maintainer.known) == told(load(maintainer.opened))
            assert told(maintainer.known) == told(load(maintainer.opened))


def test_rows_alone_do_not_make_the_catalog_be_read_again(
    tmp_path: Path, database: Callable[..., str], engine: Engine
) -> None:
    town = Town(tmp_path, database, engine)
    town.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text)")
    town.view("names", "SELECT name FROM crm.customer")
    town.apply()
    with town.maintainer() as maintainer:
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        relations = maintainer.known.relations
        town.execute("crm", "INSERT INTO customer VALUES (1, 'Ann')")
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        assert maintainer.known.relations is relations
        town.execute("crm", "ALTER TABLE customer RENAME COLUMN name TO called")
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        assert maintainer.known.relations is not relations


def test_status_tells_where_the_time_of_a_unit_goes(
    tmp_path: Path, database: Callable[..., str], engine: Engine
) -> None:
    town = Town(tmp_path, database, engine)
    town.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text)")
    town.view("names", "SELECT upper(name) AS name FROM crm.customer")
    town.apply()
    assert commands.status(town.folder)["units"] == {"counted": 0, "seconds": None, "phases": {}}
    town.execute("crm", "INSERT INTO customer VALUES (1, 'Ann')")
    town.settle()
    units = commands.status(town.folder)["units"]
    assert units["counted"] == 1
    assert {"capture", "sweep", "execute", "to arrow", "install", "acknowledge"} <= set(units["phases"])
    assert units["seconds"] == pytest.approx(sum(units["phases"].values()))
