"""knowledge.toml is applied like a view file: compared, checked, captured, kept, released."""

from __future__ import annotations

from typing import Any

import pytest

from dyda import commands
from dyda.errors import ConfigurationError, DydaError
from dyda.maintenance.catalog_state import load
from dyda.model.preferences import Preference
from dyda.warehouse import Installation
from tests.town import Town
from vs import Defaults

KNOWLEDGE = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name"

[[function]]
attribute = "booking.flight_res.age"
equals = "tours.tour.age"
"""
CONTAINMENT = """
[[containment]]
of = "booking.flight_res(name)"
is = "{is_}"
in = "tours.tour(tour_name)"
"""


@pytest.fixture
def travel(town: Town) -> Town:
    town.source("booking", "CREATE TABLE flight_res (name text, age int, dest text)")
    town.source("tours", "CREATE TABLE tour (tour_name text, age int)")
    town.view("asia", "SELECT f.name, f.age FROM booking.flight_res f")
    town.apply()
    return town


def write(town: Town, text: str) -> None:
    (town.folder / "knowledge.toml").write_text(text)


def captured(town: Town) -> dict[str, list[str]]:
    return {source["name"]: source["relations"] for source in commands.sources(town.folder)}


def knowledge(town: Town) -> Any:
    with town.opened() as opened:
        return load(opened).knowledge


def test_P5_relations_of_the_knowledge_are_captured_from_apply_on(travel: Town) -> None:
    assert captured(travel) == {"booking": ["booking.public.flight_res"], "tours": []}
    write(travel, KNOWLEDGE)
    plan = commands.plan_apply(travel.folder)
    assert plan.knowledge == "create"
    assert not plan.empty
    assert travel.apply()["knowledge"] == "created"
    assert captured(travel) == {"booking": ["booking.public.flight_res"], "tours": ["tours.public.tour"]}
    assert [len(found) for found in (knowledge(travel).joins, knowledge(travel).functions)] == [1, 1]
    travel.execute("tours", "INSERT INTO tour VALUES ('Ann', 7)")
    with (
        travel.opened() as opened,
        opened.source("tours").open([next(iter(load(opened).knowledge.relations))]) as snapshot,
    ):
        assert len(snapshot.messages(None)) == 1, "its rows are logged although no view reads them"
    travel.settle()


def test_it_is_compared_with_the_text_last_applied(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    assert commands.plan_apply(travel.folder).empty
    assert commands.plan_apply(travel.folder).knowledge == "unchanged"
    write(travel, KNOWLEDGE + CONTAINMENT.format(is_="subset"))
    assert commands.plan_apply(travel.folder).knowledge == "change"
    assert travel.apply()["knowledge"] == "changed"
    assert len(knowledge(travel).containments) == 1


def test_an_evolved_knowledge_with_an_untouched_file_is_left_alone(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    with travel.opened() as opened, opened.warehouse.lock() as writer:
        document = dict(opened.warehouse.knowledge().document)
        gone = {"function": document.pop("function"), "reason": "tours.public.tour.age was dropped"}
        writer.install(Installation(knowledge=document, retired=(gone,)))
    assert commands.plan_apply(travel.folder).knowledge == "evolved"
    assert commands.plan_apply(travel.folder).empty
    assert travel.apply()["knowledge"] == "evolved"
    assert knowledge(travel).functions == ()
    write(travel, KNOWLEDGE + "\n# the same again\n")
    travel.apply()
    assert len(knowledge(travel).functions) == 1, "a touched file is read again"
    with travel.opened() as opened:
        assert opened.warehouse.knowledge().retired == ()


def test_the_knowledge_follows_the_schemas_and_says_what_has_ended(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    travel.execute("tours", "ALTER TABLE tour RENAME tour_name TO guest")
    travel.execute("booking", "ALTER TABLE flight_res RENAME TO reservation")
    travel.settle()
    listed = {entry["kind"]: entry for entry in commands.knowledge(travel.folder)}
    assert {entry["state"] for entry in listed.values()} == {"active"}
    assert listed["join"]["constraint"] == (
        "booking.public.reservation meets tours.public.tour on"
        " booking.public.reservation.name = tours.public.tour.guest"
    )
    assert commands.plan_apply(travel.folder).knowledge == "evolved"
    travel.execute("tours", "ALTER TABLE tour DROP age")
    travel.settle()
    ended = [entry for entry in commands.knowledge(travel.folder) if entry["state"] == "retired"]
    assert [entry["kind"] for entry in ended] == ["function"]
    assert "age" in ended[0]["reason"]
    assert commands.plan_apply(travel.folder).empty, "the file is untouched"


def test_what_neither_view_nor_knowledge_names_is_released(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    (travel.folder / "views" / "asia.sql").unlink()
    travel.apply()
    assert captured(travel) == {"booking": ["booking.public.flight_res"], "tours": ["tours.public.tour"]}
    (travel.folder / "knowledge.toml").unlink()
    assert commands.plan_apply(travel.folder).knowledge == "drop"
    assert travel.apply()["knowledge"] == "dropped"
    assert captured(travel) == {"booking": [], "tours": []}


def test_a_detached_source_is_attached_again(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    commands.sources_detach(travel.folder, "tours")
    assert knowledge(travel).constraints == ()
    assert commands.plan_apply(travel.folder).knowledge == "recover"
    assert travel.apply()["knowledge"] == "recovered"
    assert captured(travel)["tours"] == ["tours.public.tour"]
    assert len(knowledge(travel).constraints) == 2


def test_a_constraint_over_what_went_while_its_source_was_detached_is_retired(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.apply()
    commands.sources_detach(travel.folder, "tours")
    travel.execute("tours", "ALTER TABLE tour DROP COLUMN age")
    travel.apply()
    with travel.opened() as opened:
        (retired,) = opened.warehouse.knowledge().retired
    assert "function" in retired
    assert "age" in retired["reason"]
    assert commands.plan_apply(travel.folder).knowledge == "evolved"


BAD = [
    ("[[join", "not valid TOML"),
    ("[[jion]]\nbetween = []", "jion"),
    (KNOWLEDGE + "weight = 3", "weight"),
    (KNOWLEDGE.replace("tours.tour", "tours.tuor"), "tuor"),
    (KNOWLEDGE.replace("tours.tour", "nowhere.tour"), "nowhere"),
    (KNOWLEDGE.replace("tour_name", "tour_title"), "tour_title"),
    (KNOWLEDGE.replace("tours.tour.age", "tours.tour.tour_name"), "no values in common"),
    (CONTAINMENT.format(is_="subset") + CONTAINMENT.format(is_="superset"), "contradicts"),
    (CONTAINMENT.format(is_="like"), "like"),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_a_wrong_file_changes_nothing(travel: Town, text: str, said: str) -> None:
    write(travel, text)
    travel.view("another", "SELECT f.dest FROM booking.flight_res f")
    with pytest.raises(ConfigurationError, match=r"knowledge\.toml") as raised:
        travel.apply()
    assert said in raised.value.what
    assert raised.value.remedy
    with travel.opened() as opened:
        assert opened.warehouse.knowledge().file_text is None
    assert captured(travel) == {"booking": ["booking.public.flight_res"], "tours": []}
    assert [view["name"] for view in commands.views(travel.folder)] == ["asia"]
    assert commands.status(travel.folder)["views"], "other commands do not care"


def test_a_wrong_file_is_found_by_sources_check(travel: Town) -> None:
    write(travel, "[[join")
    errors = [finding for finding in commands.sources_check(travel.folder) if finding["level"] == "error"]
    assert ["not valid TOML" in finding["what"] for finding in errors] == [True]


def test_names_that_wait_in_the_queue_are_told_apart_from_wrong_ones(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res RENAME name TO person")
    write(travel, KNOWLEDGE.replace("flight_res.name", "flight_res.person"))
    with pytest.raises(ConfigurationError, match="not installed yet") as raised:
        travel.apply()
    assert "dyda daemon --until-idle" in raised.value.remedy
    travel.settle()
    assert travel.apply()["knowledge"] == "created"


def test_an_unreachable_source_is_no_fault_of_the_file(travel: Town) -> None:
    write(travel, KNOWLEDGE)
    travel.source_url("tours", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    with pytest.raises(DydaError, match="source tours cannot be reached"):
        travel.apply()


def test_the_defaults_of_preferences_take_effect(travel: Town) -> None:
    file = travel.folder / "dyda.toml"
    file.write_text(file.read_text() + '\n[preferences]\nextent = "any"\nnew_columns = "append"\nreplaceable = true\n')
    with travel.opened() as opened:
        assert load(opened).defaults == Defaults(Preference(dispensable=False, replaceable=True), "any", "append")
