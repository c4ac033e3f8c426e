"""Views whose rows are found by a proven key, from the sources to the readers: while it is proven, and not after."""

from __future__ import annotations

from dyda import commands
from tests.recompute_oracle import printed
from tests.town import Town


def forms(town: Town) -> dict[str, str]:
    rows = printed(
        town.warehouse,
        "SELECT v.name, f.form FROM dyda.view v JOIN dyda.view_version w ON w.view = v.name AND w.version = v.version"
        " JOIN dyda.form f ON f.extent = w.extent",
    )
    return dict(row.split("\t") for row in rows)


def is_right(town: Town) -> None:
    town.check()
    assert {view["result"] for view in commands.verify(town.folder, [], engine=town.engine)} == {"equal"}
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}


def test_rows_follow_while_keys_come_and_go(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int PRIMARY KEY, g text, v int, w numeric)")
    town.execute("one", "INSERT INTO r VALUES (1, 'a', 1, 1.0), (2, 'a', 2, 2.00), (3, 'b', NULL, NULL)")
    town.view("plain", "SELECT r.k, r.g, r.v, r.w FROM one.r")
    town.view("sums", "SELECT r.g, count(*) AS n, sum(r.v) AS v FROM one.r GROUP BY r.g")
    town.view("total", "SELECT count(*) AS n FROM one.r")
    town.view("bag", "SELECT r.g FROM one.r")
    town.apply()
    assert forms(town) == {"plain": "keyed", "sums": "keyed", "total": "keyed", "bag": "bag"}

    town.execute("one", "UPDATE r SET v = v + 1", "DELETE FROM r WHERE k = 2", "INSERT INTO r VALUES (4, 'c', 0, 1)")
    town.execute("one", "UPDATE r SET k = 10 - k", "UPDATE r SET w = 1.00 WHERE w = 1.0")
    town.settle()
    is_right(town)

    # A group of NULLs is right, and found by a digest from then on.
    town.execute("one", "INSERT INTO r VALUES (1, NULL, 9, 9)")
    town.settle()
    assert forms(town)["sums"] == "bag"
    is_right(town)

    # Duplicates come with the change that allows them.
    town.execute("one", "ALTER TABLE r DROP CONSTRAINT r_pkey", "INSERT INTO r SELECT * FROM r")
    town.settle()
    assert forms(town)["plain"] == "bag"
    is_right(town)
    town.execute("one", "DELETE FROM r WHERE ctid IN (SELECT min(ctid) FROM r GROUP BY k)")
    town.settle()
    is_right(town)
