"""A view as one join block: occurrences of relations, conditions between them, the select list.

    Project ─ Select ─ Join ─┬─ Scan a          occurrences  a, b
                             └─ Scan b    ──▶   conjuncts    a.x = b.y, b.z > 3
                                                items        a.name, b.z * 2

Selections and inner joins commute, so the tree's shape says nothing that the block does not. What the block adds is
how each column travels: as canonical text where the view only passes it on (exact for every type there is), as a typed
value where the view computes with it, as both where one cannot give the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import ColumnRef, Expression, Join, Node, OutputColumn, Scan, Select, ViewDefinition
from dyda.model.relation import Column, Relation, RelationName

__all__ = ["CarriedColumn", "FrameColumn", "JoinBlock", "Occurrence", "flatten", "join_block"]


@dataclass(frozen=True)
class CarriedColumn:
    """One used column. `text` and `value` are its names in the frame; at least one of them is set."""

    column: Column
    text: str | None
    value: str | None
    spark_type: str
    family: str | None

    @property
    def output(self) -> str:
        """The frame column whose text is PostgreSQL's own."""
        return self.text or f"CAST({self.value} AS STRING)"


@dataclass(frozen=True)
class FrameColumn:
    """A physical column of a frame: where it comes from and, if typed, as what it computes."""

    name: str
    position: int
    source_column: str
    spark_type: str | None


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a relation in the block. Frame names are positional, so no user's name can collide."""

    index: int
    alias: str
    relation: Relation
    carried: tuple[CarriedColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """What to ask the source for, in this order."""
        return tuple(carried.column.name for carried in self.carried)

    @property
    def old(self) -> str:
        return f"o{self.index}"

    @property
    def new(self) -> str:
        return f"n{self.index}"

    @cached_property
    def by_column(self) -> dict[str, CarriedColumn]:
        return {carried.column.name: carried for carried in self.carried}

    @cached_property
    def frame(self) -> tuple[FrameColumn, ...]:
        """The frame's columns, without the two counts that follow them."""
        columns = []
        for position, carried in enumerate(self.carried):
            if carried.value is not None:
                columns.append(FrameColumn(carried.value, position, carried.column.name, carried.spark_type))
            if carried.text is not None:
                columns.append(FrameColumn(carried.text, position, carried.column.name, None))
        return tuple(columns)


@dataclass(frozen=True)
class JoinBlock:
    """A select-project-join view, flat."""

    view: str
    occurrences: tuple[Occurrence, ...]
    conjuncts: tuple[Expression, ...]
    items: tuple[OutputColumn, ...]

    @cached_property
    def by_alias(self) -> dict[str, Occurrence]:
        return {occurrence.alias: occurrence for occurrence in self.occurrences}

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(occurrence.relation.name for occurrence in self.occurrences)

    @property
    def wanted(self) -> dict[RelationName, tuple[str, ...]]:
        """Per relation, the columns that any occurrence uses: what to read from the source's log."""
        wanted: dict[RelationName, dict[str, None]] = {}
        for occurrence in self.occurrences:
            wanted.setdefault(occurrence.relation.name, {}).update(dict.fromkeys(occurrence.columns))
        return {name: tuple(columns) for name, columns in wanted.items()}

    def carried(self, ref: ColumnRef) -> CarriedColumn:
        return self.by_alias[ref.alias].by_column[ref.column]

    def render(self, expression: Expression) -> str:
        """The expression over frame names; everything between its column references stays verbatim."""

        def name(ref: ColumnRef) -> str:
            value = self.carried(ref).value
            if value is None:
                raise ValueError(f"{ref} is computed with in {expression.sql!r} but missing from its columns")
            return value

        return expression.rendered(name)


def flatten(view: ViewDefinition, plain_numeric: str = "decimal(38,18)") -> JoinBlock:
    """The block of a plain view. `plain_numeric` is the Spark type in which numeric without precision computes."""
    scans: list[Scan] = []
    conjuncts: list[Expression] = []
    _gather(view.select.input, scans, conjuncts)
    return join_block(view.name, view.sql, scans, conjuncts, view.select.items, plain_numeric)


def join_block(
    view: str,
    text: str,
    scans: Sequence[Scan],
    conjuncts: Sequence[Expression],
    items: Sequence[OutputColumn],
    plain_numeric: str,
) -> JoinBlock:
    """A block over these occurrences. `text` is the view's own, whose names no frame may take."""
    aliases = [scan.alias for scan in scans]
    if len(set(aliases)) != len(aliases):
        raise ValueError(f"view {view}: two occurrences share an alias: {aliases}")
    passed = {item.expression.column for item in items if item.expression.column is not None}
    computed = {ref for conjunct in conjuncts for ref in conjunct.columns}
    computed |= {ref for item in items if item.expression.column is None for ref in item.expression.columns}
    # No lambda variable in the view's text may be called like a frame's column: it would capture the column.
    prefix = ""
    while re.search(prefix + r"[tv]\d+_\d+", text):
        prefix += "_"
    occurrences = tuple(
        _occurrence(index, scan, passed, computed, plain_numeric, prefix) for index, scan in enumerate(scans)
    )
    for occurrence in occurrences:
        _refuse_names(view, occurrence)
    return JoinBlock(view, occurrences, tuple(conjuncts), tuple(items))


def _gather(node: Node, scans: list[Scan], conjuncts: list[Expression]) -> None:
    match node:
        case Scan():
            scans.append(node)
        case Select(input=below, condition=condition):
            _gather(below, scans, conjuncts)
            conjuncts.append(condition)
        case Join(left=left, right=right, condition=on):
            _gather(left, scans, conjuncts)
            _gather(right, scans, conjuncts)
            if on is not None:
                conjuncts.append(on)
        case _:
            raise ValueError(f"{type(node).__name__} has no block form")


def _refuse_names(view: str, occurrence: Occurrence) -> None:
    """A row whose text changes without the row is not the row that was captured."""
    for carried in occurrence.carried:
        column = carried.column
        if column.type.prints_names:
            inside = "" if column.type.builtin else f", which has a {column.type.name} in it"
            raise UnsupportedSql(
                view,
                f"column {column.name} of {occurrence.relation.name} is of type {column.type.declared}{inside}:"
                " its text is a name, which can change although the row does not",
                "Use its number instead: add a column of type oid at the source, for example"
                f' GENERATED ALWAYS AS ("{column.name}"::oid) STORED. Or leave the column out of the view.',
            )


def _cost(column: Column) -> tuple[bool, bool, bool]:
    """What it costs to carry a column that nothing uses."""
    return column.type.prints_names, bool(column.generated), not column.not_null


def _occurrence(
    index: int, scan: Scan, passed: set[ColumnRef], computed: set[ColumnRef], plain_numeric: str, prefix: str
) -> Occurrence:
    relation = scan.relation
    for ref in passed | computed:
        if ref.alias == scan.alias:
            relation.column(ref.column)  # refuses a name that is not there, and says which are
    used = [column for column in relation.columns if ColumnRef(scan.alias, column.name) in passed | computed]
    if not used:
        # A cross join may use no column of a side, but its rows still count: carry the cheapest one.
        used = sorted(relation.columns, key=_cost)[:1]
    carried = []
    for position, column in enumerate(used):
        ref = ColumnRef(scan.alias, column.name)
        computation = column.type.computation(plain_numeric)
        by_value = ref in computed
        by_text = not by_value or (ref in passed and computation is not None and not computation.text_is_exact)
        carried.append(
            CarriedColumn(
                column,
                text=f"{prefix}t{index}_{position}" if by_text else None,
                value=f"{prefix}v{index}_{position}" if by_value else None,
                # A type without a Spark counterpart may be used inside CAST(… AS STRING) only: its value is its text.
                spark_type=computation.spark_type if computation else "STRING",
                family=computation.family if computation else None,
            )
        )
    return Occurrence(index, scan.alias, relation, tuple(carried))
