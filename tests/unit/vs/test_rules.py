"""Rules V1 to V4: wrong promises about extents, shown on rows."""

from __future__ import annotations

import sqlite3

import pytest

from tests.unit.vs.case import Schemas, judge
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


RS: dict[str, list[tuple[object, ...]]] = {"a.r(k, x)": [(1, "x"), (2, "y"), (2, "z")], "b.s(k, id)": [(1, 7), (2, 8)]}

DIRECTIONS = [
    (
        "SELECT r.k FROM a.r r WHERE EXISTS (SELECT 1 FROM b.s s WHERE s.k = r.k AND s.id > 7 /* dispensable */)",
        "superset",
    ),
    (
        "SELECT r.k FROM a.r r WHERE NOT EXISTS (SELECT 1 FROM b.s s WHERE s.k = r.k AND s.id > 7 /* dispensable */)",
        "subset",
    ),
    ("SELECT r.k FROM a.r r WHERE r.k NOT IN (SELECT s.k FROM b.s s WHERE s.id > 7 /* dispensable */)", "subset"),
    ("SELECT r.k FROM a.r r EXCEPT SELECT s.k FROM b.s s WHERE s.id > 7 /* dispensable */", "subset"),
    ("SELECT s.k FROM b.s s WHERE s.id > 7 /* dispensable */ EXCEPT SELECT r.k FROM a.r r WHERE r.k > 2", "superset"),
    ("SELECT r.k, s.k AS other FROM a.r r LEFT JOIN b.s s ON r.k = s.k AND s.id > 7 /* dispensable */", "unknown"),
    ("SELECT count(*) AS n FROM b.s s WHERE s.id > 7 /* dispensable */", "unknown"),
]


@pytest.mark.parametrize(("old", "moved"), DIRECTIONS)
def test_V1_a_condition_less_moves_the_extent_as_the_operators_above_it_say(old: str, moved: str) -> None:
    """The rows show what becomes of them when the column of the condition is gone; the promise must not contradict."""
    judgement, _ = judge("-- dyda: extent = any\n" + old, PAIRS, "ALTER TABLE b.s DROP COLUMN id")
    assert isinstance(judgement, Rewritten)
    before, after = rows(old, RS), rows(judgement.definition.sql, RS)
    assert before != after, "the condition makes a difference"
    assert moved == ("superset" if before < after else "subset" if after < before else "unknown")
    assert judgement.extent == moved
    for promise in {"equivalent", "superset", "subset"} - {judgement.extent}:
        judged, _ = judge(f"-- dyda: extent = {promise}\n{old}", PAIRS, "ALTER TABLE b.s DROP COLUMN id")
        assert isinstance(judged, Broken), "what is not proven does not satisfy the view"


PRICES = """
CREATE TABLE a.f (id integer PRIMARY KEY, k integer NOT NULL, price integer);
CREATE TABLE b.t (k integer{}, price integer)
"""
PRICE = """
join = [{between = ["a.f", "b.t"], on = "f.k = t.k"}]
containment = [{of = "a.f(k)", is = "subset", in = "b.t(k)"}]
function = [{attribute = "a.f.price", equals = "b.t.price"}]
"""


def test_V4_a_join_without_a_key_counts_rows_twice() -> None:
    old = "SELECT sum(f.price) AS total /* replaceable */, min(f.price) AS least /* replaceable */ FROM a.f f"
    change = "ALTER TABLE a.f DROP COLUMN price"
    loose, strict = (Schemas({}).execute(PRICES.format(key)) for key in (" NOT NULL", " PRIMARY KEY"))
    judgement, _ = judge("-- dyda: extent = any\n" + old, loose, change, PRICE)
    assert isinstance(judgement, Rewritten)
    tables: dict[str, list[tuple[object, ...]]] = {
        "a.f(id, k, price)": [(1, 5, 10), (2, 5, 10)],
        "b.t(k, price)": [(5, 10), (5, 10)],
    }
    assert rows(old, tables) == {(20, 10)}
    assert rows(judgement.definition.sql, tables) == {(40, 10)}, "every constraint holds, and the sum is wrong"
    assert judgement.extent == "unknown"
    assert isinstance(judge(old, loose, change, PRICE)[0], Broken)
    least = old.replace("sum(f.price) AS total /* replaceable */, ", "")
    for text, schemas in ((old, strict), (least, loose)):
        judgement, _ = judge(text, schemas, change, PRICE)
        assert isinstance(judgement, Rewritten)
        assert judgement.extent == "equivalent"


STAND_IN = 'containment = [{of = "a.r(id, x)", is = "equivalent", in = "b.s(id, y)"}]'


@pytest.mark.parametrize(
    ("own", "other", "extent"), [("u", "p", "unknown"), ("p", "u", "unknown"), ("p", "p", "equivalent")]
)
def test_V4_a_relation_stands_in_under_a_sum_only_with_keys_on_both_sides(own: str, other: str, extent: str) -> None:
    keys = {"u": "NOT NULL", "p": "PRIMARY KEY"}
    schemas = Schemas({}).execute(
        f"CREATE TABLE a.r (id integer {keys[own]}, x integer); CREATE TABLE b.s (id integer {keys[other]}, y integer)"
    )
    old = "SELECT sum(r.x) AS total /* replaceable */ FROM a.r r /* replaceable */"
    judgement, _ = judge("-- dyda: extent = any\n" + old, schemas, "DROP TABLE a.r", STAND_IN)
    assert isinstance(judgement, Rewritten)
    assert judgement.extent == extent
    once: list[tuple[object, ...]] = [(1, 10)]
    tables = {"a.r(id, x)": once * (2 if own == "u" else 1), "b.s(id, y)": once * (2 if other == "u" else 1)}
    same = rows(old, tables) == rows(judgement.definition.sql, tables)
    assert same == (extent == "equivalent"), "the containment holds of both as sets"


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
