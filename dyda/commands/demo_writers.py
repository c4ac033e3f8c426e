"""The four databases of the travel example, each with users of its own who change it whenever they like."""

from __future__ import annotations

import datetime
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg2

__all__ = ["SOURCES", "Writer", "expected_rows", "seed"]

SOURCES = ("crm", "tours", "people", "booking")
NAMES = (
    *("Ada", "Ali", "Ann", "Ben", "Cem", "Dan", "Eli", "Eva", "Fay", "Gil", "Hal", "Ida", "Ike", "Ina", "Jan", "Kai"),
    *("Kim", "Lea", "Leo", "Lou", "Mae", "Max", "Mia", "Ned", "Nia", "Noa", "Ole", "Pam", "Pia", "Ray", "Rio", "Ron"),
    *("Sam", "Sue", "Tom", "Una", "Uwe", "Val", "Zoe"),
)
PLACES = ("Asia", "Asia", "Asia", "Europe", "America")
KINDS = ("city", "beach", "trek", "food", "temple")
TOURS = 12
MOST_ROWS = 120
"""Writers delete above this, so that the example stays small however long it runs."""

Statement = tuple[str, tuple[Any, ...]]


def seed(url: str, source: str, schema: Path, chance: random.Random) -> None:
    """Creates the relation of one source and its first rows."""
    rows = {"crm": 28, "tours": TOURS, "people": 45, "booking": 45}[source]
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(schema.read_text())
            for number in range(rows):
                cursor.execute(*_insert(source, chance, number))
    finally:
        connection.close()


class Writer(threading.Thread):
    """Commits small random transactions at one source until told to stop; knows nothing of DyDa."""

    def __init__(self, url: str, source: str, seed: int, stopped: threading.Event) -> None:
        super().__init__(name=f"writer at {source}", daemon=True)
        self.source = source
        self.committed = 0
        self.failure: Exception | None = None
        self._url, self._chance, self._stopped = url, random.Random(seed), stopped

    def run(self) -> None:
        try:
            connection = psycopg2.connect(self._url)
            try:
                while not self._stopped.wait(self._chance.uniform(0.05, 0.3)):
                    with connection, connection.cursor() as cursor:
                        for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
                            cursor.execute(*_anything(self.source, self._chance))
                    self.committed += 1
            finally:
                connection.close()
        except Exception as error:
            self.failure = error


def _anything(source: str, chance: random.Random) -> Statement:
    return chance.choice((_insert, _insert, _insert, _update, _update, _delete))(
        source, chance, chance.randrange(TOURS + 4)
    )


def _insert(source: str, chance: random.Random, number: int) -> Statement:
    name, place = chance.choice(NAMES), chance.choice(PLACES)
    match source:
        case "crm":
            statement = "INSERT INTO customer VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            return statement, (name, chance.choice(("MA", "NY", "CA")), _phone(chance))
        case "tours":
            statement = "INSERT INTO tour VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
            kind = chance.choice(KINDS)
            return statement, (number, f"{kind} {number}", chance.randint(18, 80), kind, chance.randint(2, 21))
        case "people":
            start = datetime.date(2025, 1, 1) + datetime.timedelta(days=chance.randrange(700))
            statement = "INSERT INTO participant SELECT %s, %s, %s, %s WHERE (SELECT count(*) FROM participant) < %s"
            return statement, (name, chance.randrange(TOURS), start, place, MOST_ROWS)
        case _:
            flight = f"{chance.choice(('AA', 'LH', 'NH', 'SQ'))}{chance.randint(100, 9999)}"
            statement = "INSERT INTO flight_res SELECT %s, %s, %s, %s WHERE (SELECT count(*) FROM flight_res) < %s"
            return statement, (name, chance.randint(18, 80), flight, place, MOST_ROWS)


def _update(source: str, chance: random.Random, number: int) -> Statement:
    name, place = chance.choice(NAMES), chance.choice(PLACES)
    match source:
        case "crm":
            return "UPDATE customer SET phone = %s WHERE name = %s", (_phone(chance), name)
        case "tours":
            return "UPDATE tour SET no_days = %s WHERE tour_id = %s", (chance.randint(2, 21), number)
        case "people":
            return "UPDATE participant SET loc = %s WHERE participant = %s", (place, name)
        case _:
            return "UPDATE flight_res SET dest = %s WHERE name = %s", (place, name)


def _delete(source: str, chance: random.Random, number: int) -> Statement:
    name = chance.choice(NAMES)
    match source:
        case "crm":
            return "DELETE FROM customer WHERE name = %s", (name,)
        case "tours":
            return "DELETE FROM tour WHERE tour_id = %s", (number,)
        case "people":
            return "DELETE FROM participant WHERE participant = %s", (name,)
        case _:
            return "DELETE FROM flight_res WHERE name = %s", (name,)


def _phone(chance: random.Random) -> str:
    return f"{chance.randint(100, 999)}-{chance.randint(1000, 9999)}"


def expected_rows(read: Callable[[str, str], list[tuple[Any, ...]]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Both views from the sources' rows by nested loops: arithmetic that shares nothing with DyDa's.

    `read(source, sql)` answers a query at a source.
    """
    customers = read("crm", "SELECT name, phone FROM customer")
    flights = read("booking", "SELECT name, age, flight_no FROM flight_res WHERE dest = 'Asia'")
    people = read("people", "SELECT participant, tour_id, start_date FROM participant WHERE loc = 'Asia'")
    tours = read("tours", "SELECT tour_id, type, no_days FROM tour")
    booked = [(c, f) for c in customers for f in flights if c[0] == f[0]]
    trips = [(c, f, p, t) for c, f in booked for p in people if p[0] == c[0] for t in tours if t[0] == p[1]]
    return {
        "asia_customer": Counter((c[0], f[1], f[2], "Asia") for c, f in booked),
        "asia_trip": Counter((c[0], c[1], f[2], t[1], t[2], p[2]) for c, f, p, t in trips),
    }
