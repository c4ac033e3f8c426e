"""One poll: a snapshot of every source and the messages between the extents and it.

Snapshots of different sources are taken one after the other and need not fit together: each source is a world of its
own, and a warehouse state names one position per source.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from dyda import faults
from dyda.errors import SourceUnreachable
from dyda.house import House
from dyda.maintenance.live import Known
from dyda.model.position import Position
from dyda.sources import SourceSnapshot
from dyda.warehouse import Worker
from scheduler import Queued

__all__ = ["Poll", "poll"]


@dataclass
class Poll:
    """What one cycle sees. `queue` holds, in arrival order, the messages that some extent does not have yet."""

    snapshots: dict[str, SourceSnapshot] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    queue: list[Queued] = field(default_factory=list)
    after: dict[str, Position | None] = field(default_factory=dict)


@contextmanager
def poll(house: House, worker: Worker, known: Known) -> Iterator[Poll]:
    """Open every source that is captured, and put what is new there into the queue. Closed again at the end."""
    with ExitStack() as stack:
        found = Poll()
        for name, relations in sorted(known.captured.items()):
            if name not in house.sources:
                continue
            try:
                found.snapshots[name] = stack.enter_context(house.source(name).open(relations))
            except SourceUnreachable as error:
                found.unreachable[name] = error.what
        faults.point("unit.snapshots-open")
        for name, snapshot in found.snapshots.items():
            positions = [view.positions[name] for view in known.views.values() if name in view.positions]
            found.after[name] = Position.meet(positions)
            messages = snapshot.messages(found.after[name])
            if messages:
                numbers = worker.receive(name, messages)
                # What every extent has already, a broken view's too, gets no number.
                found.queue += [Queued(numbers[m.xid], m) for m in messages if m.xid in numbers]
        found.queue.sort(key=lambda queued: queued.number)
        faults.point("unit.messages-received")
        yield found
