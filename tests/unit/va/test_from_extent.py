"""Which plan is chosen, and what it is made of: from two definitions alone, no database."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dyda.model.algebra.nodes import ViewDefinition, conjuncts, scans
from dyda.model.message import SchemaChange, Truncation
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.schema_change import DropColumn, DropRelation, Rewrite
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from va import EXTENT, Adaptation, FromExtent, MetadataOnly, Reaggregate, Recompute, adapt, in_new_table

INT, TEXT, FLOAT = PgType("integer", "integer"), PgType("text", "text"), PgType("double precision", "double precision")


def relation(source: str, table: str, oid: int, *columns: tuple[str, PgType], key: str = "", rows: int = 0) -> Relation:
    numbered = tuple(Column(name, type_, number) for number, (name, type_) in enumerate(columns, start=1))
    return Relation(RelationName(source, "public", table), oid, numbered, ((key,),) if key else (), rows)


CUSTOMER = relation("crm", "customer", 1, ("name", TEXT), ("city", TEXT), ("weight", FLOAT), key="name", rows=1000)
FLIGHT = relation("booking", "flight", 1, ("id", INT), ("name", TEXT), ("weight", FLOAT), key="id", rows=5000)
TOUR = relation("tours", "tour", 7, ("person", TEXT), ("hotel", TEXT), rows=100)
RELATIONS = (CUSTOMER, FLIGHT, TOUR)


def view(sql: str, *relations: Relation) -> ViewDefinition:
    known = {(found.name.source, found.name.table): found for found in (*RELATIONS, *relations)}
    return parse_view("v", sql, lambda source, schema, table: known[source, table])


JOINED = view("SELECT c.name, c.city, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")


def plan(after: str, before: ViewDefinition = JOINED, **more: Any) -> Adaptation | Reaggregate:
    return adapt(before, view(after), (), **more)


def test_relations_of_two_sources_with_the_same_oid_are_not_the_same() -> None:
    before = view("SELECT c.name FROM crm.customer c")
    assert isinstance(plan("SELECT f.name FROM booking.flight f", before), Recompute | FromExtent)
    assert not isinstance(plan("SELECT f.name FROM booking.flight f", before), MetadataOnly)


@pytest.mark.parametrize(
    "after",
    [
        "SELECT c.name, c.city, f.id FROM crm.customer c JOIN booking.flight f ON f.name = c.name",
        "SELECT c.name, c.city, f.id FROM crm.customer c, booking.flight f WHERE (((c.name = f.name)))",
        "SELECT x.name AS who, x.city, y.id FROM booking.flight y JOIN crm.customer x ON x.name = y.name",
    ],
)
def test_the_same_view_in_other_words(after: str) -> None:
    assert isinstance(plan(after), MetadataOnly)


def test_brackets_are_only_taken_away_around_the_whole() -> None:
    before = view("SELECT f.id FROM booking.flight f WHERE (f.id = 1) OR (f.id = 2)")
    same = plan("SELECT f.id FROM booking.flight f WHERE ((f.id = 1) OR (f.id = 2))", before)
    assert isinstance(same, MetadataOnly)
    before = view("SELECT f.name FROM booking.flight f WHERE (f.name = ')') OR (f.name = '(')")
    assert isinstance(
        plan("SELECT f.name FROM booking.flight f WHERE f.name = ')' OR f.name = '('", before), FromExtent
    )


def test_a_column_less_is_a_projection() -> None:
    chosen = plan("SELECT f.id, c.name FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    assert isinstance(chosen, FromExtent)
    assert (chosen.kind, chosen.columns, chosen.query) == ("projection", (2, 0), None)


def test_a_dropped_column_is_seen_through_whatever_took_its_name() -> None:
    renumbered = replace(CUSTOMER, columns=(CUSTOMER.columns[0], Column("city", TEXT, 9)))
    after = view(JOINED.sql, renumbered)
    chosen = adapt(JOINED, after, [SchemaChange(CUSTOMER.name, "ALTER TABLE", steps=(DropColumn("city"),))])
    assert isinstance(chosen, FromExtent)
    assert chosen.kind == "join", "the new city is another column: found by the key"
    assert isinstance(adapt(JOINED, after, (), updated={CUSTOMER.name}), Recompute)


def test_an_equality_of_the_view_shows_the_other_side_where_equal_values_have_equal_texts() -> None:
    """V' joins on f.name, which the extent does not show: c.name is the same."""
    joined = "JOIN booking.flight f ON c.name = f.name JOIN tours.tour t ON f.name = t.person"
    chosen = plan(f"SELECT c.name, c.city, f.id, t.hotel FROM crm.customer c {joined}")
    assert isinstance(chosen, FromExtent)
    assert (chosen.kind, chosen.fixed) == ("join", frozenset({"t"}))
    assert chosen.query is not None
    assert {scan.alias for scan in scans(chosen.query.tree)} == {EXTENT, "t"}
    (condition,) = conjuncts(chosen.query.tree)
    assert condition.equality is not None
    assert {str(ref) for ref in condition.equality} == {"`#extent`.`c1`", "`t`.`person`"}


@pytest.mark.parametrize(
    ("after", "rows", "new_table"),
    [
        (
            "SELECT c.name, upper(c.city) AS city, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name",
            10_001,
            True,
        ),
        (
            "SELECT c.name, upper(c.city) AS city, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name",
            10_000,
            False,
        ),
        (f"{JOINED.sql} AND f.id > 1", 10_001, False),
        ("SELECT c.name FROM crm.customer c JOIN booking.flight f ON c.name = f.name", 10_001, False),
    ],
)
def test_rows_that_mostly_change_are_written_to_a_new_table(after: str, rows: int, new_table: bool) -> None:
    """A condition takes rows away and leaves the others; a column less leaves the table alone."""
    chosen = plan(after, rows=rows)
    assert isinstance(chosen, FromExtent)
    assert chosen.new_table is new_table
    assert ("in a new table" in chosen.reason) is new_table


def test_more_entries_than_rows_are_written_to_a_new_table() -> None:
    chosen = plan(
        "SELECT c.name, c.city, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name AND f.id > 1"
    )
    assert isinstance(chosen, FromExtent)
    assert not in_new_table(chosen, 20_000, 20_000).new_table
    assert not in_new_table(chosen, 10_000, 9).new_table, "little is little, in any table"
    assert in_new_table(chosen, 20_001, 20_000).new_table


def test_an_equality_of_floats_shows_nothing() -> None:
    """-0 equals 0, and is another text."""
    before = view("SELECT c.weight FROM crm.customer c JOIN booking.flight f ON c.weight = f.weight")
    after = "SELECT c.weight, f.weight AS w FROM crm.customer c JOIN booking.flight f ON c.weight = f.weight"
    assert isinstance(plan(after, before), Recompute)


def test_a_condition_that_went_with_its_column_rules_the_extent_out() -> None:
    before = view("SELECT c.name FROM crm.customer c WHERE c.city = 'Rome'")
    gone = replace(CUSTOMER, columns=(CUSTOMER.columns[0], CUSTOMER.columns[2]))
    chosen = adapt(before, view("SELECT c.name FROM crm.customer c", gone), ())
    assert isinstance(chosen, Recompute)
    assert "condition" in chosen.reason


def test_a_lost_condition_is_complemented_where_it_was_not_true() -> None:
    before = view("SELECT c.name FROM crm.customer c WHERE c.city = 'Rome' AND c.weight > 1")
    chosen = plan("SELECT c.name FROM crm.customer c WHERE c.weight > 1", before)
    assert isinstance(chosen, FromExtent)
    assert (chosen.kind, chosen.columns) == ("complement", (0,))
    assert chosen.complement is not None
    added = [condition.sql for condition in conjuncts(chosen.complement.tree)]
    assert "((`c`.`city` = 'Rome')) IS NOT TRUE" in added
    assert len(added) == 2


def test_a_replaced_relation_is_restored_by_its_key() -> None:
    after = "SELECT t.person AS name, f.id FROM tours.tour t JOIN booking.flight f ON t.person = f.name"
    before = view("SELECT c.name, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    chosen = plan(after, before)
    assert isinstance(chosen, FromExtent)
    assert (chosen.kind, chosen.columns) == ("delta", (0, 1))
    assert chosen.restored is not None
    assert (chosen.restored.alias, chosen.restored.columns, chosen.restored.distinct) == ("t", (("person", 0),), (0,))
    keyless = view(before.sql, replace(CUSTOMER, keys=()))
    assert isinstance(adapt(keyless, view(after), ()), Recompute)
    many = view(after, replace(TOUR, estimated_rows=2_000_000))
    assert isinstance(adapt(before, many, ()), Recompute)


def test_a_replacement_that_reads_more_than_there_was_is_no_delta() -> None:
    before = view("SELECT c.name, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    after = "SELECT t.person AS name, f.id, t.hotel FROM tours.tour t JOIN booking.flight f ON t.person = f.name"
    assert isinstance(plan(after, before), Recompute)


def test_two_columns_that_met_two_others_are_not_one() -> None:
    """Restored as one column, the two would lose what told them apart."""
    met = "c.name = f.name AND c.city = f.name"
    before = view(f"SELECT c.name, c.city, f.id FROM crm.customer c JOIN booking.flight f ON {met}")
    after = "SELECT t.person AS name, f.id FROM tours.tour t JOIN booking.flight f ON t.person = f.name"
    chosen = plan(after, before)
    assert isinstance(chosen, Recompute)


def test_two_columns_are_never_bound_to_one() -> None:
    before = view("SELECT c.name, c.city, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    after = (
        "SELECT t.person AS name, t.person AS city, f.id FROM tours.tour t JOIN booking.flight f ON t.person = f.name"
    )
    chosen = plan(after, before)
    assert not isinstance(chosen, MetadataOnly)
    if isinstance(chosen, FromExtent):
        assert chosen.restored is not None
        assert chosen.restored.columns == (("person", 0),)
        assert chosen.restored.distinct == (0, 1)


@pytest.mark.parametrize("change", [Truncation(FLIGHT.name), SchemaChange(FLIGHT.name, "ALTER", steps=(Rewrite(),))])
def test_rows_that_moved_unseen_under_what_stays_rule_the_extent_out(change: SchemaChange | Truncation) -> None:
    after = view("SELECT c.name, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    assert isinstance(adapt(JOINED, after, [change]), Recompute)


def test_what_happened_to_a_relation_that_is_replaced_does_not_matter() -> None:
    before = view("SELECT c.name, f.id FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    after = view("SELECT t.person AS name, f.id FROM tours.tour t JOIN booking.flight f ON t.person = f.name")
    dropped = SchemaChange(CUSTOMER.name, "DROP TABLE", steps=(DropRelation(),))
    chosen = adapt(before, after, [Truncation(CUSTOMER.name), dropped])
    assert isinstance(chosen, FromExtent)
    assert chosen.kind == "delta"


@pytest.mark.parametrize(("rows", "kind"), [(5_000, "join"), (12_000, "join"), (20_000, "recompute")])
def test_the_cost_decides(rows: int, kind: str) -> None:
    """A huge extent over small relations: reading those costs less."""
    joined = "JOIN booking.flight f ON c.name = f.name JOIN tours.tour t ON c.name = t.person"
    chosen = plan(f"SELECT c.name, c.city, f.id, t.hotel FROM crm.customer c {joined}", rows=rows)
    assert chosen.kind == kind


def test_a_projection_is_never_dearer() -> None:
    assert plan("SELECT c.name FROM crm.customer c JOIN booking.flight f ON c.name = f.name", rows=10**9).kind == (
        "projection"
    )
