"""Renames are followed by number and oid; the view's own names stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from tests.projection import projection
from vs import Broken, Holds, Judgement, World, synchronize

NAME = RelationName("crm", "public", "customer")
OTHER = RelationName("booking", "public", "flight")
TEXT = PgType("text", "text")
CUSTOMER = Relation(NAME, 10, (Column("name", TEXT, 1), Column("city", TEXT, 2)))
FLIGHT = Relation(OTHER, 20, (Column("name", TEXT, 1), Column("dest", TEXT, 3)))


def view(text: str) -> ViewDefinition:
    known = {("crm", "customer"): CUSTOMER, ("booking", "flight"): FLIGHT}
    return parse_view("v", text, lambda source, schema, table: known[source, table])


JOINED = view(
    "SELECT c.name, upper(c.city) AS town /* dispensable */, f.dest FROM crm.customer c"
    " JOIN booking.flight f ON c.name = f.name /* replaceable */ WHERE c.city <> 'c.city'"
)


def follow(definition: ViewDefinition, now: Mapping[RelationName, Relation | None]) -> Judgement:
    return synchronize(definition, World({NAME: CUSTOMER, OTHER: FLIGHT}, now))


def renamed(relation: Relation, **names: str) -> Relation:
    columns = tuple(replace(column, name=names.get(column.name, column.name)) for column in relation.columns)
    return replace(relation, columns=columns)


def test_nothing_moved() -> None:
    judgement = follow(JOINED, {})
    assert isinstance(judgement, Holds)
    assert judgement.definition.sql == JOINED.sql
    assert not judgement.followed


def test_a_renamed_column_is_followed_everywhere_and_the_output_name_stays() -> None:
    judgement = follow(JOINED, {NAME: renamed(CUSTOMER, name="full_name", city="town")})
    assert isinstance(judgement, Holds)
    assert [item.name for item in projection(judgement.definition).items] == ["name", "town", "dest"]
    assert "`c`.`full_name` AS `name`" in judgement.definition.sql
    assert "upper(`c`.`town`) AS `town`" in judgement.definition.sql
    assert "`c`.`full_name` = `f`.`name`" in judgement.definition.sql
    assert "<> 'c.city'" in judgement.definition.sql, "a text that looks like the column is not touched"
    assert judgement.definition.preferences.of_item("town") is not None
    assert len(judgement.definition.preferences.conditions) == 1
    assert judgement.followed == (
        "column city of crm.public.customer was renamed to town",
        "column name of crm.public.customer was renamed to full_name",
    )


def test_two_columns_that_swap_their_names_are_told_by_number() -> None:
    judgement = follow(JOINED, {NAME: renamed(CUSTOMER, name="city", city="name")})
    assert isinstance(judgement, Holds)
    assert "`c`.`city` AS `name`" in judgement.definition.sql
    assert "upper(`c`.`name`) AS `town`" in judgement.definition.sql


def test_a_renamed_and_moved_relation_is_followed() -> None:
    elsewhere = replace(CUSTOMER, name=RelationName("crm", "sales", "client"))
    judgement = follow(JOINED, {NAME: elsewhere})
    assert isinstance(judgement, Holds)
    assert judgement.definition.relations == {elsewhere.name, OTHER}


def test_a_dropped_column_breaks_even_if_another_has_taken_its_name() -> None:
    other = Relation(NAME, 10, (Column("name", TEXT, 1), Column("city", TEXT, 7)))
    judgement = follow(JOINED, {NAME: other})
    assert isinstance(judgement, Broken)
    assert judgement.reason.startswith("column city of crm.public.customer was dropped")


def test_another_table_under_the_name_is_read_by_names() -> None:
    other = Relation(NAME, 99, (Column("city", TEXT, 1), Column("name", TEXT, 2)))
    judgement = follow(JOINED, {NAME: other})
    assert isinstance(judgement, Holds)
    assert judgement.definition.sql == JOINED.sql


def test_a_dropped_relation_and_a_column_that_cannot_be_read_break() -> None:
    judgement = follow(JOINED, {OTHER: None})
    assert isinstance(judgement, Broken)
    assert judgement.reason.startswith("booking.public.flight was dropped")
    virtual = replace(CUSTOMER, columns=(CUSTOMER.columns[0], Column("city", TEXT, 2, generated="v")))
    judgement = follow(JOINED, {NAME: virtual})
    assert isinstance(judgement, Broken)
    assert judgement.reason.startswith("column city of crm.public.customer is now a virtual generated column")


def test_a_type_of_another_kind_is_read_as_the_old_one_where_it_computes() -> None:
    as_json = replace(CUSTOMER, columns=(CUSTOMER.columns[0], Column("city", PgType("json", "json"), 2)))
    judgement = follow(JOINED, {NAME: as_json})
    assert isinstance(judgement, Holds)
    assert "upper(CAST(`c`.`city` AS STRING)) AS `town`" in judgement.definition.sql
    assert "CAST(`c`.`city` AS STRING) <> 'c.city'" in judgement.definition.sql
    assert judgement.followed == ("column city of crm.public.customer is now json; expressions read it as text",)


def test_an_unused_column_may_go() -> None:
    plain = view("SELECT c.name FROM crm.customer c")
    judgement = follow(plain, {NAME: replace(CUSTOMER, columns=CUSTOMER.columns[:1])})
    assert isinstance(judgement, Holds)
    assert not judgement.followed
