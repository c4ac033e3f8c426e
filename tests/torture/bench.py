"""The judge's bench: PostgreSQL evaluates a definition over source states that a history gives.

A table of the judge holds one row per distinct row text with its count, and a view of it shows the rows; so a state
turns into the next one by writing what differs. Answers are kept by definition and states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import psycopg2
import sqlglot
from psycopg2 import sql
from psycopg2.extras import execute_values
from sqlglot import exp

from tests.recompute_oracle import Judge
from tests.torture.history import Shape

__all__ = ["Bench", "Name", "NotEvaluated", "State", "names_of", "selected_by"]

Name = tuple[str, str, str]
"""source, schema, table"""


class NotEvaluated(Exception):
    """PostgreSQL could not evaluate the definition over these states."""


@dataclass(frozen=True)
class State:
    """A table in one state. `key` names the state: two states of a table with the same key are the same."""

    oid: int
    shape: Shape
    key: object
    rows: Mapping[str, int]


@lru_cache(maxsize=1000)
def names_of(definition: str) -> tuple[Name, ...]:
    """The tables that a definition reads."""
    return tuple(dict.fromkeys(_name(table) for table in _relations(sqlglot.parse_one(definition, read="spark"))))


@lru_cache(maxsize=1000)
def selected_by(definition: str) -> tuple[str, ...]:
    """The columns that a definition's readers see."""
    query = sqlglot.parse_one(definition, read="spark")
    return tuple(query.named_selects) if isinstance(query, exp.Query) else ()


def _relations(tree: exp.Expr) -> list[exp.Table]:
    return [table for table in tree.find_all(exp.Table) if table.db]


def _name(table: exp.Table) -> Name:
    return (table.catalog, table.db, table.name) if table.catalog else (table.db, "public", table.name)


class Bench:
    """A schema of the judge's database, and the states that are loaded into it at the moment."""

    def __init__(self, url: str) -> None:
        self.judge = Judge(url)
        self.evaluations = 0
        self._loaded: dict[str, tuple[object, Counter[str]]] = {}
        self._tables: dict[tuple[str, int, Shape], str] = {}
        self._queries: dict[tuple[str, tuple[str, ...]], str] = {}
        self.judge.execute("DROP SCHEMA IF EXISTS bench CASCADE; CREATE SCHEMA bench")

    def close(self) -> None:
        self.judge.close()

    def evaluate(self, definition: str, states: Mapping[Name, State]) -> Counter[str]:
        """The definition's rows over these states, as texts."""
        tables = {name: self._load(name[0], state) for name, state in states.items()}
        key = (definition, tuple(tables[name] for name in names_of(definition)))
        if key not in self._queries:
            self._queries[key] = _query(definition, tables)
        self.evaluations += 1
        try:
            self.judge.cursor.execute(self._queries[key])
        except psycopg2.Error as error:
            raise NotEvaluated(str(error).strip()) from None
        return Counter(row for (row,) in self.judge.cursor.fetchall())

    def _load(self, source: str, state: State) -> str:
        place = (source, state.oid, state.shape)
        if place not in self._tables:
            self._tables[place] = self._create(state.shape, f"t{len(self._tables)}")
        table = self._tables[place]
        key, loaded = self._loaded[table]
        if key == state.key:
            return table
        changes = [(row, count - loaded[row]) for row, count in state.rows.items() if loaded[row] != count]
        changes += [(row, -count) for row, count in loaded.items() if row not in state.rows]
        if changes:
            self._write(table, changes)
        self._loaded[table] = (state.key, Counter(state.rows))
        return table

    def _create(self, shape: Shape, name: str) -> str:
        columns = [sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(type_)) for column, type_ in shape.columns]
        self.judge.cursor.execute(
            sql.SQL(
                "CREATE TYPE bench.{type} AS ({columns});"
                "CREATE TABLE bench.{counted} (hash text PRIMARY KEY, count bigint NOT NULL, value bench.{type});"
                "CREATE VIEW bench.{name} AS SELECT (value).* FROM bench.{counted}, generate_series(1, count)"
            ).format(
                type=sql.Identifier(f"{name}_row"),
                counted=sql.Identifier(f"{name}_counted"),
                name=sql.Identifier(name),
                columns=sql.SQL(", ").join(columns),
            )
        )
        self._loaded[name] = (None, Counter())
        return name

    def _write(self, table: str, changes: list[tuple[str, int]]) -> None:
        execute_values(
            self.judge.cursor,
            f"INSERT INTO bench.{table}_counted AS c SELECT md5(row), n, row::bench.{table}_row"
            " FROM (VALUES %s) AS v (row, n)"
            " ON CONFLICT (hash) DO UPDATE SET count = c.count + excluded.count",
            changes,
            page_size=10_000,
        )
        self.judge.cursor.execute(f"DELETE FROM bench.{table}_counted WHERE count = 0")


def _query(definition: str, tables: Mapping[Name, str]) -> str:
    tree = sqlglot.parse_one(definition, read="spark")
    for table in _relations(tree):
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        name = tables[_name(table)]
        table.set("catalog", None)
        table.set("db", exp.to_identifier("bench"))
        table.set("this", exp.to_identifier(name))
    return f'SELECT "#row"::text FROM ({tree.sql(dialect="postgres", comments=False)}) AS "#row"'
