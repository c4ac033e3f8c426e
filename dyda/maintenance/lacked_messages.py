"""Which messages of the queue some view of a group does not have, kept from unit to unit.

    poll ──▶ what has come and gone ─┐
    views ─▶ positions that moved ───┴─▶ only these messages are looked at again

All are looked at if the poll cannot say what is new, and those of a source if the views begin or cease to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.view_reads import common_positions
from dyda.model.position import Position
from scheduler import Queued

__all__ = ["LackedMessages"]


class LackedMessages:
    """By number, those that a group's views lack, but for what was installed since."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self._state: object = None
        """Which arrivals these are of."""
        self._positions: dict[str, Position] = {}
        self._installed: list[Queued] = []

    def installed(self, messages: Iterable[Queued]) -> None:
        """A unit took these; the views' positions will say so."""
        for queued in messages:
            if queued.number in self.numbers:
                self.numbers.remove(queued.number)
                self._installed.append(queued)

    def follow(self, arrivals: Arrivals, views: Sequence[MaintainedView]) -> tuple[list[Queued], set[int]]:
        """What the views lack now that they did not, in arrival order, and the numbers of what they do not lack any
        more or nobody waits for."""
        before, self._positions = self._positions, common_positions(views)
        gone: set[int] = set()
        if arrivals.state is not None and arrivals.state is self._state:
            again = self._moved(arrivals, before)
        elif arrivals.before is not None and arrivals.before is self._state:
            gone = self.numbers & arrivals.gone
            again = [*self._moved(arrivals, before), *arrivals.added]
        else:
            gone, again = self.numbers.difference(queued.number for queued in arrivals.queue), list(arrivals.queue)
        self._state = arrivals.state
        again += (queued for queued in self._installed if queued.number not in arrivals.gone)
        self._installed = []
        self.numbers -= gone
        added: dict[int, Queued] = {}
        for queued in again:
            position = self._positions.get(queued.message.source)
            lacks = position is not None and not position.includes(queued.message.xid)
            if not lacks and queued.number in self.numbers:
                self.numbers.remove(queued.number)
                gone.add(queued.number)
            elif lacks and queued.number not in self.numbers:
                self.numbers.add(queued.number)
                added[queued.number] = queued
        return [added[number] for number in sorted(added)], gone

    def _moved(self, arrivals: Arrivals, before: dict[str, Position]) -> list[Queued]:
        """The messages that the views may have or lack by other positions than `before`."""
        found: list[Queued] = []
        for source, waiting in arrivals.sources.items():
            old, new = before.get(source), self._positions.get(source)
            if old is None or new is None:
                found += waiting.by_xid.values() if old is not new else ()
            elif old != new:
                xids = waiting.xids.between(min(old.xmin, new.xmin), max(old.xmax, new.xmax))
                found += (waiting.by_xid[xid] for xid in xids)
        return found
