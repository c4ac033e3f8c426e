"""Runs: what `complete` may process in one pass, each message still in a state of its own (rule W6)."""

from __future__ import annotations

import random

import pytest

from scheduler import Consistency, Detection, MessageState, Queued, Schedule, UnitKind
from tests.unit.scheduler.builders import data, drained, effect, relation, schema, view

VIEWS = [view("v", "a.r(x)", "b.s(x)"), view("w", "c.t(x)")]


def schedule_of(*queue: Queued, detection: Detection = Detection.PESSIMISTIC) -> Schedule:
    schedule = Schedule(VIEWS, detection, effect)
    schedule.add(queue)
    return schedule


def run_of(schedule: Schedule, limit: int = 100) -> list[tuple[int, ...]]:
    return [unit.numbers for unit in schedule.next_run(limit)]


def test_a_run_is_message_by_message_and_stays_until_it_is_removed() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "c.t"), data(3, "b.s"))
    run = schedule.next_run(100)
    assert [unit.numbers for unit in run] == [(1,), (2,), (3,)]
    assert {unit.kind for unit in run} == {UnitKind.DATA}
    assert all("every source transaction is its own state" in unit.reason for unit in run)
    assert schedule.next_run(100) == run
    assert schedule.next_unit(Consistency.COMPLETE, 100) == run[0]
    assert schedule.plans == 0


@pytest.mark.parametrize(("limit", "length"), [(1, 1), (4, 1), (8, 2), (11, 2), (12, 3)])
def test_a_run_ends_at_its_limit_of_rows_but_takes_one_message_however_large(limit: int, length: int) -> None:
    schedule = schedule_of(*(data(number, "a.r", rows=4) for number in range(1, 6)))
    assert run_of(schedule, limit) == [(number,) for number in range(1, length + 1)]


def test_a_message_without_rows_counts_too() -> None:
    schedule = schedule_of(*(data(number, "a.r", rows=0) for number in range(1, 10)))
    assert len(run_of(schedule, 3)) == 3


def test_a_run_ends_where_a_schema_change_is_due_and_is_empty_if_that_is_next() -> None:
    schedule = schedule_of(data(1, "c.t"), data(2, "a.r"), schema(3, "b.s", "DROP x"), data(4, "c.t"))
    # 2 would read what 3 drops, so 3 overtakes it; 4 does not wait for it but comes after it.
    assert run_of(schedule) == [(1,)]
    schedule.remove([1])
    assert run_of(schedule) == []
    unit = schedule.next_unit(Consistency.COMPLETE, 100)
    assert unit is not None
    assert (unit.kind, unit.numbers) == (UnitKind.SCHEMA, (3,))
    schedule.remove([3])
    assert run_of(schedule) == [(2,), (4,)]
    assert schedule.plans == 1


def test_messages_that_concern_no_view_do_not_end_a_run() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "a.elsewhere"), schema(3, "d.elsewhere", "DROP"), data(4, "b.s"))
    run = schedule.next_run(100)
    assert [(unit.numbers, unit.kind) for unit in run] == [
        ((1,), UnitKind.DATA),
        ((2,), UnitKind.IDLE),
        ((3,), UnitKind.IDLE),
        ((4,), UnitKind.DATA),
    ]


def test_what_is_held_is_left_out_with_what_depends_on_it() -> None:
    schedule = schedule_of(data(1, "a.r"), data(2, "a.r"), data(3, "a.r"), data(4, "c.t"))
    schedule.mark(2, MessageState.HELD)
    assert run_of(schedule) == [(1,), (4,)]
    schedule.remove([1, 4])
    assert run_of(schedule) == []
    assert schedule_of().next_run(100) == ()


def test_optimistic_runs_follow_arrival_order_until_a_unit_breaks() -> None:
    schedule = schedule_of(data(1, "a.r"), schema(2, "b.s", "DROP x"), data(3, "a.r"), detection=Detection.OPTIMISTIC)
    assert run_of(schedule) == [(1,)]
    schedule.broken([1], {relation("b.s")})
    assert run_of(schedule) == []
    schedule.remove([2])
    assert run_of(schedule) == [(1,), (3,)]


def test_runs_are_exactly_the_units_that_would_come_up_one_by_one() -> None:
    chance = random.Random(4)
    for _ in range(60):
        queue = []
        for number in range(1, 25):
            name = chance.choice(["a.r", "b.s", "c.t", "a.other"])
            command = chance.choice(["DROP x", "RENAME x y", "NOTHING"])
            changes = chance.random() < 0.12
            queue.append(schema(number, name, command) if changes else data(number, name, rows=chance.randint(0, 3)))
        expected = [(unit.numbers, unit.kind) for unit in drained(schedule_of(*queue))]
        schedule = schedule_of(*queue)
        found = []
        while unit := schedule.next_unit(Consistency.COMPLETE, 10):
            run = schedule.next_run(5) or (unit,)
            found += [(one.numbers, one.kind) for one in run]
            schedule.remove([number for one in run for number in one.numbers])
        assert found == expected
