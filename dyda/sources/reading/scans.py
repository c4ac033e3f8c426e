"""Whole relations: a few rows are read here and now; of others it is said where Spark's tasks find them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from dyda.errors import DydaError
from dyda.model.bag import COUNT, Bag
from dyda.sources.connection import translated
from dyda.sources.reading.copy import ReadFailed, ScanPartition, read_partition

__all__ = ["Scanned", "few_or_partitions", "read_rows", "why_unread"]

Scanned: TypeAlias = Bag | Sequence[ScanPartition]
"""All rows of a relation, or its partitions."""


def few_or_partitions(partitions: Sequence[ScanPartition], columns: Sequence[str], most: int) -> Scanned:
    """The rows, if they take at most so many bytes: Spark's tasks would take longer to start than to read them.

    May raise ReadFailed, as a task would."""
    sizes = [partition.size for partition in partitions]
    known = [size for size in sizes if size is not None]
    return read_rows(partitions, columns) if len(known) == len(sizes) and sum(known) <= most else partitions


def read_rows(partitions: Sequence[ScanPartition], columns: Sequence[str]) -> Bag:
    """All rows, here and not on Spark."""
    names = list(columns)
    pieces = [read_partition(partition).rename_columns(names) for partition in partitions]
    table = pa.concat_tables(pieces) if pieces else Bag.empty(names).table.select(names)
    return Bag(table.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))


def why_unread(error: ReadFailed) -> DydaError:
    """What a piece that could not be read means to the unit, as if the source had been asked from here."""
    return translated(error.source, [error.relation], error.sqlstate, error.what)
