"""A view that loses columns shows the others of its table; the first rows that come after give it another table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from dyda.errors import InstallBlocked, InvariantViolated
from dyda.model.position import Position
from dyda.warehouse import Installation, ViewChange, Warehouse
from dyda.warehouse.extents.exported_snapshot import hold_extent
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]

WHOLE = version(("name", "text"), ("age", "integer"), ("town", "text"))
NARROW = version(("name", "text"), ("town", "text"))
ROWS = entries(("Ann", "7", "Rome", 2), ("Ann", "8", "Rome", 1), ("Bob", None, "Oslo", 1), ("Cid", "7", None, 1))
LEFT = Counter({("Ann", "Rome"): 3, ("Bob", "Oslo"): 1, ("Cid", None): 1})
LATER = Position(30, 30)


@pytest.fixture
def narrowed(writer: Writer) -> Writer:
    """A view `people` that has lost its column `age`."""
    create(writer, "people", WHOLE, ROWS)
    narrow(writer, (0, 2), NARROW)
    return writer


def narrow(writer: Writer, places: tuple[int, ...], defined: Any, delta: pa.Table | None = None) -> None:
    positions = {"crm": (START, START if delta is None else NEXT)}
    change = ViewChange("people", delta, projection=places, mode="replace", version=defined, positions=positions)
    writer.install(Installation((change,)))


def columns(query: Query, table: str) -> list[str]:
    found = query(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " ORDER BY attnum",
        (f"dyda.{table}",),
    )
    return [name for (name,) in found]


def test_the_table_stays_and_readers_see_the_other_columns(
    warehouse: Warehouse, narrowed: Writer, query: Query
) -> None:
    assert Counter(query("SELECT * FROM people")) == LEFT
    assert query("SELECT extent FROM dyda.view_version ORDER BY version") == [(1,), (2,)]
    assert query("SELECT count(*), count(DISTINCT xmin::text) FROM dyda.extent_2") == [(5, 1)], "as they were built"
    assert query("SELECT extent, form FROM dyda.form") == [(2, "loose")]
    assert columns(query, "extent_2") == ["name", "town"], "no more than readers see"
    assert query("SELECT to_regclass('dyda.extent_1') IS NULL") == [(True,)]
    assert warehouse.view("people").rows == 5


def test_rows_that_come_later_find_those_that_are_there(warehouse: Warehouse, narrowed: Writer, query: Query) -> None:
    add(narrowed, "people", entries(("Ann", "Rome", -2), ("Bob", "Oslo", -1), ("Cid", None, 1), ("Dan", "Rome", 1)))
    assert Counter(query("SELECT * FROM people")) == Counter({("Ann", "Rome"): 1, ("Cid", None): 2, ("Dan", "Rome"): 1})
    assert warehouse.view("people").rows == 4
    assert query("SELECT extent FROM dyda.view_version WHERE version = 2") == [(3,)]
    assert query("SELECT extent, form FROM dyda.form") == [(3, "bag")]
    assert query("SELECT to_regclass('dyda.extent_2') IS NULL, count(*) FROM dyda.extent") == [(True, 1)]
    add(narrowed, "people", entries(("Ann", "Rome", -1)), NEXT, LATER)
    assert query("SELECT extent FROM dyda.view_version WHERE version = 2") == [(3,)], "once is enough"


def test_a_row_too_many_taken_away_is_refused(narrowed: Writer, query: Query) -> None:
    with pytest.raises(InvariantViolated, match=r"view people: this change would give 1 row\(s\) a negative count"):
        add(narrowed, "people", entries(("Ann", "Rome", -4)))
    assert Counter(query("SELECT * FROM people")) == LEFT


def test_a_unit_that_brings_nothing_leaves_the_table_alone(narrowed: Writer, query: Query) -> None:
    add(narrowed, "people", entries(("Ann", "Rome", 1)).slice(0, 0))
    assert query("SELECT extent, form FROM dyda.form") == [(2, "loose")]


def test_columns_go_one_after_the_other_and_names_change(narrowed: Writer, query: Query) -> None:
    narrow(narrowed, (1,), version(("town", "text")))
    assert query("SELECT extent, form FROM dyda.form") == [(3, "loose")]
    renamed = version(("city", "text"))
    narrowed.install(Installation((ViewChange("people", version=renamed, positions={"crm": (START, START)}),)))
    assert Counter(query("SELECT city FROM people")) == Counter({("Rome",): 3, ("Oslo",): 1, (None,): 1})
    add(narrowed, "people", entries(("Rome", -3), (None, 1)))
    assert Counter(query("SELECT city FROM people")) == Counter({("Oslo",): 1, (None,): 2})


def test_a_new_version_and_rows_at_once(narrowed: Writer, query: Query) -> None:
    renamed = version(("who", "text"), ("town", "text"))
    change = ViewChange("people", delta=entries(("Ann", "Rome", -3)), version=renamed, positions={"crm": (START, NEXT)})
    narrowed.install(Installation((change,)))
    assert Counter(query("SELECT who, town FROM people")) == Counter({("Bob", "Oslo"): 1, ("Cid", None): 1})
    assert query("SELECT form FROM dyda.form") == [("bag",)]


def test_rows_that_come_with_the_drop_are_merged_at_once(writer: Writer, query: Query) -> None:
    create(writer, "people", WHOLE, ROWS)
    narrow(writer, (0, 2), NARROW, entries(("Ann", "Rome", -3)))
    assert Counter(query("SELECT * FROM people")) == Counter({("Bob", "Oslo"): 1, ("Cid", None): 1})
    assert query("SELECT extent, form FROM dyda.form") == [(2, "bag")]


def test_a_view_without_columns_that_rows_can_be_told_apart_by(writer: Writer, query: Query) -> None:
    """As many rows as before, all alike."""
    create(writer, "people", WHOLE, ROWS)
    narrow(writer, (1,), version(("age", "integer")))
    assert Counter(query("SELECT * FROM people")) == Counter({(7,): 3, (8,): 1, (None,): 1})


def test_all_rows_anew(narrowed: Writer, query: Query) -> None:
    change = ViewChange("people", delta=entries(("Eve", "Bonn", 2)), mode="replace", positions={"crm": (START, NEXT)})
    narrowed.install(Installation((change,)))
    assert query("SELECT * FROM people") == [("Eve", "Bonn"), ("Eve", "Bonn")]


def test_verify_compares_what_is_shown(warehouse: Warehouse, narrowed: Writer, query: Query) -> None:
    with warehouse.staging(2) as staging:
        staging.sink()(entries(*((*row, count) for row, count in LEFT.items())).to_batches())
        with warehouse.frozen() as frozen:
            assert frozen.compare("people", staging).equal
            assert frozen.rows("people") == 5
            assert frozen.shows("people", "public")
        query("UPDATE dyda.extent_2 SET town = 'Lima' WHERE name = 'Bob'")
        with warehouse.frozen() as frozen:
            found = frozen.compare("people", staging)
        assert (found.missing, found.extra) == (1, 1)
        assert set(found.samples) == {(1, ("Bob", "Oslo")), (-1, ("Bob", "Lima"))}


def test_adaptation_reads_what_is_shown(url: str, narrowed: Writer, query: Query) -> None:
    with hold_extent(url, "people") as held:
        (piece,) = held.pieces([1, 0])
        assert Counter(query(piece)) == Counter({(town, name): count for (name, town), count in LEFT.items()})
        assert set(query(held.distinct([0, 1], [1]))) == {("Rome",), ("Oslo",), (None,)}


def test_I2_an_older_reader_is_told_to_try_again_and_an_open_cursor_is_waited_for(url: str, writer: Writer) -> None:
    create(writer, "people", WHOLE, ROWS)
    connection = psycopg2.connect(url)
    try:
        connection.set_session(isolation_level="REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            narrow(writer, (0, 2), NARROW)
            with pytest.raises(psycopg2.errors.SerializationFailure, match="has changed since the transaction began"):
                cursor.execute("SELECT * FROM people")
            connection.rollback()
            cursor.execute("SELECT * FROM people")
            assert Counter(cursor.fetchall()) == LEFT
            writer.patience = 0.2
            with pytest.raises(InstallBlocked):
                narrow(writer, (1,), version(("town", "text")))
            connection.rollback()
        narrow(writer, (1,), version(("town", "text")))
    finally:
        connection.close()
