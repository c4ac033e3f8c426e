"""What is told of a condition without Spark: never too little, and nothing of what is not understood to the letter."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dyda.model.algebra.nodes import ColumnRef
from tests.unit.vm.builders import expression
from vm.limits import possible

COLUMNS = {
    "i": pa.chunked_array([pa.array([1, 2, None], pa.int32())]),
    "j": pa.chunked_array([pa.array([2, 1, 1], pa.int32())]),
    "d": pa.chunked_array([pa.array([Decimal("0.05"), Decimal("7.00"), None], pa.decimal128(15, 2))]),
    "wide": pa.chunked_array([pa.array([Decimal(1), Decimal(2), None], pa.decimal128(38, 0))]),
    "f": pa.chunked_array([pa.array([0.5, float("nan"), None], pa.float64())]),
    "s": pa.chunked_array([pa.array(["PROMO tin", "tin", None], pa.string())]),
    "day": pa.chunked_array([pa.array([datetime.date(1998, 9, 2), datetime.date(1998, 9, 3), None], pa.date32())]),
    "at": pa.chunked_array([pa.array([0, 1, None], pa.timestamp("us"))]),
}


def kept(text: str) -> list[bool] | None:
    def column(ref: ColumnRef) -> pa.ChunkedArray:
        return COLUMNS[ref.column]

    mask: Any = possible(expression(text), column)
    return None if mask is None else mask.to_pylist()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.i = 1", [True, False, False]),
        ("2 > a.i", [True, False, False]),
        ("a.i < a.j", [True, False, False]),
        ("a.i <> 1", [False, True, False]),
        ("a.i < 1.5", [True, False, False]),
        ("a.i > -1", [True, True, False]),
        ("a.d BETWEEN 0.05 AND 0.07", [True, False, False]),
        ("a.d NOT BETWEEN 0.05 AND 0.07", [False, True, False]),
        ("a.d < a.i", [True, False, False]),
        ("a.day <= DATE '1998-09-02'", [True, False, False]),
        ("a.day <= CAST('1998-09-02' AS DATE)", [True, False, False]),
        ("a.s = 'tin'", [False, True, False]),
        ("a.s IN ('tin', 'x')", [False, True, False]),
        ("a.s NOT IN ('tin', 'x')", [True, False, False]),
        ("a.s LIKE 'PROMO%'", [True, False, False]),
        ("a.s LIKE '%tin'", [True, True, False]),
        ("a.s NOT LIKE '%OM%'", [False, True, False]),
        ("a.s LIKE '%O%t%'", [True, False, False]),
        ("a.s LIKE 'tin'", [False, True, False]),
        ("substring(a.s, 1, 2) IN ('PR')", [True, False, False]),
        ("a.i IS NULL", [False, False, True]),
        ("a.i IS NOT NULL", [True, True, False]),
        ("NOT (a.i = 1 OR a.s = 'x')", [False, True, False]),
        ("a.i = 1 AND f(a.f) > 2", [True, False, False]),
        ("NOT (a.i = 1 OR f(a.f) > 2)", [False, True, False]),
        ("(a.i = 1 AND f(a.f) > 2) OR a.s = 'x'", [True, False, False]),
    ],
)
def test_a_row_for_which_it_is_not_true_is_left_out(condition: str, expected: list[bool]) -> None:
    assert kept(condition) == expected


@pytest.mark.parametrize(
    "condition",
    [
        "a.f = 0.5",  # for Spark NaN is equal to NaN and larger than all numbers
        "a.i < 1e0",
        "a.i = '1'",  # Spark casts the text
        "a.day = '1998-09-02'",
        "a.day < DATE '1998-9-2'",
        "a.at < TIMESTAMP '1998-09-02 00:00:00'",
        "a.wide < a.d",  # 38 digits before the point and two behind it: Spark rounds
        "a.i + 1 > 2",
        "a.i IN (1, NULL)",
        "a.i = 1 OR f(a.i)",
        "NOT (a.i = 1 AND f(a.i))",
        r"a.s = 'a\'b'",
        "a.s = 'a' 'b'",
        'a.s = "tin"',
        "a.s LIKE 't_n'",
        "a.s LIKE 't!%' ESCAPE '!'",
        "a.s NOT LIKE 'P%O%'",
        "a.s COLLATE UTF8_LCASE = 'TIN'",
        "substring(a.s, -2, 2) = 'in'",
        "lower(a.s) = 'tin'",
        "a.i <=> 1",
        "a.i = 1 = true",
        "1 = 2",
    ],
)
def test_what_is_not_understood_limits_nothing(condition: str) -> None:
    assert kept(condition) is None
