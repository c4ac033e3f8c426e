"""Whole relations: a few rows are read here and now, as part of the unit; Spark's tasks read the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import pyarrow as pa

from dyda.errors import WarehouseUnreachable
from dyda.model.bag import COUNT, Bag
from dyda.sources import ScanPartition
from dyda.sources.connection import translated
from dyda.sources.reading.copy import ReadFailed, read_partition
from vm import WAREHOUSE

__all__ = ["Scanned", "few_or_partitions", "read_rows", "scanning"]

Scanned: TypeAlias = Bag | Sequence[ScanPartition]
"""All rows of a relation, or where Spark's tasks find them."""


@contextmanager
def scanning() -> Iterator[None]:
    """What cannot be read, here or by a Spark task, ends the unit as a failed lookup would."""
    try:
        yield
    except ReadFailed as error:
        if error.source == WAREHOUSE:
            raise WarehouseUnreachable(error.what) from None
        raise translated(error.source, [error.relation], error.sqlstate, error.what) from None


def few_or_partitions(partitions: Sequence[ScanPartition], columns: Sequence[str], most: int) -> Scanned:
    """The rows, if they take at most so many bytes: Spark's tasks would take longer to start than to read them."""
    sizes = [partition.size for partition in partitions]
    known = [size for size in sizes if size is not None]
    return read_rows(partitions, columns) if len(known) == len(sizes) and sum(known) <= most else partitions


def read_rows(partitions: Sequence[ScanPartition], columns: Sequence[str]) -> Bag:
    """All rows, here and not on Spark."""
    names = list(columns)
    with scanning():
        pieces = [read_partition(partition).rename_columns(names) for partition in partitions]
    table = pa.concat_tables(pieces) if pieces else Bag.empty(names).table.select(names)
    return Bag(table.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))
