"""Sequences that stop, empty or duplicate other systems' tables, each while the sources are being written to.

The writers never pause and never ask: what fails because the schema moved under them is tried again in the new form, as
an application would after its own deployment.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

import psycopg2
import pytest

from dyda.maintenance.cycle import Outcome
from tests.town import Town

NAMES = ("Ann", "Bob", "Cem", "Dan")


class Traffic(threading.Thread):
    """One session that commits `statements` in turn; those that the schema no longer knows are passed over."""

    def __init__(self, url: str, statements: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self.url, self.statements = url, statements
        self.committed = 0
        self.failure: BaseException | None = None
        self.stopped = threading.Event()
        self.moved = threading.Condition()

    def run(self) -> None:
        try:
            connection = psycopg2.connect(self.url)
            for number, statement in zip(itertools.count(), itertools.cycle(self.statements)):
                if self.stopped.wait(0.01):  # a hundred a second, not as many as the machine can
                    return
                with connection, connection.cursor() as cursor, contextlib.suppress(psycopg2.ProgrammingError):
                    cursor.execute(statement, {"name": NAMES[number % 4], "no": number % 50})
                    with self.moved:
                        self.committed += 1
                        self.moved.notify_all()
        except BaseException as error:
            self.failure = error

    def wait_for(self, more: int) -> None:
        """Until so many further transactions were committed."""
        goal = self.committed + more
        with self.moved:
            assert self.moved.wait_for(lambda: self.committed >= goal, 60), self.failure


@contextlib.contextmanager
def traffic(town: Town, **statements: tuple[str, ...]) -> Iterator[list[Traffic]]:
    sessions = [Traffic(town.sources[source], texts) for source, texts in statements.items()]
    for session in sessions:
        session.start()
    try:
        yield sessions
    finally:
        for session in sessions:
            session.stopped.set()
        for session in sessions:
            session.join(60)
            assert session.failure is None, session.failure


def follow(town: Town, sessions: list[Traffic], *changes: tuple[str, str]) -> None:
    """Each change at its source in the midst of the traffic, with the maintainer at work before, between and after."""
    with town.maintainer() as maintainer:
        for source, ddl in changes:
            for session in sessions:
                session.wait_for(3)
            maintainer.cycle()
            town.execute(source, ddl)
            assert maintainer.cycle() in (Outcome.WORKED, Outcome.BROKEN)
        for _ in range(3):
            for session in sessions:
                session.wait_for(3)
            maintainer.cycle()


@pytest.fixture
def travel(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text PRIMARY KEY, city text)")
    town.source(
        "booking",
        "CREATE TABLE flight (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text, no int, seat text)",
        "INSERT INTO flight (name, no, seat)"
        " SELECT (ARRAY['Ann', 'Bob', 'Eve'])[1 + i % 3], i, 'a' FROM generate_series(1, 30) i",
    )
    town.execute("crm", "INSERT INTO customer VALUES ('Ann', 'Rome'), ('Bob', 'Oslo')")
    return town


CUSTOMERS = (
    "INSERT INTO customer (name, city) VALUES (%(name)s, 'Kyiv') ON CONFLICT DO NOTHING",
    "DELETE FROM customer WHERE name = %(name)s",
)
FLIGHTS = (
    "INSERT INTO flight (name, no) VALUES (%(name)s, %(no)s)",
    "INSERT INTO flight (name, number) VALUES (%(name)s, %(no)s)",
    "INSERT INTO flight (name) VALUES (%(name)s)",
    "DELETE FROM flight WHERE id = (SELECT min(id) FROM flight)",
)


def test_a_column_in_use_is_dropped_and_then_another_is_added(travel: Town) -> None:
    """The second change is not blocked by the first."""
    travel.view("flights", "SELECT f.id, f.name, f.no /* dispensable */ FROM booking.flight f")
    travel.view("numbers", "-- dyda: new_columns = append\nSELECT f.id, f.no FROM booking.flight f")
    travel.view("names", "-- dyda: new_columns = append\nSELECT f.id, f.name FROM booking.flight f")
    travel.apply()
    with traffic(travel, booking=FLIGHTS) as sessions:
        follow(
            travel,
            sessions,
            ("booking", "ALTER TABLE flight DROP COLUMN no"),
            ("booking", "ALTER TABLE flight ADD COLUMN gate text DEFAULT 'B7'"),
        )
    travel.settle()
    states = {name: travel.state(name) for name in ("flights", "numbers", "names")}
    assert {name: state["state"] for name, state in states.items()} == {
        "flights": "fresh",
        "numbers": "broken",
        "names": "fresh",
    }
    assert [column["name"] for column in states["flights"]["columns"]] == ["id", "name"]
    assert [column["name"] for column in states["names"]["columns"]] == ["id", "name", "gate"]
    travel.check_definitions("flights", "names")


def test_a_column_is_renamed_in_place(travel: Town) -> None:
    """No data is lost and no column appears: the view's own names stay as they are."""
    travel.view("joined", "SELECT c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    travel.apply()
    with traffic(travel, crm=CUSTOMERS, booking=FLIGHTS) as sessions:
        follow(travel, sessions, ("booking", "ALTER TABLE flight RENAME COLUMN no TO number"))
    travel.settle()
    assert [column["name"] for column in travel.state("joined")["columns"]] == ["city", "no"]
    travel.check_definitions("joined")


def test_an_integer_primary_key_grows_to_bigint(travel: Town) -> None:
    travel.view("joined", "SELECT f.id, c.city FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    travel.apply()
    with traffic(travel, crm=CUSTOMERS, booking=FLIGHTS) as sessions:
        follow(travel, sessions, ("booking", "ALTER TABLE flight ALTER COLUMN id TYPE bigint"))
    travel.execute(
        "booking", "INSERT INTO flight (id, name) OVERRIDING SYSTEM VALUE SELECT 2 ^ 40, name FROM flight LIMIT 1"
    )
    travel.execute("crm", "INSERT INTO customer SELECT 'Eve', 'Bern' ON CONFLICT DO NOTHING")
    travel.settle()
    assert {c["name"]: c["type"] for c in travel.state("joined")["columns"]} == {"id": "bigint", "city": "text"}
    travel.check_definitions("joined")


def test_a_table_is_renamed_and_later_a_new_one_takes_its_name(travel: Town) -> None:
    """The renamed one is followed."""
    travel.view("flights", "SELECT f.name, f.no FROM booking.flight f")
    travel.apply()
    both = (*FLIGHTS, *(text.replace("flight", "old_flight") for text in FLIGHTS))
    with traffic(travel, booking=both) as sessions:
        follow(
            travel,
            sessions,
            ("booking", "ALTER TABLE flight RENAME TO old_flight"),
            ("booking", "CREATE TABLE flight (id int GENERATED ALWAYS AS IDENTITY, name text, no int, seat text)"),
        )
    travel.settle()
    assert "old_flight" in travel.state("flights")["definition"]
    travel.check_definitions("flights")


def test_a_table_is_rebuilt_beside_the_old_one_and_swapped_in(travel: Town) -> None:
    """Online schema changers do it so; within one transaction the name wins."""
    travel.view("joined", "SELECT c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    travel.apply()
    swap = """
        CREATE TABLE flight_new (LIKE flight INCLUDING ALL);
        LOCK TABLE flight IN ACCESS EXCLUSIVE MODE;
        INSERT INTO flight_new (name, no, seat) SELECT name, no + 1000, seat FROM flight;
        ALTER TABLE flight RENAME TO flight_old;
        ALTER TABLE flight_new RENAME TO flight
    """
    with traffic(travel, crm=CUSTOMERS, booking=FLIGHTS) as sessions:
        follow(travel, sessions, ("booking", swap), ("booking", "DROP TABLE flight_old"))
    travel.settle()
    assert travel.state("joined")["state"] == "fresh"
    assert "flight_old" not in travel.state("joined")["definition"]
    travel.check_definitions("joined")


@pytest.mark.parametrize("together", [True, False])
def test_a_column_is_dropped_and_added_again_with_another_type(travel: Town, together: bool) -> None:
    travel.view("joined", "SELECT c.city, f.seat FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    travel.apply()
    drop, add = "ALTER TABLE flight DROP COLUMN seat", "ALTER TABLE flight ADD COLUMN seat int DEFAULT 3"
    changes = [("booking", f"{drop}; {add}")] if together else [("booking", drop), ("booking", add)]
    with traffic(travel, crm=CUSTOMERS, booking=FLIGHTS) as sessions:
        follow(travel, sessions, *changes)
    travel.settle()
    assert travel.state("joined")["state"] == "fresh"
    assert {c["name"]: c["type"] for c in travel.state("joined")["columns"]} == {"city": "text", "seat": "integer"}
    travel.check_definitions("joined")


def test_a_not_null_column_with_a_default_is_added_to_a_large_table(travel: Town) -> None:
    travel.execute("booking", "INSERT INTO flight (name, no) SELECT 'Eve', i FROM generate_series(1, 100000) i")
    travel.view(
        "flights",
        "-- dyda: new_columns = append\nSELECT f.id, f.no FROM booking.flight f WHERE f.no < 40 OR f.no > 99990",
    )
    travel.apply()
    with traffic(travel, booking=FLIGHTS) as sessions:
        follow(
            travel,
            sessions,
            ("booking", "ALTER TABLE flight ADD COLUMN class text NOT NULL DEFAULT 'economy'"),
            ("booking", "UPDATE flight SET class = 'first' WHERE no = 99999"),
        )
    travel.settle()
    assert [column["name"] for column in travel.state("flights")["columns"]] == ["id", "no", "class"]
    assert any(line.endswith("first") for line in travel.extent("flights"))
    travel.check_definitions("flights")


def test_two_source_teams_rename_the_two_sides_of_a_join_at_the_same_moment(travel: Town) -> None:
    travel.view("joined", "SELECT c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    travel.apply()
    customers = (
        *CUSTOMERS,
        *(text.replace("name", "full_name").replace("%(full_name)s", "%(name)s") for text in CUSTOMERS),
    )
    flights = (*FLIGHTS, "INSERT INTO flight (passenger, no) VALUES (%(name)s, %(no)s)")
    together = threading.Barrier(2)

    def rename(source: str, ddl: str) -> None:
        together.wait(60)
        travel.execute(source, ddl)

    renames = {
        "crm": "ALTER TABLE customer RENAME COLUMN name TO full_name",
        "booking": "ALTER TABLE flight RENAME COLUMN name TO passenger",
    }
    with traffic(travel, crm=customers, booking=flights) as sessions, travel.maintainer() as maintainer:
        teams = [threading.Thread(target=rename, args=change) for change in renames.items()]
        for team in teams:
            team.start()
        maintainer.cycle()
        for team in teams:
            team.join(60)
        for _ in range(4):
            for session in sessions:
                session.wait_for(3)
            maintainer.cycle()
    travel.settle()
    assert travel.state("joined")["state"] == "fresh"
    travel.check_definitions("joined")
