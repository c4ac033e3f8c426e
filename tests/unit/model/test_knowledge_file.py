"""knowledge.toml is read into constraints, refused with the entry that is wrong, and written down unchanged."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable

import pytest

from dyda.errors import ConfigurationError
from dyda.model.algebra.nodes import ColumnRef
from dyda.model.knowledge.constraints import Containment, FunctionConstraint, JoinConstraint, Knowledge
from dyda.model.knowledge.file import parse_knowledge, referenced_relations, render_knowledge
from dyda.model.relation import Relation, RelationName

Resolve = Callable[[str, str | None, str], Relation]

CUSTOMER = RelationName("crm", "public", "customer")
FLIGHT = RelationName("booking", "public", "flight_res")
ARCHIVE = RelationName("booking", "archive", "flight_res")

EVERYTHING = """
[[join]]
between = ["booking.flight_res", "crm.customer"]
on = "flight_res.name = customer.name AND (flight_res.age > 3 OR crm.customer.active)"

[[join]]
between = ["booking.archive.flight_res", "booking.flight_res"]
on = "booking.archive.flight_res.name = booking.flight_res.name"

[[join]]
between = ["`Old Stock`.`Größen`.`a``b\\"c'd`", "crm.customer"]
on = "`a``b\\"c'd`.`First Name` = customer.name -- a comment"

[[containment]]
of = "crm.customer(name, age)"
is = "subset"
in = "booking.flight_res(name, age)"
of_where = "active"
in_where = "dest = 'Asia' AND age BETWEEN 1 AND 99"

[[containment]]
of = "booking.seat(tags)"
is = "equivalent"
in = "crm.customer(tags)"

[[function]]
attribute = "booking.flight_res.age"
equals = "crm.customer.age"

[[function]]
attribute = "booking.public.seat.name"
equals = "upper(flight_res.name) || 'x'"
"""


def knowledge(text: str, resolve: Resolve) -> Knowledge:
    return parse_knowledge(tomllib.loads(text), resolve)


def test_columns_are_known_by_their_relations_full_name_however_they_are_written(resolve: Resolve) -> None:
    with pytest.raises(ConfigurationError, match="may be a column of"):
        knowledge(EVERYTHING.replace("upper(flight_res.name)", "upper(flight_res.dest)"), resolve)
    read = knowledge(EVERYTHING.replace("upper(flight_res", "upper(booking.flight_res"), resolve)
    first, archive, odd = read.joins
    assert (first.left, first.right) == (FLIGHT, CUSTOMER)
    assert [condition.sql for condition in first.on] == [
        "`booking.public.flight_res`.`name` = `crm.public.customer`.`name`",
        "(`booking.public.flight_res`.`age` > 3 OR `crm.public.customer`.`active`)",
    ]
    assert first.on[0].equality == (ColumnRef(str(FLIGHT), "name"), ColumnRef(str(CUSTOMER), "name"))
    assert archive.on[0].equality == (ColumnRef(str(ARCHIVE), "name"), ColumnRef(str(FLIGHT), "name"))
    assert odd.on[0].sql == "`" + str(odd.left).replace("`", "``") + "`.`First Name` = `crm.public.customer`.`name`"
    subset, equivalent = read.containments
    assert isinstance(subset, Containment)
    assert (subset.of.columns, subset.is_, subset.within.columns) == (("name", "age"), "subset", ("name", "age"))
    assert [condition.sql for condition in subset.of.where] == ["`crm.public.customer`.`active`"]
    assert [condition.sql for condition in subset.within.where] == [
        "`booking.public.flight_res`.`dest` = 'Asia'",
        "`booking.public.flight_res`.`age` BETWEEN 1 AND 99",
    ]
    assert equivalent.is_ == "equivalent"
    age, name = read.functions
    assert isinstance(age, FunctionConstraint)
    assert (age.relation, age.column, age.over) == (FLIGHT, "age", CUSTOMER)
    assert age.equals.column == ColumnRef(str(CUSTOMER), "age")
    assert name.equals.sql == "upper(`booking.public.flight_res`.`name`) || 'x'"


def test_a_table_alone_is_enough_where_only_one_is_meant(resolve: Resolve) -> None:
    read = knowledge(
        '[[join]]\nbetween = ["booking.seat", "crm.customer"]\non = "seat.name = customer.name"\n'
        '[[function]]\nattribute = "booking.seat.row"\nequals = "customer.phone"',
        resolve,
    )
    assert isinstance(read.joins[0], JoinConstraint)
    assert read.functions[0].over == CUSTOMER


def test_written_down_and_read_again_it_is_the_same(resolve: Resolve) -> None:
    read = knowledge(EVERYTHING.replace("upper(flight_res", "upper(booking.flight_res"), resolve)
    document = json.loads(json.dumps(render_knowledge(read)))
    assert parse_knowledge(document, resolve) == read
    assert render_knowledge(Knowledge()) == {}
    assert parse_knowledge({}, resolve) == Knowledge()


def test_the_relations_are_known_without_a_catalog() -> None:
    assert referenced_relations(tomllib.loads(EVERYTHING)) == [
        ("booking", None, "flight_res"),
        ("crm", None, "customer"),
        ("booking", "archive", "flight_res"),
        ("Old Stock", "Größen", "a`b\"c'd"),
        ("booking", None, "seat"),
        ("booking", "public", "seat"),
    ]


WRONG = {
    "unknown kind": ("[[joins]]", "knowledge.toml: unknown key 'joins'"),
    "not a list": ("[join]", "knowledge.toml: join is not a list of entries"),
    "unknown setting": ('[[function]]\nequal = "x"', "[[function]] 1: unknown key 'equal'"),
    "missing setting": ('[[join]]\nbetween = ["a.b", "c.d"]', "[[join]] 1: on is missing"),
    "one relation": ('[[join]]\nbetween = ["crm.customer"]\non = "x"', "between must list two relations"),
    "no source": ('[[join]]\nbetween = ["a", "crm.b"]\non = "x = y"', "'a' does not name a relation of a source"),
    "unknown relation": (
        '[[join]]\nbetween = ["crm.customer", "crm.client"]\non = "customer.name = client.name"',
        "[[join]] 1: source crm has no relation crm.public.client",
    ),
    "unknown column": (
        '[[join]]\nbetween = ["crm.customer", "booking.seat"]\non = "customer.nam = seat.name"',
        "[[join]] 1: on: crm.public.customer has no column nam",
    ),
    "unknown column in a projection": (
        '[[containment]]\nof = "crm.customer(nam)"\nis = "subset"\nin = "booking.seat(name)"',
        "[[containment]] 1: of: column 'nam' is not in crm.public.customer",
    ),
    "unknown attribute": (
        '[[function]]\nattribute = "crm.customer.nam"\nequals = "booking.seat.name"',
        "[[function]] 1: attribute: column 'nam' is not in crm.public.customer",
    ),
    "a third relation": (
        '[[join]]\nbetween = ["crm.customer", "booking.seat"]\non = "customer.name = flight_res.name"',
        "on: flight_res.name is not a column of crm.public.customer or booking.public.seat",
    ),
    "ambiguous": (
        '[[join]]\nbetween = ["crm.customer", "booking.seat"]\non = "customer.name = name"',
        "name may be a column of crm.public.customer and of booking.public.seat",
    ),
    "one side only": (
        '[[join]]\nbetween = ["crm.customer", "booking.seat"]\non = "customer.name = \'x\'"',
        "on does not mention booking.public.seat",
    ),
    "itself": (
        '[[join]]\nbetween = ["crm.customer", "crm.customer"]\non = "customer.name = customer.phone"',
        "crm.public.customer is joined with itself",
    ),
    "join of types": (
        '[[join]]\nbetween = ["crm.customer", "booking.flight_res"]\non = "customer.age = flight_res.name"',
        "crm.public.customer.age is of type integer, booking.public.flight_res.name of type text",
    ),
    "containment of types": (
        '[[containment]]\nof = "crm.customer(since)"\nis = "subset"\nin = "booking.flight_res(age)"',
        "crm.public.customer.since is of type date, booking.public.flight_res.age of type integer",
    ),
    "text types of another kind": (
        '[[containment]]\nof = "crm.customer(tags)"\nis = "subset"\nin = "booking.seat(name)"',
        "is of type text[], booking.public.seat.name of type text",
    ),
    "function of types": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "booking.seat.name"',
        "[[function]] 1: crm.public.customer.age is of type integer",
    ),
    "a type that cannot be compared": (
        '[[join]]\nbetween = ["crm.customer", "booking.seat"]\non = "customer.tags = seat.tags"',
        "[[join]] 1: on: `crm.public.customer`.`tags` has type text[], which Spark cannot compute with exactly",
    ),
    "numbers of columns": (
        '[[containment]]\nof = "crm.customer(name, age)"\nis = "subset"\nin = "booking.seat(name)"',
        "of and in list different numbers of columns",
    ),
    "a column twice": (
        '[[containment]]\nof = "crm.customer(name, name)"\nis = "subset"\nin = "booking.seat(name, row)"',
        "lists a column twice",
    ),
    "no columns": (
        '[[containment]]\nof = "crm.customer"\nis = "subset"\nin = "booking.seat(name)"',
        "'crm.customer' lists no columns",
    ),
    "unknown relation of extents": (
        '[[containment]]\nof = "crm.customer(name)"\nis = "part"\nin = "booking.seat(name)"',
        "is cannot be 'part'",
    ),
    "a selection over the other side": (
        '[[containment]]\nof = "crm.customer(name)"\nis = "subset"\nin = "booking.seat(name)"\n'
        'of_where = "seat.row > 3"',
        "of_where: seat.row is not a column of crm.public.customer",
    ),
    "over itself": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "crm.customer.id"',
        "equals must be an expression over one other relation",
    ),
    "a constant": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "3"',
        "equals must be an expression over one other relation",
    ),
    "over two relations": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "booking.flight_res.age + booking.seat.flight_no"',
        "equals must be an expression over one other relation",
    ),
    "an alias": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "booking.flight_res.age AS x"',
        "equals: 'booking.flight_res.age AS x' is not a plain expression",
    ),
    "an aggregate": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "max(booking.flight_res.age)"',
        "the aggregate max() is not supported",
    ),
    "twice": (
        '[[function]]\nattribute = "crm.customer.age"\nequals = "booking.flight_res.age"\n'
        '[[function]]\nattribute = "crm.public.customer.age"\nequals = "booking.public.flight_res.age"',
        "[[function]] 2: it says the same as [[function]] 1",
    ),
    "a contradiction": (
        '[[containment]]\nof = "crm.customer(name, age)"\nis = "subset"\nin = "booking.flight_res(name, age)"\n'
        '[[containment]]\nof = "booking.flight_res(age, name)"\nis = "subset"\nin = "crm.customer(age, name)"',
        "[[containment]] 2: it contradicts [[containment]] 1",
    ),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_refused_with_its_entry_and_what_is_wrong(text: str, message: str, resolve: Resolve) -> None:
    with pytest.raises(ConfigurationError) as refused:
        knowledge(text, resolve)
    assert refused.value.what.startswith("knowledge.toml")
    assert message in refused.value.what


def test_selections_make_another_comparison(resolve: Resolve) -> None:
    entry = '[[containment]]\nof = "crm.customer(name)"\nis = "{}"\nin = "booking.seat(name)"\nof_where = "{}"\n'
    assert (
        len(knowledge(entry.format("subset", "age > 1") + entry.format("superset", "age > 2"), resolve).containments)
        == 2
    )
