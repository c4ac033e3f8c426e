"""Effective preferences: defaults filled in, the strongest consistent ones, warnings where the file contradicts."""

from __future__ import annotations

from dyda.model.preferences import Preference
from tests.unit.vs.case import TRAVEL, view
from vs import Defaults, EffectivePreferences, effective_preferences

NEITHER, BOTH = Preference(), Preference(dispensable=True, replaceable=True)
DISPENSABLE, REPLACEABLE = Preference(dispensable=True), Preference(replaceable=True)
JOIN = "`c`.`name` = `f`.`name`"


def effective(text: str, defaults: Defaults | None = None) -> EffectivePreferences:
    return effective_preferences(view(text, TRAVEL), defaults)


def test_every_component_has_one() -> None:
    found = effective(
        "-- dyda: extent = superset\n"
        "SELECT c.name, f.age /* dispensable */ FROM crm.customer c JOIN booking.flight_res f ON c.name = f.name"
        " WHERE f.dest = 'Asia' /* dispensable, replaceable */"
    )
    assert found == EffectivePreferences(
        extent="superset",
        new_columns="ignore",
        items=(("name", NEITHER), ("age", DISPENSABLE)),
        relations=(("c", NEITHER), ("f", NEITHER)),
        conditions=(("`f`.`dest` = 'Asia'", BOTH), (JOIN, NEITHER)),
    )


def test_what_says_nothing_takes_the_default_and_what_says_something_does_not() -> None:
    found = effective(
        "SELECT c.name, c.phone /* replaceable */ FROM crm.customer c",
        Defaults(DISPENSABLE, extent="any", new_columns="append"),
    )
    assert (found.extent, found.new_columns) == ("any", "append")
    assert dict(found.items)["name"] == DISPENSABLE
    assert dict(found.items)["phone"] == REPLACEABLE
    assert dict(found.relations)["c"] == NEITHER, "phone must stay, so its relation must"
    assert found.warnings == (), "nothing that the file says is contradicted"


def test_a_relation_can_go_only_if_all_that_uses_it_can() -> None:
    text = (
        "SELECT c.phone /* dispensable */, f.dest FROM crm.customer c /* dispensable */"
        " JOIN booking.flight_res f ON c.name = f.name {}"
    )
    assert dict(effective(text.format("/* dispensable */")).relations)["c"] == DISPENSABLE
    found = effective(text.format(""))
    assert dict(found.relations)["c"] == NEITHER
    assert found.warnings == (
        f"c is marked dispensable, but condition {JOIN} must stay and needs it: it will not be dropped."
        f" Mark condition {JOIN} dispensable too.",
    )


def test_a_relation_can_be_replaced_only_if_all_that_uses_it_can_be_or_can_go() -> None:
    text = "SELECT c.name {}, c.phone {} FROM crm.customer c /* replaceable */"
    assert dict(effective(text.format("/* replaceable */", "/* dispensable */")).relations)["c"] == REPLACEABLE
    found = effective(text.format("", ""))
    assert dict(found.relations)["c"] == NEITHER
    assert found.warnings == (
        "c is marked replaceable, but column name and column phone can be neither dropped nor replaced and need it:"
        " it will not be replaced. Mark column name and column phone replaceable or dispensable too.",
    )


def test_inside_a_nested_view_what_is_read_may_go_if_its_readers_may() -> None:
    found = effective(
        "SELECT d.name, d.total /* dispensable */ FROM (SELECT f.name, sum(f.age) AS total, max(f.dest) AS last"
        " FROM booking.flight_res f /* dispensable */ WHERE f.age > 3 /* dispensable */ GROUP BY f.name) d"
    )
    assert dict(found.items)["name"] == NEITHER
    assert dict(found.items)["total"] == dict(found.items)["d.total"] == DISPENSABLE
    assert dict(found.items)["d.name"] == NEITHER, "d.name is read by a column that must stay"
    assert dict(found.items)["d.last"].dispensable, "nobody reads it"
    assert dict(found.conditions)["`f`.`age` > 3"] == DISPENSABLE
    assert dict(found.relations)["f"] == NEITHER
    assert found.warnings == (
        "f is marked dispensable, but the grouping key `f`.`name` of column name must stay and needs it:"
        " it will not be dropped. Mark the grouping key `f`.`name` of column name dispensable too.",
    )


def test_a_view_below_brings_the_preferences_of_its_file() -> None:
    lower = view(
        "SELECT c.name, c.phone /* replaceable */ FROM crm.customer c /* replaceable */"
        " WHERE c.name NOT IN (SELECT f.name FROM booking.flight_res f) /* dispensable */",
        TRAVEL,
        "lower",
    )
    upper = view(
        "SELECT c.dest, l.phone FROM lower l JOIN booking.flight_res c ON c.name = l.name",
        TRAVEL,
        "v",
        {"lower": lower},
    )
    assert dict(upper.preferences.items) == {"l.phone": REPLACEABLE}
    assert dict(upper.preferences.relations) == {"c_2": REPLACEABLE}
    assert dict(upper.preferences.conditions) == {"`c_2`.`name` NOT IN `f`.`name`": DISPENSABLE}
    assert dict(effective_preferences(upper).conditions)["`c_2`.`name` NOT IN `f`.`name`"] == DISPENSABLE
