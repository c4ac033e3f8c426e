"""One poll: a snapshot of every source and the messages between the extents and it.

Snapshots of different sources are taken one after the other and need not fit together: each source is a world of its
own, and a warehouse state names one position per source.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from dyda import faults
from dyda.errors import EvaluationFailed, InvariantViolated, SameDatabase, SourceNotAvailable, ValueDoesNotFit
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.observe.backlog import Backlog, Owed
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject
from dyda.parallel import in_parallel
from dyda.sources.adapter import Snapshot
from dyda.warehouse.writer import Writer
from scheduler import Queued

__all__ = ["Poll", "poll"]

Names = Collection[RelationName]


@dataclass
class Poll:
    """What one cycle sees. `arrivals` are the messages that some extent does not have yet."""

    snapshots: dict[str, Snapshot] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    """Sources that are out of reach or left alone, and why."""
    errors: list[SourceNotAvailable] = field(default_factory=list)
    """What this poll itself has met."""
    arrivals: Arrivals = field(default_factory=Arrivals)
    owed: Owed = field(default_factory=Owed)
    after: dict[str, Position | None] = field(default_factory=dict)
    marks: dict[str, str | None] = field(default_factory=dict)
    """By source, the mark that the last installation has remembered."""

    began: float = field(default_factory=time.monotonic)
    """What has happened before, its snapshots show."""
    locked: bool = False
    """Whether some relations stay as they are until the snapshots are closed."""
    closing: ExitStack = field(default_factory=ExitStack, repr=False)
    """Closes the snapshots."""

    def handed_over(self, sources: Collection[str]) -> ExitStack:
        """The snapshots of these sources outlive the block that opened them: whoever takes them closes them."""
        for source in [source for source in self.snapshots if source not in sources]:
            self.snapshots.pop(source).close()
        return self.closing.pop_all()

    @property
    def queue(self) -> tuple[Queued, ...]:
        """In arrival order."""
        return self.arrivals.queue

    @property
    def moving(self) -> tuple[Queued, ...]:
        return self.arrivals.moving

    def compare(
        self, others: Names = (), looked_at: Names = (), *, scanned: bool = False, durable: bool = False
    ) -> None:
        """R2: the schemas of all that was read since the last comparison are what they were before the snapshots; with
        `scanned`, also of what Spark's tasks have read. P2, with `durable`: what the snapshots show cannot be lost any
        more. Once is enough, however many units they are for."""

        def compare(source: str) -> None:
            snapshot = self.snapshots[source]
            read = snapshot.unchecked | {name for name in others if name.source == source}
            read |= snapshot.scanned if scanned else set()
            judged = {name for name in looked_at if name.source == source}
            if read or judged or snapshot.log_read:
                snapshot.compare(read, judged)
                if scanned:
                    snapshot.scanned.clear()
            if durable and not snapshot.durable:
                snapshot.make_durable(self.marks.get(source))

        in_parallel(compare, self.snapshots)

    def settle(self, others: Names = (), looked_at: Names = (), *, scanned: bool = False) -> None:
        """What was read so far is what it seems, and stays."""
        self.compare(others, looked_at, scanned=scanned, durable=True)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Rows that cannot be computed, or that would be there less than zero times, are blamed only if they are what
        the snapshot shows: a table that moved while it was read may have shown others, or none (R1). Then the unit is
        broken."""
        try:
            yield
        except (ValueDoesNotFit, EvaluationFailed, InvariantViolated):
            self.compare(scanned=True)
            raise

    @property
    def queries(self) -> int:
        """Maintenance queries asked so far under this poll."""
        return sum(snapshot.queries for snapshot in self.snapshots.values())


@contextmanager
def poll(
    opened: OpenProject,
    writer: Writer,
    known: CatalogState,
    locked: Collection[RelationName] = (),
    resting: Mapping[str, str] | None = None,
    backlog: Backlog | None = None,
) -> Iterator[Poll]:
    """Open every source that is captured, and put what is new there into the queue. Closed again at the end.

    `locked` are relations that must stay as they are until then; `resting` are sources to leave alone for now, with
    the reason: they count as out of reach. `backlog`: what earlier polls have received.
    """
    lock_limit = opened.project.settings.maintenance.lock_limit
    with ExitStack() as stack:
        found = Poll(unreachable={n: why for n, why in (resting or {}).items() if n in known.captured}, closing=stack)
        found.locked = bool(locked)
        found.marks = {name: record.mark for name, record in known.sources.items()}
        captured = known.captured
        asked = [name for name in sorted(captured) if name in opened.sources and name not in found.unreachable]

        def open_source(name: str) -> Snapshot | SourceNotAvailable:
            locks = [relation for relation in locked if relation.source == name]
            try:
                return stack.enter_context(opened.source(name).open(captured[name], lock=locks, lock_limit=lock_limit))
            except SourceNotAvailable as error:
                return error

        for name, outcome in zip(asked, in_parallel(open_source, asked), strict=True):
            if isinstance(outcome, SourceNotAvailable):
                found.unreachable[name] = outcome.what
                found.errors.append(outcome)
            else:
                found.snapshots[name] = outcome
        _refuse_twins(found)
        faults.point("unit.snapshots-open")
        for name in found.snapshots:
            found.after[name] = Position.meet(
                view.positions[name] for view in known.views.values() if name in view.positions
            )
        inboxes = in_parallel(
            lambda snapshot, after: snapshot.inbox(after), found.snapshots.values(), found.after.values()
        )
        backlog = Backlog() if backlog is None else backlog
        found.owed = backlog.owed
        found.arrivals = backlog.arrivals(writer, known, dict(zip(found.snapshots, inboxes, strict=True)))
        faults.point("unit.messages-received")
        yield found


def _refuse_twins(found: Poll) -> None:
    """An older DyDa attached one database as several sources. The marks of installations show it (C7)."""
    twins = {
        name: other
        for name, snapshot in found.snapshots.items()
        for other, its in found.snapshots.items()
        if name != other and snapshot.state.marks & its.state.marks
    }
    for name, other in twins.items():
        error = SameDatabase(name, other, attached=False)
        found.snapshots.pop(name).close()
        found.unreachable[name] = error.what
        found.errors.append(error)
