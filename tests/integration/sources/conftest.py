"""A source for tests: a real database, DyDa's adapter on it, and an oracle that reads it without the adapter."""

from __future__ import annotations

import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.reading.snapshot import SourceSnapshot

PROJECT = "11111111-1111-1111-1111-111111111111"
PINNED = (
    "SET extra_float_digits = 1; SET IntervalStyle = postgres; SET DateStyle = 'ISO, YMD'; SET TimeZone = 'UTC';"
    " SET bytea_output = hex; SET lc_monetary = 'C'; SET search_path = pg_catalog"
)


class Ground:
    """One source database. `run` acts as its applications do; `rows` is what PostgreSQL itself says is there."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url
        self.source = PostgresSource(SourceSettings("crm", url, **settings), PROJECT)
        self.relations: dict[str, Relation] = {}
        self._connections: list[Any] = []
        self._run = self.connect()

    def connect(self, url: str | None = None) -> Any:
        connection = psycopg2.connect(url or self.url)
        connection.autocommit = True
        self._connections.append(connection)
        return connection

    def run(self, *statements: str, connection: Any = None) -> list[Any]:
        rows: list[Any] = []
        with (connection or self._run).cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            if cursor.description:
                rows = cursor.fetchall()
        return rows

    def run_unseen(self, *statements: str) -> None:
        """In one transaction that our event triggers say nothing of, as where they are switched off."""
        self.run("BEGIN", "SELECT dyda.be_quiet()", *statements, "COMMIT")

    def watch(self, *tables: str, schema: str = "public") -> list[Relation]:
        found = self.source.describe([(schema, table) for table in tables])
        self.source.attach(found.values())
        found = self.source.describe([(schema, table) for table in tables])
        for (_, table), relation in found.items():
            self.relations[table] = relation
        return list(found.values())

    def name(self, table: str, schema: str = "public") -> RelationName:
        return RelationName("crm", schema, table)

    def names(self) -> list[RelationName]:
        return [relation.name for relation in self.relations.values()]

    def open(self) -> SourceSnapshot:
        return self.source.open(self.names())

    def rows(self, table: str, columns: Sequence[str], schema: str = "public") -> Counter[tuple[str | None, ...]]:
        """The table's rows as PostgreSQL's output functions print them."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(PINNED)
                items = sql.SQL(", ").join(
                    sql.SQL("CASE WHEN ({c} IS NULL) THEN NULL ELSE format('%s', {c}) END").format(c=sql.Identifier(c))
                    for c in columns
                )
                cursor.execute(sql.SQL("SELECT {} FROM {}").format(items, sql.Identifier(schema, table)))
                return Counter(tuple(row) for row in cursor.fetchall())
        finally:
            connection.close()

    def logged(
        self, table: str, columns: Sequence[str], after: Position | None = None
    ) -> Counter[tuple[str | None, ...]]:
        """What the log says happened to the table since `after`, as a signed bag."""
        with self.source.open(self.names()) as snapshot:
            name = self.relations[table].name
            return bag(snapshot.changes({name: columns}, after)[name])

    def gap(self) -> int:
        return self.source.state().gap

    def close(self) -> None:
        self.source.close()
        for connection in self._connections:
            connection.close()


def as_role(url: str, name: str, password: str) -> str:
    """The same database as another role."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    user = f"{urllib.parse.quote(name, safe='')}:{urllib.parse.quote(password, safe='')}"
    return urllib.parse.urlunsplit(parts._replace(netloc=f"{user}@{host}"))


def bag(table: Any) -> Counter[tuple[str | None, ...]]:
    """A table of changes (…, #xid, #count) or a bag's table (…, #count) as a signed multiset of its rows."""
    columns = [column.to_pylist() for column in table.columns]
    extra = 2 if "#xid" in table.column_names[-2:] else 1
    found: Counter[tuple[str | None, ...]] = Counter()
    for row in zip(*columns, strict=True):
        found[tuple(row[: len(row) - extra])] += row[-1]
    return Counter({row: count for row, count in found.items() if count})


def plus(*bags: Counter[tuple[str | None, ...]]) -> Counter[tuple[str | None, ...]]:
    """The sum of signed multisets, zeros gone (Counter's own + drops what is negative)."""
    found: Counter[tuple[str | None, ...]] = Counter()
    for one in bags:
        for row, count in one.items():
            found[row] += count
    return Counter({row: count for row, count in found.items() if count})


@pytest.fixture
def ground(database: Callable[[str], str]) -> Iterator[Ground]:
    found = Ground(database("crm"))
    yield found
    found.close()


@pytest.fixture
def grounds() -> Iterator[Callable[..., Ground]]:
    """Further grounds, on any server."""
    made: list[Ground] = []

    def make(url: str, **settings: Any) -> Ground:
        made.append(Ground(url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()
