"""What is kept from poll to poll is what a fresh reading shows (`observe.backlog`, `sources.log`): of the queue, its
numbers and names, and of the transactions that wrote to a table."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from dyda.maintenance.observe.poll import poll
from tests.town import Town

VIEWS = {
    "joined": "SELECT c.name, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name",
    "names": "SELECT c.name FROM crm.customer c",
}
BEGIN, COMMIT = "BEGIN; INSERT INTO customer (name) VALUES ('late')", "COMMIT"
STATEMENTS = {
    "crm": (
        "INSERT INTO customer (name) VALUES ('ann')",
        "DELETE FROM customer WHERE name = 'ann'",
        "INSERT INTO other VALUES ('x')",
        "ALTER TABLE customer ADD COLUMN IF NOT EXISTS extra{n} int",
        "ALTER TABLE customer RENAME COLUMN city{n} TO city{next}",
        "TRUNCATE customer",
        BEGIN,
        COMMIT,
        "ALTER TABLE customer RENAME TO former; CREATE TABLE customer AS SELECT * FROM former; DROP TABLE former",
        "ALTER TABLE other RENAME TO passing; ALTER TABLE passing RENAME TO other",
    ),
    "booking": (
        "INSERT INTO flight VALUES ('ann', 7)",
        "UPDATE flight SET no = no + 1",
        "ALTER TABLE flight RENAME COLUMN day{n} TO day{next}",
    ),
}


class Streets:
    """Random statements at the sources; one transaction at a time stays open for a while."""

    def __init__(self, town: Town, chance: random.Random) -> None:
        self.connections = {name: town.connect(name) for name in STATEMENTS}
        self.late = town.connect("crm")
        for connection in (*self.connections.values(), self.late):
            connection.autocommit = True
        self.chance = chance
        self.open = False
        self.renamed = dict.fromkeys(STATEMENTS, 0)

    def happen(self) -> None:
        source = self.chance.choice(["crm", "crm", "booking"])
        text = self.chance.choice(STATEMENTS[source])
        if text in (BEGIN, COMMIT):
            if (text == COMMIT) is self.open:
                self.run(self.late, text)
                self.open = not self.open
            return
        if self.open and source == "crm" and not text.startswith(("INSERT", "DELETE")):
            return  # it would wait for the open transaction
        number = self.renamed[source]
        self.run(self.connections[source], text.format(n=number, next=number + 1))
        self.renamed[source] += "{next}" in text

    def run(self, connection: Any, text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    def close(self) -> None:
        for connection in (*self.connections.values(), self.late):
            connection.close()


@pytest.mark.parametrize("seed", range(3))
def test_what_polls_keep_is_what_a_fresh_one_finds(new_town: Callable[..., Town], seed: int) -> None:
    chance = random.Random(seed)
    town = new_town()
    town.source("crm", "CREATE TABLE customer (name text, city0 text)", "CREATE TABLE other (name text)")
    town.source("booking", "CREATE TABLE flight (name text, no int, day0 date)")
    for name, text in VIEWS.items():
        town.view(name, text)
    town.apply()
    followed = 0
    streets = Streets(town, chance)
    with closing(streets), town.opened() as other, town.maintainer() as maintainer:
        for _ in range(40):
            streets.happen()
            known, backlog = maintainer.known, maintainer._backlog
            with (
                poll(maintainer.opened, maintainer.writer, known, backlog=backlog) as kept,
                poll(other, maintainer.writer, known) as fresh,
            ):
                assert kept.queue == fresh.queue
                assert kept.moving == fresh.moving
                followed += kept.arrivals.before is not None
                for source, waiting in kept.arrivals.sources.items():
                    assert list(waiting.xids) == list(fresh.arrivals.of_source(source).xids)
                for relation, record in known.relations.items():
                    wrote = set(kept.snapshots[relation.source].writers(record.relation))
                    assert wrote == set(fresh.snapshots[relation.source].writers(record.relation))
            if chance.random() < 0.3:
                maintainer.cycle()
    assert followed > 10, "most polls add to what is there"
