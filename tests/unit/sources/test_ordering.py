"""The order of transactions where the source's clock was set back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dyda.sources.ordering import transactions_in_order
from dyda.sources.received import Transaction

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)
ROWS, SCHEMA, TRUNCATE = "I", "S", "T"


def order(*told: tuple[int | None, dict[int, str]]) -> list[int]:
    """The order of transactions 1, 2, …, which are in the log in this order: (second of the commit, what each did)."""
    found = [
        Transaction(
            xid,
            last=10 * xid,
            committed=None if second is None else NOON + timedelta(seconds=second),
            told=tuple((root, op, 1, 0) for root, op in did.items()),
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
        assert order((50, {1: ROWS}), (60, {1: barrier}), (10, {1: ROWS}), (5, {1: ROWS})) == [1, 2, 4, 3]


def test_relations_of_their_own_keep_the_clocks_order() -> None:
    assert order((3, {1: SCHEMA}), (1, {2: ROWS}), (2, {1: SCHEMA, 2: ROWS})) == [2, 1, 3]


def test_two_schema_changes_of_a_relation_stay_in_order() -> None:
    assert order((3, {1: SCHEMA}), (2, {1: SCHEMA}), (1, {1: SCHEMA})) == [1, 2, 3]
