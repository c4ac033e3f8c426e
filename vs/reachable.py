"""Every relation that a rewriting of a view might read: scheduling must know them (rule S2)."""

from __future__ import annotations

import networkx

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.relation import RelationName
from vs.view.preferences import Defaults, effective_preferences

__all__ = ["candidate_relations"]


def candidate_relations(
    definition: ViewDefinition, knowledge: Knowledge, defaults: Defaults | None = None
) -> frozenset[RelationName]:
    """The view's own relations and, if anything in it may be replaced or dropped, all that the knowledge connects."""
    preferences = effective_preferences(definition, defaults)
    components = [*preferences.items, *preferences.relations, *preferences.conditions]
    own = definition.relations
    if not any(preference.replaceable or preference.dispensable for _, preference in components):
        return own
    graph = networkx.Graph()
    graph.add_nodes_from(own)
    for constraint in knowledge.constraints:
        graph.add_edge(*sorted(constraint.relations))
    reachable: set[RelationName] = set()
    for name in own:
        reachable |= networkx.node_connected_component(graph, name)
    return frozenset(reachable)
