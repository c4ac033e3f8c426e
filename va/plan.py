"""Adaptation plans: how an extent follows its definition (paper 001, Section 6.5).

    before ─┐                         ┌─ the same rows ──────────────────────── metadata
            ├─ compare ─ E gives … ───┼─ some of its columns ────────────────── projection
    after ──┘                         ├─ E, or E ⋈ what is new ──────────────── selection, join
                                      ├─ all but what a condition excluded ──── complement
                                      ├─ all but one relation's difference ──── delta
                                      └─ nothing that helps ─────────────────── recompute

No constraint is trusted: each plan is right for any rows, by algebra and by the keys in the sources' catalogs. Every
plan but the last two starts from the extent E at its positions and reads what is new at the unit's end. A sweep over
the new definition adds the unit's data updates; new occurrences do not change in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias, TypeVar

from dyda.model.algebra.nodes import ColumnRef, Expression, Project, Select, ViewDefinition, scans
from dyda.model.message import SchemaChange, Truncation
from dyda.model.relation import RelationName
from dyda.model.schema_change import ChangeType, RenameColumn
from va.comparison import LOST, Comparison, find_replacement
from va.extent_query import extent_query, shown_before, shown_columns
from va.reaggregation import Reading, Reaggregate, compare_nested

__all__ = [
    "WORTH_WHILE",
    "Adaptation",
    "Emptied",
    "FromExtent",
    "MetadataOnly",
    "Recompute",
    "Restored",
    "Truncated",
    "adapt",
    "in_new_table",
]

ASKING = 2
"""A row read at a source costs as much as this many read in the warehouse: sources have other work to do."""

WORTH_WHILE = 10_000
"""Extents with fewer rows are never recomputed for cost, nor written to a new table."""

IN_MEMORY = 1_000_000
"""A relation that replaces another is compared with it in memory, up to this many rows."""


@dataclass(frozen=True)
class MetadataOnly:
    """The rows stay as they are; only the definition's text may change. No source is queried."""

    kind: ClassVar[str] = "metadata"
    definition: ViewDefinition
    reason: str


@dataclass(frozen=True)
class Recompute:
    """Evaluate the definition over the sources as they are, and merge the difference into the extent."""

    kind: ClassVar[str] = "recompute"
    definition: ViewDefinition
    reason: str


@dataclass(frozen=True)
class Restored:
    """The occurrence `alias` replaces a relation whose rows the extent shows, each distinct one once. `columns`: by
    name, with the place in the extent that shows the old relation's. `distinct`: the places of all columns that the
    view used of it, including a key."""

    alias: str
    columns: tuple[tuple[str, int], ...]
    distinct: tuple[int, ...]


@dataclass(frozen=True)
class FromExtent:
    """The new rows are made from the old extent: `columns` of it (places), or `query` over it, on Spark. `fixed`:
    occurrences of `definition` that the extent does not hold; they are read at the unit's end and do not change.
    `complement`: further rows, read at the sources at the extent's positions."""

    kind: str
    definition: ViewDefinition
    reason: str
    columns: tuple[int, ...] | None = None
    query: ViewDefinition | None = None
    fixed: frozenset[str] = frozenset()
    complement: ViewDefinition | None = None
    restored: Restored | None = None
    new_table: bool = False
    """Most of the extent's rows change: they are written to a table of their own rather than one by one."""


@dataclass(frozen=True)
class Truncated:
    """A relation, by its name in the definition, that a transaction emptied (rule C4). All of its rows since are those
    images of that transaction that are not the first `before` ones, and those of the transactions `later`."""

    relation: RelationName
    xid: int
    before: int
    later: frozenset[int]


@dataclass(frozen=True)
class Emptied:
    """The view begins with nothing: `truncated` relations became empty, and without them it has no row of theirs. Only
    what came into them since is computed. `new_table`: rather than deleting the rows that the extent has."""

    kind: ClassVar[str] = "emptied"
    definition: ViewDefinition
    reason: str
    truncated: tuple[Truncated, ...]
    new_table: bool = False


Adaptation: TypeAlias = MetadataOnly | FromExtent | Emptied | Recompute
Anew = TypeVar("Anew", FromExtent, Reaggregate)


def adapt(
    before: ViewDefinition,
    after: ViewDefinition,
    changes: Sequence[SchemaChange | Truncation],
    updated: Collection[RelationName] = (),
    rows: int | None = None,
) -> Adaptation | Reaggregate:
    """The plan that brings the extent of `before` to `after`, given what happened to their relations. `updated`:
    relations, by their names in `after`, with row images since the extent; `rows`: the extent's size, if cost is to
    count."""
    if not before.plain or not after.plain:
        return _adapt_nested(before, after, changes, updated, rows)
    replacement = find_replacement(before, after)
    comparison = Comparison(before, after, replacement)
    if why := _moved(comparison, changes):
        return Recompute(after, why)
    if comparison.lost:
        gone = ", ".join(str(comparison.old[alias].relation.name) for alias in comparison.lost)
        return Recompute(after, f"{gone} left the view, and how often it repeated each row is not known")
    if any(ref.alias == LOST for condition in comparison.lost_conditions for ref in condition.columns):
        return Recompute(after, "a condition was dropped together with a column it reads")
    restored = _restored(comparison)
    if isinstance(restored, str):
        return Recompute(after, restored)
    if restored is not None and comparison.lost_conditions:
        return Recompute(after, "a relation was replaced and a condition dropped")
    plan = _from_extent(comparison, changes, updated, restored)
    if isinstance(plan, FromExtent) and (dearer := _dearer(comparison, plan, rows)):
        return Recompute(after, dearer)
    if isinstance(plan, FromExtent) and plan.query is not None and None in comparison.items:
        return _in_new_table(plan, rows)  # what the extent does not show may be another value in every row
    return plan


def _adapt_nested(
    before: ViewDefinition,
    after: ViewDefinition,
    changes: Sequence[SchemaChange | Truncation],
    updated: Collection[RelationName],
    rows: int | None,
) -> Adaptation | Reaggregate:
    """Plans for views of several blocks. Data changes of the same unit can be maintained only if rows and states stay
    as they are: a state that is being rebuilt cannot be maintained meanwhile."""
    comparison = Comparison(before, after)
    if why := _moved(comparison, changes):
        return Recompute(after, why)
    found = compare_nested(before, after)
    if isinstance(found, str):
        return Recompute(after, found)
    if isinstance(found, Reading) and found.whole:
        return MetadataOnly(after, _said(changes))
    if updated:
        return Recompute(after, f"rows of {', '.join(map(str, sorted(updated)))} changed meanwhile")
    if isinstance(found, Reaggregate):
        return _in_new_table(found, rows) if found.coarser else found
    return FromExtent("projection", after, _projected(before.names, found.columns), columns=found.columns)


def in_new_table(plan: Anew, entries: int, rows: int) -> Anew:
    """The plan, once it is known how many entries it adds to an extent of so many rows. An entry takes a row away or
    adds one, so as many entries as there are rows change half of them."""
    return _in_new_table(plan, entries) if entries > rows and not plan.new_table else plan


def _in_new_table(plan: Anew, rows: int | None) -> Anew:
    """The plan, with the extent's rows in a new table if they are many; most of them change."""
    if rows is None or rows <= WORTH_WHILE:
        return plan
    return replace(plan, new_table=True, reason=f"{plan.reason}; in a new table, as most rows change")


def _projected(names: Sequence[str], places: Collection[int]) -> str:
    lost = [name for place, name in enumerate(names) if place not in set(places)]
    return f"the extent without {', '.join(lost)}" if lost else "the extent with its columns in another order"


def _from_extent(
    comparison: Comparison,
    changes: Sequence[SchemaChange | Truncation],
    updated: Collection[RelationName],
    restored: Restored | None,
) -> Adaptation:
    after = comparison.after
    complement = _complement(comparison)
    new = [str(comparison.new[alias].relation.name) for alias in comparison.added]
    if not new and not comparison.added_conditions and None not in comparison.items:
        places = tuple(place for place in comparison.items if place is not None)
        if complement is None and restored is None:
            if places == tuple(range(len(comparison.before.select.items))):
                return MetadataOnly(after, _said(changes))
            return FromExtent("projection", after, _projected(comparison.before.names, places), columns=places)
        return _named(comparison, FromExtent("", after, "", columns=places, complement=complement, restored=restored))
    query = extent_query(comparison, updated)
    if isinstance(query, str):
        return Recompute(after, query)
    again = [str(comparison.new[alias].relation.name) for alias in query.again]
    return _named(
        comparison,
        FromExtent(
            "join" if new or again else "selection",
            after,
            f"the extent joined with {', '.join([*new, *again])}" if new or again else "a selection of the extent",
            query=query.definition,
            fixed=frozenset(comparison.added),
            complement=complement,
            restored=restored,
        ),
    )


def _named(comparison: Comparison, plan: FromExtent) -> FromExtent:
    """The plan under the name of what costs most in it."""
    kind, reason = plan.kind, [plan.reason] if plan.reason else []
    if plan.complement is not None:
        kind = "complement"
        conditions = " and ".join(condition.sql for condition in comparison.lost_conditions)
        reason.append(f"plus the rows that {conditions} excluded")
    if plan.restored is not None and comparison.replacement is not None:
        kind = "delta"
        old = comparison.old[comparison.replacement.old].relation.name
        new = comparison.new[comparison.replacement.new].relation.name
        reason.append(f"plus the difference between {new} and {old} as the extent shows it")
    return replace(plan, kind=kind, reason="; ".join(reason))


def _said(changes: Sequence[SchemaChange | Truncation]) -> str:
    return "; ".join(dict.fromkeys(map(str, changes))) or "the rows stay as they are"


def _moved(comparison: Comparison, changes: Sequence[SchemaChange | Truncation]) -> str | None:
    """Why rows of the extent may have changed without a row image; None if they have not. Relations that are new in the
    view, or replace another, are read as they are now anyway."""
    kept = {
        comparison.old[old].relation.name: comparison.new[new].relation.name for old, new in comparison.kept.items()
    }
    for change in changes:
        if change.relation not in kept:
            continue
        if isinstance(change, Truncation):
            return f"{change.relation} was truncated"
        if not change.steps:
            return f"{change}, in a way that is not known"
        renamed = any(isinstance(step, RenameColumn) for step in change.steps)
        used = _columns(comparison.before, change.relation)
        used |= _columns(comparison.after, change.relation) | _columns(comparison.after, kept[change.relation])
        for step in change.steps:
            unused = isinstance(step, ChangeType) and not renamed and step.column not in used
            if step.moves_rows and not unused:
                return str(change)
    return None


def _columns(definition: ViewDefinition, relation: RelationName) -> set[str]:
    aliases = {scan.alias for scan in scans(definition.tree) if scan.relation.name == relation}
    return {ref.column for ref in definition.columns if ref.alias in aliases}


def _restored(comparison: Comparison) -> Restored | str | None:
    """How the replaced relation is read off the extent; or why it cannot be."""
    if comparison.replacement is None:
        return None
    old, new = comparison.replacement.old, comparison.replacement.new
    relation = comparison.old[old].relation
    size = comparison.new[new].relation.estimated_rows
    if size > IN_MEMORY:
        return f"{comparison.new[new].relation.name} has about {size} rows, too many to compare with {relation.name}"
    used = {ref.column for ref in comparison.before.columns if ref.alias == old}
    places = {ref.column: place for ref, place in shown_before(comparison.before).items() if ref.alias == old}
    hidden = sorted(used - places.keys())
    if hidden:
        return f"{relation.name} cannot be restored from the extent, which does not show {', '.join(hidden)}"
    if not any(set(key) <= used for key in relation.keys):
        return f"{relation.name} cannot be restored from the extent, which shows no key of it"
    shown = shown_columns(comparison)
    wanted = sorted(ref.column for ref in comparison.after.columns if ref.alias == new)
    columns = tuple((column, shown[ColumnRef(new, column)]) for column in wanted)
    return Restored(new, columns, tuple(sorted(places[column] for column in used)))


def _complement(comparison: Comparison) -> ViewDefinition | None:
    """The view over those rows alone for which a condition that is gone did not hold (R5: IS NOT TRUE, never NOT)."""
    if not comparison.lost_conditions:
        return None
    parts: list[str | ColumnRef] = ["("]
    for number, condition in enumerate(comparison.lost_conditions):
        parts += [" AND (" if number else "(", *condition.parts, ")"]
    parts.append(") IS NOT TRUE")
    columns = frozenset(ref for condition in comparison.lost_conditions for ref in condition.columns)
    kept_out = Expression("".join(map(str, parts)), columns, parts=tuple(parts))
    after = comparison.after
    tree = Project(Select(after.select.input, kept_out), after.select.items)
    return ViewDefinition(after.name, after.sql, tree)


def _dearer(comparison: Comparison, plan: FromExtent, rows: int | None) -> str | None:
    """Why recomputing costs less; None if it does not."""
    if rows is None or rows <= WORTH_WHILE:
        return None
    if plan.complement is not None or (plan.query is None and plan.restored is None):
        return None
    read = list(scans(plan.query.tree)) if plan.query is not None else []
    if plan.restored is not None:
        read.append(comparison.new[plan.restored.alias])
    asked = sum(scan.relation.estimated_rows for scan in read)
    everything = sum(scan.relation.estimated_rows for scan in comparison.new.values())
    if rows + ASKING * asked <= ASKING * everything:
        return None
    return f"recomputing costs less: the extent has {rows} rows, the view's relations about {everything}"
