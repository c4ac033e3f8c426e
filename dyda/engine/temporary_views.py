"""The temporary views that one evaluation reads its rows from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from dyda.engine.frames import Reader, pooled, separate
from vm.evaluation import Evaluation, Frame

__all__ = ["TemporaryViews"]


class TemporaryViews:
    """Dropped afterwards, so that nothing piles up in a long-lived session."""

    def __init__(self, session: SparkSession, number: int) -> None:
        self._session = session
        self._prefix = f"dyda_{number}"
        self._names: list[str] = []

    def __enter__(self) -> TemporaryViews:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._names:
            self._session.catalog.dropTempView(name)

    def pool(self, combined: Mapping[int, tuple[Evaluation, pa.Table]]) -> list[tuple[list[int], str]]:
        """The combinations of all evaluations: groups of their numbers, each with the query that delivers it."""
        if not combined:
            return []
        self._names.append(self._prefix)
        types = {
            number: {column.name: column.spark_type for frame in one.frames for column in frame.occurrence.frame}
            for number, (one, _) in combined.items()
        }
        tables = {number: table for number, (_, table) in combined.items()}
        return pooled(self._session, self._prefix, tables, types)

    def each(self, frames: Sequence[Frame], reader: Reader | None) -> dict[str, str]:
        """Per alias, the query that delivers its rows."""
        queries = {}
        for frame in frames:
            name = f"{self._prefix}_{len(self._names)}"
            self._names += [name, f"{name}_scan"]
            queries[frame.occurrence.alias] = separate(self._session, name, frame, reader)
        return queries
