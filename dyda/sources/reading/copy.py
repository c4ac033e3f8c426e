"""Reading text from PostgreSQL into Arrow: COPY, and partitions of a scan.

Imports nothing but psycopg2, pyarrow, the standard library and modules like it (`session`, `rows`), so that Spark can
ship it to executors that have no DyDa installed. Values are what PostgreSQL's output functions print under pinned
settings, NULL is null; no Python loop ever sees a row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
import pyarrow as pa
import pyarrow.ipc as pa_ipc

from dyda.rows import copy_out, no_columns
from dyda.sources.reading.session import connect, first_line

__all__ = ["ReadFailed", "ScanPartition", "keep_rows", "read_partition"]


class ReadFailed(Exception):
    """A partition could not be read; `sqlstate` says why, and the message never contains a password."""

    def __init__(self, what: str, sqlstate: str | None = None, source: str = "", relation: str = "") -> None:
        super().__init__(what, sqlstate, source, relation)
        self.what = what
        self.sqlstate = sqlstate
        self.source = source
        self.relation = relation

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class ScanPartition:
    """One piece of a scan: a query over a page range of one table, under an exported snapshot.

    `file`: its rows, if they have been read already; for tasks on the same machine. `size`: about how many bytes they
    take in the database; None if there may be many.
    """

    source: str
    relation: str
    url: str = field(repr=False)
    snapshot: str
    query: str
    columns: tuple[str, ...]
    lock_timeout: float
    statement_timeout: float
    file: str | None = None
    size: int | None = None


def read_partition(partition: ScanPartition) -> pa.Table:
    """The partition's rows as text columns, from whatever machine this runs on."""
    if partition.file is not None:
        with contextlib.suppress(OSError):  # on another machine, or as another user, ask the source
            return _kept_rows(Path(partition.file), partition.columns)
    connection = None
    try:
        connection = connect(partition.url, partition.lock_timeout, partition.statement_timeout)
        with connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET TRANSACTION SNAPSHOT %s", (partition.snapshot,))
            table = copy_out(cursor, partition.query, partition.columns)
            cursor.execute("ROLLBACK")  # COMMIT would run what reading has left behind, with our rights
            return table
    except psycopg2.Error as error:
        what = f"reading {partition.relation}: {first_line(error, partition.url)}"
        raise ReadFailed(what, error.pgcode, partition.source, partition.relation) from None
    finally:
        if connection is not None:
            connection.close()


def keep_rows(path: Path, rows: pa.Table) -> None:
    """Write rows to a file, for `read_partition`."""
    columns = rows.columns or [pa.nulls(rows.num_rows)]  # a file without columns has no number of rows
    table = pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])
    with pa.OSFile(str(path), "wb") as file, pa_ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _kept_rows(path: Path, columns: Sequence[str]) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        table = pa_ipc.open_file(file).read_all()
    return table.rename_columns(list(columns)) if columns else no_columns(table.num_rows)
