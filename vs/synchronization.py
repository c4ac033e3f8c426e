"""Synchronization: from a view and what happened to the relations it knows, to the view's best legal form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dyda.model.algebra import ViewDefinition
from dyda.model.knowledge import Knowledge
from dyda.model.preferences import Preference
from dyda.model.relation import Relation, RelationName
from vs.following import follow
from vs.judgement import Judgement

__all__ = ["Defaults", "World", "synchronize"]


@dataclass(frozen=True)
class Defaults:
    """What a component, or a view, prefers if its file says nothing."""

    component: Preference = field(default_factory=Preference)
    extent: str = "equivalent"
    new_columns: str = "ignore"


@dataclass(frozen=True)
class World:
    """The relations and the knowledge about them, before and after some schema changes.

    `relations`: every relation that a view or the knowledge speaks of, by the name and with the columns known before.
    `now`: those that changed, by the names known before; None if the relation is gone. Others are as they were.
    """

    relations: Mapping[RelationName, Relation]
    now: Mapping[RelationName, Relation | None]
    knowledge: Knowledge = field(default_factory=Knowledge)


def synchronize(
    definition: ViewDefinition,
    world: World,
    defaults: Defaults | None = None,
    plain_numeric: str = "decimal(38,18)",
) -> Judgement:
    """The view over the relations as they are now: as it stands, rewritten as its owner allows, or broken."""
    return follow(definition, world.now, plain_numeric)
