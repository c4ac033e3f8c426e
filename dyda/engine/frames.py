"""Rows on Spark: combinations that are at hand, and relations that Spark's tasks read from the source themselves.

A unit ships all its combinations in one table, whatever the number of views: making a DataFrame costs more than most
questions about it. `f` says whose row it is. Tables whose columns of one name are of one type are a group, which one
query reads; groups share the places of their types:

    f │ STRING_0 │ STRING_1 │ INT_0 │ BIGINT_0         0 and 1 are a group: STRING_0 is a column that both have,
    0 │ 'Ann'    │          │     7 │ 1                STRING_1 one that 1 alone has;
    1 │ 'Asia'   │ 'x'      │       │ -1               both count in BIGINT_0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType, _parse_datatype_json_value

from dyda.engine.task_errors import MARK, encoded
from dyda.engine.typed_columns import arrow_type, typed_table
from vm.evaluation import Frame
from vm.join_block import FrameColumn

__all__ = ["Reader", "pooled", "separate", "spark_type"]

Reader = Callable[[Any], pa.Table]
"""reader(partition): the texts of one scan partition; runs inside Spark tasks."""


_JSON_TYPES = {"SMALLINT": "short", "INT": "integer", "BIGINT": "long"}


@dataclass
class _Group:
    """Tables that are read together, and the types of their columns."""

    numbers: list[int] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)

    def takes(self, kinds: Mapping[str, str]) -> bool:
        return all(self.kinds.get(column, kind) == kind for column, kind in kinds.items())

    @cached_property
    def places(self) -> dict[str, str]:
        """The place of each column."""
        used: dict[str, int] = {}
        found = {}
        for column, kind in self.kinds.items():
            found[column] = f"{kind}_{used.get(kind, 0)}"
            used[kind] = used.get(kind, 0) + 1
        return found


def pooled(
    session: SparkSession, name: str, tables: Mapping[int, pa.Table], types: Mapping[int, Mapping[str, str | None]]
) -> list[tuple[list[int], str]]:
    """All tables as one temporary view `name`; returns groups of their numbers, each with the query that delivers it.

    `types` gives the Spark types of columns; those without are numbers of 64 bits.
    """
    groups: list[_Group] = []
    for number, table in tables.items():
        known = types[number]
        kinds = {column: (known[column] or "STRING") if column in known else "BIGINT" for column in table.column_names}
        group = next((group for group in groups if group.takes(kinds)), None)
        if group is None:
            groups.append(group := _Group())
        group.numbers.append(number)
        group.kinds |= kinds
    pool = {place: group.kinds[column] for group in groups for column, place in group.places.items()}
    schema = StructType().add("f", "integer", False)
    for position, kind in enumerate(pool.values()):
        schema.add(f"p{position}", spark_type(kind), True)
    rows = [
        _pool_rows(number, tables[number], group.places, pool, schema.names)
        for group in groups
        for number in group.numbers
    ]
    session.createDataFrame(pa.concat_tables(rows).combine_chunks(), schema).createOrReplaceTempView(name)
    position_of = {place: f"p{position}" for position, place in enumerate(pool)}
    queries = []
    for group in groups:
        columns = [f"{position_of[place]} AS {column}" for column, place in group.places.items()]
        mine = f" WHERE f IN ({', '.join(map(str, group.numbers))})" if len(groups) > 1 else ""
        queries.append((group.numbers, f"SELECT {', '.join(['f', *columns])} FROM {name}{mine}"))
    return queries


def _pool_rows(
    number: int, table: pa.Table, places: Mapping[str, str], pool: Mapping[str, str], names: list[str]
) -> pa.Table:
    rows = table.num_rows
    filled = {places[column]: column for column in table.column_names}
    arrays: list[Any] = [pa.repeat(pa.scalar(number, pa.int32()), rows)]
    arrays += [
        table.column(filled[place]) if place in filled else pa.nulls(rows, arrow_type(kind))
        for place, kind in pool.items()
    ]
    return pa.Table.from_arrays(arrays, names=names)


def separate(session: SparkSession, name: str, frame: Frame, reader: Reader | None) -> str:
    """One frame as temporary views of its own; returns the query that delivers it."""
    occurrence = frame.occurrence
    columns = [column.name for column in occurrence.frame]
    schema = StructType()
    for column in occurrence.frame:
        schema.add(column.name, spark_type(column.spark_type), True)
    queries = []
    if frame.partitions:
        if reader is None:
            raise ValueError(f"{occurrence.alias} is to be scanned, but there is no reader")
        scan = _scan(session, frame, reader, StructType(list(schema.fields)))
        scan.createOrReplaceTempView(f"{name}_scan")
        listed = "".join(f"{column}, " for column in columns)
        one, other = frame.counting.scanned
        queries.append(f"SELECT {listed}{one}L AS {occurrence.old}, {other}L AS {occurrence.new} FROM {name}_scan")
    if frame.table.num_rows or not queries:
        schema.add(occurrence.old, LongType(), False).add(occurrence.new, LongType(), False)
        table = pa.Table.from_arrays([*_typed(frame).columns, *_counts(frame)], names=schema.names)
        session.createDataFrame(table, schema).createOrReplaceTempView(name)
        queries.append(f"SELECT {', '.join(schema.names)} FROM {name}")
    return " UNION ALL ".join(queries)


def _typed(frame: Frame) -> pa.Table:
    return typed_table(frame.table, frame.occurrence.frame, str(frame.occurrence.relation.name))


def _counts(frame: Frame) -> list[pa.ChunkedArray]:
    width = frame.table.num_columns
    return [frame.table.column(width - 2), frame.table.column(width - 1)]


def spark_type(name: str | None) -> Any:
    """Spark's own object for a type; texts have none."""
    kind = (name or "STRING").upper()
    return _parse_datatype_json_value(_JSON_TYPES.get(kind, kind.lower()))


def _scan(session: SparkSession, frame: Frame, reader: Reader, schema: StructType) -> DataFrame:
    """One task per partition: `range` gives each task its number, the task reads the partition of that number."""
    count = len(frame.partitions)
    task = _scan_task(reader, frame.partitions, frame.occurrence.frame, str(frame.occurrence.relation.name))
    return session.range(0, count, 1, count).mapInArrow(task, schema)


def _scan_task(
    reader: Reader, partitions: tuple[Any, ...], frame: tuple[FrameColumn, ...], relation: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    mark = MARK

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    texts = reader(partitions[number])
                    yield from typed_table(texts, frame, relation).to_batches(max_chunksize=65_536)
        except Exception as error:
            raise encoded(error, mark) from None

    return read
