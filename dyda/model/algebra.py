"""Views as an immutable algebra tree that knows its schema.

    Project ─ Select ─ Join ─ Scan        asia_customer
                           └─ Scan

Every node has `columns`: what it delivers, as references that expressions above it may use. Expressions are Spark SQL
text over `alias`.`column` references; Spark alone gives them meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from dyda.model.preferences import Preferences
from dyda.model.relation import Relation, RelationName

__all__ = [
    "ColumnRef",
    "Expression",
    "Join",
    "Node",
    "OutputColumn",
    "Project",
    "Scan",
    "Select",
    "ViewDefinition",
    "conjuncts",
    "scans",
]


@dataclass(frozen=True, order=True)
class ColumnRef:
    """`alias`.`column`: a column of one occurrence of a relation."""

    alias: str
    column: str

    def __str__(self) -> str:
        return ".".join("`" + part.replace("`", "``") + "`" for part in (self.alias, self.column))


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

    def rendered(self, name: Callable[[ColumnRef], str]) -> str:
        """The expression with each column called what `name` says; nothing else in it is touched."""
        return "".join(part if isinstance(part, str) else name(part) for part in self.parts or (self.sql,))

    @classmethod
    def of(cls, reference: ColumnRef) -> Expression:
        """Nothing but the column."""
        return cls(str(reference), frozenset({reference}), column=reference, parts=(reference,))

    def over(self, name: Callable[[ColumnRef], ColumnRef]) -> Expression:
        """The expression over other columns; nothing else in it is touched."""
        parts = tuple(part if isinstance(part, str) else name(part) for part in self.parts)
        equality = (name(self.equality[0]), name(self.equality[1])) if self.equality is not None else None
        return Expression(
            "".join(map(str, parts)),
            frozenset(name(ref) for ref in self.columns),
            name(self.column) if self.column is not None else None,
            equality if equality is not None and equality[0].alias != equality[1].alias else None,
            parts,
        )

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


Node: TypeAlias = Scan | Select | Join | Project


@dataclass(frozen=True)
class ViewDefinition:
    """A view's current form: the SQL text it was read from and the tree that is maintained."""

    name: str
    sql: str
    tree: Project
    preferences: Preferences = field(default_factory=Preferences)
    star: bool = False
    """The text says `*` somewhere: read again over other columns, it would mean another view."""

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(scan.relation.name for scan in scans(self.tree))

    @property
    def columns(self) -> frozenset[ColumnRef]:
        """Every column that some expression of the view reads."""
        expressions = [*conjuncts(self.tree), *(item.expression for item in self.tree.items)]
        return frozenset(ref for expression in expressions for ref in expression.columns)

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(name.source for name in self.relations)


def scans(node: Node) -> Iterator[Scan]:
    """The occurrences of relations below `node`, left to right."""
    if isinstance(node, Scan):
        yield node
    for child in node.inputs:
        yield from scans(child)


def conjuncts(node: Node) -> Iterator[Expression]:
    """All conditions below `node`, those of selections and of inner joins alike."""
    if isinstance(node, Select):
        yield node.condition
    if isinstance(node, Join) and node.condition is not None:
        yield node.condition
    for child in node.inputs:
        yield from conjuncts(child)
