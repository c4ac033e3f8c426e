"""Readers and sinks that run inside Spark tasks: rows from tables that travel in the partition, rows into files."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet


@dataclass(frozen=True)
class Part:
    """A scan partition that carries its rows, and whether reading it fails."""

    rows: pa.Table
    failure: Callable[[], Exception] | None = None


def read_part(part: Part) -> pa.Table:
    if part.failure is not None:
        raise part.failure()
    return part.rows


def read_part_without_dyda(part: Part) -> pa.Table:
    """Only where nothing of ours is installed: what runs here travelled with the task."""
    try:
        importlib.import_module("dyda.errors")
    except ImportError:
        return read_part(part)
    raise AssertionError("this executor has DyDa installed, so it proves nothing")


@dataclass(frozen=True)
class Files:
    """A sink that writes one file per task."""

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> int:
        table = pa.Table.from_batches(batches)
        pyarrow.parquet.write_table(table, Path(self.folder) / f"{uuid.uuid4()}.parquet")
        return int(table.num_rows)

    def rows(self) -> dict[tuple[str | None, ...], int]:
        total: dict[tuple[str | None, ...], int] = {}
        for file in Path(self.folder).glob("*.parquet"):
            columns = [column.to_pylist() for column in pyarrow.parquet.read_table(file).columns]
            for *row, n in zip(*columns, strict=True):
                total[tuple(row)] = total.get(tuple(row), 0) + n
        return {row: n for row, n in total.items() if n}


def parts(table: pa.Table, number: int) -> list[Part]:
    """The table in so many partitions."""
    size = -(-table.num_rows // number) or 1
    return [Part(table.slice(start, size)) for start in range(0, table.num_rows, size)]
