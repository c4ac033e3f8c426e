"""What others would do with the same changes: refresh over postgres_fdw, recompute on Spark or in process.

Each is given what it needs to be good: indexes, statistics, big fetches, Arrow.
"""

from __future__ import annotations

import importlib.util
import io
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.csv
from pyspark.sql import SparkSession

from benchmarks.harness.measuring import Stopwatch
from benchmarks.scenarios.relations import SOURCES, TABLES, view_over

__all__ = ["InProcess", "OnSpark", "Refresh", "execute", "has_duckdb"]

ARROW = {"id": pa.int32(), "a": pa.int32(), "b": pa.int32(), "c": pa.string()}
COLUMNS = {"i1": "int", "b1": "int", "c2": "text", "c3": "text", "b4": "int", "b5": "int", "c6": "text"}
"""The view's columns."""


def execute(url: str, *statements: str) -> None:
    """One transaction."""
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


class Refresh:
    """REFRESH MATERIALIZED VIEW of `text`, over foreign tables `name.table` where `sources` says by name where a source
    is and which tables of it are read, else over what the database itself has. CONCURRENTLY needs the unique `key`."""

    def __init__(self, url: str, text: str, key: str, sources: Mapping[str, tuple[str, Sequence[str]]]) -> None:
        self.url = url
        if sources:
            execute(url, "CREATE EXTENSION postgres_fdw")
            for name, (source, tables) in sources.items():
                execute(url, *_foreign(name, source, tables))
        execute(
            url,
            f"CREATE MATERIALIZED VIEW refreshed AS {text}",
            f"CREATE UNIQUE INDEX ON refreshed ({key})",
            "ANALYZE refreshed",
        )

    def concurrently(self) -> float:
        return self._refreshed("CONCURRENTLY refreshed")

    def plainly(self) -> float:
        return self._refreshed("refreshed")

    def _refreshed(self, what: str) -> float:
        with Stopwatch() as watch:
            execute(self.url, f"REFRESH MATERIALIZED VIEW {what}")
        return watch.seconds


def _foreign(name: str, url: str, tables: Sequence[str]) -> list[str]:
    """Statistics are taken here: asked for remote estimates, the planner sends joins row by row."""
    parts = urllib.parse.urlsplit(url)
    host = urllib.parse.parse_qs(parts.query)["host"][0]
    return [
        f"CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{host}', dbname '{parts.path[1:]}',"
        " fetch_size '10000')",
        f"CREATE USER MAPPING FOR CURRENT_USER SERVER {name} OPTIONS (user 'postgres')",
        f"CREATE SCHEMA {name}",
        f"IMPORT FOREIGN SCHEMA public LIMIT TO ({', '.join(tables)}) FROM SERVER {name} INTO {name}",
        *(f"ANALYZE {name}.{table}" for table in tables),
    ]


def _read(url: str, table: str, low: int | None = None, high: int | None = None) -> pa.Table:
    part = "" if low is None else f" WHERE id >= {low} AND id < {high}"
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        output = io.BytesIO()
        cursor.copy_expert(f"COPY (SELECT id, a, b, c FROM {table}{part}) TO STDOUT (FORMAT csv)", output, 1 << 20)
    output.seek(0)
    return pa.csv.read_csv(
        output,
        pa.csv.ReadOptions(column_names=list(ARROW)),
        convert_options=pa.csv.ConvertOptions(column_types=ARROW),
    )


def _overwritten(url: str, table: str) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    execute(url, f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} ({columns})")


def _written(url: str, table: str, batches: Iterable[pa.RecordBatch]) -> int:
    rows = 0
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        for batch in batches:
            output = io.BytesIO()
            pa.csv.write_csv(batch, output, pa.csv.WriteOptions(include_header=False))
            output.seek(0)
            cursor.copy_expert(f"COPY {table} FROM STDIN (FORMAT csv)", output, 1 << 20)
            rows += batch.num_rows
    return rows


def has_duckdb() -> bool:
    """It comes with `.[bench]` only."""
    return importlib.util.find_spec("duckdb") is not None


class InProcess:
    """DuckDB over Arrow tables that COPY has brought, and the result pushed back: no cluster, no state."""

    def __init__(self, warehouse: str, sources: Mapping[str, str]) -> None:
        self.warehouse = warehouse
        self.urls = {table: sources[name] for name, tables in SOURCES.items() for table in tables}

    def recompute(self) -> float:
        import duckdb

        with Stopwatch() as watch, closing(duckdb.connect()) as database:
            for table in TABLES:
                database.register(table, _read(self.urls[table], table))
            rows = database.sql(view_over({table: table for table in TABLES})).to_arrow_table()
            _overwritten(self.warehouse, "in_process")
            _written(self.warehouse, "in_process", rows.to_batches())
        return watch.seconds


class OnSpark:
    """Spark reads every relation in two parts, joins, and its tasks write: what a nightly job does."""

    def __init__(self, session: SparkSession, warehouse: str, sources: Mapping[str, str], rows: int) -> None:
        self.session = session
        if rows > 1_000_000:
            # Spark does not know how much its tasks will read, and would give each of them everything.
            self.session = session.newSession()
            self.session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        self.warehouse = warehouse
        self.urls = {table: sources[name] for name, tables in SOURCES.items() for table in tables}
        self.rows = rows

    def recompute(self) -> float:
        with Stopwatch() as watch:
            for table in TABLES:
                read = _task_reading(self.urls[table], table, self.rows // 2 + 1)
                frame = self.session.range(0, 2, 1, 2).mapInArrow(read, "id int, a int, b int, c string")
                frame.createOrReplaceTempView(table)
            _overwritten(self.warehouse, "on_spark")
            joined = self.session.sql(view_over({table: table for table in TABLES}))
            joined.mapInArrow(_task_writing(self.warehouse, "on_spark"), "rows bigint").toArrow()
        return watch.seconds


def _task_reading(url: str, table: str, step: int) -> Any:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _read(url, table, number * step, (number + 1) * step).to_batches(65_536)

    return read


def _task_writing(url: str, table: str) -> Any:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([_written(url, table, batches)], pa.int64())], names=["rows"])

    return write
