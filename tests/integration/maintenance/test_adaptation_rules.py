"""What must hold while a rewritten view is adapted: readers, rights, positions, knowledge, history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest

from dyda import commands, faults
from dyda.errors import BrokenUnit
from dyda.maintenance.cycle import Outcome
from dyda.model.position import Position
from tests.recompute_oracle import printed
from tests.town import Town

KNOWLEDGE = """
[[join]]
between = ["booking.flight", "tours.tour"]
on = "flight.name = tour.tour_name"

[[join]]
between = ["booking.flight", "people.participant"]
on = "flight.name = participant.person"

[[containment]]
of = "crm.customer(name)"
is = "subset"
in = "people.participant(person)"

[[function]]
attribute = "booking.flight.age"
equals = "tours.tour.age"
"""

VIEW = """-- dyda: extent = any
SELECT c.name /* replaceable */, f.id, f.age /* replaceable */
FROM crm.customer c /* replaceable */ JOIN booking.flight f ON c.name = f.name /* replaceable */
"""


@pytest.fixture
def travel(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text PRIMARY KEY)", "INSERT INTO customer VALUES ('Ann'), ('Bob')")
    town.source(
        "booking",
        "CREATE TABLE flight (id int PRIMARY KEY, name text, age int)",
        "INSERT INTO flight VALUES (1, 'Ann', 30), (2, 'Bob', 40)",
    )
    town.source("tours", "CREATE TABLE tour (tour_name text, age int)", "INSERT INTO tour VALUES ('Ann', 31)")
    town.source("people", "CREATE TABLE participant (person text)", "INSERT INTO participant VALUES ('Ann'), ('Ann')")
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.view("v", VIEW)
    town.apply()
    return town


@contextmanager
def reading(town: Town) -> Iterator[Any]:
    """A reader's transaction that is older than everything that follows."""
    connection = psycopg2.connect(town.warehouse)
    try:
        connection.set_session(isolation_level="REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            yield cursor
    finally:
        connection.close()


def receive(town: Town) -> int:
    """Put the one message that is new into the queue, without processing it; its number."""

    def stop() -> None:
        raise BrokenUnit("tours", frozenset(), "stopped by the test")

    with town.maintainer() as maintainer, faults.on("unit.messages-received", stop):
        assert maintainer.cycle() is Outcome.BROKEN
    (message,) = commands.pending(town.folder)
    return int(message["id"])


def history(town: Town, view: str = "v") -> list[Any]:
    with town.opened() as opened:
        return opened.warehouse.versions(view)


def test_I2_an_older_reader_of_a_view_with_other_columns_is_told_to_try_again(travel: Town) -> None:
    travel.view("flights", "SELECT f.id, f.name, f.age /* dispensable */ FROM booking.flight f")
    travel.apply()
    role = f"reader_{travel.warehouse.rsplit('_', 1)[1][:8]}"
    with psycopg2.connect(travel.warehouse) as administrator, administrator.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}; GRANT SELECT ON public.flights TO {role}")
    administrator.close()
    try:
        with reading(travel) as cursor:
            travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
            travel.settle()
            with pytest.raises(psycopg2.errors.SerializationFailure):
                cursor.execute("SELECT * FROM public.flights")
            cursor.connection.rollback()
            cursor.execute("SELECT * FROM public.flights ORDER BY id")
            assert cursor.fetchall() == [(1, "Ann"), (2, "Bob")]
        kept = printed(travel.warehouse, f"SELECT has_table_privilege('{role}', 'public.flights', 'SELECT')")
        assert kept == Counter({"t": 1})
    finally:
        with psycopg2.connect(travel.warehouse) as administrator, administrator.cursor() as cursor:
            cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        administrator.close()


def test_I2_an_older_reader_of_a_view_that_loses_its_key_is_told_to_try_again(travel: Town) -> None:
    """Where a duplicate may come there must be room for it: the rows are in another table then."""
    with reading(travel) as cursor:
        travel.execute("crm", "DROP TABLE customer")
        travel.settle()
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("SELECT * FROM public.v")
        cursor.connection.rollback()
        cursor.execute("SELECT name, id, age FROM public.v ORDER BY id")
        assert cursor.fetchall() == [("Ann", 1, 30)] * 2


def test_I2_an_older_reader_of_a_view_with_the_same_columns_keeps_its_rows(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight DROP CONSTRAINT flight_pkey")
    travel.settle()
    with reading(travel) as cursor:
        travel.execute("crm", "DROP TABLE customer")
        travel.settle()
        assert travel.extent("v") == Counter({"Ann\t1\t30": 2})
        cursor.execute("SELECT name, id, age FROM public.v ORDER BY id")
        assert cursor.fetchall() == [("Ann", 1, 30), ("Bob", 2, 40)], "neither empty nor half"
    assert history(travel)[-1].details["adaptation"]["kind"] == "delta"


def test_P5_a_rewriting_reads_a_new_source_where_the_unit_ends(travel: Town) -> None:
    travel.view("tourists", "SELECT t.tour_name FROM tours.tour t")
    travel.apply()
    held = travel.execute("tours", "INSERT INTO tour VALUES ('Bob', 41)")
    number = receive(travel)
    commands.pending_hold(travel.folder, number)
    travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    travel.settle()
    assert history(travel)[-1].details["adaptation"]["kind"] == "join"
    assert travel.extent("v") == Counter({"Ann\t1\t31": 1}), "the held row of Bob is not in it"
    assert not Position.parse(travel.state("v")["positions"]["tours"]).includes(held)
    commands.pending_release(travel.folder, number)
    travel.settle()
    assert travel.extent("v") == Counter({"Ann\t1\t31": 1, "Bob\t2\t41": 1})
    travel.check_definitions("v", "tourists")


def test_P5_what_a_rewriting_needs_is_captured_before_it_is_read(travel: Town) -> None:
    with psycopg2.connect(travel.warehouse) as catalog, catalog.cursor() as cursor:
        cursor.execute("UPDATE dyda.relation SET captured = false WHERE \"table\" = 'tour'")
    catalog.close()
    travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    outcomes = travel.settle()
    assert Outcome.BROKEN in outcomes, "the first attempt finds it uncaptured"
    travel.execute("tours", "INSERT INTO tour VALUES ('Bob', 41)")
    travel.settle()
    assert travel.extent("v") == Counter({"Ann\t1\t31": 1, "Bob\t2\t41": 1})


def test_the_knowledge_follows_a_source_that_no_view_reads(travel: Town) -> None:
    travel.execute("tours", "ALTER TABLE tour RENAME age TO years", "ALTER TABLE tour RENAME TO trip")
    travel.settle()
    travel.execute("tours", "INSERT INTO trip VALUES ('Bob', 41)")
    travel.settle()
    travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    travel.settle()
    assert "`trip`" in travel.state("v")["definition"]
    assert travel.extent("v") == Counter({"Ann\t1\t31": 1, "Bob\t2\t41": 1})


def test_a_constraint_ends_with_what_it_speaks_of_and_the_view_says_what_is_missing(travel: Town) -> None:
    travel.execute("tours", "DROP TABLE tour")
    travel.settle()
    with travel.opened() as opened:
        knowledge = opened.warehouse.knowledge()
    assert "function" not in knowledge.document
    assert {entry["reason"] for entry in knowledge.retired} == {"tours.public.tour was dropped"}
    travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    travel.settle()
    state = travel.state("v")
    assert state["state"] == "broken"
    assert "age" in state["reason"]
    assert "ALTER TABLE flight DROP COLUMN age" in state["reason"]
    assert travel.extent("v") == Counter({"Ann\t1\t30": 1, "Bob\t2\t40": 1})


def test_the_history_tells_the_change_the_rewriting_and_the_adaptation(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    travel.settle()
    details = history(travel)[-1].details
    assert details["evolved"]
    (change,) = details["changes"]
    assert (change["source"], change["relation"], change["command"]) == (
        "booking",
        "booking.public.flight",
        "ALTER TABLE",
    )
    assert "DROP COLUMN age" in change["ddl"]
    assert details["rewriting"]["extent"] == "subset"
    assert details["components"]
    adaptation = details["adaptation"]
    assert (adaptation["kind"], adaptation["queries"], adaptation["rows"]) == ("join", 1, 1)
    assert adaptation["seconds"] > 0


@pytest.mark.parametrize("rows", [10_000, 10_001])
def test_rows_that_mostly_change_get_a_new_table(town: Town, rows: int) -> None:
    """Writing a table beats changing each row of one; a small one is changed in place, so that readers keep theirs."""
    town.source(
        "shop",
        "CREATE TABLE sale (id int PRIMARY KEY, place int, price int)",
        f"INSERT INTO sale SELECT i, i % 10, 1 FROM generate_series(1, {rows}) i",
        "ANALYZE",
    )
    town.source("crm", "CREATE TABLE spare (id int PRIMARY KEY, price int)", "INSERT INTO spare VALUES (0, 5), (1, 6)")
    (town.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["shop.sale", "crm.spare"]\non = "sale.place = spare.id"\n'
        '[[function]]\nattribute = "shop.sale.price"\nequals = "crm.spare.price"\n'
    )
    town.view("v", "-- dyda: extent = any\nSELECT s.id, s.place, s.price /* replaceable */ FROM shop.sale s")
    town.apply()
    (before,) = printed(town.warehouse, "SELECT extent FROM dyda.view_version WHERE view = 'v'")
    town.execute("shop", "ALTER TABLE sale DROP COLUMN price", "DELETE FROM sale WHERE id = 10")
    town.settle()
    town.check_definitions("v")
    with town.opened() as opened:
        how = opened.warehouse.versions("v")[-1].details["adaptation"]
    assert (how["kind"], "in a new table" in how["reason"]) == ("join", rows > 10_000)
    tables = printed(town.warehouse, "SELECT DISTINCT extent FROM dyda.view_version WHERE view = 'v'")
    assert len(tables) == (2 if rows > 10_000 else 1)
    assert before in tables
    town.execute("shop", "DELETE FROM sale WHERE id = 11")
    town.execute("crm", "UPDATE spare SET price = 7 WHERE id = 1")
    town.settle()
    town.check_definitions("v")


@pytest.mark.parametrize(("differ", "kind"), [(10, "recompute"), (5, "delta"), (2, "delta")])
def test_a_relation_that_is_replaced_by_other_rows_is_not_adapted_row_by_row(
    town: Town, differ: int, kind: str
) -> None:
    """How many rows are others is known once both were read: of ten, so many `differ`."""
    town.source(
        "shop",
        "CREATE TABLE sale (id int PRIMARY KEY, place int)",
        "INSERT INTO sale SELECT i, i % 10 FROM generate_series(1, 12000) i",
        "ANALYZE",
    )
    town.source(
        "crm",
        "CREATE TABLE home AS SELECT i AS id, 'home ' || i AS name FROM generate_series(0, 9) i",
        f"CREATE TABLE other AS SELECT id, CASE WHEN id < {differ} THEN 'x' ELSE name END AS name FROM home",
        "ALTER TABLE home ADD PRIMARY KEY (id)",
        "ALTER TABLE other ADD PRIMARY KEY (id)",
        "ANALYZE",
    )
    (town.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["shop.sale", "crm.other"]\non = "sale.place = other.id"\n'
        '[[containment]]\nof = "crm.home(id, name)"\nis = "equivalent"\nin = "crm.other(id, name)"\n'
    )
    town.view(
        "v",
        "-- dyda: extent = any\nSELECT s.id, h.id AS at /* replaceable */, h.name /* replaceable */"
        " FROM shop.sale s JOIN crm.home h /* replaceable */ ON s.place = h.id /* replaceable */",
    )
    town.apply()
    town.execute("shop", "DELETE FROM sale WHERE id < 10")
    town.execute("crm", "DROP TABLE home")
    town.settle()
    town.check_definitions("v")
    with town.opened() as opened:
        how = opened.warehouse.versions("v")[-1].details["adaptation"]
    assert how["kind"] == kind, how
    assert ("are others" in how["reason"]) is (kind == "recompute")
    town.execute("shop", "DELETE FROM sale WHERE id = 11")
    town.settle()
    town.check_definitions("v")


def test_a_complement_that_is_larger_than_the_extent_is_added_in_a_new_table(town: Town) -> None:
    town.source(
        "shop",
        "CREATE TABLE sale (id int PRIMARY KEY, place int)",
        "INSERT INTO sale SELECT i, i % 10 FROM generate_series(1, 12000) i",
        "ANALYZE",
    )
    town.view("v", "SELECT s.place FROM shop.sale s WHERE s.id % 10 = 0")
    town.apply()
    town.execute("shop", "DELETE FROM sale WHERE id IN (10, 11)")
    town.view("v", "SELECT s.place FROM shop.sale s")
    town.apply()
    town.check("v")
    with town.opened() as opened:
        how = opened.warehouse.versions("v")[-1].details["adaptation"]
    assert (how["kind"], "in a new table" in how["reason"]) == ("complement", True), how
    town.execute("shop", "DELETE FROM sale WHERE id = 12")
    town.settle()
    town.check("v")
