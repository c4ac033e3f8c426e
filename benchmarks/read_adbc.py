"""Measures two ways of reading a relation as canonical text: COPY … (FORMAT csv) parsed by pyarrow.csv, and ADBC.

Not a test. Needs the package adbc-driver-postgresql, which DyDa itself does not use: this is why.

    python benchmarks/read_adbc.py [ROWS …]
"""

from __future__ import annotations

import io
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import adbc_driver_postgresql.dbapi
import psycopg2
import pyarrow as pa
import pyarrow.csv

from dyda.embedded import EmbeddedServer

COLUMNS = {
    "a": "i::integer",
    "b": "i::bigint * 1000003",
    "c": "(i * 7 % 100000) / 100.0::numeric(12,2)",
    "d": "sqrt(i)::double precision",
    "e": "'some text, with a comma and \"quotes\" ' || i",
    "f": "timestamptz '2025-01-01' + i * interval '1.000001 second'",
    "g": "date '2000-01-01' + i % 9000",
    "h": "CASE i % 3 WHEN 0 THEN true WHEN 1 THEN false END",
    "k": "md5(i::text)::uuid",
    "l": "jsonb_build_object('i', i, 's', 'x')",
}
REPEATS = 5


def read_copy(url: str) -> pa.Table:
    connection = psycopg2.connect(url)
    try:
        buffer = io.BytesIO()
        with connection.cursor() as cursor:
            cursor.copy_expert("COPY (SELECT * FROM sample) TO STDOUT (FORMAT csv)", buffer)
        buffer.seek(0)
        return pyarrow.csv.read_csv(
            buffer,
            read_options=pyarrow.csv.ReadOptions(column_names=list(COLUMNS), block_size=16 << 20),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(COLUMNS, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    finally:
        connection.close()


def read_adbc(url: str) -> pa.Table:
    # A cast is not always the output function that COPY uses: boolean prints t and casts to true.
    texts = ", ".join("left(h::text, 1) AS h" if name == "h" else f"{name}::text" for name in COLUMNS)
    with adbc_driver_postgresql.dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {texts} FROM sample")
        return cursor.fetch_arrow_table()


def seconds(read: Callable[[str], pa.Table], url: str) -> float:
    """The median of some runs; the first one warms the caches and does not count."""
    taken = []
    for _ in range(REPEATS + 1):
        begun = time.perf_counter()
        read(url)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken[1:])


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="dyda-b-", dir="/tmp"))
    try:
        url = EmbeddedServer.ensure(folder / "pg")
        for rows in [int(word) for word in sys.argv[1:]] or [100_000, 1_000_000]:
            connection = psycopg2.connect(url)
            connection.autocommit = True
            items = ", ".join(f"{expression} AS {name}" for name, expression in COLUMNS.items())
            with connection.cursor() as cursor:
                cursor.execute("DROP TABLE IF EXISTS sample")
                cursor.execute(f"CREATE TABLE sample AS SELECT {items} FROM generate_series(1, {rows}) i")
                cursor.execute("VACUUM ANALYZE sample")
            connection.close()
            if not read_copy(url).equals(read_adbc(url).rename_columns(list(COLUMNS))):
                raise SystemExit("the two ways disagree")
            copy, adbc = seconds(read_copy, url), seconds(read_adbc, url)
            print(f"{rows} rows: COPY + pyarrow.csv {copy:.2f} s, ADBC {adbc:.2f} s, ratio {adbc / copy:.2f}")
    finally:
        EmbeddedServer.stop(folder / "pg")
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
