"""Installing: views come to be, rows are merged, positions move, all in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dyda.warehouse import Warehouse, Worker
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]


def test_a_view_is_created_by_its_first_installation(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    create(worker, "people", version(("name", "text"), ("age", "integer")), entries(("Ann", "7", 2), ("Bob", None, 1)))
    assert sorted(query("SELECT * FROM people"), key=str) == [("Ann", 7), ("Ann", 7), ("Bob", None)]
    record = warehouse.view("people")
    assert (record.version, record.rows, record.stored_state) == (1, 3, "live")
    assert record.positions == {"crm": START}
    assert [column.type for column in record.columns] == ["text", "integer"]


def test_a_delta_adds_and_removes(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    create(worker, "people", version(("name", "text")), entries(("Ann", 2), ("Bob", 1)))
    add(worker, "people", entries(("Ann", -1), ("Bob", -1), ("Cid", 2), ("Cid", -1), ("Dan", 1), ("Dan", -1)))
    assert sorted(query("SELECT * FROM people")) == [("Ann",), ("Cid",)]
    assert warehouse.view("people").rows == 2
    assert warehouse.positions() == {"people": {"crm": NEXT}}
