"""What one round knows before anything is decided: one frozen object, so that planning is a function of it.

poll ───────┐
catalog ────┼──▶ Round ──▶ plan
tables now ─┘
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.observe.tables import Table, TablesNow
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import Relation
from dyda.project import Project
from dyda.warehouse import EarlierCatalog
from scheduler import Queued, Unit

__all__ = ["Round", "SourceNow"]


@dataclass(frozen=True)
class SourceNow:
    """A source in reach: the position of its snapshot, and the oids of the tables that capture watched in it."""

    position: Position
    watched: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Round:
    """The catalog, the queue, the sources' snapshots and the tables that were looked at."""

    project: Project
    catalog: CatalogState
    arrivals: Arrivals = field(default_factory=Arrivals)
    sources: Mapping[str, SourceNow] = field(default_factory=dict)
    after: Mapping[str, Position | None] = field(default_factory=dict)
    """By source, what every view has that reads it; None if no view does."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    tables: TablesNow = field(default_factory=TablesNow)
    whole: CatalogState | None = None
    """The catalog itself, where `catalog` is what some views know of it."""

    waiting: frozenset[str] = frozenset()
    """Views that wait for a message, or process another unit."""

    stopped: frozenset[str] = frozenset()
    """Views that a message stops which an operator has yet to decide about: a lane builds at all that the snapshots
    show, and would take them past it."""
    lane_size: int | None = None
    """What reads so many bytes at the sources takes long, and lanes do it; None: no lanes run."""
    sizes: Mapping[Table, int] = field(default_factory=dict)
    """Bytes, of the tables that were measured."""

    @property
    def stored(self) -> CatalogState:
        return self.catalog if self.whole is None else self.whole

    @classmethod
    def of(
        cls,
        project: Project,
        catalog: CatalogState,
        polled: Poll,
        earlier: EarlierCatalog | None = None,
        *,
        lanes: bool = False,
    ) -> Round:
        """As views know it that share `earlier`. `lanes`: whether they run."""
        return cls(
            project,
            catalog.known_to(earlier),
            polled.arrivals,
            {
                name: SourceNow(snapshot.position, frozenset(snapshot.state.watched))
                for name, snapshot in polled.snapshots.items()
            },
            dict(polled.after),
            dict(polled.unreachable),
            whole=catalog,
            lane_size=project.settings.maintenance.lane_size if lanes else None,
        )

    @property
    def numeric(self) -> str:
        return self.project.settings.spark.numeric

    @property
    def queue(self) -> tuple[Queued, ...]:
        """In arrival order, the messages that some extent does not have yet."""
        return self.arrivals.queue

    @property
    def moving(self) -> tuple[Queued, ...]:
        """Those of the queue that are more than row images."""
        return self.arrivals.moving

    def away(self, source: str) -> str | None:
        """Why the source is out of reach; None if it is not."""
        return None if source in self.sources else self.unreachable.get(source, "capture is not attached")

    def takes_long(self, tables: Iterable[Table]) -> bool:
        """Whether reading all of these is left to a lane."""
        read = set(tables)
        size = sum(self.sizes.get(one, 0) for one in read)
        return self.lane_size is not None and bool(read) and size >= self.lane_size

    def touched_by(self, unit: Unit, views: Iterable[MaintainedView]) -> list[Relation]:
        """The relations of the catalog that the unit's schema changes touch and `views` or the knowledge read: what
        only others read waits for them. A source that no view reads has no position: whatever is pending there is part
        of the unit's world."""
        ours = frozenset(unit.numbers)
        read = self.catalog.knowledge.relations.union(*(view.definition.relations for view in views))
        touched = {
            change.relation
            for queued in self.moving
            if queued.number in ours or self.after.get(queued.message.source) is None
            for change in queued.message.changes
            if not isinstance(change, DataUpdate)
        }
        known = self.catalog.relations
        return [known[name].relation for name in sorted(touched & read) if name in known]

    def watches(self, relation: Relation) -> bool:
        """Whether the table was captured when its source's snapshot was taken."""
        source = self.sources.get(relation.name.source)
        return source is not None and relation.oid in source.watched
