"""The schedule as the queue fills and empties."""

from __future__ import annotations

import pytest

from scheduler import Consistency, Detection, MessageState, Queued, Schedule, UnitKind
from tests.unit.scheduler.builders import data, drained, effect, relation, schema, view

VIEWS = [view("v", "a.r(x)", "b.s(x)"), view("w", "c.t(x)")]


def schedule_of(*queue: Queued, detection: Detection = Detection.PESSIMISTIC) -> Schedule:
    schedule = Schedule(VIEWS, detection, effect)
    schedule.add(queue)
    return schedule


def test_data_alone_needs_no_graph() -> None:
    schedule = schedule_of(*(data(number, "a.r", rows=4) for number in range(1, 6)))
    assert not schedule.schema_change_flag
    assert [unit.numbers for unit in drained(schedule, Consistency.STRONG, 10)] == [(1, 2), (3, 4), (5,)]
    assert schedule.plans == 0


def test_one_message_is_taken_however_large() -> None:
    units = drained(schedule_of(data(1, "a.r", rows=100), data(2, "a.r")), Consistency.STRONG, 10)
    assert [unit.numbers for unit in units] == [(1,), (2,)]


def test_batches_end_where_a_schema_change_is_due() -> None:
    schedule = schedule_of(
        data(1, "b.s"), data(2, "c.t"), schema(3, "b.s", "NOTHING"), data(4, "a.r"), data(5, "b.s"), data(6, "c.t")
    )
    units = drained(schedule, Consistency.STRONG, 100)
    assert [unit.numbers for unit in units] == [(1, 2), (3,), (4, 5, 6)]
    assert [unit.kind for unit in units] == [UnitKind.DATA, UnitKind.SCHEMA, UnitKind.DATA]
    assert "message 3 changes a schema" in units[0].reason


def test_complete_takes_one_message_at_a_time() -> None:
    units = drained(schedule_of(data(1, "a.r"), data(2, "c.t")), Consistency.COMPLETE)
    assert [unit.numbers for unit in units] == [(1,), (2,)]


def test_the_next_unit_stays_until_it_is_removed() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "DROP x"))
    assert schedule.next_unit(Consistency.STRONG, 10) == schedule.next_unit(Consistency.STRONG, 10)
    assert schedule.plans == 1
    assert len(schedule) == 2


def test_a_plan_is_made_once_and_data_is_appended_to_it() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "c.t"), schema(3, "b.s", "DROP x"))
    taken = []
    for number in range(4, 30):
        schedule.add([data(number, "a.r")])
        unit = schedule.next_unit(Consistency.COMPLETE, 1)
        assert unit is not None
        taken.append(unit.numbers)
        schedule.remove(unit.numbers)
    assert taken[:4] == [(2,), (3,), (1,), (4,)]
    assert schedule.plans == 1
    assert not schedule.schema_change_flag


def test_a_new_schema_change_makes_a_new_plan() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "NOTHING"))
    first = schedule.next_unit(Consistency.COMPLETE, 1)
    assert first is not None
    assert first.numbers == (1,)
    schedule.add([schema(3, "b.s", "RENAME x y")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (3,), (1,)]


def test_views_that_stay_the_same_leave_the_plan() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "DROP x"))
    schedule.next_unit(Consistency.STRONG, 10)
    schedule.change_views(list(VIEWS))
    schedule.next_unit(Consistency.STRONG, 10)
    assert schedule.plans == 1


def test_messages_are_added_once_and_in_arrival_order() -> None:
    schedule = schedule_of(data(2, "a.r"))
    schedule.add([data(2, "a.r")])
    assert len(schedule) == 1
    assert 2 in schedule
    with pytest.raises(ValueError, match="not arrival order"):
        schedule.add([data(1, "a.r")])


@pytest.mark.parametrize("state", [MessageState.HELD, MessageState.APPROVAL, MessageState.QUARANTINED])
def test_a_held_message_holds_what_depends_on_it_and_nothing_else(state: MessageState) -> None:
    """3 is of the held message's source; 4 would read what 2 changes; 5 has nothing to do with it."""
    schedule = schedule_of(
        data(1, "b.s"), schema(2, "b.s", "RENAME x y"), data(3, "b.s"), data(4, "a.r"), data(5, "c.t"), data(6, "d.u")
    )
    schedule.mark(2, state)
    assert [unit.numbers for unit in schedule.units(Consistency.COMPLETE, 1)] == [(1,), (5,), (6,)]
    waiting = {each.number: each for each in schedule.waiting()}
    assert set(waiting) == {2, 3, 4}
    assert waiting[2].reason == f"message 2 is {state.value}"
    assert waiting[3].reason == "3 came after 2 from source b"
    assert waiting[4].reason == "processing 4 would query b.public.s, and message 2 renames column x to y"
    schedule.mark(2, MessageState.WAITING)
    assert not schedule.waiting()
    assert len(drained(schedule)) == 6


def test_a_held_data_update_lets_those_before_it_go() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "a.r"), data(3, "a.r"), data(4, "c.t"))
    schedule.mark(2, MessageState.HELD)
    assert [unit.numbers for unit in drained(schedule, Consistency.STRONG, 100)] == [(1, 4)]
    schedule.add([data(5, "a.r"), data(6, "c.t")])
    assert [unit.numbers for unit in drained(schedule, Consistency.STRONG, 100)] == [(6,)]
    schedule.remove([2])
    assert [unit.numbers for unit in drained(schedule, Consistency.STRONG, 100)] == [(3, 5)]


def test_a_message_inside_a_stretch_that_was_planned_is_held_and_let_go() -> None:
    schedule = schedule_of(*(data(number, "a.r") for number in range(1, 6)), schema(6, "a.r", "NOTHING"))
    assert [unit.numbers for unit in schedule.units(Consistency.STRONG, 100)] == [(1, 2, 3, 4, 5), (6,)]
    schedule.mark(3, MessageState.HELD)
    assert [unit.numbers for unit in schedule.units(Consistency.STRONG, 100)] == [(1, 2)]
    schedule.mark(3, MessageState.WAITING)
    schedule.remove([1])
    schedule.add([data(7, "a.r"), data(8, "a.r")])
    assert [unit.numbers for unit in schedule.units(Consistency.STRONG, 100)] == [(2, 3, 4, 5), (6,), (7, 8)]


def test_a_merged_unit_is_held_with_any_of_its_messages() -> None:
    schedule = schedule_of(schema(1, "a.r", "DROP"), schema(2, "b.s", "DROP"), data(3, "c.t"))
    schedule.mark(2, MessageState.HELD)
    assert [unit.numbers for unit in schedule.units(Consistency.COMPLETE, 1)] == [(3,)]
    assert [each.reason for each in schedule.waiting()] == [
        "message 1 is merged with a message that is held",
        "message 2 is held",
    ]


def test_a_skipped_message_makes_a_new_plan() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "DROP x"), schema(3, "b.s", "NOTHING"))
    schedule.next_unit(Consistency.COMPLETE, 1)
    schedule.remove([2])
    assert [unit.numbers for unit in drained(schedule)] == [(1,), (3,)]


def test_idle_messages_go_along_with_a_batch() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "a.elsewhere"), schema(3, "d.elsewhere", "DROP"))
    (unit,) = drained(schedule, Consistency.STRONG, 100)
    assert unit.kind is UnitKind.DATA
    assert unit.numbers == (1, 2, 3)
    assert unit.idle == {2, 3}


def test_optimistic_keeps_arrival_order_until_a_unit_breaks() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "DROP x"), detection=Detection.OPTIMISTIC)
    first = schedule.next_unit(Consistency.STRONG, 10)
    assert first is not None
    assert first.numbers == (1,)
    assert schedule.plans == 0
    assert schedule.broken(first.numbers, {relation("b.s")})
    second = schedule.next_unit(Consistency.STRONG, 10)
    assert second is not None
    assert second.numbers == (2,)
    schedule.add([data(3, "a.r"), schema(4, "b.s", "DROP x")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,), (3,), (4,)]
    assert schedule.plans == 1


def test_optimistic_remembers_a_break_until_the_schema_change_that_explains_it_is_processed() -> None:
    schedule = schedule_of(data(1, "a.r"), detection=Detection.OPTIMISTIC)
    assert not schedule.broken((1,), {relation("b.s")})
    schedule.remove(())  # the next poll: nothing has left, and this has come
    schedule.add([schema(2, "b.s", "DROP x")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,)]
    schedule.add([data(3, "a.r"), schema(4, "b.s", "DROP x")])
    third = schedule.next_unit(Consistency.STRONG, 10)
    assert third is not None
    assert third.numbers == (3,), "arrival order again"


def test_an_arriving_schema_change_interrupts_the_unit_that_it_would_break() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "c.t"))
    assert schedule.interruption((1, 2)) is None
    schedule.add([schema(3, "b.s", "DROP unused")])
    assert schedule.interruption((1, 2)) is None
    schedule.add([schema(4, "b.s", "DROP x")])
    edge = schedule.interruption((1, 2))
    assert edge is not None
    assert (edge.before, edge.after) == (4, 1)
    assert schedule.interruption((1, 2), since=4) is None
    assert schedule.interruption((2,)) is None
