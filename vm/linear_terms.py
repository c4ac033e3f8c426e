"""Sums of signed select-project-join terms: what linear operators do to them.

    σ, π, ⋈, ∪    map terms to terms;  −T is T with the other sign

A term's `outputs` say what each column that the operator above may name is, in terms of its occurrences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dyda.model.algebra.nodes import ColumnRef, Expression, Scan

__all__ = ["NULL", "Linear", "Part", "equal", "product", "same"]

NULL = Expression("NULL", frozenset(), parts=("NULL",))


@dataclass(frozen=True)
class Part:
    """One signed term."""

    scans: tuple[Scan, ...]
    conjuncts: tuple[Expression, ...]
    outputs: Mapping[ColumnRef, Expression]
    sign: int = 1

    def of(self, expression: Expression) -> Expression:
        """An expression over the columns delivered, as one over the occurrences."""
        return expression.replaced(self.outputs.__getitem__)


@dataclass(frozen=True)
class Linear:
    """A sum of terms that deliver the same columns."""

    columns: tuple[ColumnRef, ...]
    parts: tuple[Part, ...]

    @classmethod
    def scan(cls, scan: Scan) -> Linear:
        return cls(scan.columns, (Part((scan,), (), {ref: Expression.of(ref) for ref in scan.columns}),))

    def where(self, conditions: Iterable[Expression]) -> Linear:
        conditions = tuple(conditions)
        parts = (replace(p, conjuncts=(*p.conjuncts, *(p.of(one) for one in conditions))) for p in self.parts)
        return Linear(self.columns, tuple(parts))

    def project(self, items: Sequence[tuple[ColumnRef, Expression]]) -> Linear:
        parts = (replace(p, outputs={ref: p.of(expression) for ref, expression in items}) for p in self.parts)
        return Linear(tuple(ref for ref, _ in items), tuple(parts))

    def renamed(self, columns: Sequence[ColumnRef]) -> Linear:
        """The same, column by column under other names."""
        return self.project([(new, Expression.of(old)) for new, old in zip(columns, self.columns, strict=True)])

    def padded(self, columns: Sequence[ColumnRef], null: Callable[[ColumnRef], Expression]) -> Linear:
        """With NULL in columns of the other side."""
        parts = (replace(p, outputs={**p.outputs, **{ref: null(ref) for ref in columns}}) for p in self.parts)
        return Linear((*self.columns, *columns), tuple(parts))

    def only(self, columns: Sequence[ColumnRef]) -> Linear:
        return self.project([(ref, Expression.of(ref)) for ref in columns])

    def __add__(self, other: Linear) -> Linear:
        assert set(self.columns) == set(other.columns), (self.columns, other.columns)
        return Linear(self.columns, self.parts + other.parts)

    def __neg__(self) -> Linear:
        return Linear(self.columns, tuple(replace(part, sign=-part.sign) for part in self.parts))

    def __sub__(self, other: Linear) -> Linear:
        return self + -other


def product(left: Linear, right: Linear) -> Linear:
    """The cross join: every term of one side with every term of the other."""
    parts = (
        Part(
            one.scans + other.scans,
            one.conjuncts + other.conjuncts,
            {**one.outputs, **other.outputs},
            one.sign * other.sign,
        )
        for one in left.parts
        for other in right.parts
    )
    return Linear(left.columns + right.columns, tuple(parts))


def equal(one: ColumnRef, other: ColumnRef) -> Expression:
    """one = other."""
    return _compared(one, " = ", other, (one, other))


def same(one: ColumnRef, other: ColumnRef) -> Expression:
    """one <=> other: NULL is the same as NULL."""
    return _compared(one, " <=> ", other, None)


def _compared(
    one: ColumnRef, operator: str, other: ColumnRef, equality: tuple[ColumnRef, ColumnRef] | None
) -> Expression:
    parts = (one, operator, other)
    return Expression("".join(map(str, parts)), frozenset({one, other}), None, equality, parts)
