"""What a poll shows of the queue: the messages that some extent does not have yet, source by source.

Always true here: nothing changes once it is made, and what a position has is found without looking at all that waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dyda.model.position import Position
from dyda.model.xids import Xids
from scheduler import Queued

__all__ = ["Arrivals", "Waiting"]


@dataclass(frozen=True)
class Waiting:
    """The messages of one source, by transaction and in arrival order."""

    by_xid: Mapping[int, Queued] = field(default_factory=dict)
    xids: Xids = field(default_factory=Xids)
    moving: tuple[Queued, ...] = ()

    @classmethod
    def of(cls, queue: Collection[Queued]) -> Waiting:
        moving = tuple(queued for queued in queue if queued.message.kind != "data")
        by_xid = {queued.message.xid: queued for queued in queue}
        return cls(by_xid, Xids(by_xid), moving)

    def included(self, position: Position) -> list[Queued]:
        """Those that the position has."""
        return [self.by_xid[xid] for xid in self.xids.included(position)]

    def between(self, before: Position | None, after: Position) -> list[Queued]:
        """Those that `after` has and `before` has not."""
        first = 0 if before is None else before.xmin
        found = self.xids.between(first, after.xmax)
        return [self.by_xid[x] for x in found if after.includes(x) and not (before is not None and before.includes(x))]


@dataclass(frozen=True)
class Arrivals:
    """What one poll shows of the queue. It never changes, whatever later polls show."""

    sources: Mapping[str, Waiting] = field(default_factory=dict)
    added: Sequence[Queued] = ()
    """In arrival order, what the arrivals `before` did not have."""
    gone: frozenset[int] = frozenset()
    """The numbers of what only those had."""
    before: object = None
    """What `added` and `gone` are counted from; None: from nothing."""
    state: object = None

    @classmethod
    def of(cls, queue: Collection[Queued]) -> Arrivals:
        by_source: dict[str, list[Queued]] = {}
        for queued in queue:
            by_source.setdefault(queued.message.source, []).append(queued)
        return cls({source: Waiting.of(mine) for source, mine in by_source.items()}, tuple(queue))

    @cached_property
    def queue(self) -> tuple[Queued, ...]:
        """All of it in arrival order."""
        return _in_order([tuple(waiting.by_xid.values()) for waiting in self.sources.values()])

    @cached_property
    def moving(self) -> tuple[Queued, ...]:
        """Those that are more than row images: few among many."""
        return _in_order([waiting.moving for waiting in self.sources.values()])

    def of_source(self, source: str) -> Waiting:
        return self.sources.get(source, _NOTHING)


_NOTHING = Waiting()


def _in_order(parts: Sequence[tuple[Queued, ...]]) -> tuple[Queued, ...]:
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return parts[0] if parts else ()
    return tuple(sorted((queued for part in parts for queued in part), key=lambda queued: queued.number))
