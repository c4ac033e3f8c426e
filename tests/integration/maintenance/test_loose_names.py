"""A column that is written without its relation stays the one that it was when the view was applied.

A version's text is read again over the relations as they are by then, so it says which relation it means.
"""

from __future__ import annotations

from tests.town import Town


def test_a_new_column_does_not_take_the_place_of_another(town: Town) -> None:
    town.source(
        "one",
        "CREATE TABLE c (id int, age int)",
        "CREATE TABLE o (cid int)",
        "INSERT INTO c VALUES (1, 100), (2, 1)",
        "INSERT INTO o VALUES (1), (2)",
    )
    town.view("inside", "SELECT id FROM one.c WHERE EXISTS (SELECT 1 FROM one.o WHERE cid = id AND age > 50)")
    town.view("joined", "SELECT id, age FROM one.c JOIN one.o ON cid = id")
    town.view("grouped", "SELECT id % 2 AS odd, count(*) AS n FROM one.c GROUP BY odd HAVING n > 0")
    town.apply()
    town.execute("one", "ALTER TABLE o ADD age int DEFAULT 99", "ALTER TABLE c ADD odd int, ADD n int DEFAULT 0")
    town.execute("one", "INSERT INTO c VALUES (3, 3), (5, 70)", "INSERT INTO o VALUES (3, 70), (5, 1)")
    town.settle()
    assert {name: town.state(name)["state"] for name in ("inside", "joined", "grouped")} == {
        "inside": "fresh",
        "joined": "fresh",
        "grouped": "fresh",
    }
    assert town.extent("inside") == {"1": 1, "5": 1}
    assert town.extent("joined") == {"1\t100": 1, "2\t1": 1, "3\t3": 1, "5\t70": 1}
    assert town.extent("grouped") == {"0\t1": 1, "1\t3": 1}


def test_a_view_does_not_come_back_with_the_column_of_another_relation(town: Town) -> None:
    town.source(
        "one",
        "CREATE TABLE c (id int, age int)",
        "CREATE TABLE o (cid int, age int)",
        "INSERT INTO c VALUES (1, 100), (2, 1)",
        "INSERT INTO o VALUES (1, 1), (2, 100)",
    )
    town.view("inside", "SELECT id FROM one.c WHERE EXISTS (SELECT 1 FROM one.o WHERE cid = id AND age > 50)")
    town.apply()
    town.execute("one", "ALTER TABLE o DROP age")
    town.settle()
    assert town.state("inside")["state"] == "broken"
    assert town.extent("inside") == {"2": 1}
