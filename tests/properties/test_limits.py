"""No row for which Spark holds a condition true is ever left out before Spark is asked."""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.engine import Engine
from dyda.model.algebra.nodes import ColumnRef
from tests.unit.vm.builders import expression
from vm.limits import possible

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "6"))

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int32(), [None, 0, 1, -7, 2147483647]),
    "k": (pa.int32(), [None, 1, 5]),
    "l": (pa.int64(), [None, 0, 3, 9223372036854775807]),
    "d": (pa.decimal128(12, 2), [None, Decimal("0.00"), Decimal("1.50"), Decimal("-2.25")]),
    "e": (pa.decimal128(20, 4), [None, Decimal("1.5000"), Decimal("1.5001")]),
    "big": (pa.decimal128(38, 2), [None, Decimal("1.50"), Decimal("9" * 36 + ".99")]),
    "s": (pa.string(), [None, "", "a", "ab", "ä b", "%", "a\nb", "B", "a "]),
    "t": (pa.string(), [None, "", "a", "ab"]),
    "day": (pa.date32(), [None, datetime.date(2024, 2, 29), datetime.date(1969, 12, 31)]),
    "noon": (pa.date32(), [None, datetime.date(2024, 2, 29), datetime.date(9999, 12, 31)]),
}
NUMBERS = ["a.i", "a.k", "a.l", "a.d", "a.e", "a.big", "0", "1", "-7", "1.5", "1.50", "-2.25", "0.1", "9999999999"]
TEXTS = ["a.s", "a.t", "''", "'a'", "'ab'", "'ä b'", "substring(a.s, 1, 1)", "substring(a.s, 2, 5)", "'a '"]
DAYS = ["a.day", "a.noon", "DATE '2024-02-29'", "DATE '1970-01-01'", "CAST('1969-12-31' AS DATE)"]
PATTERNS = ["'a%'", "'%b'", "'%a%'", "'a%b'", "'%'", "''", "'a'", "'%a%b%'", "'a_'", "'a%a'"]
OPERATORS = ["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"]


@st.composite
def leaves(draw: st.DrawFn) -> str:
    sides = draw(st.sampled_from([NUMBERS, TEXTS, DAYS]))

    def one() -> str:
        return draw(st.sampled_from(sides))

    match draw(st.integers(0, 4)):
        case 0 | 1:
            return f"{one()} {draw(st.sampled_from(OPERATORS))} {one()}"
        case 2:
            return f"{one()} {draw(st.sampled_from(['', 'NOT ']))}BETWEEN {one()} AND {one()}"
        case 3:
            return f"{one()} {draw(st.sampled_from(['', 'NOT ']))}IN ({one()}, {one()})"
        case _:
            if sides is TEXTS:
                return f"{one()} {draw(st.sampled_from(['', 'NOT ']))}LIKE {draw(st.sampled_from(PATTERNS))}"
            return f"{one()} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"


@st.composite
def conditions(draw: st.DrawFn, depth: int = 3) -> str:
    form = draw(st.sampled_from(["{p}", "{p} AND {q}", "{p} OR {q}", "NOT {p}", "({p})", "NOT ({p} OR {q})"]))
    if depth == 0:
        return draw(leaves())
    return form.format(p=draw(conditions(depth - 1)), q=draw(conditions(depth - 1)))


ROWS = st.lists(st.tuples(*(st.sampled_from(values) for _, values in VALUES.values())), min_size=8, max_size=8)


def test_what_is_true_for_spark_is_possible(engine: Engine) -> None:
    left_out = exact = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(st.lists(conditions(), min_size=60, max_size=60), ROWS)
    def compare(asked: list[str], rows: list[tuple[Any, ...]]) -> None:
        nonlocal left_out, exact
        columns = {
            name: pa.array([row[place] for row in rows], kind) for place, (name, (kind, _)) in enumerate(VALUES.items())
        }
        table = pa.table(columns)
        session = engine.bulk_session
        session.createDataFrame(table).createOrReplaceTempView("a")
        listed = ", ".join(f"({text}) AS b{place}" for place, text in enumerate(asked))
        told = session.sql(f"SELECT {listed} FROM a").toArrow()

        def column(ref: ColumnRef) -> pa.ChunkedArray:
            return table.column(ref.column)

        for place, text in enumerate(asked):
            mask = possible(expression(text), column)
            true = [bool(value) for value in told.column(place).to_pylist()]
            if mask is not None:
                found = mask.to_pylist()
                assert all(may or not is_true for may, is_true in zip(found, true, strict=True)), text
                left_out += found.count(False)
                exact += found == true

    compare()
    assert left_out > 100 * EXAMPLES, "most of these conditions are understood"
    assert exact > 10 * EXAMPLES
