"""Plans for views of several blocks: the cases of fixtures/va/operators.sql, judged by the plan and its reason alone.

tests/integration/maintenance/test_adaptation.py carries them out, with real sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

import pytest

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.statements import apply_ddl
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view
from tests.integration.maintenance.test_adaptation import FOLDER, Case, read
from va import MetadataOnly, Reaggregate, adapt
from vs import Broken, World, synchronize

SOURCES, CASES = read(FOLDER / "operators.sql")


def relations() -> dict[RelationName, Relation]:
    found: dict[RelationName, Relation] = {}
    for source, statements in SOURCES.items():
        if source != "knowledge.toml":
            schemas = Schemas({})
            tables = re.findall(r"CREATE TABLE (\w+) ", statements)
            apply_ddl(_without_rows(statements), schemas, partial(_named, source))
            for name in (_named(source, (table,)) for table in tables):
                relation = schemas.relation(name)
                assert relation is not None
                found[name] = relation
    return found


@pytest.mark.parametrize("case", [case for case in CASES if case.kind], ids=lambda case: case.title)
def test_plan(case: Case) -> None:
    before = relations()
    schemas = Schemas(before)
    updated: set[RelationName] = set()
    for source, statements in case.transactions:
        ddl = _without_rows(statements)
        if ddl.strip():
            apply_ddl(ddl, schemas, partial(_named, source))
            changed = re.findall(r"(?:INSERT INTO|DELETE FROM|UPDATE) (\w+)", statements)
            updated |= {_named(source, (table,)) for table in changed}
    old = _view(case.view, before)
    if case.file:
        new = _view(case.file, before)
    else:
        judgement = synchronize(old, World(before, schemas.now))
        assert not isinstance(judgement, Broken), judgement.reason
        new = judgement.definition
    plan = adapt(old, new, schemas.changes, updated)
    assert plan.kind == case.kind
    assert case.reason in plan.reason
    if isinstance(plan, MetadataOnly):
        assert len(old.names) == len(new.names)


def test_the_places_of_a_reaggregation() -> None:
    before = relations()
    text = "SELECT f.name, f.dest, {} FROM booking.flight f GROUP BY f.dest, f.name"
    old = _view(text.format("count(*) AS n, sum(f.price) AS total, max(f.id) AS last"), before)
    new = _view("SELECT f.name, max(f.id) AS last, count(*) AS n FROM booking.flight f GROUP BY f.name", before)
    plan = adapt(old, new, [])
    assert isinstance(plan, Reaggregate)
    assert (plan.keys, plan.aggregates, plan.coarser) == ((1,), (2, 0), True)
    many = adapt(old, new, [], rows=10_001)
    assert isinstance(many, Reaggregate)
    assert (plan.new_table, many.new_table) == (False, True), "most rows of a large view change"
    same = adapt(old, _view(text.format("max(f.id) + 1 AS next"), before), [])
    assert isinstance(same, Reaggregate)
    assert (same.keys, same.aggregates, same.coarser) == ((0, 1), (2,), False)


def _view(text: str, known: Mapping[RelationName, Relation]) -> ViewDefinition:
    return parse_view("v", text, lambda source, schema, table: known[RelationName(source, schema or "public", table)])


def _named(source: str, parts: tuple[str, ...]) -> RelationName:
    return RelationName(source, "public", parts[-1])


def _without_rows(statements: str) -> str:
    """The DDL among some statements."""
    kept = [one for one in statements.split(";") if not re.match(r"\s*(INSERT|DELETE|UPDATE)\b", one)]
    return ";".join(kept)
