"""Columns and constraints as DDL defines them, and what the actions of ALTER TABLE do to a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from postgast import pg_query_pb2 as pg

from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.types import keeps_values, read_type, serial_type
from dyda.model.ddl.words import LISTS, OWN_TRIGGERS, Unreadable, computes, functions, text_of
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import Harmless, Rewrite

__all__ = ["ColumnDefinition", "alter_table", "key_of", "read_column"]

PASSES = (
    {"DropColumn", "DropConstraint", "DropNotNull", "DropExpression"},
    {"AlterColumnType"},
    {"AddColumn"},
    {"SetNotNull"},
    {"AddConstraint"},
)
"""The order in which PostgreSQL executes the actions of one statement, whatever their order in the text."""


@dataclass(frozen=True)
class ColumnDefinition:
    """`fills`: existing rows must be rewritten to hold the column."""

    column: Column
    key: bool
    fills: bool


def read_column(written: Any) -> ColumnDefinition:
    constraints = {node.constraint.contype: node.constraint for node in written.constraints}
    kinds = constraints.keys()
    generated = constraints[pg.CONSTR_GENERATED].generated_kind if pg.CONSTR_GENERATED in kinds else ""
    serial = serial_type(written.type_name)
    filled = serial is not None or pg.CONSTR_IDENTITY in kinds
    not_null = filled or pg.CONSTR_NOTNULL in kinds or pg.CONSTR_PRIMARY in kinds
    default = functions(constraints[pg.CONSTR_DEFAULT]) if pg.CONSTR_DEFAULT in kinds else []
    return ColumnDefinition(
        Column(written.colname, serial or read_type(written.type_name), 0, not_null, generated),
        key=bool(kinds & {pg.CONSTR_PRIMARY, pg.CONSTR_UNIQUE})
        and not kinds & {pg.CONSTR_ATTR_DEFERRABLE, pg.CONSTR_ATTR_DEFERRED},
        fills=filled or generated == "s" or not LISTS["steady_functions"].issuperset(default),
    )


def key_of(constraint: Any) -> list[tuple[str, ...]]:
    """The key that a table constraint makes; none if two rows may agree on it, even for a moment."""
    unique = constraint.contype in (pg.CONSTR_PRIMARY, pg.CONSTR_UNIQUE)
    shared = constraint.deferrable or constraint.initdeferred or constraint.without_overlaps
    return [tuple(text_of(constraint.keys))] if unique and not shared else []


def alter_table(table: RelationName, commands: Iterable[Any], schemas: Schemas) -> None:
    for command in sorted((node.alter_table_cmd for node in commands), key=_pass):
        _apply(command, table, schemas)


def _name(command: Any) -> str:
    return str(pg.AlterTableType.Name(command.subtype)).removeprefix("AT_")


def _pass(command: Any) -> int:
    return next((number for number, names in enumerate(PASSES) if _name(command) in names), len(PASSES))


def _apply(command: Any, table: RelationName, schemas: Schemas) -> None:
    there, column = schemas.relation(table), command.name
    argument = getattr(command, "def")
    match _name(command):
        case "AddColumn":
            _add_column(read_column(argument.column_def), table, schemas, unless_there=command.missing_ok)
        case "DropColumn":
            generated = there is not None and any(c.generated and c.name != column for c in there.columns)
            if command.behavior == pg.DROP_CASCADE and generated:
                raise Unreadable(f"only the source knows which generated columns are dropped with {column}")
            if not (command.missing_ok and there is not None and column not in there.by_name):
                schemas.drop_column(table, column)
        case "AlterColumnType":
            type_ = read_type(argument.column_def.type_name)
            if not type_.builtin:
                raise Unreadable(f"only the source knows what the type {type_.name} is")
            old = type_ if there is None else there.column(column).type
            if old != type_:
                schemas.change_type(table, column, type_)
            rewrites = not keeps_values(old, type_) or computes(argument.column_def.raw_default, column)
            rows = "rewrites its rows with other values" if rewrites else "writes no row"
            schemas.note(table, Rewrite(rows) if rewrites else Harmless(rows))
        case "SetNotNull" | "DropNotNull" as action:
            schemas.set_not_null(table, column, action == "SetNotNull")
        case "SetExpression":
            schemas.note(table, Rewrite(f"computes column {column} in another way"))
        case "DropExpression":
            schemas.drop_expression(table, column)
        case "AddConstraint":
            _add_constraint(argument.constraint, table, schemas)
        case "DropConstraint":
            schemas.drop_constraint(table, column)
        case "SetAccessMethod":
            schemas.note(table, Rewrite("rewrites its rows for another access method"))
        case "EnableRowSecurity" | "ForceRowSecurity" if not schemas.has(table):
            schemas.note(table, Harmless("changes who may read it"))
        case "DisableTrig" | "EnableTrig" | "EnableAlwaysTrig" | "EnableReplicaTrig" if not column.startswith(
            OWN_TRIGGERS
        ):
            schemas.note(table, Harmless("changes when a trigger fires"))
        case action if action in LISTS["harmless_actions"]:
            schemas.note(table, Harmless("changes something that no row shows"))
        case action:
            raise Unreadable(f"only the source knows what {action} does to the rows or their capture")


def _add_column(defined: ColumnDefinition, table: RelationName, schemas: Schemas, *, unless_there: bool) -> None:
    column, there = defined.column, schemas.relation(table)
    if unless_there and there is not None and column.name in there.by_name:
        return
    schemas.add_column(table, column)
    if defined.key:
        schemas.add_key(table, [column.name])
    if defined.fills:
        schemas.note(table, Rewrite("rewrites its rows to fill a column"))


def _add_constraint(constraint: Any, table: RelationName, schemas: Schemas) -> None:
    if constraint.indexname:
        raise Unreadable("the catalog does not have the columns of the index")
    primary = constraint.contype == pg.CONSTR_PRIMARY
    if primary or (constraint.contype == pg.CONSTR_NOTNULL and not constraint.skip_validation):
        for column in text_of(constraint.keys):
            schemas.set_not_null(table, column, True)
    for key in key_of(constraint):
        schemas.add_key(table, key)
    schemas.note(table, Harmless("adds a constraint"))
