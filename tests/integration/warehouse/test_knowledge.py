"""What the sources mean to each other is part of the catalog, and moves with the unit that changed it."""

from __future__ import annotations

from typing import Any

import pytest

from dyda import faults
from dyda.errors import PositionMoved
from dyda.warehouse import Installation, KnowledgeRecord, ViewChange, Warehouse
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, create, entries, version

JOIN: dict[str, Any] = {"between": ["a.public.r", "b.public.s"], "on": "`a.public.r`.`k` = `b.public.s`.`k`"}
MOVED: dict[str, Any] = {"between": ["a.public.r", "b.public.s2"], "on": "`a.public.r`.`k` = `b.public.s2`.`k`"}


def test_a_new_catalog_knows_nothing(warehouse: Warehouse) -> None:
    assert warehouse.knowledge() == KnowledgeRecord({}, None, ())


def test_an_installation_replaces_the_knowledge_and_keeps_the_file(warehouse: Warehouse, writer: Writer) -> None:
    writer.save_knowledge({"join": [JOIN]}, "the file")
    writer.install(Installation(knowledge={"join": [JOIN]}))
    assert not warehouse.knowledge().evolved, "it is as it was"
    first, second = ({"join": [JOIN], "reason": f"{name} was dropped"} for name in ("s", "s2"))
    writer.install(Installation(knowledge={"join": [MOVED]}, retired=(first,)))
    assert warehouse.knowledge() == KnowledgeRecord({"join": [MOVED]}, "the file", (first,), evolved=True)
    writer.install(Installation(knowledge={}, retired=(second,)))
    assert warehouse.knowledge() == KnowledgeRecord({}, "the file", (first, second), evolved=True)
    writer.install(Installation())
    assert warehouse.knowledge().retired == (first, second), "a unit that says nothing leaves it alone"
    writer.save_knowledge({"join": [JOIN]}, "another file")
    assert warehouse.knowledge() == KnowledgeRecord({"join": [JOIN]}, "another file", ())


def test_a_unit_that_is_not_installed_leaves_the_knowledge_alone(warehouse: Warehouse, writer: Writer) -> None:
    writer.save_knowledge({"join": [JOIN]}, "the file")
    create(writer, "people", version(("name", "text")))
    change = ViewChange("people", delta=entries(("Ann", 1)), positions={"crm": (NEXT, START)})
    with pytest.raises(PositionMoved):
        writer.install(Installation((change,), knowledge={}))

    def fail() -> None:
        raise RuntimeError

    with faults.on("install.before-commit", fail), pytest.raises(RuntimeError):
        writer.install(Installation(knowledge={}))
    assert warehouse.knowledge().document == {"join": [JOIN]}
