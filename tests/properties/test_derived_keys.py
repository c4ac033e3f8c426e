"""Wherever a key of a view is derived, PostgreSQL finds no duplicate of it, whatever happens to rows and keys.

Random views over tables with and without keys. Keys come and go, rows are written, and after each step the tables are
described from PostgreSQL's own catalog, the keys are derived, and PostgreSQL evaluates the view and looks for
duplicates. No Spark, no warehouse: a case takes milliseconds. DYDA_EXAMPLES says how many views are drawn.
"""

from __future__ import annotations

import os
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
from dyda.sources.reading.copy import connect
from tests.properties.operators import (
    COLUMNS,
    ROWS,
    TABLES,
    Columns,
    Drawing,
    View,
    for_postgres,
    joined,
    several_views,
)

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "60"))

KEYS = st.sampled_from([("id",), ("id", "k"), ("k",), ("t", "k"), ("n",), ("n", "b"), ("b", "id"), ("f",), ("t",)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("key"), st.sampled_from(TABLES), KEYS),
        st.tuples(st.just("key"), st.sampled_from(TABLES), KEYS),
        st.tuples(st.just("unique"), st.sampled_from(TABLES), KEYS),
        st.tuples(st.just("drop"), st.sampled_from(TABLES), st.none()),
        st.tuples(st.just("nullable"), st.sampled_from(TABLES), st.sampled_from(sorted(COLUMNS))),
        st.tuples(st.just("insert"), st.sampled_from(TABLES), st.lists(ROWS, min_size=1, max_size=8)),
        st.tuples(st.just("insert"), st.sampled_from(TABLES), st.lists(ROWS, min_size=1, max_size=8)),
        st.tuples(st.just("delete"), st.sampled_from(TABLES), st.integers(0, 4)),
    ),
    min_size=1,
    max_size=6,
)
FILLINGS = st.lists(st.tuples(st.sampled_from(TABLES), ROWS), max_size=30)
KEYED = st.lists(st.tuples(st.sampled_from(TABLES), KEYS), max_size=4)


@st.composite
def wide_views(draw: st.DrawFn) -> View:
    """Views that pass many columns on: keys survive in them more often than in those of `several_views`."""
    drawing = Drawing(draw, [], left=4)
    text, scope = joined(drawing, draw(st.integers(0, 1)))
    where = f" WHERE {_equality(drawing, scope)}" if drawing.maybe() else ""
    names = [name for name, _ in scope]
    shown = [name for name in names if drawing.maybe() or name.endswith(".id")] or names[:1]
    items = ", ".join(f"{name} AS c{place}" for place, name in enumerate(shown))
    kinds = dict(scope)
    columns = tuple((f"c{place}", kinds[name]) for place, name in enumerate(shown))
    if drawing.maybe(4):
        keys = ", ".join(shown)
        return View("v0", f"SELECT {items}, count(*) AS n FROM {text}{where} GROUP BY {keys}", (*columns, ("n", "int")))
    distinct = "DISTINCT " if drawing.maybe(4) else ""
    body = f"SELECT {distinct}{items} FROM {text}{where}"
    if not drawing.maybe(4):
        return View("v0", body, columns)
    tags = drawing.one_of([("'a'", "'b'"), ("'a'", "'a'"), ("1", "2")])
    operation = drawing.one_of(["UNION ALL", "UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT ALL", "INTERSECT"])
    sides = (f"SELECT {tag} AS tag, x.* FROM ({body}) x" for tag in tags)
    return View("v0", f" {operation} ".join(sides), (("tag", "int"), *columns))


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
@given(data=st.data())
def test_a_derived_key_has_no_duplicates(cursor: Any, data: st.DataObject) -> None:
    views = data.draw(st.one_of(several_views(2), st.lists(wide_views(), min_size=1, max_size=1)))
    keyed, rows, steps = data.draw(KEYED), data.draw(FILLINGS), data.draw(STEPS)
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    try:
        cursor.execute("BEGIN; CREATE SCHEMA one; CREATE SCHEMA two")
        for source, table in TABLES:
            cursor.execute(f"CREATE TABLE {source}.{table} ({described})")
        for table, key in keyed:
            attempt(cursor, "key", table, key)
        for table, row in rows:
            attempt(cursor, "insert", table, [row])
        check(cursor, views)
        for step in steps:
            attempt(cursor, *step)
            check(cursor, views)
    finally:
        cursor.execute("ROLLBACK")


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
        case "insert":
            marks = ", ".join(["%s"] * len(COLUMNS))
            for row in argument:
                cursor.execute("SAVEPOINT row")
                try:
                    cursor.execute(f"INSERT INTO {name} VALUES ({marks})", row)
                except psycopg2.IntegrityError:
                    cursor.execute("ROLLBACK TO SAVEPOINT row")
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
