"""Broken views recover when what they read is back, and held ones when the objects that depend on them are gone.

A broken view keeps its relations watched, although nothing has followed them since: its text means the tables that have
its names now, without what may be dropped. It is read again when one of them has changed since the last attempt, so a
view that stays broken costs no query. One that could not be computed over its rows is built again when some of them
have changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from functools import cache

from dyda.errors import DydaError, MissingRights, RelationRefused, SourceBusy, SourceUnreachable, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.cause import BuildReason, DependentObjects, Rejected, RowsInTheWay, ToBeBuilt
from dyda.model.relation import Relation, RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.sources.fingerprints import look
from dyda.warehouse import ViewChange, ViewRecord
from dyda.warehouse.writer import Writer
from vs import Broken, Rewritten, read_what_is_left

__all__ = ["Recovery"]

Look = tuple[str | int | None, ...]


class Recovery:
    """Remembers the fingerprints that each broken view was last judged with, as long as the process runs."""

    def __init__(self, opened: OpenProject) -> None:
        self.opened = opened
        self._judged: dict[str, Look] = {}
        self._heard: dict[str, int] = {}
        """By view, the newest message about what it reads."""

    def returning(self, polled: Poll, known: CatalogState, barred: Collection[str]) -> dict[str, BuildRequest]:
        """The broken views to build now, those apart that are `barred` from what they read."""
        found = {}
        for name, record in known.frozen.items():
            before = record.cause
            if record.stored_state != ViewState.BROKEN or record.sql is None or isinstance(before, Rejected):
                continue
            if name in barred:
                continue
            seen = self._look(polled, record, isinstance(before, RowsInTheWay))
            if seen is None or self._judged.get(name) == seen:
                continue
            self._judged[name] = seen
            described = cache(self.opened.describe)
            numeric = self.opened.project.settings.spark.numeric
            judgement = read_what_is_left(name, record.sql, described, known.defaults, numeric)
            if not isinstance(judgement, Broken) and self._computable(judgement.definition):
                left = judgement.reason if isinstance(judgement, Rewritten) else None
                back = ToBeBuilt(BuildReason.RETURNED, left)
                cause = before.to_be_built if isinstance(before, RowsInTheWay) else back
                found[name] = BuildRequest(name, judgement.definition.sql, None, cause)
        return found

    def tried(self, polled: Poll, known: CatalogState, changes: Iterable[ViewChange]) -> None:
        """What was built under this poll and could not be computed: only other rows, or another schema, change that."""
        for change in changes:
            record = known.frozen.get(change.view)
            if record is not None and isinstance(change.cause, RowsInTheWay):
                seen = self._look(polled, record, True)
                if seen is not None:
                    self._judged[record.name] = seen

    def _look(self, polled: Poll, record: ViewRecord, uncomputable: bool) -> Look | None:
        """What an attempt to build the view depends on: the fingerprints of what it reads and, if it waits for other
        rows, these. None while a source is out of reach."""
        if any(name.source not in polled.snapshots for name in record.relations):
            return None
        names = sorted(record.relations)
        seen = tuple(look(polled.snapshots[name.source].fingerprints.get(name)) for name in names)
        if not uncomputable:
            return seen
        mine = (queued.number for queued in polled.queue if queued.message.relations.intersection(record.relations))
        self._heard[record.name] = max(self._heard.get(record.name, 0), *mine, 0)
        return (*seen, self._heard[record.name])

    def _computable(self, definition: ViewDefinition) -> bool:
        """Whether the types fit as well: a column may have come back as another kind of value."""
        try:
            self.opened.engine.analyse(definition)
        except UnsupportedSql:
            return False
        return True

    def release(self, writer: Writer, known: CatalogState) -> bool:
        """Resume views that only waited for dependent objects to go; whether there are any."""
        waiting = [name for name, record in known.held.items() if isinstance(record.cause, DependentObjects)]
        free = [name for name in waiting if not writer.dependents(name)]
        for name in free:
            writer.set_state(name, ViewState.RESYNC if known.frozen[name].behind else ViewState.LIVE)
        return bool(free)

    def forget(self, names: Iterable[str]) -> None:
        """Judge these again at the next poll: they were not built."""
        for name in names:
            self._judged.pop(name, None)

    def heal(self, relations: Iterable[RelationName]) -> None:
        """Attach capture again to those that still exist (C5); before the next snapshot (C6)."""
        wanted: dict[str, list[Relation]] = {}
        for name in relations:
            try:
                relation = self.opened.describe(name.source, name.schema, name.table)
            except SourceUnreachable:
                raise
            except RelationRefused:
                with contextlib.suppress(SourceBusy, MissingRights):  # tried again at the next poll
                    self.opened.source(name.source).stand_back(name.schema, name.table)
                continue  # building the view will say why
            except DydaError:
                continue  # gone: building the view will say so
            wanted.setdefault(name.source, []).append(relation)
        for source, found in wanted.items():
            try:
                self.opened.source(source).attach(found)
            except MissingRights as error:
                raise MissingRights(error.what, error.remedy, source, error.relations) from None
