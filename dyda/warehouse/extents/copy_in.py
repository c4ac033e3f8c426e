"""Arrow record batches into a table by COPY, without a Python loop over rows; also from Spark executors.

An executor need not have DyDa installed: this module imports nothing but psycopg2, pyarrow, the standard library and
`handshake`, which does no more, so that it can be shipped by value.
"""

from __future__ import annotations

import io
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg2
import pyarrow as pa
import pyarrow.csv
from psycopg2 import sql

from dyda import handshake

if TYPE_CHECKING:
    from dyda.cursor import Cursor

__all__ = ["StagingSink", "copy_batches"]

CHUNK = 1 << 18


@dataclass(frozen=True)
class StagingSink:
    """Picklable: `sink(batches)` puts all of them into the staging table and returns how many entries they were.

    Spark may run a task twice, at once or one after the other. A task's rows and its mark (stage and partition) commit
    together and the mark is unique, so that a partition's rows get in once, whichever attempt wins.
    """

    url: str = field(repr=False)
    schema: str
    table: str
    width: int

    def __call__(self, batches: Iterable[pa.RecordBatch], task: str | None = None) -> int:
        """`task` names what is written, for callers outside of Spark that may write it again."""
        connection = handshake.connect(self.url, {}, application_name="dyda staging")
        try:
            connection.autocommit = False
            with connection.cursor() as cursor:
                rows = copy_batches(cursor, sql.Identifier(self.schema, self.table), self.width, batches)
                earlier = self._mark(cursor, task or _spark_task() or uuid.uuid4().hex, rows)
            if earlier is not None:
                connection.rollback()
                return earlier
            connection.commit()
            return rows
        finally:
            connection.close()

    def _mark(self, cursor: Cursor, task: str, rows: int) -> int | None:
        """Marks this task as written; the count of an earlier attempt if there was one (then ours must go)."""
        marks = sql.Identifier(self.schema, self.table + "_task")
        cursor.execute(
            sql.SQL("INSERT INTO {} (task, entries) VALUES (%s, %s) ON CONFLICT (task) DO NOTHING").format(marks),
            (task, rows),
        )
        if cursor.rowcount == 1:
            return None
        cursor.execute(sql.SQL("SELECT entries FROM {} WHERE task = %s").format(marks), (task,))
        (earlier,) = cursor.fetchone()
        return int(earlier)


def _spark_task() -> str | None:
    """Stage and partition of the Spark task we are in, if we are in one."""
    spark = sys.modules.get("pyspark")
    context = spark.TaskContext.get() if spark is not None else None
    return None if context is None else f"{context.stageId()}/{context.partitionId()}"


def copy_batches(
    cursor: Cursor, table: sql.Composable, width: int, batches: Iterable[pa.RecordBatch], more: Sequence[str] = ()
) -> int:
    """COPY batches (c1 … cn string, n int64, and what is in `more`) into `table`; returns the number of entries."""
    stream = _CsvStream(batches, width, len(more))
    names = [*(f"c{i}" for i in range(1, width + 1)), "n", *more]
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    command = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(table, columns).as_string(cursor)
    try:
        cursor.copy_expert(command, stream, CHUNK)
    except psycopg2.Error:
        # What went wrong while the batches were made is the cause; PostgreSQL only saw the stream end.
        if stream.failure is not None:
            raise stream.failure from None
        raise
    return stream.rows


class _CsvStream:
    """A file to read from, which encodes one batch after the other on demand.

    pyarrow quotes every text and never a NULL, which is how PostgreSQL's CSV distinguishes '' from NULL.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], width: int, more: int) -> None:
        self.rows = 0
        self.failure: Exception | None = None
        self._width = width
        self._more = more
        self._batches: Iterator[pa.RecordBatch] = iter(batches)
        self._buffer = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        try:
            return self._read(size)
        except Exception as failure:
            self.failure = failure
            raise

    def _read(self, size: int) -> bytes:
        while not self._buffer:
            batch = next(self._batches, None)
            if batch is None:
                return b""
            self._buffer = memoryview(self._encode(batch))
        end = len(self._buffer) if size < 0 else size
        chunk, self._buffer = self._buffer[:end], self._buffer[end:]
        return bytes(chunk)

    def _encode(self, batch: pa.RecordBatch) -> bytes:
        if batch.num_columns != self._width + 1 + self._more:
            raise ValueError(f"{self._width} columns and a count were expected, not {batch.schema.names}")
        if batch.num_rows == 0:
            return b""
        self.rows += batch.num_rows
        output = io.BytesIO()
        options = pa.csv.WriteOptions(include_header=False, quoting_style="needed")
        pa.csv.write_csv(batch, output, options)
        return output.getvalue()
