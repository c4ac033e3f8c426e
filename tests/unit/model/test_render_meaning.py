"""What the parser and the renderer make of a text means what the text says: SQLite evaluates both over random rows.

SQLite knows neither of them. It cannot read all of Spark's language (semi joins in FROM, EXCEPT ALL, names of columns
after an alias): a floor under the number of texts that it does compare keeps this honest.
"""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from collections.abc import Callable

import pytest

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from tests.unit.model.rows import COLUMNS, plain, rows
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
    "SELECT f.name, s.row FROM booking.flight_res f LEFT JOIN booking.seat s ON true WHERE true AND f.age > 18",
    "SELECT f.name, s.row FROM booking.flight_res f JOIN booking.seat s ON 1 = 1 WHERE (true)",
    "SELECT f.name, s.row FROM booking.flight_res f FULL JOIN booking.seat s ON false",
    "SELECT count(*) AS n FROM (SELECT c.name FROM crm.customer c WHERE false) d WHERE true",
]


@pytest.fixture(scope="module")
def database() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    for table, several in rows().items():
        connection.execute(f"CREATE TABLE {table} ({COLUMNS[table]})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(several[0]))})", several)
    connection.execute("CREATE VIEW adults AS " + plain(ADULTS))
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
    answers = [_answer(database, one) for one in (text, rendered, twice)]
    shown = [answer for answer in answers if answer is not None]
    assert all(answer == shown[0] for answer in shown)


def test_most_texts_are_compared_with_what_was_written(
    resolve: Callable[..., Relation], database: sqlite3.Connection
) -> None:
    read = 0
    filled = 0
    for text in (*TEXTS, *FURTHER):
        view = parse_view("v", text, resolve, views=lambda name: parse_view(name, ADULTS, resolve))
        answers = [_answer(database, one) for one in (text, render_view(view.tree, view.preferences))]
        read += None not in answers
        filled += bool(answers[0]) and bool(answers[1])
    assert read > 80
    assert filled > 65


def _answer(database: sqlite3.Connection, text: str) -> Counter[tuple[tuple[str, object], ...]] | None:
    """The rows as a bag; None if SQLite cannot read the text, or would read it otherwise: SEMI as an alias, INTERSECT
    from left to right."""
    if any(word in text for word in ("SEMI", "ANTI", "INTERSECT")):
        return None
    try:
        cursor = database.execute(plain(text))
    except sqlite3.OperationalError:
        return None
    names = [column[0] for column in cursor.description]
    return Counter(tuple(sorted(zip(names, map(_rounded, row), strict=True))) for row in cursor)


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
