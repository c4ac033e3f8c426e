"""What a change asks of the sources: as often as the plan says, and once for all views."""

from __future__ import annotations

import pytest

from dyda import commands
from dyda.maintenance.cycle import Outcome
from tests.town import Town

VIEWS = {
    "joined": "SELECT r.id, s.v, t.w FROM one.r r JOIN two.s s ON r.k = s.k JOIN three.t t ON s.v = t.v",
    "outer": "SELECT r.id, s.v FROM one.r r LEFT JOIN two.s s ON r.k = s.k",
    "chain": "SELECT r.id, s.v, t.w FROM one.r r LEFT JOIN two.s s ON r.k = s.k LEFT JOIN three.t t ON s.v = t.v",
    "semi": "SELECT s.v FROM two.s s WHERE EXISTS (SELECT 1 FROM one.r r WHERE r.k = s.k)",
    "anti": "SELECT r.id FROM one.r r WHERE r.k NOT IN (SELECT s.k FROM two.s s WHERE s.k IS NOT NULL)",
    "counts": "SELECT s.v, count(*) AS n FROM one.r r JOIN two.s s ON r.k = s.k GROUP BY s.v",
    "unlike": "SELECT r.k FROM one.r r EXCEPT ALL SELECT s.k FROM two.s s",
}
CHANGES = {
    "r": ("one", "INSERT INTO r VALUES (9, 1)"),
    "s": ("two", "DELETE FROM s WHERE v = 10"),
    "t": ("three", "UPDATE t SET w = 7 WHERE v = 11"),
}


def build(town: Town, *views: str) -> None:
    town.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1), (2, 1), (3, 2), (4, NULL)")
    town.source("two", "CREATE TABLE s (k int, v int)", "INSERT INTO s VALUES (1, 10), (1, 11), (3, 12)")
    town.source("three", "CREATE TABLE t (v int, w int)", "INSERT INTO t VALUES (10, 0), (11, 1)")
    for name in views:
        town.view(name, VIEWS[name])
    town.apply()


def asked(town: Town) -> int:
    """Run until idle; how many queries that put to the sources."""
    with town.maintainer() as maintainer:
        before = {unit.id for unit in maintainer.opened.warehouse.units()}
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        return sum(unit.queries for unit in maintainer.opened.warehouse.units() if unit.id not in before)


def test_each_operator_asks_at_most_what_explain_says(town: Town) -> None:
    build(town, *VIEWS)
    told = {name: commands.views_explain(town.folder, name)["queries_per_update"] for name in VIEWS}
    assert told["joined"] == {"r": 2, "s": 2, "t": 2}, "n − 1 for inner joins"
    assert told["counts"] == {"r": 1, "s": 1}, "the state answers for the groups"
    assert told["unlike"] == {"r": 0, "s": 0}
    assert told["outer"] == {"r": 1, "s": 1}
    for alias, (source, statement) in CHANGES.items():
        town.execute(source, statement)
        most = sum(costs.get(alias, 0) for costs in told.values())
        assert asked(town) <= most
        town.check()


def test_outer_joins_one_along_the_other_read_no_relation_whole(town: Town) -> None:
    """What the first one padded is NULL and meets nothing: no term of it is swept, scanned or computed."""
    build(town, "chain")
    shown = commands.views_explain(town.folder, "chain")
    assert shown["queries_per_update"] == {"r": 2, "s": 2, "t": 2}
    engine = town.engine
    assert engine is not None
    for source, statements in {"one": ["INSERT INTO r VALUES (9, 1), (10, 7)"], "three": ["DELETE FROM t"]}.items():
        town.execute(source, *statements)
    before = engine.jobs
    town.settle()
    assert engine.jobs == before, "few rows: a plan that is kept evaluates them"
    town.check()


def test_views_share_what_is_asked(town: Town) -> None:
    """Four views over the same edge ask along it once."""
    build(town, "joined", "outer", "semi", "counts")
    town.execute("one", "INSERT INTO r VALUES (9, 1)")
    assert asked(town) == 2, "s by k once for all of them, then t by v"
    town.check()


@pytest.mark.parametrize("name", ["outer", "counts"])
def test_a_view_alone_asks_no_more_than_with_others(town: Town, name: str) -> None:
    build(town, name)
    town.execute("one", "INSERT INTO r VALUES (9, 1)")
    assert asked(town) == 1
    town.check()
