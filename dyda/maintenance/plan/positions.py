"""Where a unit takes each view: a position for every source that it reads (rules P3 and P5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.position import Position
from dyda.model.relation import RelationName
from scheduler import Unit

__all__ = ["Destinations", "Moves", "transactions"]

Moves = Mapping[str, tuple[Position | None, Position | None]]
"""By source, the position before and after; None: the view did not read it, or does not any more."""


def transactions(unit: Unit) -> dict[str, set[int]]:
    """The unit's transactions, by source."""
    found: dict[str, set[int]] = {}
    for queued in unit.messages:
        found.setdefault(queued.message.source, set()).add(queued.message.xid)
    return found


@dataclass
class Destinations:
    """Where one unit takes the views. Views mostly have the same positions, so each is worked out once."""

    round: Round
    unit: Unit
    _known: dict[tuple[str, Position | None, bool], Position] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.transactions = transactions(self.unit)

    def moves(self, view: MaintainedView) -> Moves:
        """The sources whose part of the unit the view does not have yet."""
        return {
            source: (view.positions[source], self.position(view, source))
            for source, xids in self.transactions.items()
            if not all(view.has(source, xid) for xid in xids)
        }

    def of(
        self, view: MaintainedView, definition: ViewDefinition, known_as: Mapping[RelationName, RelationName]
    ) -> dict[str, Position]:
        """The state that the view is taken to with this definition."""
        new = {
            scan.relation.name.source
            for scan in scans(definition.tree)
            if known_as.get(scan.relation.name, scan.relation.name) not in view.definition.relations
        }
        return {source: self.position(view, source, anew=source in new) for source in sorted(definition.sources)}

    def position(self, view: MaintainedView, source: str, *, anew: bool = False) -> Position:
        """Where the unit takes the view; what it leaves out is listed as in progress (P3).

        Without a transaction of the unit, a source's position stays, so that equal positions stay equal. A source that
        the view did not read begins where the unit leaves its other readers; without any, at the snapshot (P5).
        `anew`: the view reads a relation there that it did not read. Capture of it may be younger than the view's
        position, and what is older than that cannot be taken away, so the position goes to the snapshot too.
        """
        at = view.positions.get(source)
        if (source, at, anew) not in self._known:
            self._known[source, at, anew] = self._from(source, at, anew)
        return self._known[source, at, anew]

    def _from(self, source: str, at: Position | None, anew: bool) -> Position:
        taken = self.transactions.get(source, set())
        snapshot = self.round.sources[source].position
        if at is None:
            if self.round.after.get(source) is None:
                return snapshot
        elif not anew and all(map(at.includes, taken)):
            return at
        if at is not None and not anew:
            # What waits behind all that the view has is many in a long queue, and need not be listed one by one.
            snapshot = snapshot.until(max(at.xmax - 1, *taken))
        waiting = self.round.arrivals.of_source(source).xids.between(0 if at is None else at.xmin, snapshot.xmax)
        left = (xid for xid in waiting if xid not in taken and not (at is not None and at.includes(xid)))
        return snapshot.without(left)
