"""Views that become empty with a relation: TRUNCATE as a change like any other, not as a reason to read (rule C4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyda.errors import DydaError
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.programs import recorded
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.message import DataUpdate, SchemaChange, Truncation
from dyda.model.position import Position
from dyda.model.relation import RelationName
from scheduler import Queued
from va import Emptied, MetadataOnly, Truncated, adapt
from vm import emptied

__all__ = ["emptying"]

FEW = 10_000
"""With more rows since a truncation, the relation is read as it is: it was loaded again, and much of it stays the
same. Extents with more rows are not emptied row by row."""


def emptying(
    view: MaintainedView,
    definition: ViewDefinition,
    changes: Sequence[SchemaChange | Truncation],
    arrivals: Arrivals,
    to: Mapping[str, Position],
    known_as: Mapping[RelationName, RelationName],
    numeric: str,
) -> Emptied | None:
    """How the view gets to `definition` at `to` if some of `changes` emptied relations under it; None if it cannot do
    without reading. `known_as`: names in `definition` that the messages know by another one."""
    gone = {change.relation for change in changes if isinstance(change, Truncation) and change.whole}
    names = {known_as.get(name, name): name for name in definition.relations}
    rest = [change for change in changes if not (isinstance(change, Truncation) and change.whole)]
    if not gone or not gone <= names.keys() or not isinstance(adapt(view.definition, definition, rest), MetadataOnly):
        return None
    try:
        program = recorded(numeric, definition, view.record)
    except DydaError:
        return None
    if emptied(program, {names[name] for name in gone}) is None:
        return None
    unseen = [
        queued
        for source, position in to.items()
        if (before := view.positions.get(source)) is not None  # of what it did not read it has all there is
        for queued in arrivals.of_source(source).between(before, position)
    ]
    truncated = []
    for name in sorted(gone):
        found = _truncated(name, names[name], unseen)
        if found is None or found[1] > FEW:
            return None
        truncated.append(found[0])
    shown = ", ".join(map(str, sorted(gone)))
    reason = f"{shown} {'was' if len(gone) == 1 else 'were'} truncated; what came since is added"
    return Emptied(definition, reason, tuple(truncated), (view.record.rows or 0) > FEW)


def _truncated(name: RelationName, now: RelationName, unseen: Sequence[Queued]) -> tuple[Truncated, int] | None:
    """The last truncation of the relation, if the view lacks one, and how many row images there are of it since.

    A truncation waits for every transaction that wrote to the relation, and later ones wait for it: so those whose last
    log entry is a later one came after it, and no other.
    """
    mine = sorted(
        (queued.message for queued in unseen if name in queued.message.relations), key=lambda one: one.last_sequence
    )
    last = max((place for place, one in enumerate(mine) if Truncation(name, True) in one.changes), default=None)
    if last is None:
        return None
    before = since = 0
    for change in mine[last].changes:
        if change == Truncation(name, True):
            before, since = before + since, 0
        elif isinstance(change, DataUpdate) and change.relation == name:
            since += change.inserted + change.deleted
    later = mine[last + 1 :]
    since += sum(
        change.inserted + change.deleted
        for message in later
        for change in message.changes
        if isinstance(change, DataUpdate) and change.relation == name
    )
    return Truncated(now, mine[last].xid, before, frozenset(message.xid for message in later)), since
