"""What processing a message may read at the sources, and whose schema it changes: all that scheduling needs to know.

    views ──▶ ViewReads ┐
                        ├─▶ Footprints.of(shape) ─▶ Footprint(relations, schema, reads)
    change ─▶ Effect ───┘

Decided from the views' definitions alone, as paper 001, Section 6.1.1 does. What a kind of change means is said in one
place, `effect_of`; a caller with other kinds passes a function of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import RelationName
from dyda.model.schema_change import AddColumn, Harmless, RenameColumn, RenameRelation
from scheduler.rename_classes import Columns, Names

__all__ = ["Effect", "EffectOf", "Footprint", "Footprints", "Shape", "ViewReads", "effect_of", "meet", "shape_of"]

Touched = Mapping[RelationName, Columns]

Shape = frozenset[RelationName] | tuple[Change, ...]
"""All of a message that its footprint depends on: the relations, if it has data updates only; else its changes."""


@dataclass(frozen=True)
class ViewReads:
    """What maintaining one view may read.

    `reads`: its relations, each with the columns that its maintenance uses; keys and NOT NULL constraints that a plan
    relies on are among them (rule S4). `rereads`: relations that are read when they themselves change: a self-join, or
    `max` after its maximum was deleted. `candidates`: what any candidate rewriting would read besides (rule S2).
    `appends`: relations whose new columns the view takes over.
    """

    view: str
    reads: Touched
    rereads: frozenset[RelationName] = frozenset()
    candidates: Touched = field(default_factory=dict)
    appends: frozenset[RelationName] = frozenset()


@dataclass(frozen=True)
class Effect:
    """What one change other than a data update does to readers of `relation`.

    `columns`: those concerned; None if every reader is, as by a drop or a rename of the relation, and by whatever
    rewrites or moves rows without row images (rule S4). `metadata_only`: answering it reads no source.
    `adds`: the columns are new. `does` is a verb phrase for reasons: "drops column name", "renames it to client".
    """

    relation: RelationName
    columns: Columns
    does: str
    metadata_only: bool = False
    adds: bool = False
    renamed_to: RelationName | None = None
    renamed_column: tuple[str, str] | None = None

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset({self.relation} if self.renamed_to is None else {self.relation, self.renamed_to})


_METADATA = (RenameColumn, RenameRelation, Harmless)
"""Steps that are answered without reading a source: the definition's text follows, or nothing at all happens."""

EffectOf = Callable[[Change], Effect | None]


def effect_of(change: Change) -> Effect | None:
    """What `change` does to readers; None for a data update, which compensation answers (paper 001, Section 4.1)."""
    match change:
        case DataUpdate():
            return None
        case Truncation(relation):
            return Effect(relation, None, "truncates it")
        case SchemaChange(relation, command, _, steps):
            renamed = [step for step in steps if isinstance(step, RenameColumn)]
            return Effect(
                relation,
                change.columns,
                ", ".join(map(str, steps)) or f"changes it ({command})",
                metadata_only=bool(steps) and all(isinstance(step, _METADATA) for step in steps),
                adds=any(isinstance(step, AddColumn) for step in steps),
                renamed_to=change.new_name if change.new_name != relation else None,
                renamed_column=(renamed[0].old, renamed[0].new) if renamed else None,
            )


@dataclass(frozen=True)
class Footprint:
    """Of any message of one shape; `schema` and `reads` are keyed by the oldest pending name of each relation. `views`
    are those it concerns. If it is not `concerned`, it is acknowledged without work and orders nothing."""

    relations: frozenset[RelationName]
    views: frozenset[str]
    concerned: bool
    effects: tuple[Effect, ...]
    schema: Touched
    reads: Touched


class Footprints:
    """Footprints under the given views while the given changes are pending, computed once per shape. `watched` are
    relations that a broken query read although no view says so (rule S3)."""

    def __init__(
        self,
        views: Iterable[ViewReads],
        pending: Iterable[Change] = (),
        effect: EffectOf = effect_of,
        watched: Iterable[RelationName] = (),
    ) -> None:
        self._effect = effect
        effects = [found for change in pending if (found := effect(change)) is not None]
        self.names = Names(
            [(found.relation, found.renamed_to) for found in effects if found.renamed_to],
            [(found.relation, *found.renamed_column) for found in effects if found.renamed_column],
        )
        self.changing = frozenset(self.names.relation(found.relation) for found in effects)
        """The relations that some pending change is about."""
        self._readers: dict[RelationName, list[tuple[ViewReads, RelationName]]] = {}
        self._candidates: dict[RelationName, list[ViewReads]] = {}
        for view in views:
            for relation in view.reads:
                self._readers.setdefault(self.names.relation(relation), []).append((view, relation))
            for relation in view.candidates:
                self._candidates.setdefault(self.names.relation(relation), []).append(view)
        self._watched = frozenset(self.names.relation(relation) for relation in watched)
        self._known: dict[Shape, Footprint] = {}
        self._by_relation: dict[RelationName, Footprint] = {}
        self._concerned_shapes: dict[Shape, bool] = {}

    def of(self, shape: Shape) -> Footprint:
        """The footprint of every message of this shape (`shape_of`)."""
        found = self._known.get(shape)
        if found is None:
            found = self._known[shape] = self._data(shape) if isinstance(shape, frozenset) else self._changes(shape)
        return found

    def concerned(self, shape: Shape) -> bool:
        """Whether messages of this shape are. Transactions combine relations freely, so each relation is looked at."""
        found = self._concerned_shapes.get(shape)
        if found is None:
            if isinstance(shape, frozenset):
                found = any(self.of_relation(relation).concerned for relation in shape)
            else:
                found = self.of(shape).concerned
            self._concerned_shapes[shape] = found
        return found

    def of_relation(self, relation: RelationName) -> Footprint:
        """The footprint of a data update of one relation."""
        found = self._by_relation.get(relation)
        if found is None:
            found = self._by_relation[relation] = self._data(frozenset({relation}))
        return found

    def _data(self, relations: frozenset[RelationName]) -> Footprint:
        """A data update of R reads the other relations of every view over R, and R itself only where it is reread."""
        views: set[str] = set()
        reads: dict[RelationName, Columns] = {}
        for name in relations:
            own = self.names.relation(name)
            views.update(self._concerned(own))
            for view, changed in self._readers.get(own, ()):
                for relation, columns in view.reads.items():
                    if relation != changed or relation in view.rereads:
                        self._touch(reads, relation, columns)
        return Footprint(relations, frozenset(views), bool(views) or self._observed(relations), (), {}, reads)

    def _changes(self, changes: tuple[Change, ...]) -> Footprint:
        """A schema change reads all that adapting the views which use what it changes may read, rewritten or not."""
        data = frozenset(change.relation for change in changes if isinstance(change, DataUpdate))
        footprint = self._data(data)
        relations, views, reads = set(data), set(footprint.views), dict(footprint.reads)
        effects = tuple(found for change in changes if (found := self._effect(change)) is not None)
        schema: dict[RelationName, Columns] = {}
        for effect in effects:
            relations |= effect.relations
            own = self.names.relation(effect.relation)
            views.update(self._concerned(own))
            self._touch(schema, own, effect.columns)
            for view, used in self._readers.get(own, ()):
                if not effect.metadata_only and self._uses(view, used, effect):
                    for touched in (view.reads, view.candidates):
                        for relation, columns in touched.items():
                            self._touch(reads, relation, columns)
        concerned = bool(views) or self._observed(relations)
        return Footprint(frozenset(relations), frozenset(views), concerned, effects, schema if concerned else {}, reads)

    def _concerned(self, own: RelationName) -> Iterable[str]:
        """The views that a message about `own` concerns. A candidate's messages keep their source's order too: a
        rewriting may read the relation, and then its rows must be those of a state that the source had."""
        yield from (view.view for view, _ in self._readers.get(own, ()))
        yield from (view.view for view in self._candidates.get(own, ()))

    def _observed(self, relations: Iterable[RelationName]) -> bool:
        return any(self.names.relation(relation) in self._watched for relation in relations)

    def _uses(self, view: ViewReads, relation: RelationName, effect: Effect) -> bool:
        if effect.adds and relation in view.appends:
            return True
        return meet(self.names.columns(relation, effect.columns), self.names.columns(relation, view.reads[relation]))

    def _touch(self, touched: dict[RelationName, Columns], relation: RelationName, columns: Columns) -> None:
        own, columns = self.names.relation(relation), self.names.columns(relation, columns)
        known = touched.get(own, frozenset())
        touched[own] = None if columns is None or known is None else known | columns


def meet(left: Columns, right: Columns) -> bool:
    """Whether a change of `left` concerns a reader of `right`."""
    return left is None or right is None or not left.isdisjoint(right)


def shape_of(message: UpdateMessage) -> Shape:
    """What `Footprints.of` wants to know of a message."""
    return message.relations if message.kind == "data" else message.changes
