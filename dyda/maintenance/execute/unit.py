"""What one unit does to every view: synchronization, adaptation and maintenance, under one poll.

schema changes of the unit ─▶ vs.synchronize ─▶ broken, message by message too: frozen as it is
                                    │
                                    ▼ holds, or rewritten
                                va.adapt ─▶ recompute: the whole view at the unit's positions
                                    │
                                    ▼ metadata only, or untouched
                                ΔV of the unit's data updates, over the definition as it is now
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from dyda.errors import BrokenUnit, DydaError, SourceUnreachable, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, CatalogState, MaintainedView
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.from_extent import Adapter
from dyda.maintenance.execute.levels import ViewDelta
from dyda.maintenance.execute.recompute import Builder
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.programs import fingerprint_of, recorded, state_tables
from dyda.maintenance.plan.relations_after import Present
from dyda.maintenance.plan.version_details import Moved, because, story
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import DropRelation, ReplaceRelation, apply
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import ViewChange, ViewVersion
from scheduler import Unit
from va import Adaptation, FromExtent, MetadataOnly, Reaggregate, Recompute
from vs import Broken, Holds, Judgement, Rewritten, Stage, World, synchronize, synchronize_in_turn

__all__ = ["UnitWork"]


@dataclass
class UnitWork:
    """The work of one unit. What it learns about the relations, its builder remembers."""

    opened: OpenProject
    builder: Builder
    poll: Poll
    known: CatalogState
    refresh: Refresh
    unit: Unit
    behind: set[str] = field(default_factory=set, init=False)
    """Views whose rewriting needs a source that is out of reach. They stay behind, alone: their texts follow with the
    unit (left_behind), their rows when the source is back."""
    _positions: dict[tuple[str, Position | None, bool], Position] = field(default_factory=dict, init=False)
    """By source and position before, with and without relations that are read anew: views mostly stand alike."""

    @property
    def adapter(self) -> Adapter:
        return Adapter(self.builder)

    def changes(self, views: Sequence[MaintainedView], phase: Callable[[str], None]) -> list[ViewChange]:
        """How every view of `views` changes: its rows, its definition, its positions."""
        present = Present(self.opened, self.poll, self.known, self.unit.messages)
        frozen: list[ViewChange] = []
        built: list[ViewChange] = []
        maintained: list[MaintainedView] = []
        versions: dict[str, ViewVersion] = {}
        world = self._world(present)
        self.builder.looked_at |= set(present.found)
        self._learn_knowledge(world)
        for view in views:
            moved = self._moved(view)
            if not moved:
                maintained.append(view)
                continue
            judgement = self._judged(view, world)
            if isinstance(judgement, Broken):
                refused = next((why for name, why in present.refused.items() if _concerns(moved, name)), None)
                cause = because(judgement, moved, refused)
                frozen.append(ViewChange(view=view.name, state=ViewState.BROKEN, cause=cause))
                continue
            try:
                self._require_readable(view, judgement.definition, world)
            except SourceUnreachable:
                self.builder.learn(world, view.definition, view.definition)
                self.behind.add(view.name)
                continue
            self.builder.learn(world, view.definition, judgement.definition)
            to = self._destination(view, judgement.definition)
            try:
                adaptation = self.adapter.plan(view, judgement.definition, [one.change for one in moved], to)
                if isinstance(adaptation, MetadataOnly):
                    following = self._following(view, adaptation.definition)
                    if not isinstance(following, Recompute):
                        maintained.append(following)
                        if following.definition.sql != view.definition.sql:
                            versions[view.name] = self._version(following, judgement, moved, adaptation)
                        continue
                    adaptation = following
                built.append(self._adapted(view, judgement, moved, adaptation, to))
            except UnsupportedSql as error:
                # Its names hold, its types do not: the sides of a UNION, say, that are of different ones now.
                frozen.append(
                    ViewChange(view=view.name, state=ViewState.BROKEN, cause=because(Broken(error.what), moved))
                )
        return [*frozen, *built, *self._maintain(maintained, versions, phase)]

    def _judged(self, view: MaintainedView, world: World) -> Judgement:
        """What becomes of the view: by all changes of the unit together, or else, where they were merged, in turn."""
        numeric = self.opened.project.settings.spark.numeric
        judgement = synchronize(view.definition, world, self.known.defaults, numeric)
        if isinstance(judgement, Broken):
            stages = self._stages(world)
            if len(stages) > 1:
                found = synchronize_in_turn(view.definition, world, stages, self.known.defaults, numeric)
                return judgement if isinstance(found, Broken) else found
        return judgement

    def _stages(self, world: World) -> list[Stage]:
        """What each message of the unit makes of the relations; none if the log does not tell it in steps."""
        stages: list[dict[RelationName, Relation | None]] = []
        relations: dict[RelationName, Relation | None] = dict(world.relations)
        for queued in sorted(self.unit.messages, key=lambda queued: queued.number):
            stage: dict[RelationName, Relation | None] = {}
            for change in queued.message.schema_changes:
                name = change.relation
                relation = stage.get(name, relations.get(name))
                if name not in world.now or self.known.is_described_with(name, queued.message.xid):
                    continue
                if relation is None or not change.steps or any(isinstance(s, ReplaceRelation) for s in change.steps):
                    return []
                dropped = any(isinstance(step, DropRelation) for step in change.steps)
                stage[name] = None if dropped else apply(relation, change.steps)
            relations |= stage
            stages += [stage] if stage else []
        for name, relation in world.now.items():
            last = next((stage for stage in reversed(stages) if name in stage), None)
            if last is None:
                return []
            last[name] = relation  # with its keys, which no step tells
        return list(stages)

    def _following(self, view: MaintainedView, definition: ViewDefinition) -> MaintainedView | Recompute:
        """The view under another text, with its rows and states as they are, if these are what the text asks for."""
        try:
            program = recorded(self.opened.project.settings.spark.numeric, definition, view.record)
        except DydaError as error:
            return Recompute(definition, error.what)
        return replace(view, definition=definition, program=program)

    def _version(
        self, after: MaintainedView, judgement: Holds | Rewritten, moved: Sequence[Moved], adaptation: Adaptation
    ) -> ViewVersion:
        definition, columns, states = after.definition, after.record.columns, state_tables(after.program)
        return ViewVersion(
            sql=definition.sql,
            columns=columns,
            states=states,
            program=fingerprint_of(self.opened, definition, definition.sql, states, columns),
            relations=tuple(sorted(definition.relations)),
            cause="; ".join(judgement.followed) or adaptation.reason,
            details={"evolved": True, **story(judgement, moved, adaptation)},
        )

    def _world(self, present: Present) -> World:
        """What vs must know: every relation of the catalog, and those that the unit's schema changes touched as they
        are now. A source that no view reads has no position: whatever is pending there is part of the unit's world."""
        relations = {name: record.relation for name, record in self.known.relations.items()}
        ours = {queued.number for queued in self.unit.messages}
        touched = {
            change.relation
            for queued in self.poll.moving
            if queued.number in ours or self.poll.after.get(queued.message.source) is None
            for change in queued.message.changes
            if not isinstance(change, DataUpdate)
        }
        later = {
            change.relation
            for queued in self.poll.moving
            if queued.number not in ours
            for change in queued.message.schema_changes
        }
        now = {
            name: _with_lasting_keys(relations[name], found) if found is not None and name in later else found
            for name, found in present.of([relations[name] for name in sorted(touched) if name in relations]).items()
        }
        return World(relations, now, self.known.knowledge)

    def _learn_knowledge(self, world: World) -> None:
        """What the unit changes of relations that the knowledge names, whether or not a view reads them."""
        for name, relation in world.now.items():
            if name not in self.known.knowledge.relations:
                continue
            if relation is None:
                self.builder.gone.add(name)
                continue
            self.builder.described[relation.name] = relation
            if relation.name != name:
                self.builder.forgotten.add(name)

    def _moved(self, view: MaintainedView) -> list[Moved]:
        """What the unit's messages changed under the view other than by row images."""
        return [
            Moved(change, queued.message.committed_at, queued.number)
            for queued in self.unit.messages
            if queued.message.kind != "data" and not view.has(queued.message.source, queued.message.xid)
            for change in queued.message.changes
            if not isinstance(change, DataUpdate) and change.relation in view.definition.relations
        ]

    def _require_readable(self, view: MaintainedView, definition: ViewDefinition, world: World) -> None:
        """A rewriting may bring in relations that the view did not read. Each must be captured and polled, and must be
        readable at the unit's position: a schema change that the unit leaves out cannot be taken back (P5)."""
        read = [scan.relation for scan in scans(view.definition.tree)]
        read += [now for name in view.definition.relations if (now := world.now.get(name)) is not None]
        mine = {(relation.name.source, relation.oid) for relation in read}
        for scan in scans(definition.tree):
            relation, source = scan.relation, scan.relation.name.source
            if (source, relation.oid) in mine:
                continue
            self.builder.require_captured(relation)
            captured = self.known.captured[source]
            position = self._position(view, source, anew=True)
            for queued in self.poll.moving:
                if queued.message.source == source and not position.includes(queued.message.xid):
                    left = {n for n in queued.message.moved_without_rows if captured.get(n) == relation.oid}
                    if left:
                        raise BrokenUnit(source, frozenset(map(str, left)), "a schema change of it waits")

    def _adapted(
        self,
        view: MaintainedView,
        judgement: Holds | Rewritten,
        moved: Sequence[Moved],
        adaptation: FromExtent | Reaggregate | Recompute,
        to: Mapping[str, Position],
    ) -> ViewChange:
        """The view's rows follow its definition, from the extent or from the sources."""
        definition = adaptation.definition
        cause = judgement.reason if isinstance(judgement, Rewritten) else adaptation.reason
        target = BuildRequest(view.name, definition.sql, None, ToBeBuilt(BuildReason.EVOLVED, cause))
        told = partial(story, judgement, moved)
        if isinstance(adaptation, FromExtent | Reaggregate):
            return self.adapter.carry_out(view, adaptation, target, to, told)
        return self.builder.recompute(self.builder.plan(target, definition), to, told, adaptation.reason)

    def run(
        self, views: Sequence[MaintainedView], units: Sequence[Unit], phase: Callable[[str], None]
    ) -> list[tuple[Unit, list[ViewChange]]]:
        """The changes of one unit after the other, all computed at once (rule W6); none of them changes a schema."""
        ours = [_transactions(unit) for unit in units]
        found = []
        for unit, mine, delta in zip(units, ours, self._deltas(views, ours, phase), strict=True):
            changes = replace(self, unit=unit)._moved_by(views, mine, delta, {})
            views = [_after(view, changes) for view in views]
            found.append((unit, changes))
        return found

    def _maintain(
        self, views: Sequence[MaintainedView], versions: dict[str, ViewVersion], phase: Callable[[str], None]
    ) -> list[ViewChange]:
        """ΔV of every view, and the positions that the unit's messages take it to."""
        ours = _transactions(self.unit)
        (deltas,) = self._deltas(views, [ours], phase)
        return self._moved_by(views, ours, deltas, versions)

    def _deltas(
        self, views: Sequence[MaintainedView], run: Sequence[Mapping[str, set[int]]], phase: Callable[[str], None]
    ) -> list[dict[str, ViewDelta]]:
        # The images that another view waits with may be of rows that its relation, as it is known now, does not have.
        lacking = [
            view
            for view in views
            if not all(view.has(source, xid) for ours in run for source, xids in ours.items() for xid in xids)
        ]
        self.refresh.read_images(block for view in lacking for block in view.program.blocks)
        phase("images")
        return self.refresh.changes(lacking, run, phase)

    def _moved_by(
        self,
        views: Sequence[MaintainedView],
        ours: Mapping[str, set[int]],
        deltas: Mapping[str, ViewDelta],
        versions: Mapping[str, ViewVersion],
    ) -> list[ViewChange]:
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
                delta = deltas.get(view.name, ViewDelta())
                changes.append(
                    ViewChange(
                        view=view.name, delta=delta.rows, states=delta.states, version=version, positions=positions
                    )
                )
        return changes

    def _destination(self, view: MaintainedView, definition: ViewDefinition) -> dict[str, Position]:
        """The state that the view is taken to with this definition."""
        new = {
            scan.relation.name.source
            for scan in scans(definition.tree)
            if self.refresh.known_as.get(scan.relation.name, scan.relation.name) not in view.definition.relations
        }
        return {source: self._position(view, source, anew=source in new) for source in sorted(definition.sources)}

    def _position(self, view: MaintainedView, source: str, *, anew: bool = False) -> Position:
        """Where the unit takes the view; what it leaves out is listed as in progress (P3).

        A source that the unit brings nothing from stays where it is, so that views which agree go on saying so. One
        that the view did not read begins where the unit leaves those that do; if nobody does, at the snapshot (P5).
        `anew`: the view reads a relation there that it did not read. Capture of it may be younger than the view's
        position, and what is older than that cannot be taken away, so the position goes to the snapshot too.
        """
        at = view.positions.get(source)
        if (source, at, anew) not in self._positions:
            self._positions[source, at, anew] = self._position_from(source, at, anew)
        return self._positions[source, at, anew]

    def _position_from(self, source: str, at: Position | None, anew: bool) -> Position:
        taken = _transactions(self.unit).get(source, set())
        snapshot = self.poll.snapshots[source].position
        if at is None:
            if self.poll.after.get(source) is None:
                return snapshot
        elif not anew and all(map(at.includes, taken)):
            return at
        left = [xid for xid in self.poll.xids(source) if xid not in taken and not (at is not None and at.includes(xid))]
        position = snapshot.without(left)
        if at is None or anew:
            return position
        # What waits behind all that the view has is many in a long queue, and need not be listed one by one.
        return position.until(max(at.xmax - 1, *taken))


def _transactions(unit: Unit) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for queued in unit.messages:
        found.setdefault(queued.message.source, set()).add(queued.message.xid)
    return found


def _after(view: MaintainedView, changes: Sequence[ViewChange]) -> MaintainedView:
    """The view where its change takes it."""
    for change in changes:
        if change.view == view.name:
            moved = {source: new for source, (_, new) in change.positions.items() if new is not None}
            return replace(view, record=replace(view.record, positions={**view.positions, **moved}))
    return view


def _with_lasting_keys(before: Relation, now: Relation) -> Relation:
    """The relation as it is now, with those keys alone that it had before: a later change may have brought the others,
    and they need not hold yet where the extents stand."""

    def numbers(relation: Relation, key: tuple[str, ...]) -> frozenset[int]:
        return frozenset(relation.column(name).number for name in key)

    then = {numbers(before, key) for key in before.keys} if before.oid == now.oid else set()
    return replace(now, keys=tuple(key for key in now.keys if numbers(now, key) in then))


def _concerns(moved: Sequence[Moved], name: RelationName) -> bool:
    return any(one.change.relation == name for one in moved)
