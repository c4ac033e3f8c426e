"""Views and relations by hand, and relations in memory that answer lookups: the pure half of every sweep test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dyda.model.algebra.nodes import (
    ColumnRef,
    Expression,
    Join,
    Node,
    OutputColumn,
    Project,
    Scan,
    Select,
    ViewDefinition,
)
from dyda.model.bag import COUNT, Bag
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from vm.join_block import Occurrence
from vm.worlds import TAG

Row = tuple[str | None, ...]
Rows = dict[Row, int]

DECLARED = {"varchar": "character varying", "timestamp": "timestamp without time zone"}


def pg_type(declared: str) -> PgType:
    """`numeric(10,2)` and friends; a name in capitals stands for an enum."""
    bare = re.sub(r"\(.*\)", "", declared)
    return PgType(DECLARED.get(bare, bare), declared, builtin=not declared.isupper())


def relation(
    name: str, columns: Mapping[str, str] | Sequence[str], *, rows: int = 10**9, keys: Sequence[str] = ()
) -> Relation:
    """`source.table` with columns {name: type}; a list of names means integers."""
    typed = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, "integer")
    source, _, table = name.rpartition(".")
    listed = tuple(Column(column, pg_type(kind), number) for number, (column, kind) in enumerate(typed.items(), 1))
    return Relation(RelationName(source or "s", "public", table), 1, listed, tuple((key,) for key in keys), rows)


_REF = re.compile(r"\b([a-z]\w*)\.(\w+)")


def expression(text: str) -> Expression:
    """`a.x + 1`: plain names only. Recognises a bare column and an equality between two occurrences."""
    columns = [ColumnRef(*match.groups()) for match in _REF.finditer(text)]
    sql = _REF.sub(lambda match: str(ColumnRef(*match.groups())), text)
    bare = columns[0] if _REF.fullmatch(text) else None
    equality = None
    if re.fullmatch(r"[a-z]\w*\.\w+ = [a-z]\w*\.\w+", text) and columns[0].alias != columns[1].alias:
        equality = (columns[0], columns[1])
    pieces = _REF.split(text)  # text, alias, column, text, alias, column, …, text
    parts: list[str | ColumnRef] = [pieces[0]]
    for alias, column, rest in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        parts += [ColumnRef(alias, column), rest]
    return Expression(sql, frozenset(columns), bare, equality, tuple(parts))


def view(
    name: str, scans: Mapping[str, Relation], conditions: Sequence[str], items: Mapping[str, str]
) -> ViewDefinition:
    """SELECT items FROM scans WHERE conditions, joined left-deep."""
    nodes: list[Node] = [Scan(alias, one) for alias, one in scans.items()]
    tree = nodes[0]
    for node in nodes[1:]:
        tree = Join(tree, node)
    for condition in conditions:
        tree = Select(tree, expression(condition))
    outputs = tuple(OutputColumn(output, expression(text)) for output, text in items.items())
    return ViewDefinition(name, "by hand", Project(tree, outputs))


def bag(columns: Sequence[str], rows: Mapping[Row, int]) -> Bag:
    return Bag.of(columns, rows)


def run_of(occurrence: Occurrence, transactions: Sequence[Mapping[Row, int]]) -> Bag:
    """The changes of a run, each transaction's with its tag, from 1."""
    columns = list(occurrence.columns)
    tables = []
    for tag, rows in enumerate(transactions, 1):
        table = projected(occurrence, rows).table
        tables.append(table.add_column(len(columns), TAG, pa.repeat(pa.scalar(tag, pa.int64()), table.num_rows)))
    return Bag(pa.concat_tables(tables))


@dataclass
class Memory:
    """Relations of one snapshot, full rows with counts. Answers lookups like a source and writes them down."""

    occurrences: Mapping[str, Occurrence]
    rows: Mapping[str, Rows]
    asked: list[tuple[str, tuple[str, ...], list[Row]]] = field(default_factory=list)

    def ask(self, alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        assert values.column_names == list(key)
        wanted = set(zip(*(values.column(i).to_pylist() for i in range(len(key))), strict=True))
        self.asked.append((alias, tuple(key), sorted(wanted)))
        relation_columns = [column.name for column in self.occurrences[alias].relation.columns]
        at = [relation_columns.index(column) for column in key]
        found = {row: n for row, n in self.rows[alias].items() if tuple(row[i] for i in at) in wanted}
        return projected(self.occurrences[alias], found).select(list(columns))

    def text(self, occurrence: Occurrence) -> pa.Table:
        """A whole scan: each row as often as it is there."""
        repeated = [row for row, n in self.rows[occurrence.alias].items() for _ in range(n)]
        names = [column.name for column in occurrence.relation.columns]
        arrays = [pa.array([row[i] for row in repeated], pa.string()) for i in range(len(names))]
        return pa.Table.from_arrays(arrays, names=names).select(list(occurrence.columns))


def projected(occurrence: Occurrence, rows: Mapping[Row, int]) -> Bag:
    """Full rows as a bag over the occurrence's used columns."""
    names = [column.name for column in occurrence.relation.columns]
    return bag(names, rows).select(list(occurrence.columns))


def entries(table: pa.Table) -> dict[Row, tuple[int, int]]:
    """Worlds as {row: (old, new)}, entries added up."""
    total: dict[Row, tuple[int, int]] = {}
    for *row, old, new in zip(*(column.to_pylist() for column in table.columns), strict=True):
        before = total.get(tuple(row), (0, 0))
        total[tuple(row)] = (before[0] + old, before[1] + new)
    return {row: pair for row, pair in total.items() if pair != (0, 0)}


__all__ = ["COUNT", "Memory", "Row", "Rows", "bag", "entries", "expression", "projected", "relation", "run_of", "view"]
