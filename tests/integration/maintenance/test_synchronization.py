"""What synchronization writes, Spark reads: casts, appended columns, covers and stand-ins over real databases."""

from __future__ import annotations

from collections import Counter

import pytest

from dyda import commands
from tests.town import Town


@pytest.fixture
def flights(town: Town) -> Town:
    town.source(
        "booking",
        "CREATE TABLE flight (name text NOT NULL, age int, seat text)",
        "INSERT INTO flight VALUES ('Ann', 30, '1A'), ('Bob', 17, '2B'), ('Cid', NULL, NULL)",
    )
    town.source(
        "tours",
        "CREATE TABLE tour (title text PRIMARY KEY, years int)",
        "INSERT INTO tour VALUES ('Ann', 30), ('Bob', 17)",
    )
    return town


def test_a_type_of_another_kind_is_read_as_the_old_one(flights: Town) -> None:
    flights.view(
        "adults", "SELECT f.name, f.age, f.age + 1 AS next, upper(f.seat) AS seat FROM booking.flight f WHERE f.age > 9"
    )
    flights.apply()
    flights.execute("booking", "ALTER TABLE flight ALTER COLUMN age TYPE text")
    flights.settle()
    assert flights.extent("adults") == Counter({"Ann\t30\t31\t1A": 1, "Bob\t17\t18\t2B": 1})
    flights.execute("booking", "ALTER TABLE flight ALTER COLUMN seat TYPE json USING to_json(seat)")
    flights.execute("booking", "INSERT INTO flight VALUES ('Dan', '41', '\"3c\"'), ('Eve', '8', '\"4d\"')")
    flights.settle()
    assert flights.extent("adults") == Counter({'Ann\t30\t31\t"1A"': 1, 'Bob\t17\t18\t"2B"': 1, 'Dan\t41\t42\t"3C"': 1})


def test_a_new_column_is_appended(flights: Town) -> None:
    flights.view("all_flights", "-- dyda: new_columns = append\nSELECT * FROM booking.flight f")
    flights.apply()
    flights.execute("booking", "ALTER TABLE flight ADD COLUMN meal text DEFAULT 'soup'")
    flights.execute("booking", "INSERT INTO flight VALUES ('Dan', 41, '3C', 'rice')")
    flights.settle()
    assert flights.extent("all_flights")["Ann\t30\t1A\tsoup"] == 1
    assert flights.extent("all_flights")["Dan\t41\t3C\trice"] == 1
    flights.check()
    flights.execute("booking", "ALTER TABLE flight DROP COLUMN meal")
    flights.settle()
    assert flights.state("all_flights")["reason"] is None, "what was appended by itself goes by itself"
    flights.check()
    flights.execute("booking", "ALTER TABLE flight DROP COLUMN seat")
    flights.settle()
    assert flights.state("all_flights")["state"] == "broken", "what its file asks for does not"


def test_a_dropped_column_comes_from_another_database(flights: Town) -> None:
    (flights.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["booking.flight", "tours.tour"]\non = "flight.name = tour.title"\n'
        '[[function]]\nattribute = "booking.flight.age"\nequals = "tours.tour.years"\n'
    )
    flights.view("ages", "-- dyda: extent = subset\nSELECT f.name, f.age /* replaceable */ FROM booking.flight f")
    flights.apply()
    flights.execute("booking", "ALTER TABLE flight DROP COLUMN age")
    flights.execute("tours", "INSERT INTO tour VALUES ('Cid', 5)")
    flights.settle()
    assert flights.extent("ages") == Counter({"Ann\t30": 1, "Bob\t17": 1, "Cid\t5": 1})
    flights.check_definitions()
    flights.execute("booking", "INSERT INTO flight (name) VALUES ('Ann')")
    flights.settle()
    assert flights.extent("ages")["Ann\t30"] == 2
    flights.check_definitions()


def test_nothing_is_pending_at_a_source_that_the_view_has_left(flights: Town) -> None:
    (flights.folder / "knowledge.toml").write_text(
        '[[containment]]\nof = "booking.flight(name)"\nis = "subset"\nin = "tours.tour(title)"\n'
    )
    flights.view(
        "names", "-- dyda: extent = any\nSELECT f.name /* replaceable */ FROM booking.flight f /* replaceable */"
    )
    flights.apply()
    flights.execute("booking", "DROP TABLE flight")
    flights.settle()
    assert flights.extent("names") == Counter({"Ann": 1, "Bob": 1})
    assert commands.pending(flights.folder) == []
