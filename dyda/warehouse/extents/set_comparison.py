"""Two staged bags compared as sets, in the warehouse: their rows may be more than a process can hold."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.warehouse.connection import load
from dyda.warehouse.extents.staging import Staging

__all__ = ["SetComparison", "compare_sets"]


@dataclass(frozen=True)
class SetComparison:
    """Rows on each side, rows that only one side has, and a few of these: (left rows, right rows, texts)."""

    left_rows: int
    right_rows: int
    left_alone: int
    right_alone: int
    samples: tuple[tuple[int, int, tuple[str | None, ...]], ...] = ()


def compare_sets(
    cursor: Cursor, left: Staging, right: Staging, *, sides: tuple[bool, bool] = (True, True), samples: int = 10
) -> SetComparison:
    """`sides`: whether rows that only the left, only the right side has are wanted as samples."""
    if left.width != right.width:
        raise ValueError(f"{left.width} columns cannot be compared with {right.width}")
    columns = sql.SQL(", ").join(sql.Identifier(f"c{i}") for i in range(1, left.width + 1))
    alone = [text for text, asked in zip(("r = 0", "l = 0"), sides, strict=True) if asked]
    cursor.execute(
        load("compare_sets.sql").format(
            columns=columns,
            left=left.identifier,
            right=right.identifier,
            wanted=sql.SQL(" OR ".join(alone) or "false"),
            limit=sql.Literal(samples),
        )
    )
    rows = cursor.fetchall()
    shown = tuple((row[4], row[5], tuple(row[6:])) for row in rows if row[4] is not None)
    left_rows, right_rows, left_alone, right_alone = rows[0][:4]
    return SetComparison(left_rows, right_rows, left_alone, right_alone, shown)
