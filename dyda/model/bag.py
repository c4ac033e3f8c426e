"""Signed bags: rows with multiplicities that may be negative. Everything else is built on this algebra.

A `Bag` holds canonical texts (PostgreSQL's output text, or NULL) and a count per row. Its laws, tested in
tests/properties/test_bag.py:

    a + b = b + a        (a + b) + c = a + (b + c)        a + 0 = a        a - a = 0
    consolidate(a) = a   consolidate(a).table has each row once, with a count that is not zero

`=` compares rows and total counts, not the layout. Everything is vectorised: no Python loop over rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["COUNT", "Bag"]

COUNT = "#count"
"""Name of the multiplicity column; captured columns with this name are delivered under another."""


class Bag:
    """An immutable signed bag over named text columns."""

    __slots__ = ("_consolidated", "table")

    def __init__(self, table: pa.Table) -> None:
        if table.column_names[-1:] != [COUNT]:
            raise ValueError(f"a bag's last column is {COUNT!r}, not {table.column_names[-1:]}")
        self.table = table
        self._consolidated = not table.num_rows

    @classmethod
    def empty(cls, columns: Sequence[str]) -> Bag:
        arrays = [pa.array([], pa.string()) for _ in columns] + [pa.array([], pa.int64())]
        return cls(pa.Table.from_arrays(arrays, names=[*columns, COUNT]))

    @classmethod
    def of(cls, columns: Sequence[str], rows: Mapping[tuple[str | None, ...], int]) -> Bag:
        """A small bag from Python values, for tests and examples."""
        arrays = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(columns))]
        return cls(pa.Table.from_arrays([*arrays, pa.array(rows.values(), pa.int64())], names=[*columns, COUNT]))

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names[:-1])

    @property
    def counts(self) -> pa.ChunkedArray:
        return self.table.column(self.table.num_columns - 1)

    def __len__(self) -> int:
        """Entries, not rows: an entry may count many rows, and a row may have several entries."""
        return int(self.table.num_rows)

    def __add__(self, other: Bag) -> Bag:
        if self.columns != other.columns:
            raise ValueError(f"bags over {self.columns} and {other.columns} cannot be added")
        return Bag(pa.concat_tables([self.table, other.table]))

    def __neg__(self) -> Bag:
        return self.with_counts(pc.negate_checked(self.counts))

    def __sub__(self, other: Bag) -> Bag:
        return self + (-other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bag):
            return NotImplemented
        return self.columns == other.columns and len((self - other).consolidate()) == 0

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Bag({self.to_dict()!r})"

    def with_counts(self, counts: pa.ChunkedArray | pa.Array) -> Bag:
        return Bag(self.table.set_column(self.table.num_columns - 1, COUNT, counts))

    def consolidate(self) -> Bag:
        """Each row once, counts added, zeros removed: the condensing of paper 004, Section 4.3.1."""
        if self._consolidated:
            return self
        consolidated = self._added_up()
        consolidated._consolidated = True
        return consolidated

    def _added_up(self) -> Bag:
        table = self.table
        names = [f"c{i}" for i in range(len(self.columns))]
        if not names:
            total = pc.sum(self.counts).as_py() or 0
            kept = pa.table({COUNT: pa.array([total] if total else [], pa.int64())})
            return Bag(kept)
        grouped = table.rename_columns([*names, "n"]).group_by(names, use_threads=False).aggregate([("n", "sum")])
        grouped = grouped.select([*names, "n_sum"]).rename_columns(table.column_names)
        return Bag(grouped.filter(pc.not_equal(grouped.column(len(names)), 0)))

    def select(self, columns: Sequence[str]) -> Bag:
        """Projection: counts stay, rows that become equal are not merged until `consolidate`."""
        if [*columns, COUNT] == self.table.column_names:
            return self
        return Bag(self.table.select([*columns, COUNT]))

    def filter(self, mask: pa.Array | pa.ChunkedArray) -> Bag:
        kept = Bag(self.table.filter(mask))
        kept._consolidated = kept._consolidated or self._consolidated
        return kept

    def to_dict(self) -> dict[tuple[str | None, ...], int]:
        """Rows and counts as Python values, for tests and for showing a few rows."""
        table = self.consolidate().table
        columns = [column.to_pylist() for column in table.columns]
        return {tuple(row[:-1]): row[-1] for row in zip(*columns, strict=True)}
