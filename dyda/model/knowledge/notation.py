"""Names and conditions as knowledge.toml writes them: read with the words of a view file, over full relation names.

    booking.flight_res        source.table or source.schema.table
    crm.customer(name, city)  some of its columns
    flight_res.name = tour.tour_name

A column may be called `table.column`, `source.table.column` or `source.schema.table.column`; every form becomes one
reference under the relation's full name. Backticks quote, other names fold to lower case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dyda.errors import DydaError, UnknownColumn, UnsupportedSql
from dyda.model.algebra.column_facts import COMPUTED, Facts
from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.relation import Relation
from dyda.model.sql.expressions import condition, item
from dyda.model.sql.grouping import aggregate_calls
from dyda.model.sql.outline import Block
from dyda.model.sql.outline_reader import read_outline
from dyda.model.sql.text import Span, SqlText, TokenType

__all__ = ["Resolve", "TableName", "column_list", "column_name", "conditions", "named_tables", "table_name", "value"]

TableName = tuple[str, str | None, str]
"""Source, schema or None, table."""

Resolve = Callable[[str, str | None, str], Relation]


def table_name(text: str) -> TableName:
    """`source.table` or `source.schema.table`."""
    words = _Words(text)
    return _table(words, _dotted(words, 0, len(words.words)))


def column_name(text: str) -> tuple[TableName, str]:
    """`source.table.column` or `source.schema.table.column`."""
    words = _Words(text)
    *table, column = _dotted(words, 0, len(words.words))
    return _table(words, table), column


def column_list(text: str) -> tuple[TableName, tuple[str, ...]]:
    """`source.table(column, column)`."""
    words = _Words(text)
    opening = next((i for i in range(len(words.words)) if words.kind(i) is TokenType.L_PAREN), None)
    if opening is None or words.kind(len(words.words) - 1) is not TokenType.R_PAREN:
        raise words.refusal(0, f"{text!r} lists no columns", "Write source.table(column, …).")
    columns = []
    for index in range(opening + 1, len(words.words) - 1):
        if (index - opening) % 2:
            columns.append(words.identifier(index))
        elif words.kind(index) is not TokenType.COMMA:
            raise words.refusal(0, f"{text!r} cannot be read", "Write source.table(column, …).")
    if not columns or len(set(columns)) < len(columns):
        raise words.refusal(0, f"{text!r} lists {'a column twice' if columns else 'no columns'}", "Name each once.")
    return _table(words, _dotted(words, 0, opening)), tuple(columns)


def conditions(text: str, relations: Sequence[Relation], default: Resolve) -> tuple[Expression, ...]:
    """The conjuncts of a condition over the relations. `default` resolves names without a schema."""
    words = _Words(_BEFORE_CONDITION + text)
    with words.reading():
        outline = _block(words)
        scope = _Scope(words, relations, default)
        return tuple(condition(words, span, scope, _NUMERIC) for span in outline.where)


def value(text: str, relations: Sequence[Relation], default: Resolve) -> Expression:
    """An expression over the relations."""
    words = _Words(_BEFORE_VALUE + text + _AFTER_VALUE)
    with words.reading():
        read = item(words, _one_item(words, text), _Scope(words, relations, default), _NUMERIC)
    expression = read.expression
    own_name = expression.column.column if expression is not None and expression.column is not None else None
    if expression is None or read.name != own_name:
        raise words.refusal(0, f"{text!r} is not a plain expression", "Write one expression, without AS or *.")
    return expression


def named_tables(text: str) -> list[list[str]]:
    """The qualifiers of an expression's columns: [table], [source, table] or [source, schema, table]."""
    words = _Words(_BEFORE_VALUE + text + _AFTER_VALUE)
    names = _Names()
    with words.reading():
        item(words, _one_item(words, text), names, _NUMERIC)
    return [qualifier for qualifier in names.qualifiers if qualifier]


_NUMERIC = "decimal(38,18)"
"""For a constraint it only matters that plain numeric computes, not how."""

_BEFORE_CONDITION = "SELECT 1 AS one FROM source.table WHERE "
_BEFORE_VALUE = "SELECT "
_AFTER_VALUE = "\nFROM source.table"


class _Words(SqlText):
    """The words of one setting; errors name no view."""

    def __init__(self, text: str) -> None:
        super().__init__("", text)

    def refusal_at(self, offset: int, what: str, remedy: str = "") -> UnsupportedSql:
        return _Unreadable(what, remedy)

    def place(self, offset: int) -> str:
        return ""

    def identifier(self, index: int) -> str:
        if not self.is_name(index):
            raise self.refusal(0, f"{self.text!r} is not a name", "Put unusual names in backticks.")
        return self.name(index)


class _Unreadable(UnsupportedSql):
    def __init__(self, what: str, remedy: str) -> None:
        DydaError.__init__(self, what.removesuffix(" in a view"), remedy)


def _one_item(words: _Words, text: str) -> Span:
    block = _block(words)
    if len(block.items) != 1 or block.where:
        raise words.refusal(0, f"{text!r} is not one expression", "Write one expression.")
    return block.items[0]


def _block(words: _Words) -> Block:
    """The text around one condition or value, which is over single rows: without subqueries and aggregates."""
    outline = read_outline(words)
    for at in outline.subqueries:
        raise words.unsupported(at, "a subquery", "Write a condition over single rows.")
    for start, _ in aggregate_calls(words, outline, Span(0, len(words.words))):
        name = words.name(start)
        raise words.unsupported(start, f"the aggregate {name}()", "Write a value of single rows.")
    block = outline.query
    if not isinstance(block, Block) or block.distinct or block.groups is not None or block.having:
        raise words.refusal(0, f"{words.text!r} cannot be read", "Write one condition or one value.")
    return block


def _dotted(words: _Words, start: int, stop: int) -> list[str]:
    parts = [words.identifier(index) for index in range(start, stop, 2)]
    dots = [words.kind(index) is TokenType.DOT for index in range(start + 1, stop, 2)]
    if not all(dots) or len(dots) != len(parts) - 1:
        raise words.refusal(0, f"{words.text!r} is not a name", "Put unusual names in backticks.")
    return parts


def _table(words: _Words, parts: Sequence[str]) -> TableName:
    if not 2 <= len(parts) <= 3:
        what = f"{words.text!r} does not name a relation of a source"
        raise words.refusal(0, what, "Write source.table or source.schema.table.")
    return parts[0], parts[1] if len(parts) == 3 else None, parts[-1]


@dataclass
class _Scope:
    """The columns of some relations, however their names are written."""

    words: _Words
    relations: Sequence[Relation]
    default: Resolve

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        *qualifier, column = parts
        found = [relation for relation in self.relations if self._answers(relation, qualifier, column)]
        written = ".".join(parts)
        if not found:
            there = " or ".join(str(relation.name) for relation in self.relations) or "any relation named here"
            raise self.words.refusal_at(offset, f"{written} is not a column of {there}", "Write source.table.column.")
        if len(found) > 1:
            both = " and of ".join(str(relation.name) for relation in found)
            what = f"{written} may be a column of {both}"
            raise self.words.refusal_at(offset, what, "Write source.schema.table.column.")
        if column not in found[0].by_name:
            raise UnknownColumn(f"{found[0].name} has no column {column}", f"It has: {', '.join(found[0].by_name)}.")
        return ColumnRef(str(found[0].name), column)

    def facts(self, reference: ColumnRef) -> Facts:
        relation = next(relation for relation in self.relations if str(relation.name) == reference.alias)
        return Facts.of(relation.column(reference.column))

    def standin(self, reference: ColumnRef) -> Expression | None:
        return None

    def _answers(self, relation: Relation, qualifier: Sequence[str], column: str) -> bool:
        name = relation.name
        match qualifier:
            case []:
                return column in relation.by_name
            case [table]:
                return table == name.table
            case [source, table]:
                if (source, table) != (name.source, name.table):
                    return False
                alike = [r for r in self.relations if (r.name.source, r.name.table) == (source, table)]
                return len(alike) == 1 or self.default(source, None, table).name == name
            case [source, schema, table]:
                return (source, schema, table) == (name.source, name.schema, name.table)
            case _:
                return False


class _Names:
    """Collects the qualifiers of columns without knowing any of them."""

    def __init__(self) -> None:
        self.qualifiers: list[list[str]] = []

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        self.qualifiers.append(list(parts[:-1]))
        return ColumnRef("", parts[-1])

    def facts(self, reference: ColumnRef) -> Facts:
        return COMPUTED

    def standin(self, reference: ColumnRef) -> Expression | None:
        return None
