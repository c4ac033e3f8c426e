"""The knowledge follows renames and retires what speaks of something gone, with the reason in words."""

from __future__ import annotations

import pytest

from dyda.model.knowledge.file import parse_knowledge, render_knowledge
from tests.unit.vs.case import TRAVEL, knowledge, moved
from vs import Evolution, evolve

KNOWN = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name AND tour.type = 'x'"

[[containment]]
of = "crm.customer(name)"
is = "subset"
in = "people.participant(participant)"
of_where = "customer.phone > '1'"
in_where = "participant.loc = 'Asia'"

[[function]]
attribute = "booking.flight_res.age"
equals = "tours.tour.age + tours.tour.no_days"
"""


def evolved(change: str) -> Evolution:
    after = TRAVEL.execute(change)
    found = evolve(knowledge(KNOWN, TRAVEL), TRAVEL.relations, moved(TRAVEL, after))
    assert parse_knowledge(render_knowledge(found.knowledge), after.resolve) == found.knowledge, "it can be read again"
    return found


def test_nothing_moved() -> None:
    assert evolved("ALTER TABLE crm.customer ADD COLUMN city text") == Evolution(knowledge(KNOWN, TRAVEL))


def test_renames_are_followed_everywhere() -> None:
    found = evolved(
        """
        ALTER TABLE tours.tour RENAME TO trip;
        ALTER TABLE tours.trip RENAME COLUMN tour_name TO title, RENAME COLUMN type TO kind;
        ALTER TABLE booking.flight_res SET SCHEMA air;
        ALTER TABLE booking.air.flight_res RENAME COLUMN age TO years;
        ALTER TABLE crm.customer RENAME COLUMN phone TO telephone;
        ALTER TABLE people.participant RENAME COLUMN participant TO who, RENAME COLUMN loc TO place;
        """
    )
    assert found.retired == ()
    (join,) = found.knowledge.joins
    assert [condition.sql for condition in join.on] == [
        "`booking.air.flight_res`.`name` = `tours.public.trip`.`title`",
        "`tours.public.trip`.`kind` = 'x'",
    ]
    (containment,) = found.knowledge.containments
    assert containment.within.columns == ("who",)
    assert containment.of.where[0].sql == "`crm.public.customer`.`telephone` > '1'"
    assert containment.within.where[0].sql == "`people.public.participant`.`place` = 'Asia'"
    (function,) = found.knowledge.functions
    assert (str(function.relation), function.column) == ("booking.air.flight_res", "years")
    assert function.equals.sql == "`tours.public.trip`.`age` + `tours.public.trip`.`no_days`"


@pytest.mark.parametrize(
    ("change", "kind", "reason"),
    [
        ("DROP TABLE crm.customer", "containment", "crm.public.customer was dropped"),
        ("DROP TABLE people.participant", "containment", "people.public.participant was dropped"),
        ("ALTER TABLE crm.customer DROP COLUMN name", "containment", "column name of crm.public.customer was dropped"),
        (
            "ALTER TABLE crm.customer DROP COLUMN phone",
            "containment",
            "column phone of crm.public.customer was dropped",
        ),
        (
            "ALTER TABLE people.participant DROP COLUMN loc",
            "containment",
            "column loc of people.public.participant was dropped",
        ),
        ("ALTER TABLE tours.tour DROP COLUMN type", "join", "column type of tours.public.tour was dropped"),
        (
            "ALTER TABLE booking.flight_res DROP COLUMN age",
            "function",
            "column age of booking.public.flight_res was dropped",
        ),
        ("ALTER TABLE tours.tour DROP COLUMN no_days", "function", "column no_days of tours.public.tour was dropped"),
        (
            "ALTER TABLE tours.tour ALTER COLUMN tour_name TYPE integer",
            "join",
            "booking.public.flight_res.name is of type text, tours.public.tour.tour_name of type integer:"
            " they have no values in common",
        ),
        (
            "ALTER TABLE tours.tour ALTER COLUMN no_days TYPE json",
            "function",
            "equals: `tours.public.tour`.`no_days` has type json, which Spark cannot compute with exactly",
        ),
    ],
)
def test_what_speaks_of_something_gone_is_retired(change: str, kind: str, reason: str) -> None:
    found = evolved(change)
    ((constraint, why),) = found.retired
    before = knowledge(KNOWN, TRAVEL)
    assert (
        constraint == {"join": before.joins, "containment": before.containments, "function": before.functions}[kind][0]
    )
    assert why == reason
    assert len(found.knowledge.constraints) == 2


def test_a_type_of_the_same_kind_is_followed() -> None:
    assert evolved("ALTER TABLE tours.tour ALTER COLUMN tour_name TYPE character varying(20)").retired == ()


def test_another_table_under_the_name_is_known_by_its_columns_names() -> None:
    found = evolved("DROP TABLE crm.customer; CREATE TABLE crm.customer (phone text, name text)")
    assert found.retired == ()
    found = evolved("DROP TABLE crm.customer; CREATE TABLE crm.customer (name text)")
    assert [why for _, why in found.retired] == ["column phone of crm.public.customer was dropped"]
