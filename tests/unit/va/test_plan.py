"""What an extent needs after its relations moved: nothing, or to be computed again."""

from __future__ import annotations

import pytest

from dyda.model.message import SchemaChange, Truncation
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    Harmless,
    RenameColumn,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
)
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from va import MetadataOnly, Recompute, adapt

INT, BIG, TEXT = PgType("integer", "integer"), PgType("bigint", "bigint"), PgType("text", "text")
NAME = RelationName("crm", "public", "customer")
CUSTOMER = Relation(NAME, 10, (Column("name", TEXT, 1), Column("age", INT, 2), Column("note", TEXT, 3)))
VIEW = parse_view("v", "SELECT c.name FROM crm.customer c WHERE c.age > 3", lambda source, schema, table: CUSTOMER)


@pytest.mark.parametrize(
    "steps",
    [
        (RenameColumn("age", "years"),),
        (RenameRelation(RelationName("crm", "public", "client")),),
        (AddColumn(Column("x", INT, 4)),),
        (DropColumn("note"),),
        (ChangeType("note", TEXT, INT),),
        (Harmless("sets a default"),),
    ],
    ids=lambda steps: type(steps[0]).__name__,
)
def test_the_rows_stay(steps: tuple[Step, ...]) -> None:
    assert isinstance(adapt(VIEW, VIEW, [SchemaChange(NAME, "ALTER TABLE", steps=steps)]), MetadataOnly)


@pytest.mark.parametrize(
    "change",
    [
        Truncation(NAME),
        SchemaChange(NAME, "ALTER TABLE"),
        SchemaChange(NAME, "ALTER TABLE", steps=(ChangeType("age", INT, BIG),)),
        SchemaChange(NAME, "ALTER TABLE", steps=(RenameColumn("note", "age2"), ChangeType("age2", TEXT, INT))),
        SchemaChange(NAME, "ALTER TABLE", steps=(Rewrite(),)),
        SchemaChange(NAME, "CREATE TABLE", steps=(ReplaceRelation(10, 11),)),
    ],
    ids=str,
)
def test_the_view_is_computed_again_and_says_why(change: SchemaChange | Truncation) -> None:
    plan = adapt(VIEW, VIEW, [SchemaChange(NAME, "ALTER TABLE", steps=(Harmless("sets a default"),)), change])
    assert isinstance(plan, Recompute)
    assert "customer" in plan.reason
