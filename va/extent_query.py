"""The new view as a query over the old extent: V' = π(σ(E ⋈ S …)).

Exact for any data: every condition that E was made with still holds, so only what is new must be read. A column that E
does not show is read from its own table again, by a key that E shows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dyda.model.algebra.expressions import equality
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
    conjuncts,
    scans,
)
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from va.comparison import Comparison

__all__ = ["EXTENT", "extent_query", "shown_before", "shown_columns"]

EXTENT = "#extent"
"""The alias of the extent in a query over it; c1 … cn are its columns."""

AGAIN = "#again"


@dataclass(frozen=True)
class ExtentQuery:
    """What to evaluate. `again` are the occurrences of `after` whose tables are read again by a key."""

    definition: ViewDefinition
    again: tuple[str, ...]


def shown_before(before: ViewDefinition) -> dict[ColumnRef, int]:
    """The columns that the extent shows, with their places: those of the select list, and columns that the view equates
    with them, where equal values have equal texts."""
    relations = {scan.alias: scan.relation for scan in scans(before.tree)}
    found: dict[ColumnRef, int] = {}
    for place, item in enumerate(before.select.items):
        if item.expression.column is not None:
            found.setdefault(item.expression.column, place)
    equalities = [condition.equality for condition in conjuncts(before.tree) if condition.equality is not None]
    reached = True
    while reached:
        reached = False
        for one, other in [*equalities, *((right, left) for left, right in equalities)]:
            left, right = (relations[ref.alias].column(ref.column).type for ref in (one, other))
            if one in found and other not in found and left.prints_like(right):
                found[other] = found[one]
                reached = True
    return found


def shown_columns(comparison: Comparison) -> dict[ColumnRef, int]:
    """The columns of `after` that the old extent shows as they are, each with its place."""
    found: dict[ColumnRef, int] = {}
    for ref, place in shown_before(comparison.before).items():
        now = comparison.column(ref)
        if now is not None:
            found.setdefault(now, place)
    return found


def extent_query(comparison: Comparison, updated: Collection[RelationName]) -> ExtentQuery | str:
    """The query that computes `after`'s rows from `before`'s extent and the occurrences that are new; or why there is
    none. Relations in `updated` have changed since the extent was computed, and so cannot be read again."""
    shown = shown_columns(comparison)
    expressions = list(comparison.added_conditions)
    for item, place in zip(comparison.after.select.items, comparison.items, strict=True):
        if place is None:
            expressions.append(item.expression)
    from_extent = {*comparison.kept.values(), *([comparison.replacement.new] if comparison.replacement else ())}
    missing = {
        ref for expression in expressions for ref in expression.columns if ref.alias in from_extent and ref not in shown
    }
    again: dict[str, tuple[str, ...]] = {}
    for ref in sorted(missing):
        key = _key(comparison, ref.alias, shown, updated)
        if isinstance(key, str):
            return f"the extent does not show {ref}, and {key}"
        again[ref.alias] = key

    def place_of(ref: ColumnRef) -> ColumnRef:
        if ref in shown:
            return ColumnRef(EXTENT, f"c{shown[ref] + 1}")
        return ColumnRef(ref.alias + AGAIN, ref.column) if ref.alias in again else ref

    node: Node = Scan(EXTENT, _relation(comparison))
    for alias in comparison.added:
        node = Join(node, Scan(alias, comparison.new[alias].relation))
    for alias, key in again.items():
        node = Join(node, Scan(alias + AGAIN, comparison.new[alias].relation))
        for column in key:
            one, other = place_of(ColumnRef(alias, column)), ColumnRef(alias + AGAIN, column)
            node = Select(node, equality(Expression.of(one), Expression.of(other)))
    for condition in comparison.added_conditions:
        node = Select(node, condition.over(place_of))
    items = tuple(
        OutputColumn(
            item.name,
            item.expression.over(place_of) if place is None else Expression.of(ColumnRef(EXTENT, f"c{place + 1}")),
        )
        for item, place in zip(comparison.after.select.items, comparison.items, strict=True)
    )
    after = comparison.after
    return ExtentQuery(ViewDefinition(after.name, after.sql, Project(node, items)), tuple(again))


def _relation(comparison: Comparison) -> Relation:
    """The extent, typed as its columns are at the sources; what was computed is only passed on, as text."""
    columns = []
    for place, item in enumerate(comparison.before.select.items):
        ref = item.expression.column
        type_ = PgType("text", "text")
        if ref is not None:
            type_ = comparison.old[ref.alias].relation.column(ref.column).type
        columns.append(Column(f"c{place + 1}", type_, place + 1))
    return Relation(RelationName("", "", comparison.before.name), 0, tuple(columns))


def _key(
    comparison: Comparison, alias: str, shown: dict[ColumnRef, int], updated: Collection[RelationName]
) -> tuple[str, ...] | str:
    """A key of the occurrence's table, then and now, that the extent shows; or why there is none."""
    if comparison.replacement is not None and alias == comparison.replacement.new:
        return "another table took its place"
    relation = comparison.new[alias].relation
    if relation.name in updated:
        return f"rows of {relation.name} changed meanwhile"
    before = next(comparison.old[old] for old, new in comparison.kept.items() if new == alias)
    then = {
        frozenset(comparison.column(ColumnRef(before.alias, column)) for column in key) for key in before.relation.keys
    }
    for key in relation.keys:
        refs = frozenset(ColumnRef(alias, column) for column in key)
        computable = all(relation.column(column).type.computation() is not None for column in key)
        if refs <= shown.keys() and computable and refs in then:
            return key
    return f"no key of {relation.name} by which to look it up"
