"""Two descriptions of a relation tell what happened between them, without guessing."""

from __future__ import annotations

import json

import pytest

from dyda.model.message import SchemaChange
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropRelation,
    Harmless,
    RenameColumn,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
    apply,
    compare,
)
from dyda.model.types import PgType
from dyda.warehouse.catalog.schema_steps import step_from_json, step_to_json

INT, TEXT = PgType("integer", "integer"), PgType("text", "text")
A, B = Column("a", INT, 1), Column("b", TEXT, 2)
NAME = RelationName("crm", "public", "customer")


@pytest.mark.parametrize(
    ("before", "after", "steps"),
    [
        ((A, B), (A, B), ()),
        ((A, B), (A, B, Column("c", INT, 3)), (AddColumn(Column("c", INT, 3)),)),
        ((A, B), (A,), (DropColumn("b"),)),
        ((A, B), (A, Column("c", TEXT, 2)), (RenameColumn("b", "c"),)),
        ((A, B), (Column("b", INT, 1), Column("a", TEXT, 2)), (RenameColumn("a", "b"), RenameColumn("b", "a"))),
        ((A, B), (A, Column("b", INT, 3)), (DropColumn("b"), AddColumn(Column("b", INT, 3)))),
        ((A, B), (Column("a", TEXT, 1), B), (ChangeType("a", INT, TEXT),)),
        ((A, B), (A, Column("b", TEXT, 2, not_null=True)), (Harmless("makes column b NOT NULL"),)),
        (
            (A, B),
            (Column("x", TEXT, 1), Column("a", INT, 3)),
            (DropColumn("b"), RenameColumn("a", "x"), ChangeType("x", INT, TEXT), AddColumn(Column("a", INT, 3))),
        ),
    ],
)
def test_compare(before: tuple[Column, ...], after: tuple[Column, ...], steps: tuple[Step, ...]) -> None:
    assert compare(before, after) == steps


EVERY_STEP: list[Step] = [
    AddColumn(Column("c", INT, 3, True, "s")),
    DropColumn("b"),
    RenameColumn("a", "b"),
    ChangeType("a", INT, TEXT),
    RenameRelation(RelationName("crm", "sales", "client")),
    DropRelation(),
    ReplaceRelation(1, 2, NAME, (A, B)),
    Rewrite("renames an enum value"),
    Harmless("sets a default"),
]


@pytest.mark.parametrize("step", EVERY_STEP, ids=lambda step: type(step).__name__)
def test_a_step_survives_the_catalog(step: Step) -> None:
    assert step_from_json(json.loads(json.dumps(step_to_json(step)))) == step


def test_S4_what_a_change_concerns() -> None:
    assert SchemaChange(NAME, "ALTER TABLE").columns is None, "unknown: every reader"
    assert SchemaChange(NAME, "ALTER TABLE", steps=(DropColumn("b"), AddColumn(A))).columns == frozenset({"b", "a"})
    assert SchemaChange(NAME, "ALTER TABLE", steps=(DropColumn("b"), Rewrite())).columns is None
    assert SchemaChange(NAME, "ALTER TABLE", steps=(ChangeType("a", INT, TEXT),)).columns is None
    assert SchemaChange(NAME, "ALTER TABLE", steps=(Harmless("sets a default"),)).columns == frozenset()
    assert SchemaChange(NAME, "ALTER TABLE", steps=(RenameColumn("a", "x"),)).columns == frozenset({"a", "x"})
    assert not SchemaChange(NAME, "ALTER TABLE", steps=(RenameColumn("a", "x"),)).moves_rows


KNOWN = Relation(NAME, 10, (A, B), keys=(("a",),))
NEW = RelationName("crm", "public", "client")


def test_applied_steps_lead_where_the_source_went() -> None:
    for before, after in (((A, B), (Column("b", INT, 1), Column("a", TEXT, 2))), ((A, B), (A, Column("b", INT, 3)))):
        found = apply(Relation(NAME, 10, before), compare(before, after))
        assert sorted(found.columns, key=lambda column: column.number) == list(after)
    moved = apply(KNOWN, (RenameRelation(NEW), ChangeType("b", TEXT, INT)))
    assert (moved.name, moved.oid, moved.column("b").type) == (NEW, 10, INT)
    assert moved.keys == (), "steps say nothing about keys, so nothing is claimed"


def test_columns_are_known_by_number_and_across_a_swap_by_the_name_they_have_at_that_moment() -> None:
    swapped_in = (Column("c", INT, 1), Column("b", TEXT, 5))
    steps: list[tuple[Step, ...]] = [
        (RenameColumn("a", "c"),),
        (RenameRelation(RelationName("crm", "public", "aside")),),
        (ReplaceRelation(10, 11, NAME, swapped_in),),
        (RenameColumn("c", "d"),),
    ]
    found = KNOWN
    for step in steps:
        found = apply(found, step)
    assert (found.name, found.oid) == (NAME, 11)
    assert found.called("a", KNOWN) == "d", "a was c when the tables were swapped, and that is d now"
    assert found.called("b", KNOWN) == "b"
    back = apply(found, (ReplaceRelation(11, 10, NAME, (Column("d", INT, 1),)),))
    assert back.called("a", KNOWN) == "d"
    assert back.called("b", KNOWN) is None, "the table that was swapped in had no such column when it left"


def test_a_swap_of_another_table_moves_nothing() -> None:
    assert apply(KNOWN, (ReplaceRelation(77, 11, NAME, (A,)),)).oid == 10
