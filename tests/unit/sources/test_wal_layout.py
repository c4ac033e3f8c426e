"""Where a streamed row belongs, wherever in the stream a reader begins; numbers of transactions; texts of rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from dyda.rows import parse_rows
from dyda.sources.wal.layout import Columns, Layout, Told, read_told
from dyda.sources.wal.reader import row_text, widened

ROOT, PART = 100, 200


def _came(relid: int, was: int | None, **columns: int) -> Told:
    return Told("M", ROOT, relid, was, columns)


def _went(relid: int) -> Told:
    return Told("R", ROOT, relid)


def _changed(before: dict[str, int], after: dict[str, int]) -> Told:
    def described(columns: Mapping[str, int]) -> dict[str, Any]:
        return {"columns": [[number, name, "integer"] for name, number in columns.items()]}

    image = json.dumps({"before": described(before), "after": described(after)})
    return read_told(json.dumps({"op": "S", "root": ROOT, "relid": ROOT, "image": image}).encode())


STREAM = [
    _came(ROOT, None, a=1, b=2),
    _changed({"a": 1, "b": 2}, {"a": 1, "c": 2}),
    _came(PART, 0, a=1, c=2),
    _changed({"a": 1, "c": 2}, {"a": 1, "c": 2, "d": 3}),
    _went(PART),
    _changed({"a": 1, "c": 2, "d": 3}, {"c": 2, "d": 3}),
]


def _after(told: list[Told], layout: Layout) -> Layout:
    for one in told:
        layout.follow(one)
    return layout


@pytest.mark.parametrize("start", range(1, len(STREAM) + 1))
def test_a_reader_that_begins_later_sees_the_same_layout(start: int) -> None:
    """What it does not know, the first entry that it meets tells, or the source if none comes."""
    whole = _after(STREAM[:start], Layout())
    end = _after(STREAM, Layout())

    def kept() -> Mapping[int, tuple[int, Columns]]:
        return {relid: (root, end.columns[root]) for relid, root in end.root_of.items()}

    found = Layout.before(STREAM[start:], kept)
    assert found.root_of == whole.root_of
    assert found.columns == whole.columns
    assert _after(STREAM[start:], found).columns == end.columns


def test_columns_of_a_part_have_the_relations_numbers() -> None:
    layout = _after(STREAM[:4], Layout())
    assert layout.shape(ROOT, ("a", "c", "d")) == "1,2,3"
    assert layout.shape(ROOT, ("d", "own", "a")) == "3,0,1"


@pytest.mark.parametrize(
    ("xid", "near", "expected"),
    [
        (10, 20, 10),
        (2**32 - 5, 2**32 + 7, 2**32 - 5),
        (3, 2**32 - 2, 2**32 + 3),
        (7, 3 * 2**32 + 9, 3 * 2**32 + 7),
        (2**32 - 1, 3 * 2**32 + 9, 3 * 2**32 - 1),
    ],
)
def test_P1_a_number_belongs_to_the_nearest_epoch(xid: int, near: int, expected: int) -> None:
    assert widened(xid, near) == expected


def test_C1_rows_are_printed_as_record_out_prints_them() -> None:
    values = ["", None, "a", 'q"q', "b\\s", "c,d", "(e)", " f", "g\nh", "\u00a0i", "\x1fj", "null"]
    text = row_text(values)
    assert text.startswith('("",,a,"q""q","b\\\\s","c,d","(e)"')
    names = [f"c{place}" for place in range(len(values))]
    parsed = parse_rows(pa.py_buffer((text[1:-1] + "\n").encode()), names, escape=True)
    assert [column.to_pylist()[0] for column in parsed.columns] == values
