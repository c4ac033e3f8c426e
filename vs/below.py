"""Views below a view: each is judged first, and the view that reads it sees it as a relation that may have moved.

A lower view that was rewritten brings its extent with it; one that lost a column is a relation that lost it; one that
is broken is gone. What is put in place of its name is always its own definition, so both views are of one mind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dyda.model.algebra import Derived, Node, Query, Scan, ViewDefinition
from dyda.model.facts import column_facts
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from vs.carrying import Moved
from vs.judgement import Broken, Holds, Judgement, Rewritten
from vs.wording import put_over

__all__ = ["Below", "lowest_first", "views_below"]


class _View(RelationName):
    """A view where a search expects a relation."""

    def __str__(self) -> str:
        return f"view {self.table}"


@dataclass(frozen=True)
class Below:
    """`definition` reads a relation in place of each view below that was judged; `now` are those that moved."""

    definition: ViewDefinition
    relations: Mapping[RelationName, Relation] = field(default_factory=dict)
    now: Mapping[RelationName, Relation | None] = field(default_factory=dict)
    moves: Mapping[RelationName, Moved] = field(default_factory=dict)
    judged: Mapping[str, ViewDefinition] = field(default_factory=dict)
    reasons: Mapping[RelationName, str] = field(default_factory=dict)

    @property
    def rewritten(self) -> list[str]:
        """The views below whose rows moved, in words."""
        return [f"{name} was rewritten with extent {move.extent}" for name, move in self.moves.items()]

    @classmethod
    def of(cls, definition: ViewDefinition, views: Mapping[str, Judgement]) -> Below:
        relations: dict[RelationName, Relation] = {}
        now: dict[RelationName, Relation | None] = {}
        moves: dict[RelationName, Moved] = {}
        judged: dict[str, ViewDefinition] = {}
        reasons: dict[RelationName, str] = {}
        for view, node in _derived(definition.tree).items():
            if view not in views:
                judged[view] = ViewDefinition(view, "", node.input)
                continue
            name = _View("", "", view)
            relations[name] = _relation(name, node.input, 0)
            judgement = views[view]
            match judgement:
                case Broken(reason):
                    now[name] = None
                    reasons[name] = f"view {view} is broken: {reason}"
                case Holds(found):
                    judged[view] = found
                case Rewritten(found, extent):
                    judged[view] = found
                    moves[name] = Moved(extent, judgement.exact)
            if view in judged:
                now[name] = _relation(name, judged[view].tree, 1)
        if not relations:
            return cls(definition, judged=judged)

        def scanned(node: Node) -> Node | None:
            if isinstance(node, Derived) and node.view is not None and node.view in views:
                return Scan(node.alias, relations[_View("", "", node.view)])
            return None

        tree = put_over(definition.tree, lambda expression: expression, lambda scan: scan, scanned)
        assert isinstance(tree, Query)
        return cls(replace(definition, tree=tree), relations, now, moves, judged, reasons)

    def restored(self, tree: Query) -> Query:
        """The tree with the views' definitions where relations stand for them."""

        def derived(node: Node) -> Node | None:
            if isinstance(node, Scan) and isinstance(node.relation.name, _View):
                view = node.relation.name.table
                return Derived(self.judged[view].tree, node.alias, view)
            return None

        found = put_over(tree, lambda expression: expression, lambda scan: scan, derived)
        assert isinstance(found, Query)
        return found


def views_below(definition: ViewDefinition) -> frozenset[str]:
    """The views that a view reads itself; those below these are theirs."""
    return frozenset(_derived(definition.tree))


def lowest_first(definitions: Iterable[ViewDefinition]) -> list[ViewDefinition]:
    """The views in an order in which each comes after those that it reads; by name where that says nothing."""
    known = {definition.name: definition for definition in definitions}
    order: dict[str, ViewDefinition] = {}

    def add(name: str) -> None:
        if name in known and name not in order:
            for below in sorted(views_below(known[name])):
                add(below)
            order[name] = known[name]

    for name in sorted(known):
        add(name)
    return list(order.values())


def _derived(node: Node) -> dict[str, Derived]:
    if isinstance(node, Derived) and node.view is not None:
        return {node.view: node}
    return {view: derived for below in node.inputs for view, derived in _derived(below).items()}


def _relation(name: RelationName, query: Query, oid: int) -> Relation:
    """The view's columns. A column that is passed on keeps its type; a computed one is whatever Spark makes of it.
    Two definitions are two relations (`oid`), so that their columns are compared by name."""
    facts = column_facts(query)
    columns = []
    for ref in query.columns:
        base = facts[ref].column
        columns.append(Column(ref.column, base.type if base is not None else PgType("text", "text"), 0))
    return Relation(name, oid, tuple(columns))
