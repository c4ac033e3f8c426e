"""Operators that keep states, while definitions, schemas and other views move around them."""

from __future__ import annotations

from collections.abc import Callable

from dyda import commands
from tests.town import Town


def build(town: Town, **views: str) -> None:
    town.source(
        "one",
        "CREATE TABLE r (id int, x int, y int, k int)",
        "INSERT INTO r VALUES (1, 1, 9, 1), (2, 3, 1, 1), (3, 5, 5, 2), (4, NULL, 3, NULL)",
    )
    town.source(
        "two", "CREATE TABLE s (k int, a int, b int)", "INSERT INTO s VALUES (1, 0, 5), (2, 3, 3), (NULL, 1, 1)"
    )
    for name, text in views.items():
        town.view(name, text)
    town.apply()


def test_a_rename_leaves_the_states_in_their_order(town: Town) -> None:
    """What is kept for a condition that is no equality holds several columns: not in the order of their names."""
    matched = "FROM two.s s WHERE s.a < r.x AND s.b < r.y"
    build(
        town,
        anti=f"SELECT r.id FROM one.r r WHERE NOT EXISTS (SELECT 1 {matched})",
        outer="SELECT r.id, s.a FROM one.r r LEFT JOIN two.s s ON s.a < r.x AND s.b < r.y",
    )
    town.execute("one", "ALTER TABLE r RENAME COLUMN x TO z")
    town.execute("one", "INSERT INTO r VALUES (11, 9, 1, 1)")
    town.settle()
    town.check_definitions("anti", "outer")
    assert town.extent("anti")["11"] == 1
    assert town.state("anti")["version"] == 2, "the definition followed, nothing was built again"
    town.execute("two", "INSERT INTO s VALUES (1, 8, 0)")
    town.settle()
    town.check_definitions("anti", "outer")


def test_a_view_that_is_ahead_reads_other_columns(new_town: Callable[..., Town]) -> None:
    """It joins the others in a later unit of the same poll; they go on with the columns that they have read."""
    town = new_town('consistency = "complete"')
    build(town, high="SELECT r.k, max(r.x) AS x FROM one.r r GROUP BY r.k")
    town.execute("one", "UPDATE r SET x = 7 WHERE id = 3")
    town.view("low", "SELECT r.k, min(r.y) AS y FROM one.r r GROUP BY r.k")
    town.apply()
    town.execute("one", "UPDATE r SET x = 3, y = 2 WHERE id = 3")
    town.settle()
    town.check()


def test_types_that_part_break_the_view_alone(town: Town) -> None:
    """The sides of a set operation need the same types: where one is altered, no other view stands still."""
    build(
        town,
        both="SELECT r.x FROM one.r r UNION SELECT s.a FROM two.s s",
        counts="SELECT r.x, count(*) AS n FROM one.r r GROUP BY r.x",
    )
    before = town.extent("both")
    town.execute("one", "ALTER TABLE r ALTER COLUMN x TYPE bigint")
    town.execute("one", "INSERT INTO r VALUES (11, 70, 1, 1)")
    town.settle()
    state = town.state("both")
    assert state["state"] == "broken"
    assert "the sides of a set operation have the types bigint and integer" in state["reason"]
    assert town.extent("both") == before
    town.check("counts")
    town.view("more", "SELECT DISTINCT r.y FROM one.r r")
    town.apply()
    town.check("counts", "more")
    assert town.state("both")["state"] == "broken"
    town.execute("two", "ALTER TABLE s ALTER COLUMN a TYPE bigint", "INSERT INTO s VALUES (4, 44, 4)")
    town.settle()
    town.check("both", "counts", "more")
    assert town.state("both")["state"] in ("fresh", "stale")


def test_states_that_were_made_narrower_go_on(town: Town) -> None:
    build(
        town,
        unlike="SELECT r.k, r.x FROM one.r r EXCEPT SELECT s.k, s.a FROM two.s s",
        groups="SELECT r.k, r.y, count(*) AS n, sum(r.x) AS x, min(r.x) AS low FROM one.r r GROUP BY r.k, r.y",
        many="SELECT r.id, s.a, q.b, p.a AS c, t.y FROM one.r r LEFT JOIN two.s s ON s.k = r.k LEFT JOIN two.s q"
        " ON q.a = r.y LEFT JOIN two.s p ON p.a = q.b LEFT JOIN two.s o ON o.k = p.b JOIN one.r t ON t.k = r.k",
    )
    town.view("unlike", "SELECT r.k FROM one.r r EXCEPT SELECT s.k FROM two.s s")
    town.view("groups", "SELECT r.k, sum(r.x) AS x, min(r.x) AS low FROM one.r r GROUP BY r.k HAVING count(*) > 1")
    town.view("many", (town.folder / "views" / "many.sql").read_text().replace("q.b, ", ""))
    told = {one["name"]: one["adaptation"]["kind"] for one in town.apply()["changed"]}
    assert told == {"unlike": "reaggregation", "groups": "reaggregation", "many": "projection"}
    town.check()
    town.execute("one", "DELETE FROM r WHERE id IN (1, 3)", "INSERT INTO r VALUES (6, 2, 2, 1), (7, 0, 0, 3)")
    town.execute("two", "DELETE FROM s WHERE k = 1 OR k IS NULL", "INSERT INTO s VALUES (3, 2, 2), (1, 1, 3)")
    town.settle()
    town.check()


def test_a_quarantined_sum_goes_on_with_its_correction(town: Town) -> None:
    """Nothing of the message that could not be computed is left in the states."""
    town.source("one", "CREATE TABLE r (id int, k int, x bigint)", "INSERT INTO r VALUES (1, 1, 10), (2, 2, 20)")
    town.view("sums", "SELECT r.k, sum(r.x) AS x, count(*) AS n FROM one.r r GROUP BY r.k")
    town.view("distinct", "SELECT DISTINCT r.x FROM one.r r")
    town.apply()
    town.execute("one", "INSERT INTO r VALUES (3, 1, 9223372036854775807)")
    town.settle()
    town.execute("one", "DELETE FROM r WHERE id = 2", "UPDATE r SET x = 7 WHERE id = 3")
    town.settle()
    assert town.state("sums")["state"] == "held"
    town.check("distinct")
    (poisoned,) = [one for one in commands.pending(town.folder) if one["state"] == "quarantined"]
    commands.pending_retry(town.folder, poisoned["id"])
    town.settle()
    town.check()
