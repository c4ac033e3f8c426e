"""Following renames: a view means the table and its columns, not what they are called.

A column is known by its number and a relation by its oid; both survive a rename, and neither is given to another, so a
drop followed by an add under the same name is not mistaken for the old column. The view's own column names stay as
they are. Where another table stands under the name (the caller decides that the name is meant), columns are known by
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import assert_never

from dyda.errors import DydaError
from dyda.model.algebra import (
    ColumnRef,
    Expression,
    Join,
    Node,
    OutputColumn,
    Project,
    Scan,
    Select,
    ViewDefinition,
    conjuncts,
    scans,
)
from dyda.model.parse import parse_view
from dyda.model.preferences import Preferences
from dyda.model.relation import Relation, RelationName
from dyda.model.render import render_view
from vs.judgement import Broken, Holds, Judgement

__all__ = ["follow"]


def follow(
    definition: ViewDefinition,
    now: Mapping[RelationName, Relation | None],
    plain_numeric: str = "decimal(38,18)",
) -> Judgement:
    """The definition over the relations as they are `now`, by the names the view knew them by; None: gone."""
    relations: dict[str, Relation] = {}
    columns: dict[ColumnRef, ColumnRef] = {}
    followed: list[str] = []
    for scan in scans(definition.tree):
        found = now.get(scan.relation.name, scan.relation)
        if found is None:
            return Broken(f"{scan.relation.name} was dropped")
        relations[scan.alias] = found
        if found.name != scan.relation.name:
            followed.append(f"{scan.relation.name} is {found.name} now")
        for column in sorted(ref.column for ref in definition.columns if ref.alias == scan.alias):
            renamed = _column(scan.relation, found, column)
            if renamed is None:
                return Broken(f"column {column} of {scan.relation.name} was dropped")
            columns[ColumnRef(scan.alias, column)] = ColumnRef(scan.alias, renamed)
            if renamed != column:
                followed.append(f"column {column} of {found.name} is {renamed} now")
    sql = definition.sql
    if followed:
        tree = _rewritten(definition.tree, relations, lambda ref: columns[ref])
        sql = render_view(tree, _carried(definition, lambda ref: columns[ref]))
    known = {relation.name: relation for relation in relations.values()}
    by_short_name = {(n.source, n.table): r for n, r in known.items()}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return known[RelationName(source, schema, table)] if schema else by_short_name[source, table]

    try:
        read = parse_view(definition.name, sql, resolve, plain_numeric=plain_numeric)
    except DydaError as error:  # a type that the view can no longer compute with, a column that became virtual
        return Broken(error.what)
    return Holds(read, tuple(dict.fromkeys(followed)))


def _column(before: Relation, after: Relation, name: str) -> str | None:
    """What the column is called now."""
    if before.oid != after.oid:
        return name if name in after.by_name else None
    number = before.column(name).number
    return next((column.name for column in after.columns if column.number == number), None)


Renamed = Callable[[ColumnRef], ColumnRef]


def _rewritten(node: Project, relations: Mapping[str, Relation], renamed: Renamed) -> Project:
    items = tuple(OutputColumn(item.name, _expression(item.expression, renamed)) for item in node.items)
    return Project(_rewritten_input(node.input, relations, renamed), items)


def _rewritten_input(node: Node, relations: Mapping[str, Relation], renamed: Renamed) -> Node:
    match node:
        case Scan(alias):
            return Scan(alias, relations[alias])
        case Select(below, condition):
            return Select(_rewritten_input(below, relations, renamed), _expression(condition, renamed))
        case Join(left, right, on):
            return Join(
                _rewritten_input(left, relations, renamed),
                _rewritten_input(right, relations, renamed),
                _expression(on, renamed) if on is not None else None,
            )
        case Project():
            return _rewritten(node, relations, renamed)
        case _:
            assert_never(node)


def _expression(expression: Expression, renamed: Renamed) -> Expression:
    parts = tuple(part if isinstance(part, str) else renamed(part) for part in expression.parts)
    equality = expression.equality
    return Expression(
        "".join(map(str, parts)),
        frozenset(renamed(ref) for ref in expression.columns),
        renamed(expression.column) if expression.column else None,
        (renamed(equality[0]), renamed(equality[1])) if equality else None,
        parts,
    )


def _carried(definition: ViewDefinition, renamed: Renamed) -> Preferences:
    """The preferences, with conditions known by their new text."""
    texts = {condition.sql: _expression(condition, renamed).sql for condition in conjuncts(definition.tree)}
    conditions = tuple((texts.get(sql, sql), preference) for sql, preference in definition.preferences.conditions)
    return replace(definition.preferences, conditions=conditions)
