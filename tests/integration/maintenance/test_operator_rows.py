"""Each operator by itself, through a script of telling batches; PostgreSQL's own evaluation judges every state.

One town plays the script once for all operators; each test then looks at the states of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest

from dyda.engine import Engine
from tests.town import Town

pytestmark = pytest.mark.long

COLUMNS = "id int, k int, t text, n numeric(8,2), f double precision, b boolean"

OPERATORS = {
    # Outer joins
    "left_join": "SELECT r.id, r.k, s.id AS sid, s.t FROM one.r r LEFT JOIN two.s s ON r.k = s.k",
    "right_join": "SELECT r.id, s.id AS sid, s.k FROM one.r r RIGHT JOIN two.s s ON r.k = s.k",
    "full_join": "SELECT r.id, r.k, s.id AS sid, s.k AS sk FROM one.r r FULL OUTER JOIN two.s s ON r.k = s.k",
    "left_join_on_preserved": (
        "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON r.k = s.k AND r.n > 10 AND s.t <> 'a'"
    ),
    "left_join_on_inequality": "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON r.k < s.k",
    "left_join_of_a_join": (
        "SELECT r.id, s.id AS sid, q.id AS qid"
        " FROM one.r r LEFT JOIN (two.s s JOIN one.q q ON s.id = q.id) ON r.k = s.k"
    ),
    "left_join_chain": (
        "SELECT r.id, s.id AS sid, q.id AS qid"
        " FROM one.r r LEFT JOIN two.s s ON r.k = s.k LEFT JOIN one.q q ON s.id = q.id"
    ),
    "full_join_chain": (
        "SELECT r.id, s.id AS sid, q.id AS qid"
        " FROM one.r r FULL JOIN two.s s ON r.k = s.k FULL JOIN one.q q ON r.id = q.id"
    ),
    "unmatched_by_where": "SELECT r.id FROM one.r r LEFT JOIN two.s s ON r.k = s.k WHERE s.id IS NULL",
    "left_join_of_itself": "SELECT x.id, y.id AS other FROM one.r x LEFT JOIN one.r y ON x.k = y.k AND x.id < y.id",
    # Conditions that are one word, or read no column at all
    "left_join_on_true": "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON true",
    "left_join_on_false": "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON false",
    "full_join_on_true": "SELECT r.id, s.id AS sid FROM one.r r FULL JOIN two.s s ON true WHERE true",
    "join_on_true": "SELECT r.id, s.id AS sid FROM one.r r INNER JOIN two.s s ON true WHERE r.k = 1",
    "join_on_one_is_one": "SELECT r.id, s.id AS sid FROM one.r r JOIN two.s s ON 1 = 1 WHERE s.k = r.k",
    "where_true": "SELECT r.id FROM one.r r WHERE true",
    "where_false": "SELECT r.id, s.t FROM one.r r JOIN two.s s ON r.k = s.k WHERE false",
    "where_boolean": "SELECT r.id FROM one.r r WHERE r.b",
    # Semi and anti joins
    "exists": "SELECT r.id, r.t FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s WHERE s.k = r.k)",
    "not_exists": "SELECT r.id, r.t FROM one.r r WHERE NOT EXISTS (SELECT 1 FROM two.s s WHERE s.k = r.k)",
    "exists_inequality": (
        "SELECT r.id FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s WHERE s.k = r.k AND s.id <> r.id)"
    ),
    "exists_over_outer_joins": (
        "SELECT r.id FROM one.r r LEFT JOIN two.s s ON r.k = s.k FULL JOIN one.q q ON r.id = q.id"
        " WHERE EXISTS (SELECT 1 FROM two.s x WHERE x.k = r.k AND x.n > 5)"
    ),
    "not_exists_over_outer_joins": (
        "SELECT r.id, s.t, q.id AS qid FROM one.r r LEFT JOIN two.s s ON r.k = s.k FULL JOIN one.q q ON r.id = q.id"
        " WHERE NOT EXISTS (SELECT 1 FROM two.s x WHERE x.k = q.id AND x.id <> s.id)"
    ),
    "exists_uncorrelated": "SELECT r.id FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s WHERE s.n > 20)",
    "in": "SELECT r.id, r.k FROM one.r r WHERE r.k IN (SELECT s.k FROM two.s s WHERE s.n > 5)",
    "not_in": "SELECT r.id, r.k FROM one.r r WHERE r.k NOT IN (SELECT s.k FROM two.s s)",
    "not_in_correlated": ("SELECT r.id, r.k FROM one.r r WHERE r.k NOT IN (SELECT s.k FROM two.s s WHERE s.t = r.t)"),
    "semi_join_over_a_join": (
        "SELECT r.id FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s JOIN one.q q ON s.id = q.id WHERE s.k = r.k)"
    ),
    # DISTINCT and set operations
    "distinct": "SELECT DISTINCT r.k, r.t FROM one.r r",
    "distinct_over_a_join": "SELECT DISTINCT s.t FROM one.r r JOIN two.s s ON r.k = s.k",
    "union": "SELECT r.k, r.t FROM one.r r UNION SELECT s.k, s.t FROM two.s s",
    "union_all": "SELECT r.k, r.t FROM one.r r UNION ALL SELECT s.k, s.t FROM two.s s",
    "except": "SELECT r.k FROM one.r r EXCEPT SELECT s.k FROM two.s s",
    "except_all": "SELECT r.k FROM one.r r EXCEPT ALL SELECT s.k FROM two.s s",
    "intersect": "SELECT r.k FROM one.r r INTERSECT SELECT s.k FROM two.s s",
    "intersect_all": "SELECT r.k FROM one.r r INTERSECT ALL SELECT s.k FROM two.s s",
    "set_operations_nested": (
        "(SELECT r.k FROM one.r r EXCEPT ALL SELECT s.k FROM two.s s) UNION ALL SELECT q.k FROM one.q q"
    ),
    # GROUP BY
    "counts": "SELECT r.k, count(*) AS c, count(r.n) AS d FROM one.r r GROUP BY r.k",
    "sum": "SELECT r.k, sum(r.id) AS s, sum(r.n) AS m FROM one.r r GROUP BY r.k",
    "avg": (
        "SELECT r.k, cast(avg(r.id) AS decimal(20,6)) AS i, cast(avg(r.n) AS decimal(20,6)) AS n"
        " FROM one.r r GROUP BY r.k"
    ),
    "min_max": (
        "SELECT r.k, min(r.n) AS low, max(r.n) AS high, min(r.t) AS least, max(r.f) AS f FROM one.r r GROUP BY r.k"
    ),
    "variance": (
        "SELECT r.k, cast(var_samp(r.id) AS decimal(20,6)) AS a, cast(var_pop(r.n) AS decimal(20,6)) AS b,"
        " cast(stddev_samp(r.n) AS decimal(20,6)) AS c, cast(stddev_pop(r.id) AS decimal(20,6)) AS d"
        " FROM one.r r GROUP BY r.k"
    ),
    "variance_of_floats": (
        "SELECT r.k, cast(var_pop(r.f) FILTER (WHERE r.f < 1000) AS decimal(20,6)) AS v FROM one.r r GROUP BY r.k"
    ),
    "bools": "SELECT r.k, bool_and(r.b) AS both, bool_or(r.b) AS one FROM one.r r GROUP BY r.k",
    "floats": "SELECT r.k, sum(r.f) AS s, avg(r.f) AS a, max(r.f) AS m FROM one.r r GROUP BY r.k",
    "filter": (
        "SELECT r.k, count(*) FILTER (WHERE r.n > 10) AS c, sum(r.id) FILTER (WHERE r.t = 'a') AS s,"
        " max(r.n) FILTER (WHERE r.b) AS m FROM one.r r GROUP BY r.k"
    ),
    "having": "SELECT r.k, count(*) AS c FROM one.r r GROUP BY r.k HAVING count(*) > 1 AND sum(r.n) > 15",
    "count_distinct": "SELECT r.k, count(DISTINCT r.t) AS c, count(*) AS n FROM one.r r GROUP BY r.k",
    "several_distinct": (
        "SELECT r.k, count(DISTINCT r.t) AS c, sum(DISTINCT r.id) AS s, count(DISTINCT r.n) FILTER (WHERE r.b) AS d"
        " FROM one.r r GROUP BY r.k"
    ),
    "no_keys": "SELECT count(*) AS c, sum(r.n) AS s, min(r.k) AS low, count(DISTINCT r.t) AS d FROM one.r r",
    "no_keys_having": "SELECT sum(r.id) AS s FROM one.r r HAVING count(*) > 3",
    "key_expression": ("SELECT r.k + 1 AS l, upper(r.t) AS u, count(*) AS c FROM one.r r GROUP BY r.k + 1, upper(r.t)"),
    "float_key": "SELECT r.f, count(*) AS c FROM one.r r GROUP BY r.f",
    "group_over_a_join": (
        "SELECT s.t, count(*) AS c, sum(r.n) AS s, max(r.n) AS m FROM one.r r JOIN two.s s ON r.k = s.k GROUP BY s.t"
    ),
    "group_over_a_left_join": (
        "SELECT r.k, count(s.id) AS c, sum(s.n) AS s, min(s.n) AS m"
        " FROM one.r r LEFT JOIN two.s s ON r.k = s.k GROUP BY r.k"
    ),
    "group_over_a_group": (
        "SELECT d.c, count(*) AS groups, max(d.s) AS m"
        " FROM (SELECT r.k, count(*) AS c, sum(r.n) AS s FROM one.r r GROUP BY r.k) d GROUP BY d.c"
    ),
    # Subqueries, common table expressions, views over views
    "scalar": "SELECT r.id FROM one.r r WHERE r.n > (SELECT cast(avg(s.n) AS decimal(20,6)) FROM two.s s)",
    "scalar_correlated": "SELECT r.id, r.n FROM one.r r WHERE r.n >= (SELECT max(s.n) FROM two.s s WHERE s.k = r.k)",
    "scalar_selected": "SELECT r.id, (SELECT count(*) FROM two.s s WHERE s.k = r.k) AS c FROM one.r r",
    "common_table": (
        "WITH w AS (SELECT s.k, count(*) AS c FROM two.s s GROUP BY s.k)"
        " SELECT x.k, x.c, y.c AS same FROM w x LEFT JOIN w y ON x.c = y.c AND x.k < y.k"
    ),
    "derived": "SELECT d.k, r.id FROM (SELECT DISTINCT s.k FROM two.s s WHERE s.n > 5) d JOIN one.r r ON r.k = d.k",
    "view_over_views": "SELECT c.k, c.c, l.sid FROM counts c JOIN left_join l ON c.k = l.k",
    "view_over_that": "SELECT v.sid, count(*) AS c FROM view_over_views v GROUP BY v.sid",
}

IN_POSTGRES = {
    # What PostgreSQL has no words for, and what is equal on PostgreSQL in other words.
    "left_semi_join": (
        "SELECT r.id, r.k FROM one.r r LEFT SEMI JOIN two.s s ON r.k = s.k",
        "SELECT r.id, r.k FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s WHERE r.k = s.k)",
    ),
    "left_anti_join": (
        "SELECT r.id, r.k FROM one.r r LEFT ANTI JOIN two.s s ON r.k = s.k AND s.n > 5",
        "SELECT r.id, r.k FROM one.r r WHERE NOT EXISTS (SELECT 1 FROM two.s s WHERE r.k = s.k AND s.n > 5)",
    ),
    "null_safe_left_join": (
        "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON r.k <=> s.k",
        "SELECT r.id, s.id AS sid FROM one.r r LEFT JOIN two.s s ON r.k IS NOT DISTINCT FROM s.k",
    ),
}

MANY = "SELECT i, i % 4, chr(97 + i % 3), i * 5, i / 4.0, i % 2 = 0 FROM"

SCRIPT: list[tuple[str, list[tuple[str, str]]]] = [
    # what is told: transactions (source, statements), all of them before the next cycle
    ("the first rows, on one side alone", [("one", "INSERT INTO r VALUES (1, 1, 'a', 10, 0.5, true)")]),
    (
        "the first match, and rows that match nothing",
        [
            ("two", "INSERT INTO s VALUES (1, 1, 'a', 10, 1, true), (2, 7, 'b', 30, 2, false)"),
            ("one", "INSERT INTO r VALUES (2, 2, 'b', 20, 1.25, false); INSERT INTO q VALUES (1, 1, 'a', 1, 1, true)"),
        ],
    ),
    (
        "NULL keys, duplicates and empty texts on both sides at once",
        [
            ("one", "INSERT INTO r VALUES (3, NULL, NULL, NULL, NULL, NULL), (1, 1, 'a', 10, 0.5, true)"),
            ("one", "INSERT INTO r VALUES (4, 1, '', 5, 3, NULL)"),
            ("two", "INSERT INTO s VALUES (3, NULL, NULL, 1, 1, true), (1, 1, 'a', 10, 1, true)"),
            ("two", "INSERT INTO s VALUES (4, 2, 'b', 40, 1, true)"),
        ],
    ),
    (
        "one of two equal rows and one of two matches go; the NULL that NOT IN saw goes",
        [
            ("one", "DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r WHERE id = 1)"),
            ("two", "DELETE FROM s WHERE ctid = (SELECT min(ctid) FROM s WHERE id = 1)"),
            ("two", "DELETE FROM s WHERE k IS NULL"),
        ],
    ),
    (
        "rows move between groups, the extremes and the last match of a key go, not-a-number and infinity come",
        [
            ("one", "UPDATE r SET k = 2, n = n + 0.25 WHERE id = 4; UPDATE r SET k = 5 WHERE id = 3"),
            ("two", "UPDATE s SET k = 5 WHERE id = 2"),
            ("one", "INSERT INTO q VALUES (2, 5, 'q', 2, 2, false), (4, 1, 'q', 3, 3, NULL)"),
            ("one", "DELETE FROM r WHERE n = (SELECT max(n) FROM r)"),
            ("one", "INSERT INTO r VALUES (5, 2, 'a', 7, 'NaN', true), (6, 1, 'c', 8, 'Infinity', false)"),
            ("two", "DELETE FROM s WHERE id = 1"),
        ],
    ),
    (
        "they go again; a row comes, changes and goes between two cycles",
        [
            ("one", "UPDATE r SET f = 2 WHERE f > 1000; INSERT INTO r VALUES (9, 9, 'z', 99, 9, true)"),
            ("one", "UPDATE r SET k = 1 WHERE id = 9"),
            ("one", "DELETE FROM r WHERE id = 9"),
            ("two", "INSERT INTO s VALUES (5, 1, 'c', 6, 1, false), (6, 1, 'c', 8, 1, true)"),
            ("two", "INSERT INTO s VALUES (6, NULL, 'b', 8, 1, true)"),
        ],
    ),
    ("one side is truncated", [("two", "TRUNCATE s")]),
    (
        "and filled again while the other side changes",
        [
            ("two", f"INSERT INTO s {MANY} generate_series(1, 9) i"),
            ("one", f"INSERT INTO r {MANY} generate_series(10, 16) i"),
            ("one", "DELETE FROM q WHERE id = 2"),
        ],
    ),
    ("the last rows of the preserved side go", [("one", "DELETE FROM r")]),
]

NEVER_MOVES = ("where_false",)

ALL = {name: (text, text) for name, text in OPERATORS.items()} | IN_POSTGRES


@dataclass(frozen=True)
class State:
    """One view after one batch: as it is, and as PostgreSQL says it should be."""

    told: str
    extent: Counter[str]
    expected: Counter[str]


@pytest.fixture(scope="module")
def played(
    tmp_path_factory: pytest.TempPathFactory, module_database: Callable[..., str], engine: Engine
) -> Iterator[dict[str, list[State]]]:
    town = Town(tmp_path_factory.mktemp("operators"), module_database, engine)
    town.source("one", f"CREATE TABLE r ({COLUMNS})", f"CREATE TABLE q ({COLUMNS})")
    town.source("two", f"CREATE TABLE s ({COLUMNS})")
    town.judge().copy("one", town.sources["one"], ["r", "q"])
    town.judge().copy("two", town.sources["two"], ["s"])
    for name, (text, theirs) in ALL.items():
        town.view(name, text)
        town.judge().execute(f'CREATE VIEW "{name}" AS {theirs}')
    town.apply()
    states: dict[str, list[State]] = {name: [] for name in ALL}
    look(town, "no rows at all", states)
    for told, transactions in SCRIPT:
        for source, statements in transactions:
            town.execute(source, statements)
        town.settle()
        look(town, told, states)
    yield states
    town.close()


def look(town: Town, told: str, states: dict[str, list[State]]) -> None:
    town.judge().refill("one", town.sources["one"], ["r", "q"])
    town.judge().refill("two", town.sources["two"], ["s"])
    for name, extent in town.extents(states).items():
        states[name].append(State(told, extent, town.judge().evaluate(f'SELECT * FROM "{name}"')))


@pytest.mark.parametrize("name", ALL)
def test_operator(played: dict[str, list[State]], name: str) -> None:
    states = played[name]
    for state in states:
        extent, expected = state.extent, state.expected
        assert extent == expected, f"{state.told}: extra {extent - expected}, missing {expected - extent}"
    different = [one.expected != other.expected for one, other in pairwise(states)]
    assert sum(different) >= 4 or name in NEVER_MOVES, "the script tells nothing about this operator"
