"""Waiting is by view, also where a table changes as a whole: its name, the types of its columns, its rows, its end.

The views that wait stay where they are. All others follow, each at its own position.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands
from dyda.errors import DydaError
from tests.integration.maintenance.test_waiting import opened, receive, waiting
from tests.town import Town

STAY = {"ages": {"Ann\t7": 1, "Bob\t9": 1}, "oldest": {"Asia\t9": 1}}
OTHERS = ("dests", "seats")


@pytest.fixture
def shop(new_town: Callable[..., Town]) -> Town:
    return opened(new_town())


@pytest.fixture
def travel(new_town: Callable[..., Town]) -> Town:
    """`flight` has lost the column that two of four views read, and nobody has approved it."""
    town = new_town('schema_changes = "approve"')
    town.source("booking", "CREATE TABLE flight (name text, age int, dest text, seat int)")
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 7, 'Asia', 1), ('Bob', 9, 'Asia', 2)")
    town.view("ages", "-- dyda: extent = any\nSELECT f.name, f.age /* dispensable */ FROM booking.flight f")
    town.view("oldest", "SELECT f.dest, max(f.age) AS age FROM booking.flight f GROUP BY f.dest")
    town.view("dests", "SELECT f.dest, count(*) AS n FROM booking.flight f GROUP BY f.dest")
    town.view("seats", "SELECT f.name, f.seat FROM booking.flight f")
    town.apply()
    town.execute("booking", "ALTER TABLE flight DROP age")
    town.settle()
    assert set(map(tuple, waiting(town).values())) == {("ages", "oldest")}
    return town


CHANGES = {
    "name": ["ALTER TABLE flight RENAME TO journey", "INSERT INTO journey VALUES ('Ann', 'Europe', 4)"],
    "two names": [
        "ALTER TABLE flight RENAME TO trip",
        "INSERT INTO trip VALUES ('Dan', 'Europe', 4)",
        "ALTER TABLE trip RENAME TO journey",
        "INSERT INTO journey VALUES ('Ann', 'Europe', 4)",
    ],
    "type": ["ALTER TABLE flight ALTER seat TYPE bigint", "INSERT INTO flight VALUES ('Ann', 'Europe', 4)"],
    "type, name, column": [
        "ALTER TABLE flight ALTER seat TYPE text USING seat::text",
        "INSERT INTO flight VALUES ('Ann', 'Europe', '4a')",
        "ALTER TABLE flight RENAME TO journey",
        "ALTER TABLE journey RENAME seat TO place",
        "DELETE FROM journey WHERE name = 'Bob'",
    ],
    "rows": [
        "ALTER TABLE flight ALTER seat TYPE int USING seat + 100",
        "INSERT INTO flight VALUES ('Ann', 'Europe', 4)",
    ],
    "no rows": ["TRUNCATE flight", "INSERT INTO flight VALUES ('Ann', 'Europe', 4)"],
}


@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES)
def test_S4_readers_that_wait_for_nothing_follow_a_change_of_the_whole_table(
    travel: Town, statements: list[str]
) -> None:
    """Each by a process of its own, which finds what the views know in the catalog."""
    (number,) = waiting(travel)
    for statement in statements:
        travel.execute("booking", statement)
        travel.settle()
        travel.check_definitions(*OTHERS)
        assert {name: travel.state(name)["state"] for name in OTHERS} == dict.fromkeys(OTHERS, "fresh")
        assert {name: travel.extent(name) for name in STAY} == STAY
        assert waiting(travel) == {number: ["ages", "oldest"]}
        for name in STAY:
            state = travel.state(name)
            assert (state["state"], state["cause"]["message"]) == ("held", number)
    foretold = {view["name"]: view["effect"] for view in commands.pending_show(travel.folder, number)["plan"]}
    assert foretold == {"ages": "rewritten", "oldest": "broken"}
    approve_all(travel)
    assert travel.state("oldest")["state"] == "broken"
    assert travel.extent("oldest") == STAY["oldest"]
    travel.check_definitions("ages", *OTHERS)


def test_the_changes_are_approved_at_once_with_what_came_before(travel: Town) -> None:
    """Nothing of it was looked at in between: the views that wait and the others part in the middle of one poll."""
    for statements in CHANGES["type, name, column"]:
        travel.execute("booking", statements)
    travel.settle()
    travel.check_definitions(*OTHERS)
    assert {name: travel.extent(name) for name in STAY} == STAY
    approve_all(travel)
    travel.check_definitions("ages", *OTHERS)


def approve_all(town: Town) -> None:
    """Everything that waits is approved, and then nothing is left of it."""
    for number in waiting(town):
        commands.pending_approve(town.folder, number)
    town.settle()
    assert commands.pending(town.folder) == []
    with town.opened() as project:
        assert {view.earlier for view in project.warehouse.views()} == {None}


def test_a_table_gets_another_name_before_what_waits(travel: Town) -> None:
    """The rename waits with the change that is not approved, for the views that this concerns alone."""
    (number,) = waiting(travel)
    commands.pending_approve(travel.folder, number)
    travel.view("names", "SELECT f.name, f.seat + 1 AS next FROM booking.flight f")
    travel.apply()
    travel.execute("booking", "ALTER TABLE flight RENAME TO journey")
    travel.execute("booking", "INSERT INTO journey VALUES ('Ann', 'Europe', 4)")
    travel.execute("booking", "ALTER TABLE journey DROP seat")
    travel.execute("booking", "INSERT INTO journey VALUES ('Eve', 'Asia')")
    travel.settle()
    assert set(map(tuple, waiting(travel).values())) == {("names", "seats")}
    travel.check_definitions("ages", "dests")
    assert travel.extent("seats") == {"Ann\t1": 1, "Bob\t2": 1}
    assert travel.state("seats")["definition"].count("journey") == 1, "its text names the table as it is called now"


def test_a_table_of_a_view_that_waits_changes_for_its_other_readers(shop: Town) -> None:
    """What waits is about another table of the same source: `sold` reads both."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    sold = shop.extent("sold")
    for statements in (
        ["ALTER TABLE sale ALTER day TYPE bigint"],
        ["INSERT INTO sale VALUES (3, 7)", "DELETE FROM sale WHERE item = 2"],
        ["ALTER TABLE sale RENAME TO sales"],
        ["INSERT INTO sales VALUES (1, 8)"],
    ):
        shop.execute("shop", *statements)
        shop.settle()
        shop.check_definitions("sales")
        assert shop.state("sales")["state"] == "fresh"
        assert shop.extent("sold") == sold
        assert waiting(shop) == {held: ["items", "notes", "sold"]}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check_definitions("items", "notes", "sales", "sold")
    assert commands.pending(shop.folder) == []


def test_a_dropped_table_breaks_its_other_readers_at_once(shop: Town) -> None:
    """`sold` waits for a row and reads what is gone; it breaks in its turn, and not before."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    sold = shop.extent("sold")
    shop.execute("shop", "DROP TABLE sale")
    shop.execute("crm", "INSERT INTO note VALUES (1, 'blue')")
    shop.settle()
    assert (shop.state("sales")["state"], shop.state("sold")["state"]) == ("broken", "held")
    assert waiting(shop) == {held: ["items", "notes", "sold"]}
    commands.pending_release(shop.folder, held)
    shop.settle()
    assert (shop.state("sold")["state"], shop.extent("sold")) == ("broken", sold)
    shop.check("items", "notes")
    assert commands.pending(shop.folder) == []


def test_nothing_is_built_over_a_table_whose_name_a_view_that_waits_needs(shop: Town) -> None:
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    sold = shop.extent("sold")
    shop.execute("shop", "DROP TABLE sale")
    shop.settle()
    shop.execute("shop", "CREATE TABLE sale (item int, day int)", "INSERT INTO sale VALUES (3, 3)")
    shop.settle()
    shop.view("days", "SELECT DISTINCT s.day FROM shop.sale s")
    with pytest.raises(DydaError, match=r"view sold waits for a message and needs the table that was called shop\."):
        shop.apply()
    (shop.folder / "views" / "days.sql").unlink()
    shop.execute("shop", "INSERT INTO item VALUES (4, 'cap', 4)")
    shop.settle()
    assert (shop.state("sold")["state"], shop.extent("sold")) == ("held", sold), "it has not gone past what is held"
    assert shop.state("sales")["state"] == "broken"
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()
    assert {view["state"] for view in commands.views(shop.folder)} == {"fresh"}


def test_a_name_means_one_table(shop: Town) -> None:
    """A swap waits for all its readers: what the views that wait need is under the name that others would follow."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    shop.execute(
        "shop",
        "CREATE TABLE sale_new (item int, day int)",
        "INSERT INTO sale_new VALUES (1, 9)",
        "ALTER TABLE sale RENAME TO sale_old",
        "ALTER TABLE sale_new RENAME TO sale",
    )
    shop.settle()
    (_, swapped) = waiting(shop)
    assert waiting(shop) == {held: ["items", "notes", "sold"], swapped: ["sales", "sold"]}
    state = shop.state("sales")
    assert (state["state"], state["cause"]) == ("held", {"kind": "waits_behind", "message": swapped, "other": held})
    assert state["since"] is not None
    assert shop.extent("sales") == {"1\t1": 1, "2\t2": 1}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()
    assert commands.pending(shop.folder) == []


def test_a_name_that_is_not_free_for_all_waits(new_town: Callable[..., Town]) -> None:
    """Only a view that waits reads `sale`, so nobody has followed its new name when another table takes it."""
    town = new_town()
    town.source("shop", "CREATE TABLE item (id int, name text)", "CREATE TABLE sale (item int, day int)")
    town.execute("shop", "CREATE TABLE gift (item int, day int)", "INSERT INTO gift VALUES (1, 5)")
    town.execute("shop", "INSERT INTO item VALUES (1, 'pen')", "INSERT INTO sale VALUES (1, 1)")
    town.view("sold", "SELECT i.name, s.day FROM shop.item i JOIN shop.sale s ON i.id = s.item")
    town.view("gifts", "SELECT g.item, g.day FROM shop.gift g")
    town.apply()
    town.execute("shop", "INSERT INTO item VALUES (1, 'ink')")
    (held,) = receive(town)
    commands.pending_hold(town.folder, held)
    town.execute("shop", "ALTER TABLE sale RENAME TO sale_old")
    town.execute("shop", "ALTER TABLE gift RENAME TO sale")
    town.execute("shop", "INSERT INTO sale VALUES (1, 6)", "INSERT INTO sale_old VALUES (1, 2)")
    town.settle()
    assert town.extent("sold") == {"pen\t1": 1}
    assert (town.state("sold")["state"], town.state("gifts")["state"]) == ("held", "held")
    assert town.state("gifts")["cause"]["kind"] == "waits_behind"
    commands.pending_release(town.folder, held)
    town.settle()
    town.check_definitions("sold", "gifts")
    assert town.extent("gifts") == {"1\t5": 1, "1\t6": 1}
    assert commands.pending(town.folder) == []


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_what_only_waiting_views_read_is_nothing_to_the_others(new_town: Callable[..., Town], consistency: str) -> None:
    """They pass its schema changes one by one, and need not know what these make of a table that they do not read."""
    town = new_town(f'consistency = "{consistency}"')
    town.source("shop", "CREATE TABLE item (id int, name text, price int)", "CREATE TABLE sale (day int)")
    town.execute("shop", "INSERT INTO item VALUES (1, 'pen', 2)", "INSERT INTO sale VALUES (1)")
    town.view("items", "SELECT i.name FROM shop.item i")
    town.view("sales", "SELECT s.day FROM shop.sale s")
    town.apply()
    town.execute("shop", "ALTER TABLE item RENAME name TO title")
    (held,) = receive(town)
    commands.pending_hold(town.folder, held)
    for statement in (
        "INSERT INTO sale VALUES (2)",
        "ALTER TABLE item DROP price",
        "INSERT INTO sale VALUES (3)",
        "ALTER TABLE item ALTER id TYPE bigint",
        "INSERT INTO item VALUES (2, 'ink')",
    ):
        town.execute("shop", statement)
        town.settle(20)
        town.check("sales")
    assert town.extent("items") == {"pen": 1}
    commands.pending_release(town.folder, held)
    town.settle()
    town.check_definitions("items", "sales")
    assert commands.pending(town.folder) == []
