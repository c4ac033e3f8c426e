"""How a view is maintained, as data: the plan that `sweep` follows, said in words for `dyda views explain`."""

from __future__ import annotations

from dataclasses import dataclass

from vm.sweep import SweepPlan

__all__ = ["ExplainRow", "explain"]


@dataclass(frozen=True)
class ExplainRow:
    """One line. `step`: relation, join, condition, output or cost; `queries` only for costs."""

    step: str
    subject: str
    how: str
    queries: int | None = None


def explain(plan: SweepPlan) -> list[ExplainRow]:
    """Every operator of the view and what a change of each occurrence costs."""
    block = plan.block
    rows = [
        ExplainRow(
            "relation", f"{occurrence.relation.name} {occurrence.alias}", f"reads {', '.join(occurrence.columns)}"
        )
        for occurrence in block.occurrences
    ]
    used = set()
    for component in plan.components:
        for edge in component.edges:
            pairs = [f"{edge.left}.{left} = {edge.right}.{right}" for left, right in edge.pairs]
            used |= {frozenset([(edge.left, left), (edge.right, right)]) for left, right in edge.pairs}
            rows.append(ExplainRow("join", " AND ".join(pairs), "lookup by key, in both directions"))
    for one, other in zip(plan.components, plan.components[1:], strict=False):
        subject = f"({', '.join(one.aliases)}) with ({', '.join(other.aliases)})"
        rows.append(
            ExplainRow("join", subject, "no equality that a source can look up: the other side is scanned whole")
        )
    for conjunct in block.conjuncts:
        pair = frozenset((ref.alias, ref.column) for ref in conjunct.equality or ())
        if pair not in used:
            rows.append(ExplainRow("condition", conjunct.sql, "linear: checked on Spark"))
    for item in block.items:
        how = "passed on as PostgreSQL's own text" if item.expression.column else "linear: computed on Spark"
        rows.append(ExplainRow("output", item.name, how))
    for occurrence in block.occurrences:
        queries = plan.queries(occurrence.alias)
        mine = next(component for component in plan.components if occurrence.alias in component.aliases)
        lookups = len(mine.aliases) - 1
        parts = [_counted(lookups, "lookup")] if lookups else []
        parts += [_counted(queries - lookups, "whole relation")] if queries > lookups else []
        rows.append(
            ExplainRow("cost", f"a change of {occurrence.alias}", " and ".join(parts) or "no source query", queries)
        )
    return rows


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
