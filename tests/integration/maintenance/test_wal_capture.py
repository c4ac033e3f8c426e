"""Maintenance over sources whose changes are read from the write-ahead log, judged by PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg2
import pytest

from dyda import commands
from tests.town import Town

ACTIVE = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database() AND active"


@pytest.fixture
def town(new_town: Callable[..., Town]) -> Iterator[Town]:
    found = new_town()
    found.capture = "wal"
    found.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text, city text)")
    found.source("shop", "CREATE TABLE orders (id int, customer int, amount numeric(10, 2))")
    found.execute("crm", "INSERT INTO customer SELECT i, 'c' || i, 'x' FROM generate_series(1, 20) i")
    found.execute("shop", "INSERT INTO orders SELECT i, i % 20 + 1, i FROM generate_series(1, 60) i")
    found.view("joined", "SELECT c.name, o.id, o.amount FROM crm.customer c JOIN shop.orders o ON o.customer = c.id")
    found.view(
        "sums", "SELECT o.customer, count(*) AS n, sum(o.amount) AS total FROM shop.orders o GROUP BY o.customer"
    )
    found.apply()
    yield found
    for url in found.sources.values():  # the server has yet to see that nobody reads the slots
        with psycopg2.connect(url) as connection, connection.cursor() as cursor:
            while True:
                cursor.execute(ACTIVE)
                if cursor.fetchone() == (0,):
                    break


def _triggers(town: Town, name: str) -> list[str]:
    with psycopg2.connect(town.sources[name]) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'dyda_%' AND tgrelid::regclass::text NOT LIKE 'dyda%'"
        )
        return [name for (name,) in cursor.fetchall()]


def test_rows_and_schemas_are_followed(town: Town) -> None:
    assert _triggers(town, "shop") == ["dyda_truncate"], "nothing of ours runs when rows are written"
    town.execute(
        "shop", "INSERT INTO orders VALUES (100, 3, 7.25), (101, 4, 1)", "UPDATE orders SET amount = amount + 1"
    )
    town.execute("crm", "UPDATE customer SET name = name || '!' WHERE id < 5", "DELETE FROM customer WHERE id = 7")
    town.settle()
    town.check()
    town.execute("shop", "INSERT INTO orders VALUES (102, 5, 2)", "ALTER TABLE orders ADD note text")
    town.execute("shop", "UPDATE orders SET note = 'seen'", "ALTER TABLE orders RENAME note TO remark")
    town.execute("crm", "DELETE FROM customer WHERE id = 9", "ALTER TABLE customer DROP COLUMN city")
    town.settle()
    town.check()
    town.execute(
        "crm", "ALTER TABLE customer RENAME name TO title", "UPDATE customer SET title = 'renamed' WHERE id = 2"
    )
    town.settle()
    town.check_definitions("joined", "sums")
    town.execute("shop", "TRUNCATE orders", "INSERT INTO orders VALUES (1, 1, 1)")
    town.settle()
    town.check_definitions("joined", "sums")
    assert all(answer["result"] == "equal" for answer in commands.verify(town.folder, engine=town.engine))


def test_a_slot_that_is_lost_is_healed(town: Town) -> None:
    """What was committed meanwhile is in no message."""
    with town.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"
        )
        cursor.execute("INSERT INTO orders VALUES (200, 1, 5)")
    town.settle()
    town.check()
    town.execute("shop", "INSERT INTO orders VALUES (201, 2, 6)")
    town.settle()
    town.check()


def test_capture_goes_over_to_triggers_and_back(town: Town) -> None:
    for way, number in (("triggers", 300), ("wal", 301)):
        town.execute("shop", f"INSERT INTO orders VALUES ({number}, 1, 5)")
        town.capture = way
        town.source_url("shop", town.sources["shop"])
        town.apply()
        town.execute("shop", f"UPDATE orders SET amount = 2 WHERE id = {number}")
        town.settle()
        town.check()
        assert len(_triggers(town, "shop")) == (4 if way == "triggers" else 1)
