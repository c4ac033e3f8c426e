"""What only Spark can say of a definition, without data: whether its types can be computed with, and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from dyda.engine import Engine
from dyda.model.algebra.nodes import ColumnRef, ViewDefinition, expressions, scans
from dyda.model.types import PgType
from vm import Program

__all__ = ["Analysis", "SparkAnalysis", "SparkIfNeeded"]


class Analysis(Protocol):
    """Asked by the planner; deterministic, so that a plan is a function of what a round knows."""

    def require_computable(self, before: ViewDefinition | None, after: ViewDefinition) -> None:
        """UnsupportedSql if `after` cannot be computed: its names hold, its types do not."""

    def program(self, definition: ViewDefinition) -> Program:
        """The view's steps, with the types that Spark gives what they compute."""


@dataclass(frozen=True)
class SparkAnalysis:
    """Where Spark runs anyway."""

    engine: Engine

    def require_computable(self, before: ViewDefinition | None, after: ViewDefinition) -> None:
        self.engine.analyse(after)

    def program(self, definition: ViewDefinition) -> Program:
        return self.engine.program(definition)


@dataclass(frozen=True)
class SparkIfNeeded(SparkAnalysis):
    """Where Spark would have to start first, which takes seconds: only if the answer is in doubt."""

    def require_computable(self, before: ViewDefinition | None, after: ViewDefinition) -> None:
        if before is None or _may_not_compute(before, after):
            self.engine.analyse(after)


def _may_not_compute(before: ViewDefinition, after: ViewDefinition) -> bool:
    """Whether Spark may refuse the types that the view has now: it computes with a column that it did not read, or not
    as this type. A plain view may pass any column on, and joins are made of sides that can be compared: a view's own
    are cast to what they were, the knowledge's are checked when it is read."""
    known = _typed(before).values()
    new = {ref for ref, typed in _typed(after).items() if typed not in known}
    if not after.plain:
        return bool(new)
    computed = [expression for expression in expressions(after.tree) if not (expression.column or expression.equality)]
    return any(new & expression.columns for expression in computed)


def _typed(definition: ViewDefinition) -> dict[ColumnRef, tuple[str, int, int, PgType]]:
    """The sources' columns that the view reads: each with the column that it is, under whatever name, and its type."""
    relations = {scan.alias: scan.relation for scan in scans(definition.tree)}
    found = {}
    for ref in definition.columns:
        relation = relations.get(ref.alias)
        if relation is not None:
            column = relation.column(ref.column)
            found[ref] = (relation.name.source, relation.oid, column.number, column.type)
    return found
