"""The keys of a view, derived from the keys of its relations by functional dependencies.

    Scan       a key of the relation decides the row; the row decides its columns
    Select     a.x = b.y: each decides the other; x = 'constant': nothing is needed to decide it
    Join       both rows together; as Select
    OuterJoin  both rows together; a dependency of a padded side lasts if it tells padded rows from others
    SemiJoin   the left row
    Group      the keys decide the group
    Distinct   all columns together decide the row, or fewer that decide the others
    EXCEPT     the left rows; INTERSECT: the rows of either side; each without ALL as DISTINCT
    UNION      all columns; also, as with ALL, a key of each side and a constant that tells the sides apart
    Project    a column that is passed on stays what it is; one that is computed decides nothing

An equality of two columns counts only where both have the same type on Spark (or are integers, which widen one to
one): Spark also finds 7 = '007' and 1.5 = 1.50, where one value on one side meets several on the other.

A key of a view may consist of columns of the types in `INDEXED` alone: there a unique index in the warehouse compares
by value, as Spark does. Floats and what travels as text only (enums, arrays, json, …) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import assert_never

from dyda.model.algebra.dependencies import Attribute, Dependency, Literal, Rows
from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
)
from dyda.model.relation import RelationName
from dyda.model.types import PgType

__all__ = ["DerivedKeys", "derive_keys"]

INDEXED = re.compile(
    r"smallint|integer|bigint|boolean|date|uuid|bytea|text|name|character varying(\(\d+\))?|character\(\d+\)"
    r"|numeric(\(\d+,\d+\))?|timestamp(\(\d\))? with(out)? time zone"
)
"""Warehouse types whose unique index compares by value as Spark does. Not `character` without a length: there the index
ignores trailing blanks, which Spark does not. Not floats: they are no keys."""


class DerivedKeys:
    """The keys of a query's output columns, none of which need be NOT NULL: NULLs count as equal."""

    def __init__(self, rows: Rows, types: Mapping[str, str] | None) -> None:
        self._rows = rows
        self._types = types
        self._names: dict[Attribute, str] = {}
        for reference, attribute in rows.columns.items():
            self._names.setdefault(attribute, reference.column)
        self._attributes = {reference.column: attribute for reference, attribute in rows.columns.items()}

    @property
    def minimal(self) -> list[tuple[str, ...]]:
        """The smallest first, those without NULLs before others; `()`: there is never more than one row."""
        found = self._rows.minimal_keys(self._usable)
        found.sort(key=lambda key: (len(key), sum(one not in self._rows.never_null for one in key)))
        return [tuple(self._names[attribute] for attribute in key) for key in found]

    def includes(self, columns: Iterable[str]) -> bool:
        """Whether no two rows agree in these columns."""
        return self._rows.is_key(one for name in columns if self._usable(one := self._attributes[name]))

    def _usable(self, attribute: Attribute) -> bool:
        """A type of somebody's own is carried as text; whether equal texts are equal values, its author knows."""
        own = self._rows.types.get(attribute)
        if own is not None and (not own.builtin or INDEXED.fullmatch(own.declared) is None):
            return False
        return self._types is None or INDEXED.fullmatch(self._types[self._names[attribute]]) is not None


def derive_keys(
    tree: Node,
    types: Mapping[str, str] | None = None,
    plain_numeric: str = "decimal(38,18)",
    untrusted: frozenset[RelationName] = frozenset(),
) -> DerivedKeys:
    """What is unique in the rows of a query. `types` are the warehouse types of its columns, where they are known;
    `untrusted` are relations whose keys and NOT NULLs are not those of the rows that it is about."""
    return DerivedKeys(_Derivation(plain_numeric, untrusted).rows(tree), types)


class _Derivation:
    def __init__(self, plain_numeric: str, untrusted: frozenset[RelationName]) -> None:
        self.plain_numeric = plain_numeric
        self.untrusted = untrusted
        self.numbers = count()

    def rows(self, node: Node) -> Rows:
        match node:
            case Scan():
                return self.scan(node)
            case Select(below, condition):
                return self.where(self.rows(below), [condition])
            case Join(left, right, condition):
                both = _beside(self.rows(left), self.rows(right))
                return self.where(both, [condition] if condition is not None else [])
            case OuterJoin():
                return self.outer(node)
            case SemiJoin(left):
                return self.rows(left)
            case Group():
                return self.group(node)
            case Derived(below, alias):
                rows = self.rows(below)
                return replace(rows, columns={ColumnRef(alias, ref.column): one for ref, one in rows.columns.items()})
            case Project():
                return self.project(node)
            case Distinct(below):
                return self.once(self.rows(below))
            case SetOperation():
                return self.set_operation(node)
            case _:
                assert_never(node)

    def scan(self, scan: Scan) -> Rows:
        columns = {ColumnRef(scan.alias, column.name): next(self.numbers) for column in scan.relation.columns}
        row = next(self.numbers)
        named = {ref.column: attribute for ref, attribute in columns.items()}
        trusted = scan.relation.name not in self.untrusted
        known = frozenset(named[column.name] for column in scan.relation.columns if trusted and column.not_null)
        keys = [frozenset(named[name] for name in key) for key in scan.relation.keys]
        own = Dependency(frozenset({row}), frozenset(named.values()))
        return Rows(
            columns,
            frozenset({row}),
            # A unique constraint lets NULLs repeat.
            (*(Dependency(key, frozenset({row})) for key in keys if key <= known), own),
            known | {row},
            {named[column.name]: column.type for column in scan.relation.columns},
        )

    # --- conditions

    def where(self, rows: Rows, conditions: Sequence[Expression]) -> Rows:
        """The rows that satisfy the conditions; both sides of an equality that holds are not NULL."""
        for condition in conditions:
            if (pair := self.equal(rows, condition)) is not None:
                one, other = (frozenset({side}) for side in pair)
                rows = rows.also([Dependency(one, other), Dependency(other, one)], pair)
            elif (fixed := self.fixed(rows, condition)) is not None:
                column, literal = fixed
                decided = Dependency(frozenset(), frozenset({column}))
                rows = rows.also([decided], [column], {column: frozenset({literal})})
        return rows

    def equal(self, rows: Rows, condition: Expression) -> tuple[Attribute, Attribute] | None:
        """The columns that the condition makes equal by value."""
        if condition.equality is None:
            return None
        one, other = (rows.columns.get(side) for side in condition.equality)
        if one is None or other is None or one == other:
            return None
        left, right = (self.spark_type(rows, side) for side in (one, other))
        if left is None or right is None or (left != right and not {left, right} <= _INTEGERS):
            return None
        return one, other

    def fixed(self, rows: Rows, condition: Expression) -> tuple[Attribute, Literal] | None:
        """The column that the condition gives one value, and the value."""
        columns = [part for part in condition.parts if not isinstance(part, str)]
        if len(columns) != 1 or columns[0] not in rows.columns:
            return None
        text = "".join(part if isinstance(part, str) else "\0" for part in condition.parts).strip()
        while text.startswith("(") and text.endswith(")"):
            text = text[1:-1].strip()
        sides = [side.strip() for side in text.split("=")]
        if len(sides) != 2 or "\0" not in sides:
            return None
        literal = _literal(sides[1 - sides.index("\0")])
        column = rows.columns[columns[0]]
        type_ = self.spark_type(rows, column) or ""
        kinds = {"STRING": "text", "BOOLEAN": "boolean", "DATE": "date", **dict.fromkeys(_INTEGERS, "integer")}
        wanted = "integer" if type_.startswith("DECIMAL") else kinds.get(type_)
        return (column, literal) if literal is not None and literal[0] == wanted else None

    def spark_type(self, rows: Rows, attribute: Attribute) -> str | None:
        """The type that a column compares in; None if it is computed, a float, or has none."""
        type_ = rows.types.get(attribute)
        computation = type_.computation(self.plain_numeric) if type_ is not None else None
        return computation.spark_type if computation is not None and computation.spark_type not in _FLOATS else None

    # --- operators

    def outer(self, node: OuterJoin) -> Rows:
        left, right = self.rows(node.left), self.rows(node.right)
        if node.kind == "full":
            return _beside(left.padded(), right.padded())
        kept, other = (left, right) if node.kind == "left" else (right, left)
        padded = other.padded()
        both = _beside(kept, padded) if node.kind == "left" else _beside(padded, kept)
        return both.also(self.matches(kept, other, node.conditions))

    def matches(self, kept: Rows, other: Rows, conditions: Sequence[Expression]) -> Iterator[Dependency]:
        """Whether a row has a match depends on the columns that ON reads of it; so do, then, the other side's columns
        that ON makes equal to them or to a constant, and that are NULL without a match."""
        read = {ref for condition in conditions for ref in condition.columns}
        given = frozenset(kept.columns[ref] for ref in read if ref in kept.columns)
        if any(self.spark_type(kept, attribute) is None for attribute in given):
            return
        both = _beside(kept, other)
        pairs = [pair for condition in conditions if (pair := self.equal(both, condition)) is not None]
        mine, theirs = frozenset(kept.ordered), frozenset(other.ordered)
        across = {b if a in mine else a for a, b in pairs if len({a, b} & mine) == len({a, b} & theirs) == 1}
        fixed = {found[0] for one in conditions if (found := self.fixed(other, one)) is not None}
        for column in across | fixed:
            # Where ON compares with a column that is NULL, there is no match.
            yield Dependency(given, frozenset({column}), padded=bool(across))

    def group(self, node: Group) -> Rows:
        below = self.rows(node.input)
        group = next(self.numbers)
        items = [(ColumnRef(node.alias, key.name), key.expression) for key in node.keys]
        below, keys = self.computed(below, items)
        values = {ColumnRef(node.alias, aggregate.name): next(self.numbers) for aggregate in node.aggregates}
        columns = keys | values
        # What holds of the rows holds of one row of each group, and that has the group's keys.
        return replace(below, columns=columns, identity=frozenset({group})).also(
            [
                Dependency(frozenset(keys.values()), frozenset({group})),
                Dependency(frozenset({group}), frozenset(columns.values())),
            ],
            [group],
        )

    def project(self, node: Project) -> Rows:
        rows, columns = self.computed(
            self.rows(node.input), [(ColumnRef("", item.name), item.expression) for item in node.items]
        )
        return replace(rows, columns=columns)

    def computed(
        self, rows: Rows, items: Sequence[tuple[ColumnRef, Expression]]
    ) -> tuple[Rows, dict[ColumnRef, Attribute]]:
        """The attributes of expressions over the rows: a column is what it was, anything else depends on the row."""
        columns = {}
        for reference, expression in items:
            if expression.column is not None:
                columns[reference] = rows.columns[expression.column]
                continue
            columns[reference] = new = next(self.numbers)
            literal = _literal(expression.sql)
            given = rows.identity if expression.columns else frozenset[Attribute]()
            literals = {new: frozenset({literal})} if literal is not None else {}
            rows = rows.also([Dependency(given, frozenset({new}))], literals, literals)
        return rows, columns

    def once(self, rows: Rows) -> Rows:
        """Each row once. What holds of all rows holds of one of each kind."""
        row, columns = frozenset({next(self.numbers)}), frozenset(rows.ordered)
        return replace(rows, identity=row).also([Dependency(columns, row), Dependency(row, columns)], row)

    def set_operation(self, node: SetOperation) -> Rows:
        left, right = self.rows(node.left), self.rows(node.right)
        match node.kind:
            case "union":
                return self.union(left, right, every=node.all)
            case "except":
                return left if node.all else self.once(left)
            case "intersect":
                both = self.alike(left, right)
                return both if node.all else self.once(both)
            case _:
                assert_never(node.kind)

    def alike(self, left: Rows, right: Rows) -> Rows:
        """INTERSECT ALL: each row is a row of the left and an equal one of the right, and no two are the same there."""
        row = frozenset({next(self.numbers)})
        equal = [
            Dependency(frozenset({one}), frozenset({other}))
            for pair in zip(left.ordered, right.ordered, strict=True)
            for one, other in (pair, pair[::-1])
        ]
        known = _beside(left, right)
        return replace(known, columns=left.columns, identity=row, types=_common(left, right)).also(
            [
                *equal,
                Dependency(left.identity, row),
                Dependency(right.identity, row),
                Dependency(row, left.identity | right.identity | frozenset(left.ordered)),
            ],
            row,
        )

    def union(self, left: Rows, right: Rows, *, every: bool) -> Rows:
        row = frozenset({next(self.numbers)})
        columns = {reference: next(self.numbers) for reference in left.columns}
        places = tuple(columns.values())
        pairs = list(zip(places, left.ordered, right.ordered, strict=True))
        dependencies = [Dependency(row, frozenset(places))]
        if not every:
            dependencies.append(Dependency(frozenset(places), row))
        tags = [new for new, one, other in pairs if _apart(left.literals.get(one), right.literals.get(other))]
        for tag in tags:
            for ours in _placed(left, places):
                dependencies += [Dependency(ours | theirs | {tag}, row) for theirs in _placed(right, places)]
        common = _common(left, right)
        return Rows(
            columns,
            row,
            tuple(dependencies),
            row.union(new for new, one, other in pairs if one in left.never_null and other in right.never_null),
            {new: common[one] for new, one, _ in pairs if one in common},
            {
                new: left.literals[one] | right.literals[other]
                for new, one, other in pairs
                if one in left.literals and other in right.literals
            },
        )


def _beside(left: Rows, right: Rows) -> Rows:
    """A row of each."""
    return Rows(
        left.columns | right.columns,
        left.identity | right.identity,
        left.dependencies + right.dependencies,
        left.never_null | right.never_null,
        left.types | right.types,
        left.literals | right.literals,
    )


def _common(left: Rows, right: Rows) -> dict[Attribute, PgType]:
    """The types of the left's columns, as far as the right has the same in their places."""
    pairs = zip(left.ordered, right.ordered, strict=True)
    return {
        one: left.types[one] for one, other in pairs if one in left.types and left.types[one] == right.types.get(other)
    }


def _placed(rows: Rows, places: Sequence[Attribute]) -> list[frozenset[Attribute]]:
    """The keys of one side of a union, as attributes of the union."""
    at: dict[Attribute, Attribute] = {}
    for own, place in zip(rows.ordered, places, strict=True):
        at.setdefault(own, place)
    return [frozenset(at[attribute] for attribute in key) for key in rows.minimal_keys()]


def _apart(one: frozenset[Literal] | None, other: frozenset[Literal] | None) -> bool:
    """Whether constants of one kind have no value in common."""
    if one is None or other is None:
        return False
    return len({kind for kind, _ in one | other}) == 1 and not one & other


def _literal(text: str) -> Literal | None:
    for kind, pattern, value in _LITERALS:
        if (found := pattern.fullmatch(text)) is not None:
            return kind, value(found[1])
    return None


_LITERALS: tuple[tuple[str, re.Pattern[str], Callable[[str], str]], ...] = (
    ("text", re.compile(r"'([^'\\]*)'"), str),
    ("integer", re.compile(r"(-?\d{1,18})"), lambda digits: str(int(digits))),
    ("boolean", re.compile(r"(true|false)", re.IGNORECASE), str.lower),
    ("date", re.compile(r"date\s*'(\d{4}-\d\d-\d\d)'", re.IGNORECASE), str),
)
_INTEGERS = frozenset({"SMALLINT", "INT", "BIGINT"})
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
