"""Rules K1 to K4 and R5 of keyed operators, each with the rows that break without it, and what they cost a source."""

from __future__ import annotations

from collections import Counter

import pytest

from dyda.maintenance.cycle import Outcome
from tests.town import Town


def cost(town: Town) -> int:
    """Run until idle; how many queries that put to the sources."""
    with town.maintainer() as maintainer:
        before = {unit.id for unit in maintainer.opened.warehouse.units()}
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        return sum(unit.queries for unit in maintainer.opened.warehouse.units() if unit.id not in before)


# K1: the touched keys are known only after the input's delta.


def test_K1_one_of_two_matches_of_a_joined_right_side_goes(town: Town) -> None:
    """A ⟕ (B ⋈ C): one pass over the deleted row alone sees no other match and invents (a, NULL)."""
    town.source("one", "CREATE TABLE a (x int)", "INSERT INTO a VALUES (1), (2)")
    town.source("two", "CREATE TABLE b (x int, y int)", "INSERT INTO b VALUES (1, 10), (1, 11)")
    town.source("three", "CREATE TABLE c (y int, z int)", "INSERT INTO c VALUES (10, 100), (11, 110)")
    town.view(
        "v", "SELECT a.x, c.z FROM one.a a LEFT JOIN (two.b b JOIN three.c c ON b.y = c.y) ON a.x = b.x"
    )  # fmt: skip
    town.apply()
    assert town.extent("v") == Counter(["1\t100", "1\t110", "2\t\\N"])
    town.execute("three", "DELETE FROM c WHERE y = 10")
    town.settle()
    assert town.extent("v") == Counter(["1\t110", "2\t\\N"]), "no (1, NULL): the other match is still there"
    town.execute("two", "DELETE FROM b WHERE y = 11")
    town.settle()
    assert town.extent("v") == Counter(["1\t\\N", "2\t\\N"])
    town.execute("three", "INSERT INTO c VALUES (10, 101)")
    town.settle()
    assert town.extent("v") == Counter(["1\t101", "2\t\\N"]), "the match comes back, and the padded row goes"


def test_K1_distinct_over_a_join_keeps_a_value_that_another_key_still_has(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, v text)", "INSERT INTO r VALUES (1, 'a'), (2, 'a'), (3, 'b')")
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1), (2), (3)")
    town.view("v", "SELECT DISTINCT r.v FROM one.r r JOIN two.s s ON r.k = s.k")
    town.apply()
    town.execute("two", "DELETE FROM s WHERE k = 1")
    town.settle()
    assert town.extent("v") == Counter(["a", "b"]), "key 2 still has a"
    town.execute("two", "DELETE FROM s WHERE k = 2")
    town.settle()
    assert town.extent("v") == Counter(["b"])


# K2: NOT IN keeps rows and NULLs of its subquery.


def test_K2_not_in_changes_as_its_subquery_gets_rows_and_nulls(town: Town) -> None:
    town.source("one", "CREATE TABLE r (x int)", "INSERT INTO r VALUES (1), (2), (NULL)")
    town.source("two", "CREATE TABLE s (y int)")
    town.view("v", "SELECT r.x FROM one.r r WHERE r.x NOT IN (SELECT s.y FROM two.s s)")
    town.apply()
    assert town.extent("v") == Counter(["1", "2", "\\N"]), "nothing to be in: even NULL is not in it"
    steps = [
        ("INSERT INTO s VALUES (1)", ["2"], "with a row there, NULL is unknown"),
        ("INSERT INTO s VALUES (NULL), (NULL)", [], "with a NULL there, everything is unknown"),
        ("DELETE FROM s WHERE ctid = (SELECT min(ctid) FROM s WHERE y IS NULL)", [], "one NULL is enough"),
        ("DELETE FROM s WHERE y IS NULL", ["2"], "the last NULL is gone"),
        ("DELETE FROM s", ["1", "2", "\\N"], "the last row is gone"),
        ("INSERT INTO s VALUES (NULL)", [], "the first row is a NULL"),
    ]
    for statement, rows, why in steps:
        town.execute("two", statement)
        town.settle()
        assert town.extent("v") == Counter(rows), why
        town.check()


def test_K2_not_in_with_a_correlation_keeps_them_per_key(town: Town) -> None:
    town.source("one", "CREATE TABLE r (x int, g int)", "INSERT INTO r VALUES (1, 1), (1, 2), (NULL, 3)")
    town.source("two", "CREATE TABLE s (y int, g int)")
    town.view("v", "SELECT r.x, r.g FROM one.r r WHERE r.x NOT IN (SELECT s.y FROM two.s s WHERE s.g = r.g)")
    town.apply()
    for statement, rows in [
        ("INSERT INTO s VALUES (NULL, 1)", ["1\t2", "\\N\t3"]),
        ("INSERT INTO s VALUES (5, 3), (1, 2)", []),
        ("UPDATE s SET g = 4 WHERE y IS NULL OR y = 5", ["1\t1", "\\N\t3"]),
    ]:
        town.execute("two", statement)
        town.settle()
        assert town.extent("v") == Counter(rows), statement
        town.check()


# K3: state covers all groups.


def test_K3_having_hides_a_group_and_shows_it_again(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, n int)", "INSERT INTO r VALUES (1, 10), (1, 20), (2, 5)")
    town.view("v", "SELECT r.k, sum(r.n) AS s FROM one.r r GROUP BY r.k HAVING count(*) > 1")
    town.apply()
    assert town.extent("v") == Counter(["1\t30"])
    for statement, rows in [
        ("INSERT INTO r VALUES (2, 6)", ["1\t30", "2\t11"]),
        ("DELETE FROM r WHERE n = 10", ["2\t11"]),
        ("UPDATE r SET n = 21 WHERE n = 20", ["2\t11"]),
        ("INSERT INTO r VALUES (1, NULL)", ["1\t21", "2\t11"]),
    ]:
        town.execute("one", statement)
        assert cost(town) == 0, "the hidden group's rows are not asked for"
        assert town.extent("v") == Counter(rows), statement


def test_K3_count_distinct_is_kept_per_group_and_value(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, v text)", "INSERT INTO r VALUES (1, 'a'), (1, 'a'), (1, 'b'), (2, 'a')")
    town.view("v", "SELECT r.k, count(DISTINCT r.v) AS d FROM one.r r GROUP BY r.k")
    town.apply()
    for statement, rows in [
        ("DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r WHERE k = 1 AND v = 'a')", ["1\t2", "2\t1"]),
        ("DELETE FROM r WHERE k = 1 AND v = 'a'", ["1\t1", "2\t1"]),
        ("UPDATE r SET v = NULL WHERE k = 2", ["1\t1", "2\t0"]),
        ("UPDATE r SET k = 2 WHERE k = 1", ["2\t1"]),
    ]:
        town.execute("one", statement)
        assert cost(town) == 0
        assert town.extent("v") == Counter(rows), statement


def test_K3_the_group_without_keys_always_exists(town: Town) -> None:
    town.source("one", "CREATE TABLE r (n int)")
    town.view("v", "SELECT count(*) AS c, count(r.n) AS d, sum(r.n) AS s, max(r.n) AS m FROM one.r r")
    town.view("over", "SELECT sum(t.c) AS c FROM (SELECT count(*) AS c FROM one.r r) t")
    town.apply()
    empty = Counter(["0\t0\t\\N\t\\N"])
    assert town.extent("v") == empty
    assert town.extent("over") == Counter(["0"])
    for statement, rows in [
        ("INSERT INTO r VALUES (NULL)", Counter(["1\t0\t\\N\t\\N"])),
        ("INSERT INTO r VALUES (4)", Counter(["2\t1\t4\t4"])),
        ("DELETE FROM r", empty),
        ("INSERT INTO r VALUES (0)", Counter(["1\t1\t0\t0"])),
        ("TRUNCATE r", empty),
    ]:
        town.execute("one", statement)
        town.settle()
        assert town.extent("v") == rows, statement
        town.check()


def test_K3_a_sum_of_nothing_but_nulls_is_null(town: Town) -> None:
    """Rows and values that are not NULL are counted apart: a group without values is there, and its sum is not 0."""
    town.source("one", "CREATE TABLE r (k int, n int)", "INSERT INTO r VALUES (1, 5), (1, -5), (1, NULL)")
    town.view("v", "SELECT r.k, sum(r.n) AS s, count(r.n) AS c FROM one.r r GROUP BY r.k")
    town.apply()
    assert town.extent("v") == Counter(["1\t0\t2"])
    town.execute("one", "DELETE FROM r WHERE n IS NOT NULL")
    town.settle()
    assert town.extent("v") == Counter(["1\t\\N\t0"])
    town.execute("one", "DELETE FROM r")
    town.settle()
    assert town.extent("v") == Counter()


# K4: floats cannot be subtracted.


def test_K4_a_large_float_leaves_and_the_small_one_is_still_there(town: Town) -> None:
    """(1e16 + 1) − 1e16 is 0 in floating point."""
    town.source("one", "CREATE TABLE r (k int, x double precision)", "INSERT INTO r VALUES (1, 1), (1, 1e16)")
    town.view("v", "SELECT r.k, sum(r.x) AS s, avg(r.x) AS a FROM one.r r GROUP BY r.k")
    town.apply()
    town.execute("one", "DELETE FROM r WHERE x > 1")
    town.settle()
    assert town.extent("v") == Counter(["1\t1\t1"])


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_K4_what_no_subtraction_undoes_leaves(town: Town, value: str) -> None:
    town.source("one", "CREATE TABLE r (k int, x double precision)", "INSERT INTO r VALUES (1, 2.5), (2, 1)")
    town.view(
        "v", "SELECT r.k, sum(r.x) AS s, avg(r.x) AS a, var_pop(r.x) AS p, max(r.x) AS m FROM one.r r GROUP BY r.k"
    )
    town.view("everything", "SELECT sum(r.x) AS s FROM one.r r")
    town.apply()
    town.execute("one", f"INSERT INTO r VALUES (1, '{value}')")
    town.settle()
    assert town.extent("everything") == Counter([value])
    town.execute("one", f"DELETE FROM r WHERE x = '{value}'")
    town.settle()
    assert town.extent("v") == Counter(["1\t2.5\t2.5\t0\t2.5", "2\t1\t1\t0\t1"])
    assert town.extent("everything") == Counter(["3.5"])


def test_K4_numerics_are_exact_without_a_source(town: Town) -> None:
    """What floats need, exact numbers do not: 0.1 added and taken away a hundred times."""
    town.source("one", "CREATE TABLE r (x numeric(20,2))", "INSERT INTO r VALUES (10000000000000.01), (0.01)")
    town.view("v", "SELECT sum(r.x) AS s, cast(avg(r.x) AS decimal(20,6)) AS a FROM one.r r")
    town.apply()
    town.execute("one", "INSERT INTO r SELECT 0.10 FROM generate_series(1, 100)")
    assert cost(town) == 0
    town.execute("one", "DELETE FROM r WHERE x = 0.10 OR x > 1")
    assert cost(town) == 0
    assert town.extent("v") == Counter(["0.01\t0.010000"])


# R5: NULL is a group like any other.


def test_R5_the_null_group_is_found_again(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, t text, n int)", "INSERT INTO r VALUES (NULL, NULL, 1), (1, NULL, 2)")
    town.view("v", "SELECT r.k, r.t, count(*) AS c, max(r.n) AS m FROM one.r r GROUP BY r.k, r.t")
    town.view("once", "SELECT DISTINCT r.k, r.t FROM one.r r")
    town.apply()
    for statement, rows in [
        ("INSERT INTO r VALUES (NULL, NULL, 3)", ["\\N\t\\N\t2\t3", "1\t\\N\t1\t2"]),
        ("DELETE FROM r WHERE n = 3", ["\\N\t\\N\t1\t1", "1\t\\N\t1\t2"]),
        ("UPDATE r SET k = NULL WHERE k = 1", ["\\N\t\\N\t2\t2"]),
        ("UPDATE r SET t = '' WHERE n = 2", ["\\N\t\\N\t1\t1", "\\N\t\t1\t2"]),
    ]:
        town.execute("one", statement)
        town.settle()
        assert town.extent("v") == Counter(rows), statement
        town.check()


def test_R5_the_extreme_of_the_null_group_is_read_again(town: Town) -> None:
    """A demand sweep for groups whose extreme went must find the group that `k = ANY(…)` never finds."""
    town.source("one", "CREATE TABLE r (k int, n int)", "INSERT INTO r VALUES (NULL, 1), (NULL, 9), (NULL, 5), (2, 7)")
    town.view("v", "SELECT r.k, max(r.n) AS m, min(r.n) AS l FROM one.r r GROUP BY r.k")
    town.apply()
    town.execute("one", "DELETE FROM r WHERE n = 9")
    town.settle()
    assert town.extent("v") == Counter(["\\N\t5\t1", "2\t7\t7"])
    town.execute("one", "DELETE FROM r WHERE n = 1")
    town.settle()
    assert town.extent("v") == Counter(["\\N\t5\t5", "2\t7\t7"])


def test_R5_null_keys_of_both_sides_never_match_and_stay_padded(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int)", "INSERT INTO r VALUES (NULL), (1)")
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (NULL)")
    town.view("v", "SELECT r.k AS a, s.k AS b FROM one.r r FULL JOIN two.s s ON r.k = s.k")
    town.apply()
    assert town.extent("v") == Counter({"\\N\t\\N": 2, "1\t\\N": 1})
    town.execute("one", "INSERT INTO r VALUES (NULL)")
    town.execute("two", "UPDATE s SET k = 1")
    town.settle()
    assert town.extent("v") == Counter({"\\N\t\\N": 2, "1\t1": 1})
    town.execute("two", "DELETE FROM s")
    town.settle()
    assert town.extent("v") == Counter({"\\N\t\\N": 2, "1\t\\N": 1})


# What keyed operators ask of the sources.

SELF_MAINTAINED = {
    "sums": "SELECT r.k, count(*) AS c, count(r.n) AS d, sum(r.n) AS s FROM one.r r GROUP BY r.k",
    "averages": "SELECT r.k, cast(avg(r.n) AS decimal(20,6)) AS a FROM one.r r GROUP BY r.k",
    "kinds": "SELECT r.k, bool_and(r.n > 1) AS b, count(DISTINCT r.n) AS d FROM one.r r GROUP BY r.k",
    "once": "SELECT DISTINCT r.k FROM one.r r",
    "together": "SELECT r.k FROM one.r r EXCEPT ALL SELECT s.k FROM one.s s",
    "grouped_twice": (
        "SELECT t.c, count(*) AS n FROM (SELECT r.k, count(*) AS c FROM one.r r GROUP BY r.k) t GROUP BY t.c"
    ),
}


@pytest.mark.parametrize("name", SELF_MAINTAINED)
def test_counts_and_sums_ask_no_source(town: Town, name: str) -> None:
    town.source("one", "CREATE TABLE r (k int, n int)", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1), (2), (2)")
    town.execute("one", "INSERT INTO r VALUES (1, 1), (1, 2), (2, 3), (NULL, 4)")
    town.view("v", SELF_MAINTAINED[name])
    town.apply()
    for statement in (
        "INSERT INTO r VALUES (1, 5), (3, NULL)",
        "DELETE FROM r WHERE n = 1",
        "UPDATE r SET k = 2, n = n + 1 WHERE k = 1",
        "DELETE FROM r WHERE k = 2",
    ):
        town.execute("one", statement)
        assert cost(town) == 0, statement
        town.check()


def test_extremes_ask_only_when_the_extreme_was_deleted(town: Town) -> None:
    """Table 1 of paper 002: an insert never asks, a delete only if it takes the extreme itself."""
    town.source("one", "CREATE TABLE r (k int, n int)")
    town.execute("one", "INSERT INTO r VALUES (1, 10), (1, 20), (1, 20), (1, 30), (2, 7), (2, 8)")
    town.view("v", "SELECT r.k, max(r.n) AS m FROM one.r r GROUP BY r.k")
    town.apply()
    for statement, asked, rows in [
        ("INSERT INTO r VALUES (1, 40), (1, 5), (3, 1)", False, ["1\t40", "2\t8", "3\t1"]),
        ("DELETE FROM r WHERE n IN (5, 10)", False, ["1\t40", "2\t8", "3\t1"]),
        ("DELETE FROM r WHERE n = 40", True, ["1\t30", "2\t8", "3\t1"]),
        ("DELETE FROM r WHERE n = 30; INSERT INTO r VALUES (1, 50)", False, ["1\t50", "2\t8", "3\t1"]),
        ("DELETE FROM r WHERE k = 3", False, ["1\t50", "2\t8"]),
        ("UPDATE r SET n = 9 WHERE n = 8", False, ["1\t50", "2\t9"]),
    ]:
        town.execute("one", statement)
        queries = cost(town)
        assert town.extent("v") == Counter(rows), statement
        assert queries == int(asked), statement
