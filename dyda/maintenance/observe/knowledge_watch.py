"""Relations that only the knowledge names, compared with their fingerprints at every poll.

At a source that no view reads they have no position and no unit of their own; a rewriting must find them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.model.relation import RelationName
from dyda.sources.fingerprints import is_uncaptured, look

__all__ = ["KnowledgeWatch", "uncaptured"]


class KnowledgeWatch:
    """Remembers each relation's fingerprint at the last look, so that one in vain is not repeated."""

    def __init__(self) -> None:
        self._seen: dict[RelationName, str | None] = {}
        self._uncapturable: set[RelationName] = set()

    def changed(self, polled: Poll, known: CatalogState) -> list[RelationName]:
        """Those that are not as the catalog says and whose change no unit follows."""
        read = {name for view in known.views.values() for name in view.definition.relations}
        return [name for name in sorted(known.knowledge.relations - read) if self._changed(polled, known, name)]

    def seen(self, polled: Poll, names: Iterable[RelationName]) -> None:
        """The catalog knows these as they are now."""
        self._seen |= {name: _fingerprint(polled, name) for name in names}
        self._uncapturable.difference_update(self._seen)

    def failed_twice(self, name: RelationName) -> bool:
        """Its capture has failed. A source that answers polls and refuses only this must not stop the views."""
        again = name in self._uncapturable
        self._uncapturable.add(name)
        return again

    def _changed(self, polled: Poll, known: CatalogState, name: RelationName) -> bool:
        snapshot, record = polled.snapshots.get(name.source), known.relations.get(name)
        if snapshot is None or record is None or snapshot.agrees(name, record.fingerprint):
            return False
        if self._seen.get(name, "") == _fingerprint(polled, name):
            return False
        waits = polled.after.get(name.source) is not None and any(
            name in queued.message.moved_without_rows for queued in polled.moving
        )
        return not waits  # otherwise its message has a unit


def uncaptured(polled: Poll, names: Iterable[RelationName]) -> frozenset[RelationName]:
    """Those of `names` that capture is not complete for."""
    prints = {name: polled.snapshots[name.source].fingerprints.get(name) for name in names}
    return frozenset(name for name, printed in prints.items() if printed is None or is_uncaptured(printed))


def _fingerprint(polled: Poll, name: RelationName) -> str | None:
    return look(polled.snapshots[name.source].fingerprints.get(name))
