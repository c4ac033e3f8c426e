"""What one unit does to every view: synchronization, adaptation and maintenance, under one poll.

schema changes of the unit ─▶ vs.follow ─▶ broken: frozen as it is
                                  │
                                  ▼
                              va.adapt ─▶ recompute: the whole view at the unit's positions
                                  │
                                  ▼ metadata only, or untouched
                              ΔV of the unit's data updates, over the definition as it is now
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dyda.house import House
from dyda.maintenance.building import Builder
from dyda.maintenance.live import Known, LiveView, Target
from dyda.maintenance.poll import Poll
from dyda.maintenance.present import Present
from dyda.maintenance.refresh import Refresh
from dyda.model.message import DataUpdate, SchemaChange, Truncation
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import ViewChange, ViewVersion
from scheduler import Unit
from va import MetadataOnly, Recompute, adapt
from vm import flatten, plan_sweep
from vs import Broken, Holds, Rewritten, follow

__all__ = ["UnitWork"]


@dataclass
class UnitWork:
    """The work of one unit. `described` and `forgotten` are what it learned about the relations' names."""

    house: House
    builder: Builder
    poll: Poll
    known: Known
    refresh: Refresh
    unit: Unit
    described: dict[RelationName, Relation] = field(default_factory=dict)
    forgotten: set[RelationName] = field(default_factory=set)

    def changes(self, views: Sequence[LiveView], phase: Callable[[str], None]) -> list[ViewChange]:
        """How every view of `views` changes: its rows, its definition, its positions."""
        present = Present(self.house, [queued.message for queued in self.unit.messages])
        frozen: list[ViewChange] = []
        built: list[ViewChange] = []
        maintained: list[LiveView] = []
        versions: dict[str, ViewVersion] = {}
        for view in views:
            moved = self._moved(view)
            if not moved:
                maintained.append(view)
                continue
            relations = [scan.relation for scan in view.block.occurrences]
            touched = {change.relation for change in moved}
            now = present.of([relation for relation in relations if relation.name in touched])
            judgement = follow(view.definition, now, self.house.project.settings.spark.numeric)
            match judgement:
                case Rewritten():
                    raise NotImplementedError
                case Broken(reason):
                    gone = next((present.refused[name] for name in now if name in present.refused), reason)
                    frozen.append(ViewChange(view=view.name, state="broken", reason=_because(gone, moved)))
                case Holds(definition, followed):
                    self._learn(now)
                    adaptation = adapt(view.definition, definition, moved)
                    if isinstance(adaptation, MetadataOnly):
                        block = flatten(definition, self.house.project.settings.spark.numeric)
                        following = replace(view, definition=definition, block=block, plan=plan_sweep(block))
                        maintained.append(following)
                        if followed:
                            versions[view.name] = _version(view, following, "; ".join(followed))
                    else:
                        built.append(self._recompute(view, adaptation))
        return [*frozen, *built, *self._maintain(maintained, versions, phase)]

    def _moved(self, view: LiveView) -> list[SchemaChange | Truncation]:
        """What the unit's messages changed under the view other than by row images."""
        return [
            change
            for queued in self.unit.messages
            if not view.has(queued.message.source, queued.message.xid)
            for change in queued.message.changes
            if not isinstance(change, DataUpdate) and change.relation in view.definition.relations
        ]

    def _learn(self, now: dict[RelationName, Relation | None]) -> None:
        for name, relation in now.items():
            if relation is not None:
                self.described[relation.name] = relation
                self.refresh.known_as[relation.name] = name
                if relation.name != name:
                    self.forgotten.add(name)

    def _recompute(self, view: LiveView, adaptation: Recompute) -> ViewChange:
        definition = adaptation.definition
        target = Target(view.name, definition.sql, None, adaptation.reason)
        positions = {source: self._position(view, source) for source in sorted(definition.sources)}
        return self.builder.recompute(self.builder.plan(target, definition), positions)

    def _maintain(
        self, views: Sequence[LiveView], versions: dict[str, ViewVersion], phase: Callable[[str], None]
    ) -> list[ViewChange]:
        """ΔV of every view, and the positions that the unit's messages take it to."""
        ours: dict[str, set[int]] = {}
        for queued in self.unit.messages:
            ours.setdefault(queued.message.source, set()).add(queued.message.xid)
        self.refresh.read_images(view.block for view in views)
        phase("images")
        deltas = self.refresh.changes(views, ours, phase)
        changes = []
        for view in views:
            positions = {
                source: (view.positions[source], self._position(view, source))
                for source, xids in ours.items()
                if not all(view.has(source, xid) for xid in xids)
            }
            version = versions.get(view.name)
            if version is not None:
                # A new version brings all of the view's positions with it, also those that stay.
                positions = {s: (p, p) for s, p in view.positions.items()} | positions
            if positions:
                changes.append(
                    ViewChange(view=view.name, delta=deltas.get(view.name), version=version, positions=positions)
                )
        return changes

    def _position(self, view: LiveView, source: str) -> Position:
        """Where the unit takes the view; what it leaves out is listed as in progress (P3).

        A source that the unit brings nothing from stays where it is, so that views which agree go on saying so.
        """
        taken = {queued.message.xid for queued in self.unit.messages if queued.message.source == source}
        if all(view.has(source, xid) for xid in taken):
            return view.positions[source]
        left = [
            queued.message.xid
            for queued in self.poll.queue
            if queued.message.source == source
            and queued.message.xid not in taken
            and not view.has(source, queued.message.xid)
        ]
        return self.poll.snapshots[source].position.without(left)


def _version(before: LiveView, after: LiveView, cause: str) -> ViewVersion:
    return ViewVersion(
        sql=after.definition.sql,
        columns=before.record.columns,
        relations=tuple(sorted(after.definition.relations)),
        cause=cause,
        details={"evolved": True},
    )


def _because(reason: str, moved: Sequence[SchemaChange | Truncation]) -> str:
    told = [f"{change.command}: {change.ddl}" for change in moved if isinstance(change, SchemaChange) and change.ddl]
    return f"{reason} ({'; '.join(dict.fromkeys(told))})" if told else reason
