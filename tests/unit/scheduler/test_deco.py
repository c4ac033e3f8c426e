"""Deco on the examples of paper 001: what is reordered, what is merged, and what is said about it."""

from __future__ import annotations

import pytest

from scheduler import Consistency, Queued, Schedule, Unit, UnitKind, ViewReads
from tests.unit.scheduler.builders import data, effect, schema, view

ASIA_CUSTOMER = view(
    "asia_customer",
    "crm.customer(name)",
    "air.flight_res(name,age,flight_no,dest)",
    candidates=("guide.participant(participant)", "tours.tour(tour_name,age)"),
)
"""Equation (1) of paper 001, and the relations of Equations (3) and (4)."""


def plan(views: list[ViewReads], *queue: Queued) -> list[Unit]:
    schedule = Schedule(views, effect=effect)
    schedule.add(queue)
    return list(schedule.units(Consistency.COMPLETE, 1))


def order(units: list[Unit]) -> list[tuple[int, ...]]:
    return [unit.numbers for unit in units]


def test_figure_5a_a_drop_goes_before_the_insert_whose_query_it_would_break() -> None:
    units = plan([ASIA_CUSTOMER], data(1, "crm.customer"), schema(2, "air.flight_res", "DROP age"))
    assert order(units) == [(2,), (1,)]
    assert units[0].kind is UnitKind.SCHEMA
    assert units[0].reason == (
        "message 2 before 1: processing 1 would query air.public.flight_res, and message 2 drops column age"
    )


def test_figure_5b_and_section_4_4_two_drops_that_need_each_other_are_merged() -> None:
    units = plan([ASIA_CUSTOMER], schema(1, "crm.customer", "DROP"), schema(2, "air.flight_res", "DROP age"))
    assert order(units) == [(1, 2)]
    assert units[0].kind is UnitKind.MERGED
    assert units[0].reason == (
        "1 and 2 merged because they depend on each other: "
        "processing 1 would query air.public.flight_res, and message 2 drops column age; "
        "processing 2 would query crm.public.customer, and message 1 drops it"
    )


def test_a_safe_dependency_leaves_arrival_order() -> None:
    units = plan([ASIA_CUSTOMER], schema(1, "air.flight_res", "DROP age"), data(2, "crm.customer"))
    assert order(units) == [(1,), (2,)]
    assert units[0].reason == "message 1 in arrival order"


def test_merged_messages_take_the_place_of_the_first_of_them() -> None:
    units = plan(
        [ASIA_CUSTOMER, view("other", "shop.order(id)")],
        data(1, "shop.order"),
        schema(2, "crm.customer", "DROP"),
        data(3, "shop.order"),
        schema(4, "air.flight_res", "DROP age"),
    )
    assert order(units) == [(1,), (2, 4), (3,)]


@pytest.mark.parametrize("length", [3, 4])
def test_cycles_of_length(length: int) -> None:
    """Source i's change reads a relation of source i+1, whose change comes later; the last one reads the first."""
    views = [
        view(f"v{index}", f"s{index}.r(x)", candidates=[f"s{(index + 1) % length}.r(x)"]) for index in range(length)
    ]
    units = plan(views, *(schema(index + 1, f"s{index}.r", "DROP x") for index in range(length)))
    assert order(units) == [tuple(range(1, length + 1))]
    assert units[0].reason.count("would query") == length


def test_a_cycle_through_the_order_of_a_source_names_both_kinds_of_edges() -> None:
    """Message 1 reads what 3 changes; 3 comes after 2 from its source, and 2 reads what 4, after 1, changes."""
    views = [view("v", "a.r(x)", "b.s(x)")]
    units = plan(
        views,
        data(1, "a.r"),
        data(2, "b.s"),
        schema(3, "b.s", "RENAME x y"),
        schema(4, "a.r", "RENAME x z"),
        data(5, "a.r"),
    )
    assert order(units) == [(1, 2, 3, 4), (5,)]
    assert "3 came after 2 from source b" in units[0].reason
    assert "4 came after 1 from source a" in units[0].reason


def test_what_must_precede_a_schema_change_goes_along() -> None:
    """Message 2 does not conflict with 1, but 3 must overtake 1, and 2 precedes 3 in their source."""
    views = [view("v", "a.r(x)", "b.s(x)"), view("w", "b.t(x)")]
    units = plan(views, data(1, "a.r"), data(2, "b.t"), schema(3, "b.s", "RENAME x y"))
    assert order(units) == [(2,), (3,), (1,)]
    assert units[0].reason.startswith(
        "message 2 before 1: processing 1 would query b.public.s, and message 3 renames column x to y"
    )
    assert "message 3 comes after 2 from source b" in units[0].reason


def test_what_does_not_wait_passes_what_does() -> None:
    views = [view("v", "a.r(x)", "b.s(x)"), view("w", "c.t(x)")]
    units = plan(views, schema(1, "b.s", "RENAME x y"), data(2, "a.r"), data(3, "c.t"))
    assert order(units) == [(1,), (2,), (3,)]
    units = plan(views, data(1, "a.r"), data(2, "c.t"), schema(3, "b.s", "RENAME x y"))
    assert order(units) == [(2,), (3,), (1,)]
    assert "1 waits for 3" in units[0].reason
    assert "2 need not" in units[0].reason


def test_a_wait_for_a_later_change_of_the_same_source_is_kept() -> None:
    """1 waits for 3 and 2, after 1 in its source, for 4, which comes right after 3: 2 waits for both."""
    views = [view("v", "a.r(x)", "b.s(x)"), view("w", "a.q(x)", "b.t(x)")]
    units = plan(views, data(1, "a.r"), data(2, "a.q"), schema(3, "b.s", "RENAME x y"), schema(4, "b.t", "RENAME x y"))
    assert order(units) == [(3,), (1,), (4,), (2,)]
