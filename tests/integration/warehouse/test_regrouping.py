"""A stored state with fewer keys and numbers is what its entries without them would have been combined into."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.model.operator_state import Accumulator, Counted, Grouped, Rule
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.state_entries import VIEW, Query, build, staged, tagged

COUNT, SUM = Accumulator("count", 0, "bigint"), Accumulator("sum", 1, "numeric(38,2)")
LEAST, LAST = Accumulator("min", 0, "integer"), Accumulator("max", 2, "text")
WIDE = Grouped(("text", "integer"), ("integer", "numeric(10,2)", "text"), (COUNT, SUM, LEAST, LAST))
NARROW = Grouped(("integer",), ("text", "integer"), (Accumulator("max", 0, "text"), Accumulator("count", 1, "bigint")))

texts = st.sampled_from(["a", "b", "B", "", None])
integers = st.sampled_from(["1", "2", "-3", None])
numbers = st.sampled_from(["1.50", "0.01", "-7.25", None])
Rows = st.lists(st.tuples(texts, integers, integers, numbers, texts, st.integers(1, 3)), max_size=12)


def state_rows(query: Query, staging: Staging) -> Counter[tuple[Any, ...]]:
    return Counter(query(f"SELECT * FROM dyda.{staging.table}"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(found=Rows)
def test_groups_that_fall_together_are_added_up(writer: Writer, query: Query, found: list[tuple[Any, ...]]) -> None:
    build(writer, WIDE, tagged(*found) if found else None)
    again = writer.regroup_staging(VIEW, 0, WIDE, NARROW, (2, 3, 7, 4))
    rows = [(key, text, integer, n) for _, key, integer, _, text, n in found]
    anew = writer.combine_staging(NARROW, staged(writer, NARROW, tagged(*rows) if rows else None), view=VIEW)
    assert state_rows(query, again) == state_rows(query, anew)
    writer.drop_view(VIEW)


@pytest.mark.parametrize("rule", ["distinct", "union", "except", "except all", "intersect", "intersect all"])
def test_rows_that_fall_together_are_counted_on_their_sides(writer: Writer, query: Query, rule: Rule) -> None:
    wide, narrow = Counted(("text", "integer"), rule), Counted(("integer",), rule)
    entries = [("a", "1", 2), ("b", "1", 1), ("b", None, 1), ("a", "1", 1), ("c", "2", 4)]
    side = [0, 0, 0, 1, 1] if rule != "distinct" else None
    build(writer, wide, tagged(*entries, side=side))
    again = writer.regroup_staging(VIEW, 0, wide, narrow, (2, 3, 4))
    anew = writer.combine_staging(
        narrow, staged(writer, narrow, tagged(*(e[1:] for e in entries), side=side)), view=VIEW
    )
    assert state_rows(query, again) == state_rows(query, anew)
    assert sum(state_rows(query, again).values()) == 3


def test_the_same_groups_with_fewer_numbers_keep_what_cannot_be_added(writer: Writer, query: Query) -> None:
    floats = Grouped(("text",), ("double precision",), (Accumulator("sum", 0, "double precision", True), COUNT))
    fewer = Grouped(("text",), ("double precision",), floats.accumulators[:1])
    build(writer, floats, tagged(("a", "1e16", 1), ("a", "1", 1), ("b", "NaN", 1), ("c", None, 2)))
    again = writer.regroup_staging(VIEW, 0, floats, fewer, (1, 2, 3))
    assert {row[1:] for row in state_rows(query, again)} == {
        ("a", "2", "1e+16", 1),
        ("b", "1", "NaN", 1),
        ("c", "2", None, 1),
    }


def test_a_key_of_another_type_is_refused(writer: Writer) -> None:
    build(writer, Counted(("text", "integer"), "distinct"))
    with pytest.raises(ValueError, match="integer is not text"):
        writer.regroup_staging(
            VIEW, 0, Counted(("text", "integer"), "distinct"), Counted(("text",), "distinct"), (2, 3, 4)
        )


def test_nothing_gives_nothing(writer: Writer, query: Query) -> None:
    build(writer, WIDE)
    assert not state_rows(query, writer.regroup_staging(VIEW, 0, WIDE, NARROW, (2, 3, 7, 4)))
