"""The tables and formulae of paper 002, with numbers computed by hand, on real PostgreSQL and Spark.

Δv and ∇v are what the extent gains and loses. Minimality is asserted with them: what a formula says is gained and lost
at once would be seen in neither, and nothing is lost that was not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from dyda import commands
from dyda.maintenance.cycle import Outcome
from tests.recompute_oracle import printed
from tests.town import Town


def collection(town: Town, **bags: Iterable[int]) -> None:
    """Each bag of numbers as a relation of one column, at a source of its own."""
    for name, bag in bags.items():
        town.source(name, "CREATE TABLE d (x int)", *(f"INSERT INTO d VALUES ({x})" for x in bag))


def update(town: Town, name: str, inserted: Iterable[int] = (), deleted: Iterable[int] = ()) -> None:
    """ΔD and ∇D in one transaction; of equal items as many are deleted as are named."""
    town.execute(
        name,
        *(f"DELETE FROM d WHERE ctid = (SELECT min(ctid) FROM d WHERE x = {x})" for x in deleted),
        *(f"INSERT INTO d VALUES ({x})" for x in inserted),
    )


def moved(town: Town, *, queries: int | None = None) -> tuple[Counter[str], Counter[str]]:
    """(Δv, ∇v) of the next batch; with `queries`, that it cost so many source queries."""
    before = town.extent("v")
    with town.maintainer() as maintainer:
        known = {unit.id for unit in maintainer.opened.warehouse.units()}
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        asked = sum(unit.queries for unit in maintainer.opened.warehouse.units() if unit.id not in known)
    after = town.extent("v")
    town.check("v")
    if queries is not None:
        assert asked == queries, "source queries"
    return after - before, before - after


def bag(*items: object) -> Counter[str]:
    return Counter(map(str, items))


# Table 1: distinct, map and aggregates


def test_table_1_of_paper_002_distinct(town: Town) -> None:
    collection(town, one=[1, 1, 2])
    town.view("v", "SELECT DISTINCT d.x FROM one.d d")
    town.apply()
    update(town, "one", inserted=[2, 3, 3], deleted=[1])
    assert moved(town, queries=0) == (bag(3), bag()), "2 is a member of v; 1 is still a member of the new D"
    update(town, "one", inserted=[3], deleted=[1, 2])
    assert moved(town, queries=0) == (bag(), bag(1)), "of 2, another is left"


def test_table_1_of_paper_002_map(town: Town) -> None:
    collection(town, one=[1, 2, 2])
    town.view("v", "SELECT d.x * 10 AS y FROM one.d d")
    town.apply()
    update(town, "one", inserted=[3, 3], deleted=[2])
    assert moved(town, queries=0) == (bag(30, 30), bag(20))


def test_table_1_of_paper_002_map_to_one_value_is_minimal(town: Town) -> None:
    """map gives Δv = [1] and ∇v = [1] here: a row is not deleted and reinserted (minimality condition ii)."""
    collection(town, one=[1, 2])
    town.view("v", "SELECT d.x % 2 AS y FROM one.d d")
    town.apply()
    before = stored(town)
    update(town, "one", inserted=[3], deleted=[1])
    assert moved(town, queries=0) == (bag(), bag())
    assert stored(town) == before, "the stored row was not even written again"


def stored(town: Town) -> Counter[str]:
    """The rows of the extent with the transactions that wrote them."""
    (extent,) = printed(town.warehouse, "SELECT extent FROM dyda.view_version WHERE view = 'v'")
    return printed(town.warehouse, f"SELECT xmin, * FROM dyda.extent_{extent}")


@pytest.mark.parametrize("function", ["max", "min"])
def test_table_1_of_paper_002_extremes(town: Town, function: str) -> None:
    """The three cases of max, and of min over the negated numbers; and the one that the table leaves out."""
    sign = 1 if function == "max" else -1

    def of(*items: int) -> list[int]:
        return [sign * item for item in items]

    collection(town, one=of(3, 5, 8))
    town.view("v", f"SELECT {function}(d.x) AS m FROM one.d d")
    town.apply()
    update(town, "one", inserted=of(9, 4), deleted=of(8))
    assert moved(town, queries=0) == (bag(*of(9)), bag(*of(8))), "v < r1: the extreme of ΔD, whatever was deleted"
    update(town, "one", inserted=of(9, 7), deleted=of(5))
    assert moved(town, queries=0) == (bag(), bag()), "v ≥ r1 and v ≠ r2: nothing"
    update(town, "one", inserted=of(2), deleted=of(9, 9))
    assert moved(town, queries=1) == (bag(*of(7)), bag(*of(9))), "v > r1 and v = r2: the extreme of the new D"
    update(town, "one", inserted=of(7), deleted=of(7))
    assert moved(town) == (bag(), bag()), "v = r1 and v = r2, which no line of the table is about: nothing"
    update(town, "one", deleted=of(2, 3, 4, 7))
    assert moved(town) == (bag("\\N"), bag(*of(7))), "no extreme of nothing"


def test_table_1_of_paper_002_count(town: Town) -> None:
    collection(town, one=[1, 1, 2])
    town.view("v", "SELECT count(*) AS c FROM one.d d")
    town.apply()
    update(town, "one", inserted=[5, 6, 7], deleted=[1])
    assert moved(town, queries=0) == (bag(5), bag(3)), "3 + 3 − 1"


def test_table_1_of_paper_002_sum(town: Town) -> None:
    collection(town, one=[10, 20, 30])
    town.view("v", "SELECT sum(d.x) AS s FROM one.d d")
    town.apply()
    update(town, "one", inserted=[5, 7], deleted=[20])
    assert moved(town, queries=0) == (bag(52), bag(60)), "60 + 12 − 20"


def test_table_1_of_paper_002_avg(town: Town) -> None:
    """The paper reads D again for avg; a sum and a count of its own make that needless."""
    collection(town, one=[10, 20, 30])
    town.view("v", "SELECT cast(avg(d.x) AS decimal(10,2)) AS a FROM one.d d")
    town.apply()
    update(town, "one", inserted=[5, 15], deleted=[30])
    assert moved(town, queries=0) == (bag("12.50"), bag("20.00")), "(10 + 20 + 5 + 15) / 4"


def test_grouping_of_paper_002(town: Town) -> None:
    """gc avg: only the groups of ΔD ++ ∇D move, and of these only what is different afterwards."""
    town.source("one", "CREATE TABLE d (g text, x int)", "INSERT INTO d VALUES ('a', 1), ('a', 3), ('b', 5), ('c', 9)")
    town.view("v", "SELECT d.g, cast(avg(d.x) AS decimal(10,2)) AS a FROM one.d d GROUP BY d.g")
    town.apply()
    town.execute("one", "INSERT INTO d VALUES ('b', 7), ('d', 4)", "DELETE FROM d WHERE x = 3")
    assert moved(town, queries=0) == (bag("a\t1.00", "b\t6.00", "d\t4.00"), bag("a\t2.00", "b\t5.00"))
    town.execute("one", "INSERT INTO d VALUES ('c', 9)", "DELETE FROM d WHERE g = 'd'")
    assert moved(town, queries=0) == (bag(), bag("d\t4.00")), "c was touched and is the same"


# Table 2: bag union and monus


def test_table_2_of_paper_002_union(town: Town) -> None:
    """(ΔD1 −− ∇D2) ++ (ΔD2 −− ∇D1): what one side loses and the other gains is no change."""
    collection(town, one=[1, 2], two=[2, 3])
    town.view("v", "SELECT d1.x FROM one.d d1 UNION ALL SELECT d2.x FROM two.d d2")
    town.apply()
    update(town, "one", inserted=[4, 2], deleted=[1])
    update(town, "two", inserted=[1], deleted=[2])
    assert moved(town, queries=0) == (bag(4), bag()), "([4, 2] −− [2]) ++ ([1] −− [1])"
    update(town, "one", inserted=[3], deleted=[2, 2])
    update(town, "two", inserted=[2, 5], deleted=[3])
    assert moved(town, queries=0) == (bag(5), bag(2)), "([2, 2] −− [2, 5]) ++ ([3] −− [3])"


def test_table_2_of_paper_002_monus(town: Town) -> None:
    collection(town, one=[1, 1, 2, 3], two=[1, 3, 3])
    town.view("v", "SELECT d1.x FROM one.d d1 EXCEPT ALL SELECT d2.x FROM two.d d2")
    town.apply()
    assert town.extent("v") == bag(1, 2)
    update(town, "one", inserted=[3], deleted=[2])
    update(town, "two", inserted=[1], deleted=[3])
    # Δv = (([3] −− [1]) ++ ([3] −− [2])) −− (D2 −− D1 = [3]) = [3];  ∇v = (([2] −− [3]) ++ ([1] −− [3])) ∩ v = [2, 1]
    assert moved(town, queries=0) == (bag(3), bag(1, 2))


def test_table_2_of_paper_002_monus_below_zero(town: Town) -> None:
    """The auxiliary D2 −− D1: what the right has too much of swallows what the left gains."""
    collection(town, one=[7], two=[7, 7, 7])
    town.view("v", "SELECT d1.x FROM one.d d1 EXCEPT ALL SELECT d2.x FROM two.d d2")
    town.apply()
    update(town, "one", inserted=[7])
    assert moved(town, queries=0) == (bag(), bag()), "[7] −− [7, 7]"
    update(town, "one", inserted=[7, 7])
    assert moved(town, queries=0) == (bag(7), bag()), "[7, 7] −− [7]"
    update(town, "two", deleted=[7, 7])
    assert moved(town, queries=0) == (bag(7, 7), bag())


# Section 3.1, 5: member and not member


def members(town: Town, text: str) -> None:
    """D1 = [1, 1, 2, 3], D2 = [1, 1, 2]; ΔD1 = [3, 4], ∇D1 = [1], ΔD2 = [3], ∇D2 = [1, 2].

    So r1 = [3] (all that the new D2 has of it is new) and r2 = [2] (the new D2 has none left; of 1 it has one).
    """
    collection(town, one=[1, 1, 2, 3], two=[1, 1, 2])
    town.view("v", text)
    town.apply()
    update(town, "one", inserted=[3, 4], deleted=[1])
    update(town, "two", inserted=[3], deleted=[1, 2])


MEMBER = {
    "in": "SELECT d1.x FROM one.d d1 WHERE d1.x IN (SELECT d2.x FROM two.d d2)",
    "exists": "SELECT d1.x FROM one.d d1 WHERE EXISTS (SELECT 1 FROM two.d d2 WHERE d2.x = d1.x)",
    "semi": "SELECT d1.x FROM one.d d1 LEFT SEMI JOIN two.d d2 ON d1.x = d2.x",
}
NOT_MEMBER = {
    "not_in": "SELECT d1.x FROM one.d d1 WHERE d1.x NOT IN (SELECT d2.x FROM two.d d2)",
    "not_exists": "SELECT d1.x FROM one.d d1 WHERE NOT EXISTS (SELECT 1 FROM two.d d2 WHERE d2.x = d1.x)",
    "anti": "SELECT d1.x FROM one.d d1 LEFT ANTI JOIN two.d d2 ON d1.x = d2.x",
}


@pytest.mark.parametrize("form", MEMBER)
def test_member_of_paper_002(town: Town, form: str) -> None:
    members(town, MEMBER[form])
    before = town.extent("v")
    assert before == bag(1, 1, 2)
    town.settle()
    after = town.extent("v")
    # Δv = ([3] −− [3]) ++ [3, 3];  ∇v = ([1] −− []) ++ ([2] −− []) ++ []
    assert (after - before, before - after) == (bag(3, 3), bag(1, 2))


@pytest.mark.parametrize("form", NOT_MEMBER)
def test_not_member_of_paper_002(town: Town, form: str) -> None:
    members(town, NOT_MEMBER[form])
    before = town.extent("v")
    assert before == bag(3)
    town.settle()
    after = town.extent("v")
    # Δv = ([4] −− []) ++ [2];  ∇v = ([] −− []) ++ ([3, 3] −− [3]) ++ []
    assert (after - before, before - after) == (bag(2, 4), bag(3))


# Section 2.2 and 3.2: the pathway of Course(Dept, CID, Avg)

COURSE = """
WITH Details AS (
    SELECT 'MA' AS Dept, m.CID, m.SID, m.Mark FROM ma.MAtab m
    UNION ALL
    SELECT 'IS' AS Dept, i.CID, i.SID, i.Mark FROM ist.IStab i
)
SELECT d.Dept, d.CID, cast(avg(d.Mark) AS decimal(10,2)) AS Avg
FROM Details d
GROUP BY d.Dept, d.CID
"""


def course(town: Town) -> None:
    town.source("ma", "CREATE TABLE matab (cid text, sid text, mark int)")
    town.source("ist", "CREATE TABLE istab (cid text, sid text, mark int)")
    town.execute(
        "ma", "INSERT INTO matab VALUES ('MAC01', 'MAS01', 50), ('MAC01', 'MAS02', 75), ('MAC02', 'MAS01', 40)"
    )
    town.execute("ist", "INSERT INTO istab VALUES ('ISC01', 'ISS01', 60), ('ISC01', 'ISS02', 71)")


def test_course_of_paper_002(town: Town) -> None:
    """Inserting ('ISC01', 'ISS05', 80) moves one row of Course and asks no source."""
    course(town)
    town.view("v", COURSE)
    town.apply()
    assert town.extent("v") == bag("MA\tMAC01\t62.50", "MA\tMAC02\t40.00", "IS\tISC01\t65.50")
    town.execute("ist", "INSERT INTO istab VALUES ('ISC01', 'ISS05', 80)")
    assert moved(town, queries=0) == (bag("IS\tISC01\t70.33"), bag("IS\tISC01\t65.50")), "(60 + 71 + 80) / 3"
    town.execute("ma", "DELETE FROM matab WHERE cid = 'MAC02'")
    town.execute("ist", "UPDATE istab SET mark = 62 WHERE sid = 'ISS01'")
    assert moved(town, queries=0) == (bag("IS\tISC01\t71.00"), bag("IS\tISC01\t70.33", "MA\tMAC02\t40.00"))
    steps = [step for step in commands.views_explain(town.folder, "v")["steps"] if step["step"] == "step"]
    assert len(steps) == 2, (
        "avg with its own counts and sums, and the view: neither Details nor its projections are kept"
    )
    assert not any("materialized" in step["how"] for step in steps)


def test_course_of_paper_002_as_views_over_views(town: Town) -> None:
    """Details kept as a view of its own: both move in one transaction."""
    course(town)
    town.view(
        "details",
        "SELECT 'MA' AS dept, m.cid, m.sid, m.mark FROM ma.matab m"
        " UNION ALL SELECT 'IS' AS dept, i.cid, i.sid, i.mark FROM ist.istab i",
    )
    town.view(
        "v", "SELECT d.dept, d.cid, cast(avg(d.mark) AS decimal(10,2)) AS avg FROM details d GROUP BY d.dept, d.cid"
    )
    town.apply()
    town.execute("ist", "INSERT INTO istab VALUES ('ISC01', 'ISS05', 80)")
    town.settle()
    assert town.extent("v") == bag("MA\tMAC01\t62.50", "MA\tMAC02\t40.00", "IS\tISC01\t70.33")
    assert town.extent("details")["IS\tISC01\tISS05\t80"] == 1
    positions = {view["name"]: view["positions"] for view in commands.views(town.folder)}
    assert positions["v"] == positions["details"]
