"""A warehouse on a fresh database, a writer that holds its lock, and short ways to say what a test installs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.warehouse import Installation, ViewChange, ViewColumn, ViewVersion, Warehouse
from dyda.warehouse.writer import Writer

START = Position(10, 10)
NEXT = Position(20, 20)
PEOPLE = RelationName("crm", "public", "people")


@pytest.fixture
def url(database: Callable[..., str]) -> str:
    return database("warehouse")


@pytest.fixture
def warehouse(url: str) -> Iterator[Warehouse]:
    with Warehouse.connect(url, "public") as opened:
        opened.upgrade()
        yield opened


@pytest.fixture
def writer(warehouse: Warehouse) -> Iterator[Writer]:
    with warehouse.lock() as held:
        yield held


@pytest.fixture
def query(url: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Runs one statement as a reader would, in a transaction of its own."""

    def run(statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    return run


def positions(warehouse: Warehouse) -> dict[str, dict[str, Position]]:
    """By view, then by source."""
    return {view.name: dict(view.positions) for view in warehouse.views()}


def entries(*rows: tuple[Any, ...]) -> pa.Table:
    """A small bag: each row is its texts and, last, its count."""
    width = len(rows[0]) - 1
    columns = {f"c{i + 1}": pa.array([row[i] for row in rows], pa.string()) for i in range(width)}
    return pa.table({**columns, "n": pa.array([row[-1] for row in rows], pa.int64())})


def version(*columns: tuple[str, str], sql: str = "SELECT …", **more: Any) -> ViewVersion:
    return ViewVersion(sql, tuple(ViewColumn(name, type_) for name, type_ in columns), (PEOPLE,), **more)


def create(writer: Writer, view: str, defined: ViewVersion, rows: pa.Table | None = None) -> None:
    """A new view with these rows, at START of source crm."""
    width = len(defined.columns)
    empty = pa.table({**{f"c{i + 1}": pa.array([], pa.string()) for i in range(width)}, "n": pa.array([], pa.int64())})
    staging = writer.staging(width)
    staging.sink()((empty if rows is None else rows).to_batches())
    change = ViewChange(view, staging=staging, mode="replace", version=defined, positions={"crm": (None, START)})
    writer.install(Installation((change,)))


def add(writer: Writer, view: str, rows: pa.Table, before: Position = START, after: Position = NEXT) -> None:
    """A delta for one view."""
    writer.install(Installation((ViewChange(view, delta=rows, positions={"crm": (before, after)}),)))
