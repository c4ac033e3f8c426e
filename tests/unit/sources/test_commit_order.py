"""The order of transactions where the source's clock was set back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dyda.model.position import Position
from dyda.sources.log.commit_order import Look, contradicts, transactions_in_order
from dyda.sources.log.transactions import Transaction

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
ROWS, SCHEMA, TRUNCATE = "I", "S", "T"


def order(*told: tuple[int | None, dict[int, str]]) -> list[int]:
    """The order of transactions 1, 2, …, which are in the log in this order: (second of the commit, what each did)."""
    found = [
        Transaction(
            xid,
            last=10 * xid,
            committed=None if second is None else NOON + timedelta(seconds=second),
            entries=tuple((root, op, 1, 0) for root, op in did.items()),
            images=(None,) * len(did),
            changes_schema=SCHEMA in did.values(),
        )
        for xid, (second, did) in enumerate(told, start=1)
    ]
    return [one.xid for one in transactions_in_order(found)]


def test_the_order_of_commits_where_the_source_tells_it() -> None:
    assert order((2, {1: ROWS}), (1, {1: ROWS}), (3, {1: ROWS})) == [2, 1, 3]
    assert order((None, {1: ROWS}), (1, {1: ROWS}), (3, {1: ROWS})) == [1, 2, 3]


def test_a_clock_that_was_set_back_moves_nothing_across_a_schema_change() -> None:
    for barrier in (SCHEMA, TRUNCATE):
        assert order((50, {1: ROWS}), (60, {1: barrier}), (10, {1: ROWS}), (5, {1: ROWS})) == [1, 2, 3, 4]


def test_a_clock_that_lies_about_one_relation_is_not_believed_about_others() -> None:
    """Otherwise 4 passed 3, which had ended before 4 began: 3 had to follow the schema change, and 4 had not."""
    assert order((1, {1: ROWS}), (60, {2: SCHEMA}), (10, {2: ROWS}), (11, {1: ROWS})) == [1, 2, 3, 4]


def test_where_the_clock_contradicts_nothing_it_is_believed() -> None:
    assert order((3, {1: SCHEMA}), (1, {2: ROWS}), (4, {1: SCHEMA, 2: ROWS}), (2, {3: ROWS})) == [2, 4, 1, 3]


def test_two_schema_changes_of_a_relation_stay_in_order() -> None:
    assert order((3, {1: SCHEMA}), (2, {1: SCHEMA}), (1, {1: SCHEMA})) == [1, 2, 3]


def test_a_commit_in_the_future_or_before_its_beginning_tells_of_a_clock_that_was_set_back() -> None:
    def lies(xid: int, second: int | None, *, seen_before: bool = True) -> bool:
        committed = None if second is None else NOON + timedelta(seconds=second)
        one = Transaction(xid, 1, committed, ((1, ROWS, 1, 0),), (None,), changes_schema=False)
        last = Look(Position.parse("100:105:102"), NOON, NOON + timedelta(seconds=1)) if seen_before else None
        minute = NOON + timedelta(minutes=1)
        return contradicts(one, last, Look(Position.parse("200:200:"), minute - timedelta(seconds=1), minute))

    assert not lies(110, 30)
    assert lies(110, 61), "it was seen before it committed"
    assert lies(110, -1), "it committed before it began"
    assert not lies(110, 0), "it may have come just when the look began"
    assert not lies(102, -1), "it was under way already, and may have been just about to commit"
    assert not lies(110, -1, seen_before=False), "nobody knows when it began"
    assert not lies(110, None)
