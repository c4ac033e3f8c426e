"""Views as an immutable algebra tree that knows its schema.

    Project ─ Select ─ Join ─ Scan        asia_customer
                           └─ Scan

Every node has `columns`: what it delivers, as references that expressions above it may use. Expressions are Spark SQL
text over `alias`.`column` references; only Spark gives them meaning. Aliases are distinct in the whole tree, also
across subqueries, so that a reference means the same column everywhere.

    rows        Scan, Select, Join, OuterJoin, SemiJoin, Group, Derived     deliver columns of several aliases
    queries     Project, Distinct, SetOperation                             deliver a bag of named columns, ("", name)

A query is at the top of a view or below `Derived`, which gives it an alias: a derived table, a common table
expression, a subquery, another view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, TypeVar, assert_never

from dyda.model.preferences import Preferences
from dyda.model.relation import Relation, RelationName, quoted

__all__ = [
    "Aggregate",
    "ColumnRef",
    "Derived",
    "Distinct",
    "Expression",
    "Group",
    "Join",
    "Node",
    "OuterJoin",
    "OutputColumn",
    "Project",
    "Query",
    "Scan",
    "Select",
    "SemiJoin",
    "SetOperation",
    "Some",
    "ViewDefinition",
    "conjuncts",
    "expressions",
    "in_place",
    "rebuild",
    "scans",
]


@dataclass(frozen=True, order=True)
class ColumnRef:
    """`alias`.`column`: a column of one occurrence of a relation."""

    alias: str
    column: str

    def __str__(self) -> str:
        return f"{quoted(self.alias)}.{quoted(self.column)}"


@dataclass(frozen=True)
class Expression:
    """A deterministic Spark SQL expression.

    `columns` is what it reads. `column` is set if it is nothing but one column; `equality` if it is `a.x = b.y`
    between two occurrences, which is what a sweep can carry keys along.
    """

    sql: str
    columns: frozenset[ColumnRef]
    column: ColumnRef | None = None
    equality: tuple[ColumnRef, ColumnRef] | None = None
    parts: tuple[str | ColumnRef, ...] = field(default=(), compare=False, repr=False)
    """`sql` cut at its column references, as its author wrote it in between."""

    def __hash__(self) -> int:
        return hash(self.sql)  # which a text remembers

    def rendered(self, name: Callable[[ColumnRef], str]) -> str:
        """The expression with each column named by `name`; nothing else changes."""
        return "".join(part if isinstance(part, str) else name(part) for part in self.parts or (self.sql,))

    @classmethod
    def of(cls, reference: ColumnRef) -> Expression:
        """Nothing but the column."""
        return cls(str(reference), frozenset({reference}), column=reference, parts=(reference,))

    def over(self, name: Callable[[ColumnRef], ColumnRef]) -> Expression:
        """The expression over other columns; nothing else changes."""
        parts = tuple(part if isinstance(part, str) else name(part) for part in self.parts)
        equality = (name(self.equality[0]), name(self.equality[1])) if self.equality is not None else None
        return Expression(
            "".join(map(str, parts)),
            frozenset(name(ref) for ref in self.columns),
            name(self.column) if self.column is not None else None,
            equality if equality is not None and equality[0].alias != equality[1].alias else None,
            parts,
        )

    def replaced(
        self,
        by: Callable[[ColumnRef], Expression],
        is_closed: Callable[[Expression], bool] = lambda put: put.column is not None,
    ) -> Expression:
        """The expression with its columns replaced by expressions, in parentheses unless they are closed."""
        if self.column is not None:
            return by(self.column)
        parts: list[str | ColumnRef] = []
        columns: set[ColumnRef] = set()
        for part in self.parts:
            if isinstance(part, str):
                parts.append(part)
                continue
            put = by(part)
            columns |= put.columns
            parts += put.parts if is_closed(put) else ("(", *put.parts, ")")
        equality = None
        if self.equality is not None:
            one, other = (by(side).column for side in self.equality)
            if one is not None and other is not None and one.alias != other.alias:
                equality = (one, other)
        return Expression("".join(map(str, parts)), frozenset(columns), None, equality, tuple(parts))

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(ref.alias for ref in self.columns)


@dataclass(frozen=True)
class Scan:
    """One occurrence of a relation. A self-joined relation has several, with aliases of their own."""

    alias: str
    relation: Relation

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return tuple(ColumnRef(self.alias, column.name) for column in self.relation.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()


@dataclass(frozen=True)
class Select:
    """Rows of `input` that satisfy the condition."""

    input: Node
    condition: Expression

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Join:
    """The inner join; without a condition, the cross join."""

    left: Node
    right: Node
    condition: Expression | None = None

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.left.columns + self.right.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class OutputColumn:
    """One item of the select list, under the name that readers see."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Project:
    """The select list. Duplicates stay: this is a bag."""

    input: Node
    items: tuple[OutputColumn, ...]

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return tuple(ColumnRef("", item.name) for item in self.items)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class OuterJoin:
    """Every pair that satisfies ON; rows of a preserved side without a partner are padded with NULLs."""

    left: Node
    right: Node
    kind: Literal["left", "right", "full"]
    conditions: tuple[Expression, ...]

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.left.columns + self.right.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class SemiJoin:
    """Rows of `left` for which `right` has a row that meets all conditions; with `anti`, those for which it has none.

    EXISTS, IN and LEFT SEMI JOIN; NOT EXISTS and LEFT ANTI JOIN. `membership` is set for NOT IN alone: x of the left
    and y of the right, in `x NOT IN (SELECT y FROM right WHERE conditions)` with SQL's rules for NULL: a row stays if
    no right row meets the conditions, or if x is not NULL and none that does has y = x or y NULL.
    """

    left: Node
    right: Node
    conditions: tuple[Expression, ...]
    anti: bool = False
    membership: tuple[Expression, Expression] | None = None

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.left.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Aggregate:
    """One aggregate under a name of its own. `argument` None is count(*); `only` is FILTER (WHERE …)."""

    name: str
    function: str
    """count, sum, avg, min, max, stddev_samp, stddev_pop, var_samp, var_pop, bool_and or bool_or."""
    argument: Expression | None
    distinct: bool = False
    only: Expression | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(e for e in (self.argument, self.only) if e is not None)

    def put(self, put: Callable[[Expression], Expression]) -> Aggregate:
        """The aggregate with other expressions."""
        argument, only = (None if e is None else put(e) for e in (self.argument, self.only))
        return replace(self, argument=argument, only=only)


@dataclass(frozen=True)
class Group:
    """GROUP BY: one row per distinct value of the keys; without keys, always one row.

    Delivers `alias`.name of its keys and aggregates; what the select list and HAVING make of them is a Project and a
    Select above.
    """

    input: Node
    alias: str
    keys: tuple[OutputColumn, ...]
    aggregates: tuple[Aggregate, ...]

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        names = [*(key.name for key in self.keys), *(aggregate.name for aggregate in self.aggregates)]
        return tuple(ColumnRef(self.alias, name) for name in names)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Distinct:
    """Each row of a query once."""

    input: Query

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.input.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class SetOperation:
    """UNION, EXCEPT or INTERSECT, column by column in order; named as on the left. `all` keeps multiplicities:
    they add up, are subtracted down to zero (monus), or the smaller one counts."""

    kind: Literal["union", "except", "intersect"]
    all: bool
    left: Query
    right: Query

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return self.left.columns

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Derived:
    """A query under an alias. `view` is its name if it is another view."""

    input: Query
    alias: str
    view: str | None = None

    @property
    def columns(self) -> tuple[ColumnRef, ...]:
        return tuple(ColumnRef(self.alias, column.column) for column in self.input.columns)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


Query: TypeAlias = Project | Distinct | SetOperation
Node: TypeAlias = Scan | Select | Join | OuterJoin | SemiJoin | Group | Derived | Query
Some = TypeVar("Some", bound=Node)
"""Of a function that gives the same kind of node as it takes."""


@dataclass(frozen=True)
class ViewDefinition:
    """A view's current form: the SQL text it was read from and the tree that is maintained."""

    name: str
    sql: str
    tree: Query
    preferences: Preferences = field(default_factory=Preferences)
    star: bool = False
    """The text has a `*`, or names a column without its relation where there are several: over other columns, the same
    text would be another view, or none."""

    @property
    def plain(self) -> bool:
        """Whether the view is one select-project-join block."""
        return isinstance(self.tree, Project) and _is_plain(self.tree.input)

    @property
    def select(self) -> Project:
        """The one block of a plain view."""
        if not isinstance(self.tree, Project) or not self.plain:
            raise ValueError(f"view {self.name} is more than one select-project-join block")
        return self.tree

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that readers see."""
        return tuple(column.column for column in self.tree.columns)

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(scan.relation.name for scan in scans(self.tree))

    @property
    def columns(self) -> frozenset[ColumnRef]:
        """Every column that some expression of the view reads."""
        return frozenset(ref for expression in expressions(self.tree) for ref in expression.columns)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(name.source for name in self.relations)


def _is_plain(node: Node) -> bool:
    return isinstance(node, Scan | Select | Join) and all(_is_plain(child) for child in node.inputs)


def scans(node: Node) -> Iterator[Scan]:
    """The occurrences of relations below `node`, left to right."""
    if isinstance(node, Scan):
        yield node
    for child in node.inputs:
        yield from scans(child)


def conjuncts(node: Node) -> Iterator[Expression]:
    """All conditions of selections and of inner joins below `node`."""
    if isinstance(node, Select):
        yield node.condition
    if isinstance(node, Join) and node.condition is not None:
        yield node.condition
    for child in node.inputs:
        yield from conjuncts(child)


def rebuild(node: Some, inputs: Sequence[Node], put: Callable[[Expression], Expression] = lambda same: same) -> Some:
    """The node over other inputs, as many as it has, with `put` applied to each of its expressions.

    Inputs of Derived, DISTINCT and set operations are queries: whatever replaces them must be one.
    """

    def named(columns: tuple[OutputColumn, ...]) -> tuple[OutputColumn, ...]:
        return tuple(OutputColumn(column.name, put(column.expression)) for column in columns)

    changes: dict[str, object]
    match node:
        case Scan() | Derived() | Distinct() | SetOperation():
            changes = {}
        case Select():
            changes = {"condition": put(node.condition)}
        case Join():
            changes = {"condition": None if node.condition is None else put(node.condition)}
        case OuterJoin():
            changes = {"conditions": tuple(map(put, node.conditions))}
        case SemiJoin():
            changes = {
                "membership": node.membership and (put(node.membership[0]), put(node.membership[1])),
                "conditions": tuple(map(put, node.conditions)),
            }
        case Group():
            changes = {"keys": named(node.keys), "aggregates": tuple(one.put(put) for one in node.aggregates)}
        case Project():
            changes = {"items": named(node.items)}
        case _:
            assert_never(node)
    names = ("left", "right") if len(inputs) == 2 else ("input",)
    changes |= zip(names, inputs, strict=False)
    return replace(node, **changes)  # type: ignore[arg-type]


def in_place(node: Some) -> Some:
    """The tree with the views below it as plain derived tables."""
    rebuilt = rebuild(node, [in_place(below) for below in node.inputs])
    return replace(rebuilt, view=None) if isinstance(rebuilt, Derived) else rebuilt


def expressions(node: Node) -> Iterator[Expression]:
    """Every expression of the nodes below `node` and its own."""
    match node:
        case Scan() | Derived() | Distinct() | SetOperation():
            pass
        case Select(condition=condition):
            yield condition
        case Join(condition=condition):
            if condition is not None:
                yield condition
        case OuterJoin(conditions=several):
            yield from several
        case SemiJoin(conditions=several, membership=membership):
            yield from several
            yield from membership or ()
        case Group(keys=keys, aggregates=aggregates):
            yield from (key.expression for key in keys)
            for aggregate in aggregates:
                yield from aggregate.expressions
        case Project(items=items):
            yield from (item.expression for item in items)
        case _:
            assert_never(node)
    for child in node.inputs:
        yield from expressions(child)
