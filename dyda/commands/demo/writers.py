"""The four databases of the travel example, each with its own users, who change it whenever they like."""

from __future__ import annotations

import datetime
import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2

from dyda.cursor import Cursor

__all__ = ["SCHEMA_CHANGES", "SOURCES", "Writer", "expected_rows", "seed"]

TABLES = {
    "crm": ("customer", "name", "phone"),
    "tours": ("tour", "tour_id", "no_days"),
    "people": ("participant", "participant", "loc"),
    "booking": ("flight_res", "name", "dest"),
}
"""By source: its table, the column by which rows are chosen, and the column that is updated."""

SOURCES = tuple(TABLES)
NAMES = (
    *("Ada", "Ali", "Ann", "Ben", "Cem", "Dan", "Eli", "Eva", "Fay", "Gil", "Hal", "Ida", "Ike", "Ina", "Jan", "Kai"),
    *("Kim", "Lea", "Leo", "Lou", "Mae", "Max", "Mia", "Ned", "Nia", "Noa", "Ole", "Pam", "Pia", "Ray", "Rio", "Ron"),
    *("Sam", "Sue", "Tom", "Una", "Uwe", "Val", "Zoe"),
)
PLACES = ("Asia", "Asia", "Asia", "Europe", "America")
KINDS = ("city", "beach", "trek", "food", "temple")
TOURS = 12
MOST_ROWS = 120
"""Writers insert no more than this, so that the example stays small however long it runs."""

SCHEMA_CHANGES = {"crm": "DROP TABLE customer", "booking": "ALTER TABLE flight_res DROP COLUMN age"}
"""The cyclic case of paper 001, Section 4.4: neither change can be answered without the other."""

Statement = tuple[str, tuple[Any, ...]]


def seed(url: str, source: str, schema: Path, chance: random.Random) -> None:
    """Create the relation of one source and its first rows."""
    rows = {"crm": 28, "tours": TOURS, "people": 45, "booking": 45}[source]
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(schema.read_text())
        for number in range(rows):
            cursor.execute(*_insert(source, chance, number))


class Writer(threading.Thread):
    """Commits small random transactions at one source until stopped; knows nothing of DyDa.

    When `migration` is set, it makes its source's schema change, if there is one, and goes on with what is left.
    """

    def __init__(self, url: str, source: str, seed: int, migration: threading.Event, stopped: threading.Event) -> None:
        super().__init__(name=f"writer at {source}", daemon=True)
        self.source = source
        self.committed = 0
        self.failure: Exception | None = None
        self._url, self._chance, self._stopped = url, random.Random(seed), stopped
        self._migration = migration
        self.migrated = source not in SCHEMA_CHANGES

    def run(self) -> None:
        try:
            with closing(psycopg2.connect(self._url)) as connection:
                while not self._stopped.wait(self._chance.uniform(0.05, 0.3)):
                    with connection, connection.cursor() as cursor:
                        wrote = self._write(cursor)
                    self.committed += wrote
        except Exception as error:
            self.failure = error

    def _write(self, cursor: Cursor) -> bool:
        """The statements of one transaction; whether there were any."""
        if self._migration.is_set() and not self.migrated:
            cursor.execute(SCHEMA_CHANGES[self.source])
            self.migrated = True
        elif self.migrated and self.source == "crm":
            return False  # its only relation is gone
        else:
            for _ in range(self._chance.choice((1, 1, 1, 2, 3))):
                cursor.execute(*_anything(self.source, self._chance, self.migrated))
        return True


def _anything(source: str, chance: random.Random, migrated: bool) -> Statement:
    number = chance.randrange(TOURS + 4)
    what = chance.choice((_insert, _insert, _insert, _update, _update, _delete))
    return _insert(source, chance, number, migrated) if what is _insert else what(source, chance, number)


def _insert(source: str, chance: random.Random, number: int, migrated: bool = False) -> Statement:
    name, place = chance.choice(NAMES), chance.choice(PLACES)
    match source:
        case "crm":
            statement = "INSERT INTO customer VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
            return statement, (name, chance.choice(("MA", "NY", "CA")), _phone(chance))
        case "tours":
            statement = "INSERT INTO tour VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
            return statement, (number, name, chance.randint(18, 80), chance.choice(KINDS), chance.randint(2, 21))
        case "people":
            start = datetime.date(2025, 1, 1) + datetime.timedelta(days=chance.randrange(700))
            statement = "INSERT INTO participant SELECT %s, %s, %s, %s WHERE (SELECT count(*) FROM participant) < %s"
            return statement, (name, chance.randrange(TOURS), start, place, MOST_ROWS)
        case _:
            flight = f"{chance.choice(('AA', 'LH', 'NH', 'SQ'))}{chance.randint(100, 9999)}"
            limit = "WHERE (SELECT count(*) FROM flight_res) < %s"
            if migrated:
                statement = f"INSERT INTO flight_res (name, flight_no, dest) SELECT %s, %s, %s {limit}"
                return statement, (name, flight, place, MOST_ROWS)
            statement = f"INSERT INTO flight_res SELECT %s, %s, %s, %s {limit}"
            return statement, (name, chance.randint(18, 80), flight, place, MOST_ROWS)


def _update(source: str, chance: random.Random, number: int) -> Statement:
    table, key, column = TABLES[source]
    value = {"phone": _phone(chance), "no_days": chance.randint(2, 21)}.get(column, chance.choice(PLACES))
    return f"UPDATE {table} SET {column} = %s WHERE {key} = %s", (value, _key(source, chance, number))


def _delete(source: str, chance: random.Random, number: int) -> Statement:
    table, key, _ = TABLES[source]
    return f"DELETE FROM {table} WHERE {key} = %s", (_key(source, chance, number),)


def _key(source: str, chance: random.Random, number: int) -> object:
    return number if source == "tours" else chance.choice(NAMES)


def _phone(chance: random.Random) -> str:
    return f"{chance.randint(100, 999)}-{chance.randint(1000, 9999)}"


def expected_rows(read: Callable[[str, str], list[tuple[Any, ...]]]) -> dict[str, Counter[tuple[Any, ...]]]:
    """Both views after the schema changes, computed by nested loops that share no code with DyDa. Asia-Customer is
    then Equation (6) of paper 001. `read(source, sql)` runs a query at a source.
    """
    flights = read("booking", "SELECT name, flight_no FROM flight_res WHERE dest = 'Asia'")
    people = read("people", "SELECT participant, tour_id, start_date, loc FROM participant")
    tours = read("tours", "SELECT tour_id, tour_name, age, type, no_days FROM tour")
    booked = [(p, f) for p in people for f in flights if p[0] == f[0]]
    return {
        "asia_customer": Counter((p[0], t[2], f[1], "Asia") for p, f in booked for t in tours if t[1] == f[0]),
        "asia_trip": Counter(
            (p[0], f[1], t[3], t[4], p[2]) for p, f in booked if p[3] == "Asia" for t in tours if t[0] == p[1]
        ),
    }
