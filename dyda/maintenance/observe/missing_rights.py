"""Relations that the source's role may not read (any more). Only the views that read them wait, and say why.

A revoked right (REVOKE, row-level security, another owner) shows at the next read. The views keep their rows, and the
others go on. Every so often the source is asked whether the right is back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from dyda.errors import DydaError, MissingRights
from dyda.maintenance.catalog_state import CatalogState
from dyda.model.cause import Cause, Obstacle, RightsMissing
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse.writer import Writer

__all__ = ["Barred"]

PAUSE = 2.0


@dataclass
class _Bar:
    cause: RightsMissing
    until: float


class Barred:
    """Which relations cannot be read now. A new process soon finds out."""

    def __init__(self, opened: OpenProject, writer: Writer) -> None:
        self._opened = opened
        self._writer = writer
        self._bars: dict[RelationName, _Bar] = {}

    def add(self, error: MissingRights, known: CatalogState) -> bool:
        """Whether the error bars more relations of the catalog. If not, it concerns the whole source, or a request for
        a relation that is barred already."""
        found = [name for name in known.relations if str(name) in error.relations and name not in self._bars]
        for name in found:
            cause: RightsMissing | None = None
            with suppress(DydaError):  # an obstacle to asking shows at the next poll
                cause = self._obstacles(name)
            cause = cause or RightsMissing(name.source, str(name), (Obstacle(error.what, error.remedy),))
            self._bars[name] = _Bar(cause, time.monotonic() + PAUSE)
        return bool(found)

    def waiting(self, known: CatalogState, reachable: Collection[str], written: Callable[[], None]) -> dict[str, Cause]:
        """The views, broken ones included, that read what is barred now, and why it is. Those that are maintained say
        so from now on, or no longer; `written` is called if the catalog changed."""
        for name, bar in list(self._bars.items()):
            if bar.until > time.monotonic() or name.source not in reachable:
                continue
            cause = self._obstacles(name)
            if cause is None:
                del self._bars[name]
            else:
                self._bars[name] = _Bar(cause, time.monotonic() + PAUSE)
        found: dict[str, Cause] = {
            record.name: next(self._bars[name].cause for name in record.relations if name in self._bars)
            for record in known.records.values()
            if self._bars.keys() & set(record.relations)
        }
        if self._tell(known, found):
            written()
        return found

    def _tell(self, known: CatalogState, waiting: dict[str, Cause]) -> bool:
        changed = {
            view.name: waiting.get(view.name)
            for view in known.views.values()
            if view.record.cause != waiting.get(view.name)
            and (view.name in waiting or view.record.stored_state == ViewState.LIVE)
        }
        for name, cause in changed.items():
            self._writer.set_state(name, known.views[name].record.stored_state, cause)
        return bool(changed)

    def _obstacles(self, name: RelationName) -> RightsMissing | None:
        """With the statements that help; None if there is nothing in the way."""
        found = tuple(Obstacle(one.what, one.remedy) for one in self._opened.source(name.source).obstacles(name))
        return RightsMissing(name.source, str(name), found) if found else None
