"""Rows in the warehouse, in pieces that Spark's tasks read as they read a source's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dyda.sources.reading.copy import ScanPartition
from dyda.warehouse.extents.exported_snapshot import HeldExtent, HeldState
from vm import WAREHOUSE, Occurrence

__all__ = ["extent_partitions", "held_partition", "state_partitions"]


def extent_partitions(held: HeldExtent, occurrence: Occurrence) -> list[ScanPartition]:
    places = [carried.column.number - 1 for carried in occurrence.carried]
    return _partitions(held, held.extent.view, held.pieces(places), occurrence.columns, held.size)


def state_partitions(held: HeldState, view: str, occurrence: Occurrence) -> list[ScanPartition]:
    """Each row as often as the state delivers it."""
    return _partitions(held, view, held.pieces(occurrence.columns), occurrence.columns, held.size)


def held_partition(held: HeldExtent, query: str, columns: Sequence[str]) -> ScanPartition:
    """What one query finds in an extent."""
    (partition,) = _partitions(held, held.extent.view, [query], columns)
    return partition


def _partitions(
    held: HeldExtent | HeldState,
    relation: str,
    queries: Iterable[str],
    columns: Sequence[str],
    size: int | None = None,
) -> list[ScanPartition]:
    """`size`: of all of them together, if they are few."""
    return [
        ScanPartition(
            source=WAREHOUSE,
            relation=relation,
            url=held.url,
            snapshot=held.snapshot,
            query=query,
            columns=tuple(columns),
            lock_timeout=0,
            statement_timeout=0,
            size=size,
        )
        for query in queries
    ]
