"""Rules S1 to S4: each test fails where its rule is broken."""

from __future__ import annotations

from scheduler import Consistency, Detection, Schedule, UnitKind
from tests.unit.scheduler.builders import data, drained, effect, relation, schema, view


def test_S1_a_schema_change_does_not_overtake_another_relations_update_of_its_source() -> None:
    """Chained per relation: 3, 1, 4, 2, and for a while the warehouse shows source b with 3 but without 2."""
    views = [view("v", "a.r(x)", "b.s(x)"), view("w", "b.t(x)", "c.u(x)")]
    schedule = Schedule(views, effect=effect)
    schedule.add([data(1, "a.r"), data(2, "b.t"), schema(3, "b.s", "RENAME x y"), schema(4, "c.u", "RENAME x y")])
    assert [unit.numbers for unit in drained(schedule)] == [(4,), (2,), (3,), (1,)]


def test_S1_where_it_would_have_to_overtake_they_merge() -> None:
    """2 reads b.s as well: 3 must precede it for 2's query, and follow it in their source."""
    views = [view("v", "b.t(x)", "b.s(x)")]
    schedule = Schedule(views, effect=effect)
    schedule.add([data(2, "b.t"), schema(3, "b.s", "RENAME x y")])
    assert [unit.numbers for unit in drained(schedule)] == [(2, 3)]


def test_S1_messages_for_no_view_are_not_chained() -> None:
    schedule = Schedule([view("v", "b.t(x)", "b.s(x)")], effect=effect)
    schedule.add([data(1, "b.t"), data(2, "b.elsewhere"), schema(3, "b.s", "RENAME x y")])
    units = drained(schedule)
    assert [unit.numbers for unit in units] == [(1, 3), (2,)]
    assert units[1].kind is UnitKind.IDLE
    assert units[1].idle == {2}


def test_S2_a_relation_that_is_reread_when_it_changes_counts_as_read() -> None:
    """`max` after its maximum was deleted reads the relation itself: 1 cannot be processed once 2 has happened."""
    queue = [data(1, "a.r"), schema(2, "a.r", "RENAME x y")]
    rereads, plain = Schedule([view("v", "a.r(x)", rereads="a.r")], effect=effect), Schedule([view("v", "a.r(x)")])
    for schedule in (rereads, plain):
        schedule.add(queue)
    assert [unit.numbers for unit in drained(rereads)] == [(1, 2)]
    assert [unit.numbers for unit in drained(plain)] == [(1,), (2,)]


def test_S2_relations_of_candidate_rewritings_count_as_read() -> None:
    """Answering 1 may bring in c.t, which 2 has changed: 2 goes first."""
    schedule = Schedule([view("v", "a.r(x)", candidates=["c.t(x)"])], effect=effect)
    schedule.add([schema(1, "a.r", "DROP x"), schema(2, "c.t", "RENAME x y")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,)]


def test_S2_edges_are_decided_again_after_a_rewriting() -> None:
    """Message 1 has nothing to do with c.t until 2 is answered by a rewriting that brings c.t in."""
    schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
    schedule.add([data(1, "a.r"), schema(2, "b.s", "DROP x"), schema(3, "c.t", "DROP x")])
    first = schedule.next_unit(Consistency.STRONG, 10)
    assert first is not None
    assert first.numbers == (2,)
    schedule.remove(first.numbers)
    schedule.change_views([view("v", "a.r(x)", "c.t(x)")])
    assert [unit.numbers for unit in drained(schedule)] == [(3,), (1,)]


def test_S3_the_same_unit_breaks_for_ever_unless_the_observed_edge_is_added() -> None:
    """The plan relied on column k, which the view's description does not name; 2 dropped it."""
    for detection in Detection:
        schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], detection, effect=effect)
        schedule.add([data(1, "a.r"), schema(2, "b.s", "DROP k")])
        for _ in range(3):
            unit = schedule.next_unit(Consistency.STRONG, 10)
            assert unit is not None
            assert unit.numbers == (1,)
        assert schedule.broken((1,), {relation("b.s")})
        units = drained(schedule)
        assert [unit.numbers for unit in units] == [(2,), (1,)]
        assert "processing 1 broke while it read b.public.s, and message 2 drops column k" in units[0].reason


def test_S3_only_the_message_that_broke_waits_for_what_broke_it() -> None:
    """1 and 2 are alike but for what was observed; 2 came after 1, so 1 need not wait with it."""
    schedule = Schedule([view("v", "a.r(x)")], effect=effect)
    schedule.add([data(1, "a.r"), data(2, "a.r"), data(3, "a.r"), schema(4, "b.s", "REWRITE")])
    schedule.broken((2,), {relation("b.s")})
    assert [unit.numbers for unit in drained(schedule)] == [(1,), (4,), (2,), (3,)]


def test_S3_the_schema_change_may_be_found_after_the_break_only() -> None:
    schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
    schedule.add([data(1, "a.r")])
    assert not schedule.broken((1,), {relation("b.s")})
    schedule.add([schema(2, "b.s", "DROP k")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,)]


def test_S3_a_relation_that_no_view_names_is_watched_once_it_broke_a_unit() -> None:
    schedule = Schedule([view("v", "a.r(x)")], effect=effect)
    schedule.add([data(1, "a.r"), schema(2, "b.s", "REWRITE")])
    assert schedule.broken((1,), {relation("b.s")})
    assert [(unit.numbers, unit.kind) for unit in drained(schedule)] == [((2,), UnitKind.SCHEMA), ((1,), UnitKind.DATA)]


def test_S3_what_was_observed_before_a_restart_orders_as_what_breaks_now() -> None:
    queue = [data(1, "a.r"), schema(2, "b.s", "DROP k")]
    orders = []
    for recall in ("nothing", "broken", "observed"):
        schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
        schedule.add(queue)
        if recall == "broken":
            schedule.broken((1,), {relation("b.s")})
        elif recall == "observed":
            schedule.observe(1, {relation("b.s")})
        orders.append([unit.numbers for unit in drained(schedule)])
    assert orders == [[(1,), (2,)], [(2,), (1,)], [(2,), (1,)]]


def test_S4_a_dropped_column_that_nobody_reads_makes_nobody_wait() -> None:
    schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
    schedule.add([data(1, "a.r"), schema(2, "b.s", "DROP unused")])
    assert [unit.numbers for unit in drained(schedule)] == [(1,), (2,)]


def test_S4_a_change_that_rewrites_the_table_concerns_every_reader() -> None:
    for command in ("REWRITE", "TRUNCATE"):
        schedule = Schedule([view("v", "a.r(x)", "b.s(x)")], effect=effect)
        schedule.add([data(1, "a.r"), schema(2, "b.s", command)])
        assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,)]


def test_S4_a_key_that_the_plan_relies_on_counts_as_read() -> None:
    schedule = Schedule([view("v", "a.r(x)", "b.s(x,key)")], effect=effect)
    schedule.add([data(1, "a.r"), schema(2, "b.s", "DROP key")])
    assert [unit.numbers for unit in drained(schedule)] == [(2,), (1,)]
