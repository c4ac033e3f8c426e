"""The messages that wait, kept from poll to poll: a poll adds what has come and removes what every view has.

    inbox of each source ─▶ numbers in the warehouse's queue ─▶ names that all views are to see ─▶ Arrivals

What is kept is what would be found again as long as

- the inbox says how it differs from the one before (sources.log.inbox);
- the queue in the warehouse is the same: this writer's, with all of these messages, under the same numbers.

Otherwise the source's messages are all received again. What schema changes mean to views that come later is asked of
the catalog at each poll: they are few among many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dyda.maintenance.arrivals import Arrivals, Waiting
from dyda.maintenance.catalog_state import CatalogState
from dyda.model.position import Position
from dyda.model.xids import Xids
from dyda.sources.adapter import Inbox
from dyda.warehouse.writer import Writer
from scheduler import Queued

__all__ = ["Backlog", "Owed"]


class Owed:
    """The transactions of each source that polls have found and that the source was not told to forget."""

    def __init__(self) -> None:
        self._xids: dict[str, Xids] = {}
        self._paid: set[str] = set()

    def add(self, source: str, xids: Iterable[int]) -> None:
        self._xids.setdefault(source, Xids()).add(xids)

    def has_any(self, source: str, position: Position) -> bool:
        """Whether the position has any of them. What an earlier process has left is not known: at first, yes."""
        return source not in self._paid or bool(self._xids.get(source, Xids()).included(position))

    def paid(self, source: str, position: Position) -> None:
        """The source was told to forget what the position has."""
        self._paid.add(source)
        if source in self._xids:
            self._xids[source].take(position)


@dataclass
class _Kept:
    """What is kept of one source. `raw`: messages that are more than row images, as the source tells them."""

    inbox: int
    era: int
    waiting: Waiting
    raw: dict[int, Queued]


class Backlog:
    """What polls have received, source by source, and what of it the sources may still have to be told about."""

    def __init__(self) -> None:
        self.owed = Owed()
        self._writer: Writer | None = None
        self._kept: dict[str, _Kept] = {}
        self._shown: Arrivals | None = None

    def arrivals(self, writer: Writer, known: CatalogState, inboxes: Mapping[str, Inbox]) -> Arrivals:
        """What waits now at the sources that have answered."""
        if writer is not self._writer:
            self._kept.clear()
            self._writer, self._shown = writer, None
        before, self._shown = self._shown, None  # if this fails half-way, the next poll says nothing of what is new
        same = before is not None and before.sources.keys() == inboxes.keys()
        added: list[Queued] = []
        gone: set[int] = set()
        for source, inbox in inboxes.items():
            news = self._follow(writer, source, inbox)
            if news is None:
                self._receive(writer, source, inbox)
                same = False
            self._name(source, known)
            by_xid = self._kept[source].waiting.by_xid
            new, old = news or (by_xid, set())
            self.owed.add(source, new)
            added += (by_xid[xid] for xid in new)
            gone |= old
        sources = {source: self._kept[source].waiting for source in inboxes}
        if same and before is not None:
            added.sort(key=lambda queued: queued.number)
            self._shown = Arrivals(sources, tuple(added), frozenset(gone), before.state, object())
        else:
            self._shown = Arrivals(sources, Arrivals(sources).queue, state=object())
        return self._shown

    def _receive(self, writer: Writer, source: str, inbox: Inbox) -> None:
        """All of it, as if nothing had been kept."""
        messages = list(inbox.messages.values())
        numbers = writer.receive(source, messages) if messages else {}
        # What every extent has already, a broken view's too, gets no number.
        found = [Queued(numbers[message.xid], message) for message in messages if message.xid in numbers]
        found.sort(key=lambda queued: queued.number)
        waiting = Waiting.of(found)
        raw = {queued.message.xid: queued for queued in waiting.moving}
        if len(found) == len(messages):
            self._kept[source] = _Kept(inbox.number, writer.era(source), waiting, raw)
        else:
            self._kept[source] = _Kept(-1, -1, waiting, raw)  # ask about the others again at the next poll

    def _follow(self, writer: Writer, source: str, inbox: Inbox) -> tuple[list[int], set[int]] | None:
        """The transactions that the inbox adds to what is kept, and the numbers in the queue of those that it takes
        away; None if that may be wrong."""
        kept = self._kept.get(source)
        if kept is None or inbox.before is None or inbox.before != kept.inbox:
            return None
        by_xid = dict(kept.waiting.by_xid)
        gone = {xid: by_xid.pop(xid) for xid in inbox.gone if xid in by_xid}
        if writer.era(source) != kept.era or not writer.has_received(source, by_xid.keys()):
            return None
        numbers = writer.receive(source, inbox.new) if inbox.new else {}
        if writer.era(source) != kept.era or len(numbers) < len(inbox.new):
            return None
        kept.inbox = inbox.number
        if not gone and not inbox.new:
            return [], set()
        new = [Queued(numbers[message.xid], message) for message in inbox.new]
        new.sort(key=lambda queued: queued.number)
        if by_xid and new and next(reversed(by_xid.values())).number > new[0].number:
            return None
        by_xid |= {queued.message.xid: queued for queued in new}
        for xid in gone:
            kept.raw.pop(xid, None)
        moving = tuple(queued for queued in kept.waiting.moving if queued.message.xid not in gone)
        moving += tuple(queued for queued in new if queued.message.kind != "data")
        kept.raw |= {queued.message.xid: queued for queued in new if queued.message.kind != "data"}
        xids = kept.waiting.xids.copy()
        xids.remove(gone)
        xids.add(queued.message.xid for queued in new)
        kept.waiting = Waiting(by_xid, xids, moving)
        return [queued.message.xid for queued in new], {queued.number for queued in gone.values()}

    def _name(self, source: str, known: CatalogState) -> None:
        """Messages as all views are to see them, by what the catalog says now."""
        kept = self._kept[source]
        changed = {}
        for queued in kept.waiting.moving:
            xid = queued.message.xid
            message = known.named_now(kept.raw[xid].message)
            if message != queued.message:
                changed[xid] = Queued(queued.number, message)
        if changed:
            by_xid = {**kept.waiting.by_xid, **changed}
            moving = tuple(by_xid[queued.message.xid] for queued in kept.waiting.moving)
            kept.waiting = Waiting(by_xid, kept.waiting.xids, moving)
