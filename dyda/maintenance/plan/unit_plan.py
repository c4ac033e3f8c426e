"""The plan of a unit: what becomes of every view, of what is known of relations, and what must be captured first.

Plain frozen data. The executor carries it out; `impact`, `pending show`, `pending plan`, approval and the version
history show the same object. Each view has exactly one of:

    Maintain     its rows follow by ΔV
    FollowText   its text follows a rename, or its layout the keys of its sources; its rows by ΔV
    Adapt        its rows follow its new definition from its extent or its states, or begin with nothing
    Rebuild      it is computed from the sources
    Freeze       it has no legal form: it keeps its rows and says why
    LeaveBehind  its text follows now, its rows when it can be built, or when a lane has built them
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dyda.maintenance.catalog_state import BuildRequest, MaintainedView
from dyda.maintenance.observe.tables import Table
from dyda.maintenance.plan.knowledge_after import EvolvedKnowledge
from dyda.maintenance.plan.positions import Moves
from dyda.maintenance.plan.version_details import Moved
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Behind, Cause
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import EarlierCatalog, ViewChange, ViewVersion
from scheduler import Unit
from va import EXTENT, Emptied, FromExtent, Reaggregate
from vs import Broken, Holds, Rewritten

__all__ = [
    "Adapt",
    "FollowText",
    "Freeze",
    "LeaveBehind",
    "Maintain",
    "Rebuild",
    "RelationFacts",
    "UnitPlan",
    "ViewPlan",
    "read_whole",
    "tables_of",
]


@dataclass(frozen=True)
class RelationFacts:
    """What a unit says of relations from now on."""

    described: Mapping[RelationName, Relation] = field(default_factory=dict)
    """By the names that they have now."""
    forgotten: frozenset[RelationName] = frozenset()
    """Names of the catalog that its relations no longer have."""
    gone: frozenset[RelationName] = frozenset()
    """Relations of the catalog that are not there any more."""
    known_as: Mapping[RelationName, RelationName] = field(default_factory=dict)
    """By their names now, what the poll knows renamed relations by."""
    looked_at: frozenset[RelationName] = frozenset()
    """Relations of the catalog whose present form the plan relies on."""

    def called(self, name: RelationName) -> RelationName:
        """What the poll knows the relation by."""
        return self.known_as.get(name, name)


@dataclass(frozen=True)
class _OfView:
    view: MaintainedView

    @property
    def name(self) -> str:
        return self.view.name


@dataclass(frozen=True)
class Maintain(_OfView):
    kind: ClassVar[str] = "maintain"
    moves: Moves


@dataclass(frozen=True)
class FollowText(_OfView):
    """`view` has its definition as it is from now on."""

    kind: ClassVar[str] = "follow_text"
    version: ViewVersion
    judgement: Holds | Rewritten
    moves: Moves


@dataclass(frozen=True)
class Adapt(_OfView):
    kind: ClassVar[str] = "adapt"
    how: FromExtent | Reaggregate | Emptied
    request: BuildRequest
    judgement: Holds | Rewritten
    moved: tuple[Moved, ...]
    to: Mapping[str, Position]
    untrusted: frozenset[RelationName] = frozenset()
    """Relations whose keys, as far as they are known, are those of a later state."""

    @property
    def definition(self) -> ViewDefinition:
        return self.how.definition

    def rebuild(self, reason: str) -> Rebuild:
        """The same by computing it from the sources, into a new table."""
        return Rebuild(
            self.request, self.definition, self.judgement, self.moved, self.to, reason, self.untrusted, new_table=True
        )


@dataclass(frozen=True)
class Rebuild:
    kind: ClassVar[str] = "rebuild"
    request: BuildRequest
    definition: ViewDefinition
    judgement: Holds | Rewritten
    moved: tuple[Moved, ...]
    to: Mapping[str, Position]
    reason: str | None = None
    """Why nothing less will do, if that is not why it is done at all."""
    untrusted: frozenset[RelationName] = frozenset()
    new_table: bool = False
    """Most rows will be others: they are written to a table of their own."""

    @property
    def name(self) -> str:
        return self.request.name


@dataclass(frozen=True)
class Freeze:
    kind: ClassVar[str] = "freeze"
    name: str
    judgement: Broken
    cause: Cause


@dataclass(frozen=True)
class LeaveBehind:
    kind: ClassVar[str] = "leave_behind"
    change: ViewChange
    judgement: Holds | Rewritten
    adapt: Adapt | None = None
    """What a lane can do under the unit's own poll, rather than build the view whole."""

    @property
    def name(self) -> str:
        return self.change.view

    @property
    def behind(self) -> bool:
        """Whether its rows are not what its new text means."""
        return self.change.version is not None and bool(self.change.version.details.get("behind"))

    @property
    def lane(self) -> Behind | None:
        """Why a lane computes its rows, if one does: a unit would take long for that."""
        cause = self.change.cause
        return cause if isinstance(cause, Behind) and cause.lane else None


ViewPlan = Maintain | FollowText | Adapt | Rebuild | Freeze | LeaveBehind


@dataclass(frozen=True)
class UnitPlan:
    """What one unit does. `unit` is None where views are built and no other goes along."""

    unit: Unit | None
    views: tuple[ViewPlan, ...]
    facts: RelationFacts = field(default_factory=RelationFacts)
    knowledge: EvolvedKnowledge = field(default_factory=EvolvedKnowledge)
    captures: tuple[Relation, ...] = ()
    """To be captured before any of this is read (C6): then the plan is made again, on the next poll."""
    built: frozenset[str] = frozenset()
    """Views that were to be built, whatever became of that."""
    earlier: Mapping[str, EarlierCatalog | None] = field(default_factory=dict)
    """By view, what it knows of its sources from now on that is older than the catalog; None: no longer anything."""
    postponed: Mapping[str, Cause] = field(default_factory=dict)
    """Views that were to be built and cannot be now, as where a source of theirs is out of reach."""

    @property
    def read_whole(self) -> set[Table]:
        """The tables that the unit reads whole for views that it was not asked to build."""
        return {table for view in self.views if view.name not in self.built for table in read_whole(view)}


def read_whole(plan: ViewPlan) -> set[Table]:
    """The tables that carrying out the plan of one view reads whole at the sources."""
    match plan:
        case Rebuild():
            return tables_of(plan.definition)
        case Adapt(how=FromExtent(restored=None, query=query, complement=complement)):
            return {table for part in (query, complement) if part is not None for table in tables_of(part)}
        case Adapt(how=FromExtent()):  # building it may turn out to cost less
            return tables_of(plan.definition)
    return set()


def tables_of(definition: ViewDefinition) -> set[Table]:
    return {(scan.relation.name.source, scan.relation.oid) for scan in scans(definition.tree) if scan.alias != EXTENT}
