"""Wherever a key of a view is derived, PostgreSQL finds no duplicate of it, whatever happens to rows and keys.

Random views over tables with and without keys. Keys come and go, rows are written, and after each step the tables are
described from PostgreSQL's own catalog, the keys are derived, and PostgreSQL evaluates the view and looks for
duplicates. No Spark, no warehouse: a case takes milliseconds. DYDA_EXAMPLES says how many views are drawn.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.model.algebra.derived_keys import derive_keys
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from dyda.sources import catalog
from dyda.sources.reading.session import connect
from tests.properties.operators import (
    COLUMNS,
    TABLES,
    Columns,
    Drawing,
    View,
    for_postgres,
    joined,
    several_views,
)

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "40"))

SEEDS = st.integers(0, 2**32)
KEYS = st.sampled_from([("id",), ("id",), ("id", "k"), ("k",), ("t", "k"), ("n",), ("n", "b"), ("b", "id"), ("t",)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("key"), st.sampled_from(TABLES), KEYS),
        st.tuples(st.just("unique"), st.sampled_from(TABLES), KEYS),
        st.tuples(st.just("drop"), st.sampled_from(TABLES), st.none()),
        st.tuples(st.just("nullable"), st.sampled_from(TABLES), st.sampled_from(sorted(COLUMNS))),
        st.tuples(st.just("fill"), st.sampled_from(TABLES), SEEDS),
        st.tuples(st.just("delete"), st.sampled_from(TABLES), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=4,
)
KEYED = st.tuples(*(st.tuples(st.sampled_from(["key", "key", "unique"]), st.just(table), KEYS) for table in TABLES))
VALUES = {
    "id": range(12),
    "k": (None, *range(4)),
    "t": (None, "", "a", "b", "\u00e4 b"),
    "n": (None, "0", "1", "2.5", "-1.25", "7"),
    "f": (None, "0.5", "3", "NaN", "-Infinity"),
    "b": (None, True, False),
}


@st.composite
def wide_views(draw: st.DrawFn, name: str) -> View:
    """Views that pass many columns on: keys survive in them more often than in those of `several_views`."""
    drawing = Drawing(draw, [], left=3)
    text, scope = joined(drawing, draw(st.integers(0, 1)))
    where = f" WHERE {_equality(drawing, scope)}" if drawing.maybe() else ""
    names = [column for column, _ in scope]
    distinct = "DISTINCT " if drawing.maybe(3) else ""
    shown = [column for column in names if drawing.maybe(4 if distinct else 2)] or names[:1]
    items = ", ".join(f"{column} AS c{place}" for place, column in enumerate(shown))
    columns = tuple((f"c{place}", dict(scope)[column]) for place, column in enumerate(shown))
    body = f"SELECT {distinct}{items} FROM {text}{where}"
    if not drawing.maybe():
        return View(name, body, columns)
    tags = drawing.one_of([("'a'", "'b'"), ("'a'", "'a'")])
    operation = drawing.one_of(["UNION ALL", "UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT ALL", "INTERSECT"])
    sides = (f"SELECT {tag} AS tag, x.* FROM ({body}) x" for tag in tags)
    return View(name, f" {operation} ".join(sides), (("tag", "int"), *columns))


def _equality(drawing: Drawing, scope: Columns) -> str:
    name, kind = drawing.one_of(scope)
    others = [other for other, its in scope if its == kind and other.split(".")[0] != name.split(".")[0]]
    if others and drawing.maybe():
        return f"{name} = {drawing.one_of(others)}"
    constants = {"int": "1", "text": "'a'", "bool": "true", "num": "1", "float": "1", "quotient": "1", "six": "1"}
    return f"{name} = {constants[kind]}"


@pytest.fixture
def cursor(database: Callable[..., str]) -> Iterator[Any]:
    with closing(connect(database("keys"), 5, 60)) as connection, connection.cursor() as opened:
        yield opened


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="DYDA_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(several_views(2), st.tuples(*(wide_views(f"w{number}") for number in range(6))), KEYED, STEPS, SEEDS)
def test_a_derived_key_has_no_duplicates(
    cursor: Any, views: list[View], wide: tuple[View, ...], keyed: tuple[Any, ...], steps: list[Any], seed: int
) -> None:
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    try:
        cursor.execute("BEGIN; CREATE SCHEMA one; CREATE SCHEMA two")
        for source, table in TABLES:
            cursor.execute(f"CREATE TABLE {source}.{table} ({described})")
        for key in keyed:
            attempt(cursor, *key)
        for number, place in enumerate(TABLES):
            fill(cursor, place, seed + number)
        check(cursor, [*views, *wide])
        for step in steps:
            attempt(cursor, *step)
            check(cursor, [*views, *wide])
    finally:
        cursor.execute("ROLLBACK")


def fill(cursor: Any, table: tuple[str, str], seed: int) -> None:
    """Rows as far as the table's keys and NOT NULLs allow them."""
    some = random.Random(seed)
    rows = [tuple(some.choice(VALUES[column]) for column in COLUMNS) for _ in range(30)]
    cursor.execute(
        "SELECT array_agg(attname::text) FROM pg_attribute WHERE attrelid = %s::regclass AND attnotnull AND attnum > 0",
        (".".join(table),),
    )
    needed = cursor.fetchone()[0] or []
    places = [place for place, column in enumerate(COLUMNS) if column in needed]
    rows = [row for row in rows if all(row[place] is not None for place in places)]
    marks = f"({', '.join(['%s'] * len(COLUMNS))})"
    if rows:
        cursor.execute(
            f"INSERT INTO {'.'.join(table)} VALUES {', '.join([marks] * len(rows))} ON CONFLICT DO NOTHING",
            [value for row in rows for value in row],
        )


def attempt(cursor: Any, what: str, table: tuple[str, str], argument: Any) -> None:
    """One step; what PostgreSQL refuses does not happen."""
    name = ".".join(table)
    statements: list[tuple[str, Any]] = []
    match what:
        case "key":
            statements += [(f"ALTER TABLE {name} ALTER {column} SET NOT NULL", None) for column in argument]
            statements.append((f"ALTER TABLE {name} ADD UNIQUE ({', '.join(argument)})", None))
        case "unique":
            statements.append((f"ALTER TABLE {name} ADD UNIQUE ({', '.join(argument)})", None))
        case "drop":
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'u' ORDER BY 1", (name,)
            )
            statements += [(f"ALTER TABLE {name} DROP CONSTRAINT {found}", None) for (found,) in cursor.fetchall()[:1]]
        case "nullable":
            statements.append((f"ALTER TABLE {name} ALTER {argument} DROP NOT NULL", None))
        case "fill":
            fill(cursor, table, argument)
        case "delete":
            statements.append((f"DELETE FROM {name} WHERE id = %s", (argument,)))
    cursor.execute("SAVEPOINT step")
    try:
        for statement, values in statements:
            cursor.execute(statement, values)
    except (psycopg2.IntegrityError, psycopg2.ProgrammingError):
        cursor.execute("ROLLBACK TO SAVEPOINT step")


def check(cursor: Any, views: list[View]) -> None:
    """PostgreSQL's own evaluation of each view has no duplicates of any key that is derived."""
    relations: dict[tuple[str, str], Relation] = {}
    for source in ("one", "two"):
        tables = [(source, table) for s, table in TABLES if s == source]
        relations |= catalog.describe(cursor, source, tables)
    definitions: dict[str, ViewDefinition] = {}
    texts: dict[str, str] = {}
    for view in views:
        texts[view.name] = for_postgres(view.text, texts)
        definition = parse_view(
            view.name, view.text, lambda source, schema, table: relations[source, table], views=definitions.__getitem__
        )
        definitions[view.name] = definition
        for key in derive_keys(definition.tree).minimal:
            columns = ", ".join(key)
            grouped = f"GROUP BY {columns} " if key else ""
            cursor.execute(f"SELECT count(*) FROM ({texts[view.name]}) evaluated {grouped}HAVING count(*) > 1")
            assert cursor.fetchall() == [], f"({columns}) is no key of {view.text}"
            CHECKED.append(key)


CHECKED: list[tuple[str, ...]] = []


def test_keys_were_derived_of_many_sizes() -> None:
    """A property of nothing would hold."""
    assert {0, 1, 2} <= {len(key) for key in CHECKED}
