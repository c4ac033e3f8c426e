"""After an installation: which messages no view waits for any more, and acknowledging them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.observe.poll import Poll
from dyda.model.position import Position
from dyda.open_project import OpenProject
from dyda.parallel import in_parallel
from scheduler import Queued

__all__ = ["Positions", "acknowledge", "common", "covered", "covered_among", "everywhere"]

Positions = dict[str, dict[str, Position]]
"""By view and source."""


def acknowledge(opened: OpenProject, polled: Poll, positions: Positions) -> None:
    """Let the sources forget what every view has. A crash before this is harmless: positions decide.

    The last view that waits for a transaction may come to have it without a unit: it breaks, or what a lane has built
    is shown in its place. So what is owed to a source is known apart from the queue.
    """

    def send(source: str) -> None:
        at = common(positions, source) or polled.snapshots[source].position
        if polled.owed.has_any(source, at):
            opened.source(source).acknowledge(at)
        polled.owed.paid(source, at)

    in_parallel(send, polled.snapshots)


def common(positions: Positions, source: str) -> Position | None:
    """What every reader of the source has; None if it has none."""
    return Position.meet({at[source] for at in positions.values() if source in at})


def everywhere(positions: Positions, source: str, xid: int) -> bool:
    """Whether no reader of the source waits for the transaction."""
    at = common(positions, source)
    return at is None or at.includes(xid)


def covered(arrivals: Arrivals, positions: Positions) -> Iterator[Queued]:
    """The messages that no reader of their source waits for."""
    for source, waiting in arrivals.sources.items():
        at = common(positions, source)
        yield from waiting.by_xid.values() if at is None else waiting.included(at)


def covered_among(queue: Iterable[Queued], positions: Positions) -> Iterator[Queued]:
    """Those of the messages that no reader of their source waits for."""
    reached = cache(lambda source: common(positions, source))
    for queued in queue:
        at = reached(queued.message.source)
        if at is None or at.includes(queued.message.xid):
            yield queued
