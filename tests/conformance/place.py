"""A source as its adapter shows it, beside what its own applications do and see there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg2
from psycopg2 import sql

from dyda.model.bag import Bag
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.sources import PostgresSource, Snapshot, Source, SourceSettings
from dyda.sources.reading.scans import read_rows

__all__ = ["PROJECT", "WAYS", "Place", "Rows", "Way", "plus"]

PROJECT = "11111111-1111-1111-1111-111111111111"
PINNED = (
    "SET extra_float_digits = 1; SET IntervalStyle = postgres; SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC';"
    " SET bytea_output = hex; SET lc_monetary = 'C'; SET search_path = pg_catalog"
)
EVERYTHING = 2**40
DROP_SLOTS = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database()"

Rows: TypeAlias = Counter[tuple[str | None, ...]]
"""A bag of rows, or a signed one of changes."""


@dataclass(frozen=True)
class Way:
    """One way of capture. `silence` are statements that switch it off for a table, behind DyDa's back, and `restore`
    those that switch it on again so that it looks as before as far as possible."""

    name: str
    open: Callable[[SourceSettings, str, Sequence[str]], Source]
    silence: str
    restore: str


WAYS = (
    Way("triggers", PostgresSource, "ALTER TABLE {} DISABLE TRIGGER ALL", "ALTER TABLE {} ENABLE TRIGGER ALL"),
    Way(
        "wal",
        PostgresSource,
        "ALTER PUBLICATION dyda_capture DROP TABLE {}",
        "ALTER PUBLICATION dyda_capture ADD TABLE {}",
    ),
)


class Place:
    """`run` acts as the applications do, `rows` is what PostgreSQL itself says is there."""

    def __init__(self, way: Way, url: str, **settings: Any) -> None:
        self.way = way
        self.url = url
        self._settings = settings
        self._sources: list[Source] = []
        self._connections: list[Any] = []
        self.source = self.adapter()
        self._run = self.connect()

    def adapter(self, project: str = PROJECT, name: str = "crm", others: Sequence[str] = ()) -> Source:
        """A further adapter for the same database: of another process, or after a restart."""
        self._sources.append(
            self.way.open(SourceSettings(name, self.url, capture=self.way.name, **self._settings), project, others)
        )
        return self._sources[-1]

    def connect(self) -> Any:
        connection = psycopg2.connect(self.url)
        connection.autocommit = True
        self._connections.append(connection)
        return connection

    def run(self, *statements: str, connection: Any = None) -> list[Any]:
        with (connection or self._run).cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def reconnect(self) -> None:
        """After the server was away."""
        self._run = self.connect()

    def watch(self, table: str, schema: str = "public") -> Relation:
        """As `apply` does it: attached first, described then (C6)."""
        self.source.attach(self.source.describe([(schema, table)]).values())
        return self.source.describe([(schema, table)])[(schema, table)]

    @staticmethod
    def name(table: str) -> RelationName:
        return RelationName("crm", "public", table)

    def open(self, *relations: Relation) -> Snapshot:
        """As the daemon does it, which knows its tables by oid."""
        return self.source.open({one.name: one.oid for one in relations if one.oid is not None})

    def rows(self, table: str, columns: Sequence[str]) -> Rows:
        """As PostgreSQL's output functions print them, read now."""
        items = sql.SQL(", ").join(
            sql.SQL("CASE WHEN ({c} IS NULL) THEN NULL ELSE format('%s', {c}) END").format(c=sql.Identifier(c))
            for c in columns
        )
        with self.connect().cursor() as cursor:
            cursor.execute(PINNED)
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(items, sql.Identifier("public", table)))
            return Counter(tuple(row) for row in cursor.fetchall())

    def close(self) -> None:
        for source in self._sources:
            source.close()
        if self.way.name != "wal":
            self._disconnect()
            return
        self._run = self.connect()
        dropped = False
        while not dropped:
            try:
                self.run(DROP_SLOTS)
                dropped = True
            except psycopg2.errors.ObjectInUse:
                time.sleep(0.01)  # the server has yet to see that nobody reads it
        self._disconnect()

    def _disconnect(self) -> None:
        for connection in self._connections:
            connection.close()


def table_now(snapshot: Snapshot, relation: Relation, columns: Sequence[str]) -> Rows:
    """All rows of the table, as the snapshot shows them."""
    found = snapshot.rows_or_partitions(relation, columns, EVERYTHING)
    return counted(found if isinstance(found, Bag) else read_rows(found, columns))


def images(snapshot: Snapshot, relation: Relation, columns: Sequence[str], after: Position | None = None) -> Rows:
    """What happened to the table, as a signed bag."""
    table = snapshot.changes({relation.name: columns}, after, {relation.name: relation})[relation.name]
    *values, _, counts = (column.to_pylist() for column in table.columns)
    return _bag(zip(*values, strict=True), counts)


def counted(bag: Bag) -> Rows:
    *values, counts = (column.to_pylist() for column in bag.table.columns)
    return _bag(zip(*values, strict=True), counts)


def plus(*bags: Rows) -> Rows:
    """The sum of signed bags, zeros gone (Counter's own + drops what is negative)."""
    return (
        _bag(*zip(*((row, count) for one in bags for row, count in one.items()), strict=True)) if any(bags) else Rows()
    )


def _bag(rows: Any, counts: Any) -> Rows:
    found: Rows = Counter()
    for row, count in zip(rows, counts, strict=True):
        found[row] += count
    return Counter({row: count for row, count in found.items() if count})
