"""The catalog's queue, and the order in which it will be processed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dyda.commands.status import time_text, told
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import CatalogState, MaintainedView, load
from dyda.maintenance.schedules import Schedules, Turn
from dyda.maintenance.view_reads import schedule_of, view_reads
from dyda.maintenance.waiting import Stops, stops_of, who_waits_for
from dyda.model.cause import Quarantined
from dyda.model.message import HOLDING
from dyda.open_project import OpenProject
from dyda.warehouse import MessageRecord
from scheduler import Consistency, Detection, Queued, Schedule, Unit, ViewReads
from scheduler.graph import Drawing

__all__ = ["Queue"]


@dataclass(frozen=True)
class Queue:
    """The catalog's queue and its legal order, whatever `detection` says.

    `schedule` is that of all views together, for the dependency graph; units are those of the views that can move.
    """

    known: CatalogState
    records: tuple[MessageRecord, ...]
    schedule: Schedule
    consistency: Consistency
    batch_rows: int

    @classmethod
    def of(cls, opened: OpenProject) -> Queue:
        known, settings = load(opened), opened.project.settings.maintenance
        stored = opened.warehouse.messages()
        records = tuple(replace(record, message=known.named_now(record.message)) for record in stored)
        schedule = schedule_of(records, known)
        return cls(known, records, schedule, Consistency(settings.consistency), settings.batch_rows)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self._schedules().turns(self.consistency, self.batch_rows))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Unit 1 is the one that is processed next."""
        return tuple(turn.unit for turn in self.turns)

    def _schedules(self) -> Schedules:
        known = self.known
        queue = [Queued(record.id, record.message) for record in self.records if record.id in self.schedule]
        states = {record.id: record.state for record in self.records}
        schedules = Schedules(Detection.PESSIMISTIC)

        def reads(view: MaintainedView) -> ViewReads:
            return view_reads(view, known.known_to(view.record.earlier))

        schedules.refresh(Arrivals.of(queue), list(known.views.values()), self._stops, states, reads)
        return schedules

    @cached_property
    def _stops(self) -> Stops:
        held = {record.id: record.cause for record in self.records if record.state in HOLDING}
        queue = (Queued(record.id, record.message) for record in self.records)
        return stops_of(held, queue, list(self.known.views.values()))

    @cached_property
    def waiting(self) -> dict[int, str]:
        """By message, why some view that lacks it cannot process it now."""
        found = (waiting for group in self._schedules().groups for waiting in group.schedule.waiting())
        return {waiting.number: waiting.reason for waiting in found}

    @cached_property
    def views(self) -> dict[int, list[str]]:
        """By message, the views that cannot go beyond it now: those that it stops, and those held because of it."""
        found = who_waits_for(self._stops)
        for name, record in self.known.held.items():
            for number in record.cause.messages if isinstance(record.cause, Quarantined) else ():
                found.setdefault(number, []).append(name)
        return {number: sorted(names) for number, names in found.items()}

    @cached_property
    def drawing(self) -> Drawing:
        return self.schedule.drawing()

    @cached_property
    def unit_of(self) -> dict[int, int]:
        return {number: index for index, unit in enumerate(self.units, 1) for number in unit.numbers}

    @cached_property
    def depends_on(self) -> dict[int, list[int]]:
        """By message, those that it directly waits for."""
        befores: dict[int, set[int]] = {}
        for edge in self.drawing.edges:
            befores.setdefault(edge.after, set()).add(edge.before)
        return {number: sorted(before) for number, before in befores.items()}

    def as_dict(self, record: MessageRecord) -> dict[str, Any]:
        return {
            "id": record.id,
            "source": record.source,
            "kind": record.kind,
            "relations": sorted(map(str, record.relations)),
            "rows": record.rows,
            "state": record.state,
            **told(record.cause),
            "received_at": time_text(record.received_at),
            "depends_on": self.depends_on.get(record.id, []),
            "unit": self.unit_of.get(record.id),
            "views": self.views.get(record.id, []),
        }
