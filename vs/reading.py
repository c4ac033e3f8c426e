"""Whether a view's text is valid over the relations as they are now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dyda.errors import DydaError, UnknownColumn
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from vs.judgement import Broken, Holds, Judgement
from vs.synchronization import World, synchronize
from vs.view.preferences import Defaults

__all__ = ["read", "read_what_is_left"]

Resolve = Callable[[str, str | None, str], Relation]

GONE = PgType("text", "text")
"""The type of a column that is gone is not known; a rewriting does not read it."""

MOST = 100
"""Columns that a text may have lost."""


def read(name: str, sql: str, resolve: Resolve, plain_numeric: str = "decimal(38,18)") -> Judgement:
    """Read the definition over what `resolve` finds: for a view that has no earlier form to follow."""
    try:
        return Holds(parse_view(name, sql, resolve, plain_numeric=plain_numeric))
    except DydaError as error:
        return Broken(error.what)


def read_what_is_left(
    name: str, sql: str, resolve: Resolve, defaults: Defaults, plain_numeric: str = "decimal(38,18)"
) -> Judgement:
    """As `read`, for a view that broke: columns that no longer exist are dropped from it where they may be. They may
    have disappeared while it was broken and nothing followed its relations."""
    present: dict[RelationName, Relation] = {}
    lost: dict[str, list[str]] = {}

    def with_lost(source: str, schema: str | None, table: str) -> Relation:
        relation = resolve(source, schema, table)
        present[relation.name] = relation
        columns = [Column(column, GONE, -place) for place, column in enumerate(lost.get(str(relation.name), ()), 1)]
        return replace(relation, columns=(*relation.columns, *columns))

    for _ in range(MOST):
        try:
            definition = parse_view(name, sql, with_lost, plain_numeric=plain_numeric)
        except UnknownColumn as error:
            if error.relation is None:
                return Broken(error.what)
            lost.setdefault(error.relation, []).append(error.column)
        except DydaError as error:
            return Broken(error.what)
        else:
            now = {relation: found for relation, found in present.items() if str(relation) in lost}
            return synchronize(definition, World({}, now), defaults, plain_numeric) if now else Holds(definition)
    return Broken(f"more than {MOST} of the columns it reads no longer exist")
