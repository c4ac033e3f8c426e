"""The judge: PostgreSQL recomputes what our engine computed. It shares no code with what it judges.

Two rows are the same if PostgreSQL prints them the same (COPY's text format under pinned settings), so the bags
compared here are multisets of printed lines.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable

import psycopg2
import sqlglot
from psycopg2 import sql

PINNED = (
    "SET extra_float_digits = 1; SET IntervalStyle = postgres; SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC'; "
    "SET bytea_output = hex"
)


def printed(url: str, query: str) -> Counter[str]:
    """The query's rows as PostgreSQL prints them."""
    (rows,) = all_printed(url, [query])
    return rows


def all_printed(url: str, queries: Iterable[str]) -> list[Counter[str]]:
    """The rows of several queries, each of them in a transaction of its own."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(PINNED)
            return [_printed(cursor, query) for query in queries]
    finally:
        connection.close()


def _printed(cursor: psycopg2.extensions.cursor, query: str) -> Counter[str]:
    out = io.BytesIO()
    cursor.copy_expert(f"COPY ({query}) TO STDOUT", out)
    lines = out.getvalue().decode().split("\n")
    return Counter(lines[:-1])


class Judge:
    """A database of its own with one schema per source, holding the source states under judgement."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg2.connect(url)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute(PINNED)

    def close(self) -> None:
        self.connection.close()

    def execute(self, statement: str) -> None:
        self.cursor.execute(statement)

    def forget(self, source: str) -> None:
        name = sql.Identifier(source)
        self.cursor.execute(sql.SQL("DROP SCHEMA IF EXISTS {0} CASCADE; CREATE SCHEMA {0}").format(name))

    def copy(self, source: str, url: str, tables: Iterable[str], schema: str = "public") -> None:
        """Take over the tables of a source as they are now."""
        self.forget(source)
        origin = psycopg2.connect(url)
        try:
            origin.set_session(isolation_level="REPEATABLE READ", readonly=True)
            with origin.cursor() as cursor:
                cursor.execute(PINNED)
                for table in tables:
                    self._copy_table(cursor, source, schema, table)
        finally:
            origin.close()

    def _copy_table(self, cursor: psycopg2.extensions.cursor, source: str, schema: str, table: str) -> None:
        here, there = sql.Identifier(source, table), sql.Identifier(schema, table)
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [there.as_string(cursor)],
        )
        columns = cursor.fetchall()
        described = sql.SQL(", ").join(sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(t)) for n, t in columns)
        self.cursor.execute(sql.SQL("CREATE TABLE {} ({})").format(here, described))
        names = sql.SQL(", ").join(sql.Identifier(n) for n, _ in columns)
        rows = io.BytesIO()
        cursor.copy_expert(sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(names, there).as_string(cursor), rows)
        rows.seek(0)
        self.cursor.copy_expert(sql.SQL("COPY {} ({}) FROM STDIN").format(here, names).as_string(self.cursor), rows)

    def refill(self, source: str, url: str, tables: Iterable[str], schema: str = "public") -> None:
        """Like `copy`, into the tables that a copy made: much faster where columns stay as they are."""
        origin = psycopg2.connect(url)
        try:
            origin.set_session(isolation_level="REPEATABLE READ", readonly=True)
            with origin.cursor() as cursor:
                cursor.execute(PINNED)
                for table in tables:
                    here, there = sql.Identifier(source, table), sql.Identifier(schema, table)
                    rows = io.BytesIO()
                    cursor.copy_expert(sql.SQL("COPY {} TO STDOUT").format(there).as_string(cursor), rows)
                    rows.seek(0)
                    self.cursor.execute(sql.SQL("TRUNCATE {}").format(here))
                    self.cursor.copy_expert(sql.SQL("COPY {} FROM STDIN").format(here).as_string(self.cursor), rows)
        finally:
            origin.close()

    def recompute(self, view: str) -> Counter[str]:
        """The view's Spark SQL, over the schemas of the judge, by PostgreSQL."""
        (query,) = sqlglot.transpile(view, read="spark", write="postgres", comments=False)
        return self.evaluate(query)

    def evaluate(self, query: str) -> Counter[str]:
        """A query in PostgreSQL's own words."""
        return _printed(self.cursor, query)
