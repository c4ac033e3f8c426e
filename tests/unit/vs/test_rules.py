"""Rules V1 to V4: wrong promises about extents, shown on rows where the language has what the rule is about."""

from __future__ import annotations

import sqlite3

import pytest

from dyda.errors import UnsupportedSql
from tests.unit.vs.case import Schemas, judge, view
from vs import Broken, Rewritten

PAIRS = Schemas({}).execute(
    """
    CREATE TABLE a.r (k integer, x text);
    CREATE TABLE b.s (k integer, id integer);
    CREATE TABLE c.t (x text, id integer);
    """
)


def rows(sql: str, tables: dict[str, list[tuple[object, ...]]]) -> set[tuple[object, ...]]:
    database = sqlite3.connect(":memory:")
    for name, values in tables.items():
        source, table, columns = name.replace("(", ".").rstrip(")").split(".")
        database.execute(f"CREATE TABLE {table} ({columns})")
        database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values[0]))})", values)
        sql = sql.replace(f"{source}.{table} ", f"{table} ").replace(f"`{source}`.`public`.`{table}`", table)
    return set(database.execute(sql))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r.k FROM a.r r WHERE NOT EXISTS (SELECT 1 FROM b.s s WHERE s.k = r.k)",
        "SELECT r.k FROM a.r r EXCEPT SELECT s.k FROM b.s s",
        "SELECT r.k, s.id FROM a.r r LEFT JOIN b.s s ON r.k = s.k AND s.id > 3",
        "SELECT r.k, count(*) AS n FROM a.r r GROUP BY r.k",
    ],
)
def test_V1_V4_what_the_proof_does_not_understand_is_not_in_a_view(text: str) -> None:
    """The proof takes every step to be monotone over distinct rows. Whoever lets these in must teach it first that
    directions flip under NOT EXISTS and EXCEPT, and that nothing is known under outer joins and aggregates."""
    with pytest.raises((UnsupportedSql, ValueError)):
        assert view(text, PAIRS).select


def test_V2_two_containments_of_one_column_each_promise_nothing_together() -> None:
    old = "SELECT r.k /* replaceable */, r.x /* replaceable */ FROM a.r r /* replaceable */"
    knowledge = """
    containment = [{of = "a.r(k)", is = "equivalent", in = "b.s(k)"}, {of = "a.r(x)", is = "equivalent", in = "c.t(x)"}]
    join = [{between = ["b.s", "c.t"], on = "s.id = t.id"}]
    """
    judgement, _ = judge("-- dyda: extent = any\n" + old, PAIRS, "DROP TABLE a.r", knowledge)
    assert isinstance(judgement, Rewritten)
    tables: dict[str, list[tuple[object, ...]]] = {
        "a.r(k, x)": [(1, "x"), (2, "y")],
        "b.s(k, id)": [(1, 7), (2, 8)],
        "c.t(x, id)": [("y", 7), ("x", 8)],
    }
    assert rows(old, tables) == {(1, "x"), (2, "y")}
    assert rows(judgement.definition.sql, tables) == {(1, "y"), (2, "x")}, "both containments hold, and no row is right"
    assert judgement.extent == "unknown"
    for extent in ("equivalent", "superset", "subset"):
        judgement, _ = judge(f"-- dyda: extent = {extent}\n{old}", PAIRS, "DROP TABLE a.r", knowledge)
        assert isinstance(judgement, Broken)


def test_V3_a_contained_key_that_is_null_still_loses_its_row() -> None:
    schemas = Schemas({}).execute("CREATE TABLE a.r (k integer, x text); CREATE TABLE b.s (k integer, y text)")
    old = "SELECT r.k, r.x /* replaceable */ FROM a.r r"
    knowledge = """
    containment = [{of = "a.r(k)", is = "equivalent", in = "b.s(k)"}]
    join = [{between = ["a.r", "b.s"], on = "r.k = s.k"}]
    function = [{attribute = "a.r.x", equals = "b.s.y"}]
    """
    change = "ALTER TABLE a.r DROP COLUMN x"
    judgement, _ = judge("-- dyda: extent = any\n" + old, schemas, change, knowledge)
    assert isinstance(judgement, Rewritten)
    tables: dict[str, list[tuple[object, ...]]] = {"a.r(k, x)": [(None, "x")], "b.s(k, y)": [(None, "x")]}
    assert rows(old, tables) == {(None, "x")}
    assert rows(judgement.definition.sql, tables) == set(), "the containment holds, and the row is lost"
    assert judgement.extent == "subset"
    judgement, _ = judge(old, schemas, change, knowledge)
    assert isinstance(judgement, Broken), "not equivalent, as the view asks"
    strict = Schemas({}).execute("CREATE TABLE a.r (k integer NOT NULL, x text); CREATE TABLE b.s (k integer, y text)")
    judgement, _ = judge(old, strict, change, knowledge)
    assert isinstance(judgement, Rewritten)
    assert judgement.extent == "equivalent"
