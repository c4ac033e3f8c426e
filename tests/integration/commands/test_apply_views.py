"""`dyda apply` on views: how a changed one was adapted, and which broken ones come back."""

from __future__ import annotations

import pytest

from dyda import commands, faults
from dyda.errors import DydaError
from tests.recompute_oracle import printed
from tests.town import Town


@pytest.fixture
def crm(town: Town) -> Town:
    town.source(
        "crm", "CREATE TABLE customer (name text, age int)", "INSERT INTO customer VALUES ('Ann', 7), ('Bob', 9)"
    )
    town.source("tours", "CREATE TABLE tour (guest text, age int)", "INSERT INTO tour VALUES ('Ann', 7)")
    town.view("v", "SELECT c.name, c.age FROM crm.customer c")
    town.apply()
    return town


def test_the_answer_says_how_a_changed_view_was_adapted(crm: Town) -> None:
    crm.view("v", "SELECT c.name FROM crm.customer c WHERE c.age > 8")
    (changed,) = crm.apply()["changed"]
    assert (changed["name"], changed["rows"]) == ("v", 1)
    adaptation = changed["adaptation"]
    assert set(adaptation) == {"kind", "reason", "queries", "rows", "seconds"}
    assert adaptation["kind"] != "recompute"
    assert adaptation["queries"] == 0, "a tighter filter and a column less need no source"
    assert commands.views_history(crm.folder, "v")[-1]["adaptation"] == adaptation
    crm.check("v")
    crm.view("v", "SELECT c.name, c.age * 2 AS twice FROM crm.customer c JOIN tours.tour t ON t.guest = c.name")
    shown = crm.run("apply", "--yes").stdout
    assert "changed" in shown
    assert commands.views_history(crm.folder, "v")[-1]["adaptation"]["kind"] in shown, "and so does the text"
    crm.check("v")


def test_capture_that_an_older_version_left_is_brought_up_to_date_though_no_view_changes(crm: Town) -> None:
    definition = "SELECT pg_get_functiondef('dyda.shown(text)'::regprocedure)"
    (present,) = printed(crm.sources["crm"], definition)
    crm.execute(
        "crm", "CREATE OR REPLACE FUNCTION dyda.shown(query text) RETURNS text LANGUAGE sql AS $$ SELECT query $$"
    )
    assert crm.apply()["unchanged"] == ["v"]
    assert list(printed(crm.sources["crm"], definition)) == [present]
    crm.settle()
    crm.check("v")


def test_a_view_that_stays_broken_stops_nobody(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer DROP age")
    crm.settle()
    assert crm.state("v")["state"] == "broken"
    crm.view("names", "SELECT c.name FROM crm.customer c")
    answer = crm.apply()
    assert [view["name"] for view in answer["created"]] == ["names"]
    (broken,) = answer["broken"]
    assert broken["name"] == "v"
    assert "age" in broken["reason"]
    assert crm.extent("v") == {"Ann\t7": 1, "Bob\t9": 1}


def test_a_broken_view_comes_back_with_the_constraint_that_it_lacked(crm: Town) -> None:
    crm.view("v", "-- dyda: extent = any\nSELECT c.name, c.age /* replaceable */ FROM crm.customer c")
    crm.apply()
    crm.execute("crm", "ALTER TABLE customer DROP age")
    crm.settle()
    assert crm.state("v")["state"] == "broken"
    (crm.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["crm.customer", "tours.tour"]\non = "customer.name = tour.guest"\n'
        '[[function]]\nattribute = "crm.customer.age"\nequals = "tours.tour.age"\n'
    )
    assert crm.apply()["recovered"] == [{"name": "v", "rows": 1}]
    assert crm.extent("v") == {"Ann\t7": 1}
    assert "tours" in crm.state("v")["definition"]
    assert commands.plan_apply(crm.folder).evolved == ("v",)
    crm.execute("tours", "INSERT INTO tour VALUES ('Bob', 10)")
    crm.settle()
    crm.check_definitions("v")
    crm.execute("crm", "INSERT INTO customer VALUES ('Bob')")
    crm.settle()
    crm.check_definitions("v")


def test_a_broken_view_comes_back_when_its_column_does(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer RENAME age TO years")
    crm.settle()
    crm.execute("crm", "ALTER TABLE customer DROP years")
    crm.settle()
    assert crm.state("v")["state"] == "broken"
    crm.execute("crm", "ALTER TABLE customer ADD age int DEFAULT 3")
    (recovered,) = crm.apply()["recovered"]
    assert recovered == {"name": "v", "rows": 2}
    assert crm.extent("v") == {"Ann\t3": 1, "Bob\t3": 1}, "the file holds again, its evolved form does not"
    assert commands.plan_apply(crm.folder).unchanged == ("v",)


def test_a_new_view_is_building_until_it_is_there(crm: Town) -> None:
    seen: list[list[tuple[str, str]]] = []
    crm.view("w", "SELECT c.name FROM crm.customer c")
    look = lambda: seen.append([(view["name"], view["state"]) for view in commands.views(crm.folder)])  # noqa: E731
    with faults.on("unit.evaluated", look):
        crm.apply()
    assert ("w", "building") in seen[0]
    assert crm.state("w")["state"] in ("fresh", "stale")


def test_a_view_that_cannot_be_built_leaves_no_trace(crm: Town) -> None:
    crm.execute("crm", "INSERT INTO customer VALUES ('Nil', 0)")
    crm.view("w", "SELECT 1 / c.age AS share FROM crm.customer c")
    with pytest.raises(DydaError, match=r"(?i)division|divide"):
        crm.apply()
    assert [view["name"] for view in commands.views(crm.folder)] == ["v"]
    with crm.maintainer() as maintainer:
        maintainer.writer.create_view("w")  # as a build leaves it that was killed
    assert crm.state("w")["state"] == "building"
    assert crm.run("views", "show", "w").returncode == 0
    assert commands.plan_apply(crm.folder).create == ("w",)
    (crm.folder / "views" / "w.sql").unlink()
    assert crm.apply()["dropped"] == ["w"]
