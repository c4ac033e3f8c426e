"""C4: what of a view begins with nothing once relations are empty, by its program alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dyda.model.operator_state import Grouped
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view
from tests.unit.vm.builders import relation
from tests.unit.vm.test_compile import TABLES, VIEWS, bag, filled, program
from vm import WAREHOUSE, JoinBlock, compile_view, emptied

FIXTURE = Path(__file__).parents[3] / "fixtures" / "truncations" / "views.sql"
CASES = {part.partition("\n")[0]: part.partition("\n")[2] for part in FIXTURE.read_text().split("--# ")[1:]}


@pytest.mark.parametrize("name", CASES)
def test_a_view_begins_with_nothing_or_must_be_read(name: str) -> None:
    text, _, told = CASES[name].partition("\n--> ")

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return relation(f"{source}.{table}", ["k", "v"] if table == "s" else ["id", "k", "n"])

    def types(number: int, block: JoinBlock) -> Sequence[str]:
        return ["integer"] * len(block.items)

    compiled = compile_view(parse_view("v", text, resolve), types)
    by_table = {one.relation.name.table: one.relation.name for one in compiled.occurrences}
    for table, becomes in re.findall(r"(\w+): (\w+)", told):
        found = emptied(compiled, {by_table[table]})
        assert ("recompute" if found is None else "emptied") == becomes, table
        last = RelationName(WAREHOUSE, "v", str(compiled.last.number))
        assert found is None or {by_table[table], last} <= found


@pytest.mark.parametrize("name", VIEWS)
def test_what_begins_with_nothing_has_no_row(name: str) -> None:
    """SQLite says so, whatever the other tables hold; but for groups without keys, which always have one (K3)."""
    compiled = program(VIEWS[name])
    if any(isinstance(step.state, Grouped) and not step.state.keys for step in compiled.states):
        return
    read = {one.relation.name.table: one.relation.name for one in compiled.occurrences}
    some = False
    for table in [table for table in TABLES if table in read]:
        rows = 0
        for seed in range(12):
            database = filled(seed)
            database.execute(f"DELETE FROM {table}")
            rows += bag(database, VIEWS[name].replace("a.", "")).total()
        assert rows == 0 or emptied(compiled, {read[table]}) is None, table
        some = some or rows == 0
    assert some or emptied(compiled, set(read.values())) is not None
