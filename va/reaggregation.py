"""Adaptation plans for views of several blocks.

    the same shape                                   metadata: the same rows, the same states
    fewer columns, nothing else above                projection of the extent
    fewer keys, aggregates or columns, another       reaggregation of the last operator's state: no source query
    HAVING, other expressions over the same group
    anything else                                    recompute

A view of several blocks keeps states beside its extent (dyda.model.operator_state). A projection leaves them as they
are, so the new program must have the same ones. A state has every group with its counts, so that merged groups are
added up exactly and what they show is computed from the state alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dyda.model.algebra.nodes import Distinct, Group, Node, Project, Query, Select, SetOperation, ViewDefinition
from va.canonical_form import Shapes

__all__ = ["Reading", "Reaggregate", "compare_nested"]


@dataclass(frozen=True)
class Reaggregate:
    """The state of the view's last keyed operator is aggregated again, and the extent computed from it. `keys`: for
    each key of the new state its place among the old state's keys, from 0 (for DISTINCT and set operations: the row's
    columns); `aggregates`: likewise for the aggregates of a group."""

    kind: ClassVar[str] = "reaggregation"
    definition: ViewDefinition
    reason: str
    keys: tuple[int, ...]
    aggregates: tuple[int, ...] = ()
    coarser: bool = True
    """Whether rows of the old state fall together; otherwise each stays, narrower or as it is."""
    new_table: bool = False
    """The extent's rows are written to a table of their own, as most of them change."""


@dataclass(frozen=True)
class Reading:
    """What the extent gives: all of it in order, or some of its columns."""

    columns: tuple[int, ...]
    whole: bool


def compare_nested(before: ViewDefinition, after: ViewDefinition) -> Reading | Reaggregate | str:
    """How the rows of `after` come from `before`'s extent or state; or why they do not."""
    old, new = Shapes(before.tree), Shapes(after.tree)
    places = _columns(before.tree, after.tree, old, new)
    if places is not None:
        return Reading(places, places == tuple(range(len(before.names))))
    again = _counted(before, after, old, new) or _grouped(before, after, old, new)
    if again is not None:
        return again
    return "the view's definition no longer matches its stored rows"


def _columns(before: Query, after: Query, old: Shapes, new: Shapes) -> tuple[int, ...] | None:
    """For each column of `after`, the place of the same one of `before` over the same rows; None if they differ. UNION
    ALL keeps every row of both sides; whatever compares whole rows must keep all of its columns."""
    match before, after:
        case Project(rows, items), Project(rows_now, items_now):
            if old.rows(rows) != new.rows(rows_now):
                return None
            places: dict[Hashable, int] = {}
            for place, item in enumerate(items):
                places.setdefault(old.expression(item.expression), place)
            found = [places.get(new.expression(item.expression)) for item in items_now]
            return tuple(place for place in found if place is not None) if None not in found else None
        case Distinct(below), Distinct(below_now):
            return _all(below, _columns(below, below_now, old, new))
        case SetOperation(kind, all_, left, right), SetOperation(kind_now, all_now, left_now, right_now):
            if (kind, all_) != (kind_now, all_now):
                return None
            one, other = _columns(left, left_now, old, new), _columns(right, right_now, old, new)
            if one is None or one != other:
                return None
            return one if kind == "union" and all_ else _all(before, one)
    return None


def _all(query: Query, places: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """The places, if every column is among them once, in order: another order would be another state."""
    return places if places == tuple(range(len(query.columns))) else None


def _counted(before: ViewDefinition, after: ViewDefinition, old: Shapes, new: Shapes) -> Reaggregate | None:
    """DISTINCT or a set operation at the top, over fewer columns: how often each row is there adds up."""
    match before.tree, after.tree:
        case Distinct(below), Distinct(below_now):
            places = _columns(below, below_now, old, new)
        case SetOperation(kind, all_, left, right), SetOperation(kind_now, all_now, left_now, right_now):
            if (kind, all_) != (kind_now, all_now):
                return None
            places = _columns(left, left_now, old, new)
            if places != _columns(right, right_now, old, new):
                return None
        case _:
            return None
    if places is None or len(set(places)) < len(places):
        return None
    lost = [name for place, name in enumerate(before.names) if place not in places]
    return Reaggregate(after, f"rows that differed only in {', '.join(lost)} are merged", places)


def _grouped(before: ViewDefinition, after: ViewDefinition, old: Shapes, new: Shapes) -> Reaggregate | None:
    """One group at the top, over the same rows, with keys and aggregates that the old one had."""
    one, other = _group(before.tree), _group(after.tree)
    if one is None or other is None or old.rows(one.input) != new.rows(other.input):
        return None
    keys = _places(
        [old.expression(key.expression) for key in one.keys], [new.expression(key.expression) for key in other.keys]
    )
    aggregates = _places([old.aggregate(a) for a in one.aggregates], [new.aggregate(a) for a in other.aggregates])
    if keys is None or aggregates is None:
        return None
    lost = [key.expression.sql for place, key in enumerate(one.keys) if place not in keys]
    if not lost:
        return Reaggregate(after, "the groups stay; other columns of them are shown", keys, aggregates, False)
    if not keys:
        return None  # the group without keys is there even if no row is: that is not what the state says
    if any(aggregate.distinct for aggregate in other.aggregates):
        return None  # a value may be in several of the groups that fall together
    return Reaggregate(after, f"groups that differed only in {', '.join(lost)} are merged", keys, aggregates)


def _group(tree: Query) -> Group | None:
    """The group that a view shows, with HAVING between at the most."""
    node: Node = tree.input if isinstance(tree, Project) else tree
    while isinstance(node, Select):
        node = node.input
    return node if isinstance(node, Group) else None


def _places(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[int, ...] | None:
    places = {one: place for place, one in reversed(list(enumerate(old)))}
    found = [places.get(one) for one in new]
    return tuple(place for place in found if place is not None) if None not in found else None
