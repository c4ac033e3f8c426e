"""`dyda knowledge check`: every constraint against the live data of several databases, violations counted exactly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dyda import commands
from dyda.errors import ConfigurationError
from dyda.warehouse import Installation
from tests.town import Town

KNOWLEDGE = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name"

[[containment]]
of = "booking.flight_res(name)"
is = "subset"
in = "tours.tour(tour_name)"

[[function]]
attribute = "booking.flight_res.age"
equals = "tours.tour.age + 1"
"""


@pytest.fixture
def travel(town: Town) -> Town:
    town.source(
        "booking",
        "CREATE TABLE flight_res (name text, age int, dest text)",
        "INSERT INTO flight_res VALUES ('Ann', 8, 'Asia'), ('Bob', 31, 'Asia'), ('Bob', 31, 'Europe')",
    )
    town.source(
        "tours",
        "CREATE TABLE tour (tour_name varchar(20), age bigint)",
        "INSERT INTO tour VALUES ('Ann', 7), ('Bob', 30), ('Cid', 40)",
    )
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    return town


def check(town: Town) -> dict[str, dict[str, Any]]:
    return {finding["kind"]: finding for finding in commands.knowledge_check(town.folder, town.engine)}


def test_constraints_that_hold(travel: Town) -> None:
    found = check(travel)
    assert {kind: (f["result"], f["violations"]) for kind, f in found.items()} == {
        "join": ("holds", 0),
        "containment": ("holds", 0),
        "function": ("holds", 0),
    }
    assert found["join"]["reason"] == "3 of 3 rows of booking.public.flight_res with a key meet tours.public.tour"
    assert not found["join"]["applied"]
    travel.apply()
    assert check(travel)["join"]["applied"]


def test_violating_rows_are_counted_and_shown(travel: Town) -> None:
    travel.apply()
    travel.execute(
        "booking", "INSERT INTO flight_res VALUES ('Eve', 1, 'Asia'), ('Eve', 2, 'Asia'), ('Cid', 7, 'Asia')"
    )
    found = check(travel)
    assert (found["containment"]["result"], found["containment"]["violations"]) == ("violated", 2)
    assert found["containment"]["samples"] == [
        {"relation": "booking.public.flight_res", "values": {"name": "Eve"}, "rows": 2}
    ]
    assert (found["function"]["result"], found["function"]["violations"]) == ("violated", 1)
    assert found["function"]["samples"] == [{"attribute": "7", "equals": "41", "rows": 1}]
    assert found["join"]["reason"] == "4 of 6 rows of booking.public.flight_res with a key meet tours.public.tour"


@pytest.mark.parametrize(("is_", "violations"), [("subset", 1), ("superset", 2), ("equivalent", 3)])
def test_each_direction_counts_its_own_rows(travel: Town, is_: str, violations: int) -> None:
    text = f"""
    [[containment]]
    of = "booking.flight_res(name, age)"
    is = "{is_}"
    in = "tours.tour(tour_name, age)"
    of_where = "flight_res.dest = 'Asia'"
    in_where = "tour.age < 40"
    """
    (travel.folder / "knowledge.toml").write_text(text)
    travel.execute("tours", "UPDATE tour SET age = age + 1 WHERE tour_name = 'Bob'", "INSERT INTO tour VALUES ('X', 1)")
    # Asia has (Ann, 8) and (Bob, 31); tours below 40 has (Ann, 7), (Bob, 31), (X, 1): types differ, values do not.
    assert check(travel)["containment"]["violations"] == violations


def test_V3_null_is_a_value(travel: Town) -> None:
    travel.apply()
    travel.execute("booking", "INSERT INTO flight_res VALUES (NULL, 1, 'Asia')")
    assert check(travel)["containment"]["violations"] == 1, "tours has no NULL"
    travel.execute("tours", "INSERT INTO tour VALUES (NULL, 5)")
    assert check(travel)["containment"]["violations"] == 0
    assert check(travel)["function"]["violations"] == 0, "NULLs do not meet"
    travel.execute("tours", "UPDATE tour SET age = NULL WHERE tour_name = 'Ann'")
    assert check(travel)["function"]["violations"] == 1, "8 is distinct from NULL"
    travel.execute("booking", "UPDATE flight_res SET age = NULL WHERE name = 'Ann'")
    assert check(travel)["function"]["violations"] == 0, "NULL is not distinct from NULL"


def test_a_function_without_a_join_cannot_be_tested(travel: Town) -> None:
    (travel.folder / "knowledge.toml").write_text("[[function]]" + KNOWLEDGE.split("[[function]]")[1])
    found = check(travel)["function"]
    assert found["result"] == "untested"
    assert "[[join]]" in found["reason"]


def test_types_that_travel_as_text_are_compared_by_their_text(town: Town) -> None:
    town.source("a", "CREATE TABLE r (j jsonb, k int)", """INSERT INTO r VALUES ('{"x": 1}', 1), ('[]', 1)""")
    town.source("b", "CREATE TABLE s (j jsonb, k int)", """INSERT INTO s VALUES ('{"x":  1}', 1)""")
    (town.folder / "knowledge.toml").write_text(
        '[[join]]\nbetween = ["a.r", "b.s"]\non = "r.k = s.k"\n'
        '[[containment]]\nof = "a.r(j)"\nis = "equivalent"\nin = "b.s(j)"\n'
        '[[function]]\nattribute = "a.r.j"\nequals = "b.s.j"\n'
    )
    found = check(town)
    assert (found["containment"]["violations"], found["function"]["violations"]) == (1, 1)


def test_an_unreachable_source_leaves_its_constraints_untested(travel: Town) -> None:
    travel.apply()
    travel.source_url("tours", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    found = check(travel)
    assert {finding["result"] for finding in found.values()} == {"untested"}
    assert "source tours cannot be reached" in found["join"]["reason"]


def test_a_wrong_file_is_an_error(travel: Town) -> None:
    (travel.folder / "knowledge.toml").write_text(KNOWLEDGE.replace("tour_name", "tour_title"))
    with pytest.raises(ConfigurationError, match="tour_title"):
        check(travel)


def test_listing_tells_what_is_in_force_and_what_has_ended(travel: Town) -> None:
    assert commands.knowledge(travel.folder) == []
    travel.apply()
    with travel.opened() as opened, opened.warehouse.lock() as writer:
        document = dict(opened.warehouse.knowledge().document)
        retired = {"function": document.pop("function"), "reason": "column age of tours.public.tour was dropped"}
        writer.install(Installation(knowledge=document, retired=(retired,)))
    listed = commands.knowledge(travel.folder)
    assert [(entry["kind"], entry["state"], entry["reason"]) for entry in listed] == [
        ("join", "active", None),
        ("containment", "active", None),
        ("function", "retired", "column age of tours.public.tour was dropped"),
    ]
    assert listed[1]["constraint"] == "booking.public.flight_res(name) is in tours.public.tour(tour_name)"
    commands.sources_detach(travel.folder, "tours")
    assert [entry["state"] for entry in commands.knowledge(travel.folder)] == ["unread", "unread", "retired"]


def test_the_command_line(travel: Town) -> None:
    travel.apply()
    assert "active" in travel.run("knowledge").stdout
    assert travel.run("knowledge", "check").returncode == 0
    travel.execute("booking", "INSERT INTO flight_res VALUES ('Eve', 1, 'Asia')")
    done = travel.run("knowledge", "check", "--json", check=False)
    assert done.returncode == 3
    assert [(f["kind"], f["result"]) for f in json.loads(done.stdout)] == [
        ("join", "holds"),
        ("containment", "violated"),
        ("function", "holds"),
    ]
