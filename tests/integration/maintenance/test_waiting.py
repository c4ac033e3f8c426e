"""Waiting is by view: a message that an operator has yet to decide about stops the views that read what it changes.

After every step each view equals PostgreSQL's evaluation of its definition at the view's own position.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands, faults
from dyda.commands.pending_decisions import DECISIONS
from dyda.maintenance.cycle import Outcome
from tests.recompute_oracle import printed
from tests.town import Town


class Received(Exception):
    """The queue knows the messages, and nothing has been done about them."""


def _received() -> None:
    raise Received


def receive(town: Town) -> list[int]:
    """Take what is new into the queue, and no further; the numbers of all messages in it."""
    with town.maintainer() as maintainer, faults.on("unit.messages-received", _received), pytest.raises(Received):
        maintainer.cycle()
    return [message["id"] for message in commands.pending(town.folder)]


def waiting(town: Town) -> dict[int, list[str]]:
    """By message, the views that wait for it."""
    return {message["id"]: message["views"] for message in commands.pending(town.folder) if message["views"]}


@pytest.fixture
def shop(new_town: Callable[..., Town]) -> Town:
    return opened(new_town("poll_max = 0.2"))


def opened(town: Town) -> Town:
    town.source(
        "shop",
        "CREATE TABLE item (id int PRIMARY KEY, name text, price int)",
        "INSERT INTO item VALUES (1, 'pen', 2), (2, 'ink', 9)",
        "CREATE TABLE sale (item int, day int)",
        "INSERT INTO sale VALUES (1, 1), (1, 2), (2, 2)",
    )
    town.source("crm", "CREATE TABLE note (item int, text text)", "INSERT INTO note VALUES (1, 'good')")
    town.view("items", "SELECT i.id, i.name FROM shop.item i")
    town.view("sales", "SELECT s.day, count(*) AS n FROM shop.sale s GROUP BY s.day")
    town.view("sold", "SELECT i.name, s.day FROM shop.item i JOIN shop.sale s ON i.id = s.item")
    town.view("notes", "SELECT i.name, n.text FROM shop.item i JOIN crm.note n ON i.id = n.item")
    town.apply()
    return town


def test_S1_a_held_message_stops_the_views_that_read_what_it_changes(shop: Town) -> None:
    """Others go on over the same source, past the message; it stays in the queue and in the log until all have it."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    assert commands.pending_hold(shop.folder, held)["views"] == ["items", "notes", "sold"]
    shop.execute("shop", "INSERT INTO sale VALUES (1, 3), (3, 3)")
    shop.execute("shop", "UPDATE item SET name = 'pencil' WHERE id = 1")
    shop.execute("crm", "INSERT INTO note VALUES (1, 'blue'), (3, 'nice')")
    shop.settle()
    shop.check("sales")
    assert shop.state("sales")["state"] == "fresh"
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}
    assert shop.extent("sold") == {"pen\t1": 1, "pen\t2": 1, "ink\t2": 1}
    assert shop.extent("notes") == {"pen\tgood": 1, "pen\tblue": 1}, "the other source goes on, item as it was"
    assert waiting(shop) == {held: ["items", "notes", "sold"]}
    for view in ("items", "sold", "notes"):
        state = shop.state(view)
        assert (state["state"], state["reason"]) == ("held", f"message {held} is held by an operator")
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()
    assert commands.pending(shop.folder) == []
    assert {view["state"] for view in commands.views(shop.folder)} == {"fresh"}


def test_a_message_that_views_wait_for_survives_the_others_and_a_restart(shop: Town) -> None:
    """P5: it is acknowledged when the last view has it, whoever went past it, and not before."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    for day in range(4, 8):
        shop.execute("shop", f"INSERT INTO sale VALUES (3, {day})", "UPDATE item SET price = price + 1")
        shop.execute("shop", f"INSERT INTO sale VALUES (1, {day})")
        shop.settle()  # each by a process of its own
        shop.check("sales")
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()
    assert commands.pending(shop.folder) == []


def test_a_later_schema_change_of_what_a_stopped_view_reads_waits_with_it(shop: Town) -> None:
    """The catalog describes a relation once; views over other relations of the source go on."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    shop.execute("shop", "ALTER TABLE item RENAME name TO title")
    shop.execute("shop", "ALTER TABLE sale ADD shop int")
    shop.execute("shop", "INSERT INTO sale VALUES (2, 5, 1)")
    shop.settle()
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}
    assert {shop.state(view)["version"] for view in ("items", "sold", "notes")} == {1}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check_definitions("items", "sales", "sold", "notes")
    assert commands.pending(shop.folder) == []


def test_a_column_that_others_do_not_read_is_dropped_and_they_follow(shop: Town) -> None:
    """The view that waits knows the table as it was; the others go on over the same table, past the change."""
    shop.execute("shop", "ALTER TABLE item DROP price", "INSERT INTO item VALUES (3, 'cup')")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    shop.settle()
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}, "its rows are held"
    assert waiting(shop) == {held: ["items", "notes", "sold"]}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()


TRAVEL = """
[[join]]
between = ["booking.flight", "tours.tour"]
on = "flight.name = tour.tour_name"
[[function]]
attribute = "booking.flight.age"
equals = "tours.tour.age"
"""


@pytest.fixture
def travel(new_town: Callable[..., Town]) -> Town:
    town = new_town('schema_changes = "approve"')
    town.source("booking", "CREATE TABLE flight (name text, age int, dest text, seat int)")
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 7, 'Asia', 1), ('Bob', 9, 'Asia', 2)")
    town.source(
        "tours", "CREATE TABLE tour (tour_name text, age int)", "INSERT INTO tour VALUES ('Ann', 7), ('Cid', 3)"
    )
    town.view("ages", "-- dyda: extent = any\nSELECT f.name, f.age /* replaceable */ FROM booking.flight f")
    town.view("oldest", "SELECT f.dest, max(f.age) AS age FROM booking.flight f GROUP BY f.dest")
    town.view("dests", "SELECT f.dest, count(*) AS n FROM booking.flight f GROUP BY f.dest")
    town.view("seats", "SELECT f.name, f.seat FROM booking.flight f")
    town.view("trips", "SELECT f.dest, t.age FROM booking.flight f JOIN tours.tour t ON f.name = t.tour_name")
    (town.folder / "knowledge.toml").write_text(TRAVEL)
    town.apply()
    return town


STAY = {"ages": {"Ann\t7": 1, "Bob\t9": 1}, "oldest": {"Asia\t9": 1}}


def test_S1_an_unapproved_change_stops_the_views_that_it_would_cost_something(travel: Town) -> None:
    """Others go on over the same table past it, each as PostgreSQL evaluates it over the table as it is."""
    others = ("dests", "seats", "trips")
    travel.execute("booking", "INSERT INTO flight VALUES ('Cid', 3, 'Asia', 3)")
    travel.execute("booking", "ALTER TABLE flight DROP age")
    travel.settle()
    (number,) = waiting(travel)
    stay = STAY  # the row before the change needs the old table too: `oldest` reads its group again
    assert waiting(travel) == {number: ["ages", "oldest"]}
    travel.execute("booking", "INSERT INTO flight VALUES ('Ann', 'Europe', 4)")
    travel.execute("booking", "DELETE FROM flight WHERE name = 'Bob'")
    travel.execute("tours", "INSERT INTO tour VALUES ('Ann', 8)")
    travel.settle()
    travel.check(*others)
    for column in ("ALTER TABLE flight RENAME seat TO place", "ALTER TABLE flight ADD price int DEFAULT 3"):
        travel.execute("booking", column)
        travel.execute("booking", "INSERT INTO flight VALUES ('Eve', 'Asia', 5)")
        travel.settle()  # by another process, which finds what the views know in the catalog
        travel.check_definitions(*others)
        assert {name: travel.extent(name) for name in stay} == stay
    assert {travel.state(name)["state"] for name in others} == {"fresh"}
    assert {travel.state(name)["version"] for name in stay} == {1}
    for name in stay:
        state = travel.state(name)
        assert (state["state"], state["cause"]["kind"], state["cause"]["message"]) == ("held", "needs_approval", number)
    foretold = {view["name"]: view["definition"] for view in commands.pending_show(travel.folder, number)["plan"]}
    commands.pending_approve(travel.folder, number)
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert travel.state("ages")["definition"] == foretold["ages"], "the knowledge that it had is still there for it"
    assert travel.state("oldest")["state"] == "broken"
    assert travel.extent("oldest") == stay["oldest"]
    travel.check_definitions("ages", *others)
    with travel.opened() as opened:
        assert {view.earlier for view in opened.warehouse.views()} == {None}


def test_reject_breaks_the_views_that_wait_and_no_other(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight DROP age")
    travel.settle()
    travel.execute("booking", "INSERT INTO flight VALUES ('Ann', 'Europe', 4)")
    travel.settle()
    (number,) = waiting(travel)
    with travel.opened() as opened:
        assert {view.name for view in opened.warehouse.views() if view.earlier is not None} == set(STAY)
    assert commands.pending_reject(travel.folder, number)["views"] == ["ages", "oldest"]
    with travel.opened() as opened:
        assert all(view.earlier is None for view in opened.warehouse.views()), "what they knew before is forgotten"
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert {name: travel.state(name)["state"] for name in STAY} == {"ages": "broken", "oldest": "broken"}
    assert {name: travel.extent(name) for name in STAY} == STAY
    travel.check("dests", "seats", "trips")
    travel.view("ages", "SELECT f.name, f.dest FROM booking.flight f")
    travel.apply()
    travel.execute("booking", "ALTER TABLE flight RENAME dest TO place", "INSERT INTO flight VALUES ('Eve', 'Asia', 5)")
    travel.settle()
    travel.check_definitions("ages", "dests")


def test_changes_that_different_views_wait_for_are_approved_in_any_order(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight DROP age")
    travel.execute("booking", "ALTER TABLE flight DROP seat")
    travel.execute("booking", "INSERT INTO flight VALUES ('Ann', 'Europe')")
    travel.settle()
    first, second = waiting(travel)
    assert waiting(travel) == {first: ["ages", "oldest"], second: ["seats"]}
    travel.check("dests", "trips")
    assert travel.extent("seats") == {"Ann\t1": 1, "Bob\t2": 1}
    commands.pending_approve(travel.folder, second)
    travel.settle()
    assert travel.state("seats")["state"] == "broken"
    assert waiting(travel) == {first: ["ages", "oldest"]}
    assert {name: travel.extent(name) for name in STAY} == STAY
    travel.execute("booking", "INSERT INTO flight VALUES ('Cid', 'Asia')")
    commands.pending_approve(travel.folder, first)
    travel.settle()
    assert commands.pending(travel.folder) == []
    travel.check_definitions("ages", "dests", "trips")


def test_a_message_lists_who_waits_and_leaves_when_all_have_it(travel: Town) -> None:
    """Three views at three positions; the queue and the source's log keep what one of them lacks."""
    travel.execute("booking", "ALTER TABLE flight DROP age")
    travel.settle()
    travel.execute("booking", "ALTER TABLE flight DROP seat")
    travel.execute("booking", "INSERT INTO flight VALUES ('Ann', 'Europe')")
    travel.settle()
    first, second, rows = (message["id"] for message in commands.pending(travel.folder))
    assert waiting(travel) == {first: ["ages", "oldest"], second: ["seats"]}
    assert len({travel.state(name)["positions"]["booking"] for name in ("ages", "seats", "dests")}) == 3
    commands.pending_reject(travel.folder, first)
    travel.settle()
    left = [message["id"] for message in commands.pending(travel.folder)]
    assert left == [second, rows], "the first has left the queue: whoever lacks it is broken"
    assert waiting(travel) == {second: ["seats"]}
    commands.pending_approve(travel.folder, second)
    travel.settle()
    assert commands.pending(travel.folder) == []
    travel.check("dests", "trips")


def test_a_view_is_built_while_others_wait(shop: Town) -> None:
    """What waits for nothing comes along with it; what waits stays."""
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    shop.execute("shop", "INSERT INTO sale VALUES (2, 5)")
    shop.view("days", "SELECT DISTINCT s.day FROM shop.sale s")
    shop.apply()
    shop.check("days", "sales")
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()


def test_a_source_that_is_away_stops_its_readers_alone_and_they_say_why(shop: Town) -> None:
    url = shop.sources["crm"]
    shop.source_url("crm", url.replace("/crm_", "/nowhere_"))
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)", "INSERT INTO sale VALUES (3, 3)")
    with shop.maintainer() as maintainer:
        for _ in range(3):
            maintainer.cycle()
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1, "3\tcup": 1}
    assert (shop.state("items")["state"], shop.state("items")["since"]) == ("fresh", None)
    assert shop.extent("notes") == {"pen\tgood": 1}
    state = shop.state("notes")
    assert (state["state"], state["cause"]["kind"], state["cause"]["source"]) == ("stale", "source_away", "crm")
    assert state["since"] is not None
    shop.source_url("crm", url)
    shop.settle()
    shop.check()


def test_a_change_is_not_followed_unapproved_because_a_source_is_away(travel: Town) -> None:
    """`trips` reads a source that is away, and a column that is dropped: it waits for both."""
    trips, url = travel.extent("trips"), travel.sources["tours"]
    travel.source_url("tours", url.replace("/tours_", "/nowhere_"))
    travel.execute("booking", "ALTER TABLE flight DROP dest")
    with travel.maintainer() as maintainer:
        for _ in range(3):
            maintainer.cycle()
    (number,) = waiting(travel)
    assert waiting(travel) == {number: ["dests", "oldest", "trips"]}
    assert (travel.state("trips")["version"], travel.extent("trips")) == (1, trips)
    assert travel.extent("seats") == {"Ann\t1": 1, "Bob\t2": 1}
    assert {travel.state(name)["state"] for name in ("trips", "dests")} == {"held"}
    travel.source_url("tours", url)
    travel.settle()
    assert (travel.state("trips")["state"], travel.extent("trips")) == ("held", trips)
    commands.pending_approve(travel.folder, number)
    travel.settle()
    assert {travel.state(name)["state"] for name in ("trips", "dests", "oldest")} == {"broken"}
    assert commands.pending(travel.folder) == []


def test_complete_consistency_goes_on_too(new_town: Callable[..., Town]) -> None:
    shop = opened(new_town('consistency = "complete"'))
    shop.execute("shop", "INSERT INTO item VALUES (3, 'cup', 4)")
    (held,) = receive(shop)
    commands.pending_hold(shop.folder, held)
    for day in (4, 5, 6):
        shop.execute("shop", f"INSERT INTO sale VALUES (2, {day})")
        shop.execute("crm", f"INSERT INTO note VALUES (1, 'day {day}')")
    shop.settle()
    shop.check("sales")
    assert len(shop.extent("notes")) == 4
    assert shop.extent("items") == {"1\tpen": 1, "2\tink": 1}
    commands.pending_release(shop.folder, held)
    shop.settle()
    shop.check()
    assert commands.pending(shop.folder) == []


def test_what_waited_with_a_rejected_change_leaves_the_queue_with_its_last_reader(
    new_town: Callable[..., Town],
) -> None:
    """The daemon that carries out the decision goes on: nobody else comes to tidy up, and no unit does."""
    town = opened(new_town('schema_changes = "approve"'))
    town.execute("crm", "ALTER TABLE note RENAME text TO words")
    town.execute("crm", "INSERT INTO note VALUES (2, 'dry')")
    town.execute("crm", "ALTER TABLE note DROP COLUMN words")
    with town.maintainer() as maintainer:

        def settle() -> None:
            for _ in range(20):
                if maintainer.cycle() is Outcome.IDLE:
                    return
            raise AssertionError("it does not come to rest")

        settle()
        renamed, *_, dropped = commands.pending(town.folder)
        assert renamed["cause"] == {"kind": "waits_with", "message": renamed["id"], "other": dropped["id"]}
        assert DECISIONS["reject"](maintainer, {"message": dropped["id"]})["views"] == ["notes"]
        settle()
        assert commands.pending(town.folder) == []
        assert printed(town.sources["crm"], "SELECT count(*) FROM dyda.log") == {"0": 1}
    assert town.state("notes")["state"] == "broken"
    assert town.extent("notes") == {"pen\tgood": 1}
