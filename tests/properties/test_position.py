"""Positions are PostgreSQL's snapshots: PostgreSQL itself judges what is in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.model.position import Position
from dyda.model.xids import Xids

law = settings(deadline=None)
"""A law holds however slow the machine is: only failures of the law count, not of the clock."""

BASE = st.sampled_from([3, 100, 2**32 - 5, 2**40 + 100])
"""Also across the wrap of 32-bit transaction ids: positions hold 64-bit ones."""


@st.composite
def positions(draw: st.DrawFn, base: int = 100, width: int = 12) -> Position:
    """What PostgreSQL could print: the listed ones lie in [xmin, xmax)."""
    xmin = base + draw(st.integers(0, width))
    xmax = xmin + draw(st.integers(0, width))
    listed = draw(st.sets(st.integers(xmin, xmax - 1), max_size=5)) if xmax > xmin else set()
    return Position(min(listed, default=xmin) if draw(st.booleans()) else xmin, xmax, frozenset(listed))


@st.composite
def questions(draw: st.DrawFn) -> list[tuple[Position, int]]:
    base = draw(BASE)
    # No transaction has a number whose lower half is 0, and no snapshot may name one.
    possible = positions(base).filter(lambda p: all(xid % 2**32 for xid in (p.xmin, p.xmax, *p.in_progress)))
    asked = st.tuples(possible, st.integers(max(base - 2, 1), base + 30))
    return draw(st.lists(asked, min_size=1, max_size=40))


def everyone(*several: Position) -> range:
    """Every transaction that any of these positions could tell apart."""
    return range(min(p.xmin for p in several) - 2, max(p.xmax for p in several) + 3)


Ask = Callable[..., list[Any]]


@pytest.fixture
def ask(database: Callable[..., str]) -> Iterator[Ask]:
    connection = psycopg2.connect(database("position"))
    connection.autocommit = True

    def answer(query: str, *arguments: object) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return [row[0] for row in cursor.fetchall()]

    yield answer
    connection.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(asked=questions())
def test_P1_includes_is_what_postgresql_sees(ask: Ask, asked: list[tuple[Position, int]]) -> None:
    judged = ask(
        "SELECT pg_visible_in_snapshot(x::text::xid8, s::pg_snapshot)"
        " FROM unnest(%s::bigint[], %s::text[]) WITH ORDINALITY AS q(x, s, i) ORDER BY i",
        [xid for _, xid in asked],
        [str(position) for position, _ in asked],
    )
    assert [position.includes(xid) for position, xid in asked] == judged


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(position=positions(), left_out=st.sets(st.integers(95, 130), max_size=8))
def test_P3_a_synthetic_position_is_one_for_postgresql_too(ask: Ask, position: Position, left_out: set[int]) -> None:
    synthetic = position.without(left_out)
    (printed,) = ask("SELECT %s::pg_snapshot::text", str(synthetic))
    assert Position.parse(printed) == synthetic
    judged = ask(
        "SELECT pg_visible_in_snapshot(x::text::xid8, %s::pg_snapshot) FROM unnest(%s::bigint[]) AS x ORDER BY x",
        str(synthetic),
        list(everyone(position, synthetic)),
    )
    wanted = [position.includes(xid) and xid not in left_out for xid in everyone(position, synthetic)]
    assert judged == wanted


def test_P3_the_example_of_the_rule() -> None:
    assert str(Position.parse("102:102:").without([100])) == "100:102:100"


@law
@given(positions())
def test_text_and_back(position: Position) -> None:
    assert Position.parse(str(position)) == position


@law
@given(positions(), st.sets(st.integers(95, 130), max_size=8))
def test_P3_without_takes_out_exactly_these(position: Position, left_out: set[int]) -> None:
    less = position.without(left_out)
    assert position.covers(less)
    assert less.without(left_out) == less
    for xid in everyone(position, less):
        assert less.includes(xid) == (position.includes(xid) and xid not in left_out)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(base=BASE, data=st.data())
def test_P3_until_takes_out_exactly_what_came_later(ask: Ask, base: int, data: st.DataObject) -> None:
    position = data.draw(positions(base).filter(lambda p: all(x % 2**32 for x in (p.xmin, p.xmax, *p.in_progress))))
    last = data.draw(st.integers(base, base + 30).filter(lambda xid: xid % 2**32 > 2))
    less = position.until(last)
    (printed,) = ask("SELECT %s::pg_snapshot::text", str(less))
    assert Position.parse(printed) == less
    assert position.covers(less)
    for xid in everyone(position, less):
        if xid % 2**32 > 2:
            assert less.includes(xid) == (position.includes(xid) and xid <= last)


@law
@given(positions(), positions())
def test_covers_is_containment(one: Position, other: Position) -> None:
    contained = all(one.includes(xid) for xid in everyone(one, other) if other.includes(xid))
    assert one.covers(other) == contained
    assert one.covers(one)


@law
@given(positions(), positions(), positions())
def test_covers_is_transitive(a: Position, b: Position, c: Position) -> None:
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@law
@given(st.lists(positions(), min_size=1, max_size=4))
def test_P5_the_meet_is_what_all_have_and_may_be_acknowledged(several: list[Position]) -> None:
    meet = Position.meet(several)
    assert meet is not None
    for xid in everyone(*several, meet):
        assert meet.includes(xid) == all(position.includes(xid) for position in several)
    assert all(position.covers(meet) for position in several)


def test_P5_nothing_is_acknowledged_where_nobody_reads() -> None:
    assert Position.meet([]) is None


def test_P1_real_snapshots_tell_open_transactions_from_finished_ones(database: Callable[..., str]) -> None:
    """Three writers: one committed, one rolled back, one open. Rolled-back ones are 'in' but wrote nothing."""
    url = database("snapshots")
    writers = [psycopg2.connect(url) for _ in range(3)]
    try:
        xids = []
        for writer in writers:
            with writer.cursor() as cursor:
                cursor.execute("SELECT pg_current_xact_id()::text::bigint")
                xids.append(cursor.fetchone()[0])
        before = _snapshot(url)
        assert [before.includes(xid) for xid in xids] == [False, False, False]
        writers[0].commit()
        writers[1].rollback()
        after = _snapshot(url)
        assert [after.includes(xid) for xid in xids] == [True, True, False]
        assert after.covers(before)
        assert not before.covers(after)
        assert after.without([xids[0]]).includes(xids[1])
    finally:
        for writer in writers:
            writer.close()


def _snapshot(url: str) -> Position:
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_snapshot()::text")
        position = Position.parse(cursor.fetchone()[0])
    connection.close()
    return position


numbers = st.frozensets(st.integers(95, 130), max_size=20)


@law
@given(st.lists(numbers, max_size=4), positions(), positions(), numbers)
def test_sorted_transactions_answer_as_a_set_of_them(
    added: list[frozenset[int]], position: Position, other: Position, removed: frozenset[int]
) -> None:
    kept, every = Xids(), set[int]()
    for more in added:
        kept.add(more)
        every |= more
    kept.remove(removed)
    every -= removed
    assert list(kept) == sorted(every)
    assert kept.included(position) == sorted(filter(position.includes, every))
    assert kept.between(other.xmin, position.xmax) == sorted(x for x in every if other.xmin <= x < position.xmax)
    assert kept.take(position) == sorted(filter(position.includes, every))
    assert list(kept) == sorted(x for x in every if not position.includes(x))


@law
@given(positions(), numbers, st.integers(95, 130))
def test_P3_what_is_left_out_behind_the_end_of_a_position_need_not_be_listed(
    snapshot: Position, left: frozenset[int], last: int
) -> None:
    ended = snapshot.until(last)
    assert ended.without(x for x in left if x < ended.xmax) == snapshot.without(left).until(last)
