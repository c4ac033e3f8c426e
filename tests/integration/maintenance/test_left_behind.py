"""Views that stay behind a schema change which others have processed: their texts follow all the same.

The catalog knows each relation once. A view whose other source is away, that is held, or that another view was built
ahead of, must not find its text meaning something else when it moves again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import psycopg2
import pytest

from dyda import commands, faults
from dyda.maintenance.catalog_state import BuildRequest
from dyda.maintenance.cycle import Outcome
from dyda.model.cause import BuildReason, ToBeBuilt
from tests.town import Town

EXCHANGED = (
    "ALTER TABLE f RENAME name TO other",
    "ALTER TABLE f RENAME nick TO name",
    "ALTER TABLE f RENAME other TO nick",
    "INSERT INTO f (id, name, nick, age) VALUES (3, 'nick3', 'name3', 50)",
)
KNOWLEDGE = """
[[join]]
between = ["b.f", "t.tour"]
on = "f.name = tour.tname"

[[function]]
attribute = "b.f.age"
equals = "t.tour.age"
"""
REPLACEABLE = "-- dyda: extent = any\nSELECT f.id, f.name, f.age /* replaceable */ FROM b.f f"


class Received(Exception):
    """The queue knows the messages, and nothing has been done about them."""


def received() -> None:
    raise Received


def begin(town: Town, text: str) -> None:
    """`late` is the view that will stay behind, `early` the one that goes on."""
    town.source(
        "b",
        "CREATE TABLE f (id int PRIMARY KEY, name text, nick text, age int)",
        "INSERT INTO f VALUES (1, 'name1', 'nick1', 30), (2, 'name2', 'nick2', 40)",
    )
    town.source(
        "t", "CREATE TABLE tour (tname text, age bigint)", "INSERT INTO tour VALUES ('name1', 31), ('name1', 32)"
    )
    town.source("z", "CREATE TABLE g (id int PRIMARY KEY, x int)", "INSERT INTO g VALUES (1, 1), (2, 2), (3, 3)")
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.view("late", text)
    town.view("early", "SELECT f.id, f.name FROM b.f f")
    town.apply()


def without(town: Town, source: str, cycles: int = 3) -> None:
    """Some cycles of maintenance while a source is out of reach."""
    url = town.sources[source]
    town.source_url(source, url.replace(f"/{source}_", "/nowhere_"))
    with town.maintainer() as maintainer:
        for _ in range(cycles):
            maintainer.cycle()
    town.source_url(source, url)


def warehouse(town: Town, statement: str) -> None:
    connection = psycopg2.connect(town.warehouse)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def settled(town: Town, *views: str) -> None:
    town.settle()
    for view in views:
        assert town.state(view)["state"] == "fresh", town.state(view)["reason"]
    town.check_definitions(*views)


def test_columns_exchange_their_names_while_another_source_is_away(town: Town) -> None:
    begin(town, "SELECT f.id, f.name, g.x FROM b.f f JOIN z.g g ON f.id = g.id")
    town.execute("b", *EXCHANGED)
    without(town, "z")
    assert town.state("early")["version"] == 2
    settled(town, "late", "early")
    assert "1\tname1\t1" in town.extent("late")
    assert "3\tname3\t3" in town.extent("late")


def test_a_column_is_dropped_while_another_source_is_away(town: Town) -> None:
    begin(town, REPLACEABLE.replace("f.name,", "g.x,").replace("b.f f", "b.f f JOIN z.g g ON f.id = g.id"))
    before = town.extent("late")
    town.execute("b", "ALTER TABLE f DROP COLUMN age")
    without(town, "z")
    assert town.state("late")["state"] == "resync"
    assert town.extent("late") == before
    settled(town, "late", "early")
    assert town.extent("late") == {"1\t1\t31": 1, "1\t1\t32": 1}


def test_a_rewriting_that_needs_a_source_out_of_reach_stops_nobody_else(town: Town) -> None:
    begin(town, REPLACEABLE)
    town.view("elsewhere", "SELECT g.id, g.x FROM z.g g")
    town.apply()
    before = town.extent("late")
    town.execute("b", "ALTER TABLE f DROP COLUMN age")
    town.execute("b", "INSERT INTO f VALUES (3, 'name1', 'nick3')")
    town.execute("z", "INSERT INTO g VALUES (4, 4)")
    without(town, "t", cycles=4)
    town.execute("b", "INSERT INTO f VALUES (4, 'name2', 'nick4')")
    without(town, "t")
    assert (town.state("early")["rows"], town.state("elsewhere")["rows"]) == (4, 4), "they do not need it"
    late = town.state("late")
    assert (late["state"], late["version"]) == ("resync", 2), "it waits for the best rewriting, alone"
    assert "source t" in late["reason"]
    assert town.extent("late") == before
    settled(town, "late", "early", "elsewhere")
    assert town.state("late")["rows"] == 4
    assert not commands.pending(town.folder)


def test_a_held_view_is_rewritten_once_nothing_stands_on_it(town: Town) -> None:
    begin(town, REPLACEABLE)
    before = town.extent("late")
    warehouse(town, "CREATE VIEW mine AS SELECT * FROM public.late")
    town.execute("b", "ALTER TABLE f DROP COLUMN age")
    town.execute("b", "INSERT INTO f VALUES (3, 'name1', 'nick3')")
    town.settle()
    assert town.state("early")["rows"] == 3
    assert town.state("late")["state"] == "held"
    assert town.extent("late") == before
    warehouse(town, "DROP VIEW mine")
    settled(town, "late", "early")
    assert town.state("late")["rows"] == 4


def test_a_view_is_built_ahead_of_the_others(new_town: Callable[..., Town]) -> None:
    town = new_town('consistency = "complete"')
    begin(town, "SELECT f.id, f.name, f.age FROM b.f f")
    town.execute("b", *EXCHANGED)
    town.view("ahead", "SELECT f.id, f.age FROM b.f f")
    town.apply()
    settled(town, "late", "early", "ahead")
    assert town.state("late")["reason"] is None
    assert "1\tname1\t30" in town.extent("late")


def test_a_view_is_built_while_an_operator_holds_the_change(town: Town) -> None:
    begin(town, "SELECT f.id, f.name, f.age FROM b.f f")
    town.execute("b", *EXCHANGED)

    with suppress(Received), faults.on("unit.messages-received", received):
        town.settle()
    town.run("pending", "hold", "1")
    town.view("ahead", "SELECT f.id, f.age FROM b.f f")
    town.apply()
    town.settle()
    assert town.state("late")["rows"] == 2
    assert [message["state"] for message in commands.pending(town.folder)] == ["held"]
    town.run("pending", "release", "1")
    settled(town, "late", "early", "ahead")
    assert town.state("late")["reason"] is None
    assert "1\tname1\t30" in town.extent("late")


@pytest.mark.parametrize("how", ["held", "broken", "dropped"])
def test_a_change_that_the_catalog_has_is_not_applied_twice(town: Town, how: str) -> None:
    """The view that has processed it is not maintained any more when the one that was left behind comes to it, and a
    later change of the same table waits: what the table is then comes from the log alone."""
    town.source("b", "CREATE TABLE f (id int, name text, nick text, age int)")
    town.execute("b", "INSERT INTO f VALUES (1, 'name1', 'nick1', 30), (2, 'name2', 'nick2', 40)")
    town.source("a", "CREATE TABLE g (id int, x int)", "INSERT INTO g VALUES (1, 1)")
    town.view("late", "SELECT f.name, g.x FROM b.f f JOIN a.g g ON g.id = f.id")
    town.view("early", "SELECT f.id, f.name FROM b.f f")
    town.apply()
    town.execute("b", *EXCHANGED)
    without(town, "a")
    if how == "dropped":
        (town.folder / "views" / "early.sql").unlink()
        url = town.sources["a"]
        town.source_url("a", url.replace("/a_", "/nowhere_"))
        town.apply()
        town.source_url("a", url)
    else:
        cause = '{"kind": "text", "text": "by hand"}'
        warehouse(town, f"UPDATE dyda.view SET state = '{how}', cause = '{cause}' WHERE name = 'early'")
    town.execute("a", "INSERT INTO g VALUES (2, 2), (3, 3)")
    town.execute("b", "ALTER TABLE f ADD COLUMN extra int")
    settled(town, "late")
    assert dict(town.extent("late")) == {"name1\t1": 1, "name2\t2": 1, "name3\t3": 1}


ELSEWHERE = {
    "another table": (
        "CREATE TABLE fresh (LIKE f)",
        "INSERT INTO fresh SELECT * FROM f WHERE id <> 2",
        "ALTER TABLE f RENAME TO old_f",
        "ALTER TABLE fresh RENAME TO f",
    ),
    "another type": ("ALTER TABLE f ALTER age TYPE numeric(10, 2) USING age / 10.0",),
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_rows_of_what_the_relation_was_wait_while_it_becomes(town: Town, how: str) -> None:
    """The catalog has followed, so the images that the view waits with are of a table that nobody knows any more."""
    begin(
        town,
        "SELECT f.name, CAST(f.age AS STRING) AS age FROM b.f f"
        " EXCEPT SELECT t.tname, CAST(t.age AS STRING) AS age FROM t.tour t",
    )
    town.execute("b", "CREATE TABLE h (id int)")
    town.view("beside", "SELECT h.id FROM b.h h")
    town.apply()
    before = town.extent("late")
    update = town.execute("b", "UPDATE f SET age = 99 WHERE id = 1")
    town.execute("b", "INSERT INTO h VALUES (1)")
    change = town.execute("b", *ELSEWHERE[how])
    without(town, "t")
    assert town.extent("late") == before

    def look() -> None:
        with town.opened() as opened:
            at = opened.warehouse.view("late").positions["b"]
        if not at.includes(change):
            rows = {"name1\t99": 1, "name2\t40": 1} if at.includes(update) else before
            assert town.extent("late") == rows, "the rows are where the position says"

    with faults.on("install.committed", look):
        town.settle()
    settled(town, "late", "early", "beside")


FORBIDDEN = """
CREATE FUNCTION no_triggers() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''no triggers here''; END';
CREATE EVENT TRIGGER no_triggers ON ddl_command_start WHEN TAG IN ('CREATE TRIGGER') EXECUTE FUNCTION no_triggers()
"""


def test_a_source_that_refuses_to_capture_what_only_the_knowledge_names_goes_on(town: Town) -> None:
    """The first refusal may be a source that goes away. One that answers polls and refuses again would otherwise stop
    its views for good: no message shows the table that was put in the place of the captured one."""
    begin(town, REPLACEABLE)
    town.execute("t", "CREATE TABLE h (id int PRIMARY KEY)", "INSERT INTO h VALUES (1)")
    town.view("beside", "SELECT h.id FROM t.h h")
    town.apply()
    unseen = "SET event_triggers = off; DROP TABLE tour; CREATE TABLE tour (tname text, age bigint, since date)"
    town.execute("t", unseen, FORBIDDEN, "INSERT INTO h VALUES (2)")
    said: list[str] = []
    with town.maintainer() as maintainer:
        maintainer.log = said.append
        assert maintainer.cycle() is Outcome.BLOCKED
        assert "no triggers here" in str(maintainer.obstacle)
        deadline = time.monotonic() + 60
        while maintainer.cycle() is not Outcome.IDLE:
            assert time.monotonic() < deadline, said
    assert any(text.startswith("t.public.tour, which the knowledge names, cannot be captured") for text in said), said
    assert town.extent("beside") == {"1": 1, "2": 1}
    settled(town, "late", "early", "beside")


def test_views_that_describe_one_table_differently_each_get_its_rows(town: Town) -> None:
    """One view has followed a schema change, another follows it only now, when statistics say something else of the
    table: both lack what has come since, and each finds it by its own description."""
    town.source("people", "CREATE TABLE person (id int, n int, spare int)", "INSERT INTO person VALUES (1, 1, 1)")
    town.source("tours", "CREATE TABLE tour (id int)", "INSERT INTO tour VALUES (1), (2)")
    town.view("persons", "SELECT p.id, p.n FROM people.person p")
    town.view("trips", "SELECT t.id FROM tours.tour t")
    town.view("tourists", "SELECT p.id, p.n FROM people.person p JOIN tours.tour t ON t.id = p.id")
    town.apply()
    there = town.sources["tours"]
    town.source_url("tours", "postgresql://nobody@/nothing?host=/nowhere")
    town.execute("people", "ALTER TABLE person DROP COLUMN spare")
    with town.maintainer() as maintainer:
        while maintainer.cycle() is not Outcome.BLOCKED:
            pass
    town.execute("people", "INSERT INTO person SELECT 2, i FROM generate_series(1, 200) i")
    town.execute("people", "ANALYZE person")
    town.source_url("tours", there)
    with town.maintainer() as maintainer:  # all views come along with one that is built, in one unit
        maintainer.cycle([BuildRequest("trips", "", None, ToBeBuilt(BuildReason.REQUESTED))])
    town.settle()
    town.check()
