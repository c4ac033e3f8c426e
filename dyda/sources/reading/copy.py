"""Reading text from PostgreSQL into Arrow: sessions that print values canonically, COPY, and partitions of a scan.

Imports nothing but psycopg2, pyarrow, the standard library and modules like it (`stalled_server`, `handshake`, `rows`,
`masking`), so that Spark can ship it to executors that have no DyDa installed. Values are what PostgreSQL's output
functions print under pinned settings, NULL is null; no Python loop ever sees a row.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import psycopg2
import psycopg2.extensions
import pyarrow as pa
import pyarrow.ipc as pa_ipc

from dyda import handshake
from dyda.masking import masked
from dyda.rows import copy_out, no_columns
from dyda.sources.stalled_server import PatientConnection

__all__ = ["ReadFailed", "ScanPartition", "connect", "first_line", "keep_rows", "read_partition"]

PINNED = {
    "client_min_messages": "error",
    "jit": "off",  # compiling takes longer than a lookup
}
"""Settings of every session at a source, besides those of all our sessions."""

PATIENT = {
    "connect_timeout": "10",
    "application_name": "dyda",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""How a connection is opened and kept, unless its url says otherwise."""


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


def connect(url: str, lock_timeout: float, statement_timeout: float) -> PatientConnection:
    """A session in autocommit: transactions are begun explicitly, so that none is left open by accident.

    Whatever the url says about the connection (TLS above all) takes precedence over our defaults.
    """
    limits = {
        "lock_timeout": f"{int(lock_timeout * 1000)}ms",
        "statement_timeout": f"{int(statement_timeout * 1000)}ms",
    }
    connection = handshake.connect(url, PINNED | limits, defaults=PATIENT, factory=PatientConnection)
    return cast(PatientConnection, connection)


def first_line(error: BaseException, url: str = "") -> str:
    """PostgreSQL's own message without its context. libpq quotes a URL that it cannot read, password and all."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = str(primary or error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    if line.startswith(("invalid dsn", "invalid connection option")):
        return "the url is not one that PostgreSQL's libpq can read"
    try:
        password = psycopg2.extensions.parse_dsn(url).get("password") if url else None
    except psycopg2.Error:
        password = None
    return masked(line, [password] if password else [])
