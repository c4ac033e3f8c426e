"""Messages come up from the front of the queue without a graph; what is left when one is needed is planned as ever."""

from __future__ import annotations

from scheduler import Detection, Schedule
from tests.unit.scheduler.builders import data, drained, effect, schema, view


def test_a_graph_that_is_built_after_a_schema_change_was_processed() -> None:
    """Message 2 reads what 1 has changed, and waits for 3: when that is found out, 1 is gone from the queue."""
    views = [view("v", "crm.r(a)", "air.t"), view("w", "air.t", "shop.s(a)")]
    schedule = Schedule(views, Detection.PESSIMISTIC, effect)
    schedule.add([schema(1, "crm.r", "DROP a"), data(2, "air.t"), schema(3, "shop.s", "DROP a")])
    assert [unit.numbers for unit in drained(schedule)] == [(1,), (3,), (2,)]
