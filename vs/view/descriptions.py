"""How a sentence calls the parts of a view: "the aggregate sum(f.price) of column total"."""

from __future__ import annotations

from dyda.model.algebra.nodes import Aggregate, ColumnRef, Derived, Expression, Group, OuterJoin, SemiJoin, SetOperation
from vs.view.regions import Anatomy, Path, Place

__all__ = ["inside", "mark", "said"]


def said(anatomy: Anatomy, place: Place) -> str:
    """The expression there, and what it is part of."""
    node = anatomy.nodes[place.path]
    match place.kind:
        case "item":
            where = inside(anatomy, place.path)
            return f"column {_column(anatomy, place)}" + (f" of {where}" if where else "")
        case "key":
            return f"the grouping key {spelt(anatomy, place.expression)}{_of(anatomy, place)}"
        case "aggregate":
            assert isinstance(node, Group)
            return f"the aggregate {_aggregate(anatomy, node.aggregates[place.number])}{_of(anatomy, place)}"
        case "membership":
            return f"the comparison of {subquery(anatomy, place.path)}"
        case "matching":
            return f"condition {spelt(anatomy, place.expression)} of {subquery(anatomy, place.path)}"
        case "on":
            assert isinstance(node, OuterJoin)
            return f"condition {spelt(anatomy, place.expression)} of the {node.kind.upper()} JOIN"
        case "condition":
            where = inside(anatomy, place.path)
            return f"condition {spelt(anatomy, place.expression)}" + (f" of {where}" if where else "")


def spelt(anatomy: Anatomy, expression: Expression) -> str:
    """The expression with aggregates and keys as they are written, not by the names that the tree has for them."""

    def name(ref: ColumnRef) -> str:
        for node in anatomy.nodes.values():
            if isinstance(node, Group) and node.alias == ref.alias:
                for key in node.keys:
                    if key.name == ref.column:
                        return spelt(anatomy, key.expression)
                return next(_aggregate(anatomy, one) for one in node.aggregates if one.name == ref.column)
        return str(ref)

    return expression.rendered(name)


def _aggregate(anatomy: Anatomy, aggregate: Aggregate) -> str:
    argument = "*" if aggregate.argument is None else spelt(anatomy, aggregate.argument)
    return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{argument})"


def mark(anatomy: Anatomy, place: Place) -> str:
    """What to put a preference on, so that it holds for the place."""
    if place.kind in ("key", "aggregate"):
        readers = anatomy.readers_of(place)
        return mark(anatomy, readers[0]) if readers else spelt(anatomy, place.expression)
    return _column(anatomy, place) if place.kind == "item" else spelt(anatomy, place.expression)


def inside(anatomy: Anatomy, path: Path) -> str:
    """The innermost part of the view that the node is inside of, other than the view itself; nothing for that."""
    while path:
        above, number, path = anatomy.nodes[path[:-1]], path[-1], path[:-1]
        match above:
            case SemiJoin() if number == 1:
                return subquery(anatomy, path)
            case SetOperation(kind=kind):
                return f"the {'right' if number else 'left'} branch of {kind.upper()}"
            case Derived(alias=alias, view=view):
                return f"view {view}" if view is not None else f"the derived table {alias}"
            case OuterJoin(kind=kind):
                return f"the {'right' if number else 'left'} side of the {kind.upper()} JOIN"
    return ""


def subquery(anatomy: Anatomy, path: Path) -> str:
    """EXISTS and IN are one operator, and so are NOT EXISTS and the anti join."""
    node = anatomy.nodes[path]
    assert isinstance(node, SemiJoin)
    if node.membership is not None:
        return "NOT IN (…)"
    return "NOT EXISTS (…)" if node.anti else "EXISTS (…)"


def _of(anatomy: Anatomy, place: Place) -> str:
    names = anatomy.shown(place)
    if names:
        return f" of column {names[0]}"
    readers = anatomy.readers_of(place)
    return f" of condition {spelt(anatomy, readers[0].expression)}" if readers else ""


def _column(anatomy: Anatomy, place: Place) -> str:
    query = anatomy.query(place.path)
    return anatomy.nodes[query].columns[place.number].column
