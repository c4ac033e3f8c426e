"""`dyda impact`: what a colleague's DDL would do to every view, from the catalog alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dyda import commands
from dyda.errors import ConfigurationError, DydaError
from dyda.maintenance.cycle import Outcome
from dyda.model.cause import Text
from dyda.model.ddl.statements import UnreadableDdl
from dyda.model.view_state import ViewState
from tests.town import Town

NOWHERE = "postgresql://nobody@/{}?host=/nonexistent-folder"


@pytest.fixture
def travel(town: Town) -> Town:
    town.source(
        "crm",
        "CREATE SCHEMA old",
        "CREATE TABLE customer (name text, age int, phone text)",
        "CREATE TABLE old.customer (name text)",
    )
    town.source("booking", "CREATE TABLE flight_res (name text, dest text)")
    town.view("names", "SELECT c.name FROM crm.customer c")
    town.view(
        "flights", "SELECT c.name, c.age, f.dest FROM crm.customer c JOIN booking.flight_res f ON c.name = f.name"
    )
    town.view("dest", "SELECT f.dest FROM booking.flight_res f")
    town.view("ancient", "SELECT c.name FROM crm.old.customer c")
    town.apply()
    for source in ("crm", "booking"):
        town.source_url(source, NOWHERE.format(source))
    return town


def effects(town: Town, ddl: str, source: str | None = None) -> dict[str, str]:
    answer = commands.impact(town.folder, ddl, source)
    return {view["name"]: view["effect"] for view in answer["views"] if view["effect"] != "none"}


EFFECTS: list[tuple[str, dict[str, str]]] = [
    ("ALTER TABLE crm.customer DROP COLUMN phone", {}),
    ("ALTER TABLE crm.customer DROP age", {"flights": "broken"}),
    ("ALTER TABLE crm.customer RENAME age TO years", {"flights": "renamed"}),
    ("ALTER TABLE crm.customer RENAME TO client", {"flights": "renamed", "names": "renamed"}),
    ("ALTER TABLE crm.public.customer SET SCHEMA new", {"flights": "renamed", "names": "renamed"}),
    ("ALTER TABLE crm.old.customer RENAME TO customers", {"ancient": "renamed"}),
    # Rows are rewritten, and nothing tells in which columns (S4); for varchar none is.
    ("ALTER TABLE crm.customer ALTER age TYPE bigint", {"flights": "adapted", "names": "adapted"}),
    ("ALTER TABLE crm.customer ALTER phone TYPE varchar", {}),
    ("TRUNCATE booking.flight_res", {"flights": "adapted", "dest": "adapted"}),
    ("DROP TABLE booking.flight_res", {"flights": "broken", "dest": "broken"}),
    ("ALTER TABLE crm.customer RENAME age TO a; ALTER TABLE crm.customer DROP a", {"flights": "broken"}),
    (
        "ALTER TABLE crm.customer DROP age, ADD age int; DROP TABLE crm.old.customer",
        {"flights": "broken", "ancient": "broken"},
    ),
    ("ALTER TABLE crm.customer ADD x int DEFAULT 1", {}),
    ("CREATE INDEX ON crm.customer (name); COMMENT ON TABLE crm.customer IS 'x'", {}),
]


def test_effects_without_touching_any_source(travel: Town) -> None:
    assert {ddl: effects(travel, ddl) for ddl, _ in EFFECTS} == dict(EFFECTS)


def test_the_answer_says_what_each_view_would_be(travel: Town) -> None:
    answer = commands.impact(travel.folder, "ALTER TABLE crm.customer RENAME age TO years")
    views: dict[str, dict[str, Any]] = {view["name"]: view for view in answer["views"]}
    assert set(views) == {"ancient", "dest", "flights", "names"}
    assert "`years` AS `age`" in views["flights"]["definition"]
    assert {key: views["flights"][key] for key in ("extent", "cost")} == {"extent": "equivalent", "cost": 1}
    assert views["names"] == {
        "name": "names",
        "effect": "none",
        "plan": "maintain",
        "definition": "SELECT c.name FROM crm.customer c",
        "extent": "equivalent",
        "cost": 0,
        "reason": None,
        "cause": None,
    }
    (broken,) = [
        view
        for view in commands.impact(travel.folder, "ALTER TABLE crm.customer DROP age")["views"]
        if view["effect"] == "broken"
    ]
    assert (broken["definition"], broken["cost"]) == (None, None)
    assert "age" in broken["reason"]


def test_names_as_the_source_writes_them(travel: Town) -> None:
    assert effects(travel, "ALTER TABLE customer DROP age", "crm") == {"flights": "broken"}
    assert effects(travel, "ALTER TABLE public.customer DROP age", "crm") == {"flights": "broken"}
    assert effects(travel, "DROP TABLE old.customer", "crm") == {"ancient": "broken"}
    assert effects(travel, "DROP TABLE crm.old.customer, crm.customer", "crm") == {
        "ancient": "broken",
        "flights": "broken",
        "names": "broken",
    }
    with pytest.raises(ConfigurationError, match="whose table") as raised:
        effects(travel, "ALTER TABLE customer DROP age")
    assert "--source" in raised.value.remedy
    for ddl, source in (("DROP TABLE public.customer", None), ("DROP TABLE customer", "nowhere")):
        with pytest.raises(ConfigurationError, match="there is no source"):
            effects(travel, ddl, source)


def test_a_table_that_nobody_uses_is_told(travel: Town) -> None:
    answer = commands.impact(travel.folder, "ALTER TABLE crm.custommer DROP age")
    assert {view["effect"] for view in answer["views"]} == {"none"}
    assert answer["notes"] == ["no view and no constraint uses crm.public.custommer"]


def test_a_broken_view_cannot_break_again(travel: Town) -> None:
    with travel.opened() as opened, opened.warehouse.lock() as writer:
        writer.set_state("flights", ViewState.BROKEN, Text("it broke"))
        writer.set_state("names", ViewState.HELD, Text("message 7 is quarantined"))
    answer = commands.impact(travel.folder, "DROP TABLE crm.customer")
    views = {view["name"]: view for view in answer["views"]}
    assert (views["flights"]["effect"], views["flights"]["reason"]) == ("none", "it is broken already: it broke")
    assert views["names"]["effect"] == "broken"


@pytest.mark.parametrize("ddl", ["", "  ;; -- nothing\n"])
def test_nothing_to_judge_is_an_error(travel: Town, ddl: str) -> None:
    with pytest.raises(DydaError, match="no statement"):
        effects(travel, ddl)


def test_what_cannot_be_read_is_refused(travel: Town) -> None:
    with pytest.raises(UnreadableDdl, match="ALTER TYPE mood"):
        effects(travel, "ALTER TABLE crm.customer DROP age; ALTER TYPE mood RENAME VALUE 'a' TO 'b'")


@pytest.mark.parametrize(
    "ddl",
    [
        "ALTER TABLE customer RENAME age TO years",
        "ALTER TABLE customer DROP phone",
        "ALTER TABLE customer DROP age",
        "ALTER TABLE customer RENAME TO client; ALTER TABLE client ALTER age TYPE bigint",
        "ALTER TABLE customer ADD more int; ALTER TABLE customer RENAME name TO person",
    ],
)
def test_what_it_foretells_is_what_happens(town: Town, ddl: str) -> None:
    town.source("crm", "CREATE TABLE customer (name text, age int, phone text)", "INSERT INTO customer VALUES ('A', 1)")
    town.view("v", "SELECT c.name, c.age FROM crm.customer c")
    town.apply()
    (foretold,) = commands.impact(town.folder, ddl, "crm")["views"]
    town.execute("crm", ddl)
    outcomes = town.settle()
    assert outcomes[-1] is Outcome.IDLE
    if foretold["effect"] == "broken":
        assert town.state("v")["state"] == "broken"
    else:
        assert town.state("v")["definition"] == foretold["definition"]
        assert town.state("v")["state"] != "broken"


def test_types_that_do_not_fit_any_more_are_foretold(town: Town) -> None:
    town.source(
        "crm",
        "CREATE TABLE customer (name text, age int)",
        "CREATE TABLE pet (name text, years int)",
        "INSERT INTO customer VALUES ('A', 1)",
        "INSERT INTO pet VALUES ('B', 2)",
    )
    town.view("passed", "SELECT c.name, c.age FROM crm.customer c")
    town.view("sides", "SELECT c.age FROM crm.customer c UNION ALL SELECT p.years FROM crm.pet p")
    town.view("next", "SELECT c.age % 2 AS next FROM crm.customer c")
    town.view("pets", "SELECT p.name FROM crm.pet p EXCEPT SELECT c.name FROM crm.customer c")
    town.apply()
    for kind, told in (
        ("bigint", {"next": "adapted", "passed": "adapted", "pets": "adapted", "sides": "broken"}),
        ("date USING current_date", {"next": "broken", "passed": "adapted", "pets": "adapted", "sides": "none"}),
    ):
        ddl = f"ALTER TABLE customer ALTER age TYPE {kind}"
        views = commands.impact(town.folder, ddl, "crm", engine=town.engine)["views"]
        assert {view["name"]: view["effect"] for view in views} == told
        town.execute("crm", ddl)
        town.settle()
        for view in views:
            if view["effect"] == "broken":
                assert town.state(view["name"])["state"] == "broken"
                assert view["reason"] in town.state(view["name"])["reason"]
            elif view["name"] != "sides":
                assert town.state(view["name"])["definition"] == view["definition"]


def test_the_command_line(travel: Town, tmp_path: Path) -> None:
    done = travel.run(
        "impact", "--json", "ALTER TABLE crm.customer DROP phone", "DROP TABLE crm.old.customer", check=False
    )
    assert done.returncode == 3
    assert {view["name"]: view["effect"] for view in json.loads(done.stdout)["views"]}["ancient"] == "broken"
    file = tmp_path / "migration.sql"
    file.write_text("ALTER TABLE customer RENAME age TO years;\n")
    done = travel.run("impact", "-f", str(file), "--source", "crm")
    assert "renamed" in done.stdout
    assert "flights would be:" in done.stdout
    assert travel.run("impact", "-f", str(tmp_path / "nothing.sql"), check=False).returncode == 1
    assert travel.run("impact", check=False).returncode == 2
    assert "cannot be read exactly" in travel.run("impact", "DROP DATABASE crm", check=False).stderr


def test_a_folder_of_migrations_is_judged_in_one_call(travel: Town, tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "V2__drop.sql").write_text("BEGIN;\nALTER TABLE customer DROP years;\nCOMMIT;\n")
    (folder / "V1.1__rename.sql").write_text("ALTER TABLE customer RENAME age TO years; -- see V2")
    (folder / "V10__fill.sql").write_text("UPDATE customer SET phone = ''; INSERT INTO flyway_history VALUES (1);")
    done = travel.run("impact", "--json", "-f", str(folder), "--source", "crm", check=False)
    assert done.returncode == 3
    answer = json.loads(done.stdout)
    assert {view["name"] for view in answer["views"] if view["effect"] == "broken"} == {"flights"}
    assert answer["notes"] == [
        "read in Flyway's order: V1.1__rename.sql, V2__drop.sql, V10__fill.sql",
        "the DDL also changes rows of crm.public.customer, which is maintained as usual",
    ]
    (folder / "V11__code.sql").write_text("SELECT 1;\n\nDO $$ BEGIN END $$;")
    refused = travel.run("impact", "-f", str(folder), "--source", "crm", check=False)
    assert refused.returncode == 1
    assert "V11__code.sql, line 3: this statement cannot be read exactly" in refused.stderr
    two = [str(folder / name) for name in ("V1.1__rename.sql", "V2__drop.sql")]
    assert travel.run("impact", "-f", two[0], "-f", two[1], "--source", "crm", check=False).returncode == 3


def test_a_rewriting_is_foretold_as_it_happens(town: Town) -> None:
    town.source("booking", "CREATE TABLE flight_res (name text, age int)", "INSERT INTO flight_res VALUES ('A', 1)")
    town.source("tours", "CREATE TABLE tour (tour_name text, age int)", "INSERT INTO tour VALUES ('A', 1), ('B', 2)")
    town.view("v", "-- dyda: extent = any\nSELECT f.name, f.age /* replaceable */ FROM booking.flight_res f")
    town.view("all", "-- dyda: new_columns = append\nSELECT f.name FROM booking.flight_res f")
    (town.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["booking.flight_res", "tours.tour"]\non = "flight_res.name = tour.tour_name"\n'
        '[[function]]\nattribute = "booking.flight_res.age"\nequals = "tours.tour.age"\n'
    )
    town.apply()
    ddl = "ALTER TABLE flight_res DROP age; ALTER TABLE flight_res ADD phone text"
    foretold = {view["name"]: view for view in commands.impact(town.folder, ddl, "booking")["views"]}
    assert {name: view["effect"] for name, view in foretold.items()} == {"v": "rewritten", "all": "adapted"}
    assert foretold["v"]["cost"] == 1
    assert foretold["v"]["extent"] in ("subset", "unknown"), "nothing promises that every guest is on a tour"
    town.execute("booking", "ALTER TABLE flight_res DROP age", "ALTER TABLE flight_res ADD phone text")
    town.settle()
    for name in ("v", "all"):
        assert town.state(name)["definition"] == foretold[name]["definition"]
