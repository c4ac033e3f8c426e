"""A small catalog for parsing against: ordinary columns, types that travel as text, and odd names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda.errors import UnknownRelation
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType

Resolve = Callable[[str, str | None, str], Relation]

_RELATIONS = {
    ("crm", "public", "customer"): {
        "id": "integer",
        "name": "text",
        "age": "integer",
        "phone": "text",
        "since": "date",
        "seen": "timestamp with time zone",
        "balance": "numeric(10,2)",
        "wealth": "numeric",
        "active": "boolean",
        "mood": "enum mood",
        "tags": "text[]",
        "profile": "jsonb",
        "initial": "virtual text",
    },
    ("booking", "public", "flight_res"): {"name": "text", "age": "integer", "flight_no": "integer", "dest": "text"},
    ("booking", "public", "seat"): {"flight_no": "integer", "name": "text", "row": "text", "tags": "text[]"},
    ("booking", "archive", "flight_res"): {"name": "text", "year": "integer"},
    ("Old Stock", "Größen", "a`b\"c'd"): {
        "First Name": "text",
        "Größe": "integer",
        "#count": "integer",
        "select": "text",
        'a"b': "text",
        "Name": "text",
        "name": "text",
        "back`tick": "text",
        "100%": "text",
    },
}


def catalog(source: str, schema: str | None, table: str) -> Relation:
    name = RelationName(source, schema or "public", table)
    try:
        columns = _RELATIONS[name.source, name.schema, name.table]
    except KeyError:
        raise UnknownRelation(f"source {source} has no relation {name}", "It has: customer.") from None
    return Relation(name, 1, tuple(_column(n, t, i) for i, (n, t) in enumerate(columns.items(), 1)))


@pytest.fixture
def resolve() -> Resolve:
    return catalog


def _column(name: str, declared: str, number: int) -> Column:
    kind, _, rest = declared.partition(" ")
    if kind == "enum":
        return Column(name, PgType(rest, rest, builtin=False), number)
    if kind == "virtual":
        return Column(name, PgType(rest, rest), number, generated="v")
    return Column(name, PgType(declared.partition("(")[0], declared), number)
