"""What the parser and the renderer make of a text means what the text says: SQLite evaluates both over random rows.

SQLite knows neither of them. Texts that it cannot read itself (semi joins in FROM, EXCEPT ALL, names of columns after
an alias) are compared in their rendered form with what is rendered once more.
"""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable

import pytest

from dyda.model.algebra import ViewDefinition
from dyda.model.parse import parse_view
from dyda.model.relation import Relation
from dyda.model.render import render_view
from tests.unit.model.summary import summary
from tests.unit.model.test_parse_operators import ADULTS, trees

TEXTS = [case.values[0] for case in trees()]
FURTHER = [
    "SELECT f.name, s.row FROM booking.flight_res f LEFT JOIN (SELECT s.name, s.row FROM booking.seat s"
    " WHERE s.flight_no IN (SELECT flight_no FROM booking.flight_res)) s ON s.name = f.name WHERE f.age > 9",
    "SELECT f.name, s.row, c.age FROM booking.flight_res f LEFT JOIN (booking.seat s JOIN crm.customer c"
    " ON c.name = s.name AND c.age > 1) ON s.name = f.name AND c.age < 30",
    "SELECT f.name, s.row, c.age FROM (booking.flight_res f JOIN booking.seat s ON s.name = f.name) FULL JOIN"
    " crm.customer c ON c.name = s.name",
    "SELECT f.name, s.row, c.age FROM (SELECT * FROM booking.flight_res f WHERE f.age > 1) f RIGHT JOIN"
    " (booking.seat s LEFT JOIN crm.customer c ON c.name = s.name) ON c.name = f.name",
    "SELECT c.name, count(*) AS n FROM crm.customer c LEFT JOIN booking.seat s ON s.name = c.name"
    " WHERE c.age > 18 OR EXISTS (SELECT 1 FROM booking.flight_res f WHERE f.name = c.name AND f.age > 18)"
    " GROUP BY c.name HAVING count(s.name) < 9 AND c.name NOT IN (SELECT f.name FROM booking.flight_res f"
    " WHERE f.age = 18)",
    "SELECT c.age % 2 AS odd, sum(c.id) + c.age % 2 AS s, max(c.age % 2 + c.id) AS m FROM crm.customer c"
    " GROUP BY c.age % 2, c.id + 1 HAVING (c.age % 2) = 1 OR c.id + 1 > 2",
    "SELECT c.name FROM crm.customer c WHERE c.age NOT IN (SELECT f.age FROM booking.flight_res f"
    " WHERE f.name = c.name)",
    "SELECT c.name FROM crm.customer c WHERE c.age NOT IN (SELECT f.age FROM booking.flight_res f WHERE f.age > 18)",
    "SELECT c.name FROM crm.customer c WHERE c.age NOT IN (SELECT f.age FROM booking.flight_res f WHERE f.age > 99)",
    "SELECT c.name, (SELECT count(*) + coalesce(sum(s.flight_no), 7) FROM booking.seat s WHERE s.name = c.name) AS n"
    " FROM crm.customer c WHERE (SELECT count(*) FROM booking.seat s WHERE s.name = c.name) < 2",
    "SELECT max(c.id) AS one FROM crm.customer c WHERE c.age > 99 HAVING count(*) = 0",
    "SELECT c.name FROM crm.customer c WHERE EXISTS (SELECT max(f.age) FROM booking.flight_res f WHERE f.age > 99)",
    "SELECT DISTINCT c.name, d.name AS other FROM crm.customer c JOIN crm.customer d USING (age)"
    " UNION ALL SELECT f.name, s.name FROM booking.flight_res f, booking.seat s WHERE f.flight_no = s.flight_no",
    "SELECT name, age, c.id FROM crm.customer c FULL JOIN booking.flight_res f USING (name, age)"
    " WHERE name IS NULL OR age IN (SELECT d.age FROM crm.customer d)",
    "SELECT k, count(*) AS n FROM (SELECT coalesce(c.name, 'none') AS k FROM crm.customer c) GROUP BY k",
    "SELECT count(DISTINCT c.age) AS a, count(c.age) AS b, sum(c.age) FILTER (WHERE c.id > 1) AS d,"
    " min(c.name) AS e FROM crm.customer c WHERE c.age < 99",
]
COLUMNS = {
    "customer": "id, name, age, phone, since, seen, balance, wealth, active, mood, tags, profile, initial",
    "flight_res": "name, age, flight_no, dest",
    "seat": "flight_no, name, row, tags",
}


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    """Few distinct values, so that joins meet, groups have several rows, and NULLs are everywhere."""
    chance = random.Random(5)
    connection = sqlite3.connect(":memory:")
    for table, columns in COLUMNS.items():
        names = columns.split(", ")
        connection.execute(f"CREATE TABLE {table} ({columns})")
        rows = [[_value(chance, name) for name in names] for _ in range(14)]
        rows += rows[:4]
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})", rows)
    connection.execute("CREATE VIEW adults AS " + _plain(ADULTS))
    connection.create_function("year", 1, lambda value: None if value is None else value // 2)
    connection.create_aggregate("bool_and", 1, _BoolAnd)  # type: ignore[arg-type]
    connection.create_aggregate("stddev_samp", 1, _Deviation)  # type: ignore[arg-type]
    connection.create_aggregate("stddev", 1, _Deviation)  # type: ignore[arg-type]
    return connection


@pytest.mark.parametrize("text", [*TEXTS, *FURTHER])
def test_rendered_it_means_the_same(text: str, resolve: Callable[..., Relation], database: sqlite3.Connection) -> None:
    def views(name: str) -> ViewDefinition:
        return parse_view(name, ADULTS, resolve)

    view = parse_view("v", text, resolve, views=views)
    rendered = render_view(view.tree, view.preferences)
    again = parse_view("v", rendered, resolve, views=views)
    assert again.names == view.names
    twice = render_view(again.tree, again.preferences)
    assert summary(parse_view("v", twice, resolve, views=views).tree) == summary(again.tree)
    shown = [_answer(database, one) for one in (text, rendered, twice) if not _UNREADABLE.search(one)]
    assert len(shown) >= (0 if _UNREADABLE.search(rendered) else 2)
    assert all(answer == shown[0] for answer in shown)


def test_most_texts_are_compared_with_what_was_written(database: sqlite3.Connection) -> None:
    readable = [text for text in (*TEXTS, *FURTHER) if not _UNREADABLE.search(text)]
    assert len(readable) > 55
    filled = [text for text in readable if _answer(database, text)]
    assert len(filled) > 40


_UNREADABLE = re.compile(
    r"HAVING true|SEMI|ANTI|(EXCEPT|INTERSECT) ALL|\) t \(n\)|GROUP BY ALL|count_if|^\(|"
    r"\(\s*\(?SELECT[^()]*\) (EXCEPT|UNION)|(ALL|UNION|EXCEPT)\s+\("
)


def _answer(database: sqlite3.Connection, text: str) -> Counter[tuple[tuple[str, object], ...]]:
    cursor = database.execute(_plain(text))
    names = [column[0] for column in cursor.description]
    return Counter(tuple(sorted(zip(names, map(_rounded, row), strict=True))) for row in cursor)


def _plain(text: str) -> str:
    return re.sub(r"(`?(crm|booking)`?\.)(`public`\.)?", "", text).replace("MINUS", "EXCEPT")


def _value(chance: random.Random, name: str) -> object:
    if chance.random() < 0.2:
        return None
    if name in ("name", "phone", "dest", "row"):
        return chance.choice(["ann", "bob", "cy", "annx"])
    return chance.choice([0, 1]) if name == "active" else chance.randrange(1, 5) * (9 if name == "age" else 1)


def _rounded(value: object) -> object:
    return round(value, 9) if isinstance(value, float) else value


class _BoolAnd:
    def __init__(self) -> None:
        self.values: list[int] = []

    def step(self, value: int | None) -> None:
        self.values += [] if value is None else [value]

    def finalize(self) -> int | None:
        return int(all(self.values)) if self.values else None


class _Deviation(_BoolAnd):
    def finalize(self) -> float | None:  # type: ignore[override]
        if len(self.values) < 2:
            return None
        mean = sum(self.values) / len(self.values)
        return math.sqrt(sum((value - mean) ** 2 for value in self.values) / (len(self.values) - 1))
