"""Reading text from PostgreSQL into Arrow: sessions that print values canonically, COPY, and partitions of a scan.

Imports nothing but psycopg2, pyarrow, the standard library and `patience`, so that Spark can ship it to executors that
have no DyDa installed. Values are what PostgreSQL's output functions print under pinned settings, NULL is null; no
Python loop ever sees a row.
"""

from __future__ import annotations

import contextlib
import io
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc as pa_ipc

from dyda.sources.patience import PatientConnection

__all__ = [
    "PINNED",
    "ReadFailed",
    "ScanPartition",
    "connect",
    "copy_table",
    "first_line",
    "keep_rows",
    "parse_rows",
    "read_partition",
]

PINNED = {
    "extra_float_digits": "1",
    "IntervalStyle": "postgres",
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "xmloption": "content",
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",  # R3: an error instead of a silent subset
    "client_encoding": "UTF8",
    "idle_in_transaction_session_timeout": "0",  # a snapshot is held by an idle transaction
    "client_min_messages": "error",
    "standard_conforming_strings": "on",
    "jit": "off",  # compiling takes longer than a lookup
}
"""Settings of every session that reads or writes canonical text (rule C1)."""

PATIENT = {
    "connect_timeout": "10",
    "application_name": "dyda",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""How a connection is opened and kept, where its url does not say it."""

SINCE = {140000: {"idle_session_timeout": "0"}, 170000: {"transaction_timeout": "0"}}
"""Settings that only newer servers know."""


class ReadFailed(Exception):
    """A partition could not be read; `sqlstate` says why, and the message never holds a password."""

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
    """One piece of a scan: a query over a page range of one table, under a snapshot that is held elsewhere.

    `file`: where its rows are already, if the task runs on the machine that read them.
    """

    source: str
    relation: str
    url: str = field(repr=False)
    snapshot: str
    query: str
    columns: tuple[str, ...]
    lock_timeout: float
    statement_timeout: float
    estimated_rows: int = 0
    file: str | None = None


def read_partition(partition: ScanPartition) -> pa.Table:
    """The partition's rows as text columns, from whatever machine this runs on."""
    if partition.file is not None:
        with contextlib.suppress(OSError):  # a task of another machine, or of another user, asks the source
            return _kept_rows(Path(partition.file), partition.columns)
    connection = None
    try:
        connection = connect(partition.url, partition.lock_timeout, partition.statement_timeout)
        with connection.cursor() as cursor:
            cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET TRANSACTION SNAPSHOT %s", (partition.snapshot,))
            table = copy_table(cursor, partition.query, partition.columns)
            cursor.execute("COMMIT")
            return table
    except psycopg2.Error as error:
        what = f"reading {partition.relation}: {first_line(error, partition.url)}"
        raise ReadFailed(what, error.pgcode, partition.source, partition.relation) from None
    finally:
        if connection is not None:
            connection.close()


def keep_rows(path: Path, rows: pa.Table) -> None:
    """Write rows to a file, for `read_partition`."""
    columns = rows.columns or [pa.nulls(rows.num_rows)]  # a file forgets how many rows without columns there are
    table = pa.Table.from_arrays(columns, names=[f"c{place}" for place in range(len(columns))])
    with pa.OSFile(str(path), "wb") as file, pa_ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _kept_rows(path: Path, columns: Sequence[str]) -> pa.Table:
    with pa.memory_map(str(path)) as file:
        table = pa_ipc.open_file(file).read_all()
    return table.rename_columns(list(columns)) if columns else _rows(table.num_rows)


def connect(url: str, lock_timeout: float, statement_timeout: float) -> Any:
    """A session of our own, in autocommit: transactions are begun by name, so that none is left open by accident.

    What the url says about the connection is libpq's business (TLS above all); ours is only what it leaves open.
    """
    given = psycopg2.extensions.parse_dsn(url)
    options = {name: value for name, value in PATIENT.items() if name not in given}
    connection = psycopg2.connect(url, **options, client_encoding="UTF8", connection_factory=PatientConnection)
    try:
        connection.autocommit = True
        settings = dict(PINNED)
        for version, more in SINCE.items():
            if connection.server_version >= version:
                settings |= more
        settings["lock_timeout"] = f"{int(lock_timeout * 1000)}ms"
        settings["statement_timeout"] = f"{int(statement_timeout * 1000)}ms"
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT " + ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(settings)),
                [part for setting in settings.items() for part in setting],
            )
    except BaseException:
        connection.close()
        raise
    return connection


def first_line(error: BaseException, url: str = "") -> str:
    """PostgreSQL's own message without its context. libpq quotes a URL that it cannot read, password and all."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = str(primary or error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    if line.startswith(("invalid dsn", "invalid connection option")):
        return "the url is not one that PostgreSQL's libpq can read"
    for secret in _secrets(url):
        line = line.replace(secret, "***")
    return line


def _secrets(url: str) -> list[str]:
    """Passwords in a libpq URL or keyword string, as written and as meant."""
    try:
        password = psycopg2.extensions.parse_dsn(url).get("password") if url else None
    except psycopg2.Error:
        password = None
    written = [password, urllib.parse.quote(password, safe=""), urllib.parse.quote(password)] if password else []
    return [secret for secret in written if secret and len(secret) > 2]


def copy_table(cursor: Any, query: str, columns: Sequence[str]) -> pa.Table:
    """The result of `query` as text columns, which are called `columns` whatever the query calls them.

    Without columns, `query` must deliver one column all the same (it is dropped, the number of rows stays).
    """
    buffer = io.BytesIO()
    cursor.copy_expert(f"COPY ({query}) TO STDOUT (FORMAT csv)", buffer)
    return parse_rows(pa.py_buffer(buffer.getbuffer()), columns, escape=False)


def parse_rows(data: pa.Buffer, columns: Sequence[str], *, escape: bool) -> pa.Table:
    """CSV as PostgreSQL writes it (COPY, or with `escape` the inside of a row's text) as text columns.

    An unquoted nothing is NULL, a quoted one the empty text; an empty line is one NULL.
    """
    width = max(len(columns), 1)
    places = [f"c{place}" for place in range(width)]
    if data.size == 0:
        table = pa.table({place: pa.array([], pa.string()) for place in places})
    else:
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(
                column_names=places, use_threads=False, block_size=min(data.size + 1, 2**31 - 1)
            ),
            parse_options=pa_csv.ParseOptions(
                quote_char='"',
                double_quote=True,
                escape_char="\\" if escape else False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={place: pa.string() for place in places},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    # A table's column names may repeat or be odd; places may not, so they are renamed last.
    return table.select(places[: len(columns)]).rename_columns(list(columns)) if columns else _rows(table.num_rows)


def _rows(number: int) -> pa.Table:
    """`number` rows without a column."""
    return pa.table({"none": pa.nulls(number)}).select([])
