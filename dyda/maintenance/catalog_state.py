"""Views as they are maintained: the catalog's record, and the definition resolved against the known relations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from dyda.errors import DydaError, UnknownRelation
from dyda.maintenance.programs import known_program
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, Cause, ToBeBuilt
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.knowledge.document import Unread, read_document
from dyda.model.message import Change, SchemaChange, UpdateMessage
from dyda.model.position import Position
from dyda.model.preferences import Preference
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import Harmless, RenameRelation
from dyda.model.sql.parse import Resolve, parse_view
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.project import Project
from dyda.warehouse import EarlierCatalog, KnowledgeRecord, RelationRecord, SourceRecord, ViewRecord
from dyda.wording import sentence
from vm import JoinBlock, Program, fingerprint
from vs import Defaults

if TYPE_CHECKING:
    from dyda.engine import OutputType
    from dyda.warehouse.writer import Writer

__all__ = [
    "BuildPlan",
    "BuildRequest",
    "Catalog",
    "CatalogState",
    "MaintainedView",
    "keep_programs",
    "last_definition",
    "load",
]

MAINTAINED = (ViewState.LIVE, ViewState.RESYNC, ViewState.BUILDING)


@dataclass(frozen=True)
class MaintainedView:
    """A view that is maintained, with everything a unit needs to know of it."""

    record: ViewRecord
    definition: ViewDefinition
    program: Program
    outdated: Cause | None = None
    """Why its rows and states are not what its program computes: it owes a build, and is not maintained before."""

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def positions(self) -> Mapping[str, Position]:
        return self.record.positions

    def following(self, definition: ViewDefinition, program: Program) -> MaintainedView:
        """The view under another text, with its rows and states as they are."""
        return replace(self, definition=definition, program=program)

    def moved(self, moves: Mapping[str, tuple[Position | None, Position | None]]) -> MaintainedView:
        """The view at the positions that these moves lead to."""
        new = {source: to for source, (_, to) in moves.items() if to is not None}
        return replace(self, record=replace(self.record, positions={**self.positions, **new}))

    def has(self, source: str, xid: int) -> bool:
        """Whether the transaction is in the extent already; true for sources the view does not read."""
        position = self.record.positions.get(source)
        return position is None or position.includes(xid)


@dataclass(frozen=True)
class BuildRequest:
    """A view to be built or rebuilt: its definition's text and the cause. `file_text` is None for an evolution.

    `anew`: something unlogged changed under its extent, so nothing may be taken from it.
    """

    name: str
    sql: str
    file_text: str | None
    cause: Cause
    anew: bool = False

    @property
    def reason(self) -> str:
        return sentence(self.cause)


@dataclass(frozen=True)
class BuildPlan:
    """A request whose definition holds: what is evaluated, and the types of the result."""

    target: BuildRequest
    definition: ViewDefinition
    program: Program
    outputs: tuple[OutputType, ...]

    @property
    def block(self) -> JoinBlock:
        """The one block of a plain view."""
        return self.program.last.terms[0].block


@dataclass(frozen=True)
class Known:
    """Relations and knowledge as some views know them."""

    relations: Mapping[RelationName, RelationRecord]
    knowledge: Knowledge
    unread: tuple[Unread, ...]
    record: KnowledgeRecord


@dataclass(frozen=True)
class CatalogState:
    """What the catalog says, read once and true until the next installation: only the lock's holder writes it."""

    views: Mapping[str, MaintainedView]
    relations: Mapping[RelationName, RelationRecord]
    sources: Mapping[str, SourceRecord]
    frozen: Mapping[str, ViewRecord] = field(default_factory=dict)
    """Views that are broken or held: served, not maintained."""
    unreadable: Mapping[str, Cause] = field(default_factory=dict)
    """Those of `frozen` whose text means nothing over the relations as the catalog knows them: they need a rebuild."""
    defaults: Defaults = field(default_factory=Defaults)
    """What a view or a component prefers whose file says nothing."""
    knowledge: Knowledge = field(default_factory=Knowledge)
    """The constraints that mean something over the relations as the catalog knows them."""
    unread: tuple[Unread, ...] = ()
    """Those that mean nothing now; a new document keeps them (`document_of`)."""
    knowledge_record: KnowledgeRecord = field(default_factory=KnowledgeRecord)
    reserved: Mapping[str, Mapping[str, Position]] = field(default_factory=dict)
    """Where views begin that lanes are building now: nothing that they lack may be forgotten (P5)."""
    earlier: Mapping[EarlierCatalog, Known] = field(default_factory=dict)
    """What views know that the catalog has gone on without."""

    def known_to(self, earlier: EarlierCatalog | None) -> CatalogState:
        """The catalog as some views know it, with these views alone. Views that know an earlier one are not part of
        what the others know, nor the other way round."""
        if not self.earlier:
            return self
        views = {name: view for name, view in self.views.items() if view.record.earlier == earlier}
        if earlier is None:
            return replace(self, views=views, earlier={})
        known = self.earlier[earlier]
        return replace(
            self,
            views=views,
            relations=known.relations,
            knowledge=known.knowledge,
            unread=known.unread,
            knowledge_record=known.record,
            frozen={},
            unreadable={},
            earlier={},
        )

    @cached_property
    def worlds(self) -> tuple[CatalogState, ...]:
        """The catalog as all views know it, each group of views with what it knows."""
        return (self.known_to(None), *map(self.known_to, self.earlier))

    def is_described_with(self, name: RelationName, xid: int) -> bool:
        """Whether the catalog's description of the relation has the transaction in it already. The view that it came
        with may be gone by now, or held."""
        record = self.relations.get(name)
        if record is not None and record.position is not None and record.position.includes(xid):
            return True
        return any(
            (at := view.positions.get(name.source)) is not None and at.includes(xid)
            for view in self.views.values()
            if name in view.definition.relations
        )

    def named_now(self, message: UpdateMessage) -> UpdateMessage:
        """The message as all views are to see it: names are those of the catalog. Where it has followed a rename
        already, that is no news to a view that comes later, and the name may be another one by now."""

        def known(change: Change) -> Change:
            if not isinstance(change, SchemaChange) or not self.is_described_with(change.relation, message.xid):
                return change
            steps = (Harmless(str(s), keys=False) if isinstance(s, RenameRelation) else s for s in change.steps)
            return replace(change, steps=tuple(steps))

        changes = tuple(map(known, message.changes)) if message.schema_changes else message.changes
        return message if changes == message.changes else replace(message, changes=changes)

    @cached_property
    def records(self) -> dict[str, ViewRecord]:
        """Every view's record, whatever state it is in."""
        return {**{name: view.record for name, view in self.views.items()}, **self.frozen}

    @property
    def held(self) -> dict[str, ViewRecord]:
        """Those of `frozen` that are held."""
        return {name: record for name, record in self.frozen.items() if record.stored_state == ViewState.HELD}

    @property
    def captured(self) -> dict[str, dict[RelationName, int]]:
        """The relations that capture is attached to, by source, each with its oid."""
        oids: dict[str, dict[RelationName, int]] = {}
        for name, record in self.relations.items():
            if record.captured:
                oids.setdefault(name.source, {})[name] = record.relation.oid
        return oids


class Catalog:
    """The catalog as this process knows it. Only it writes, so it is read again only after a write that changes more
    than rows and positions."""

    def __init__(self, opened: OpenProject, writer: Writer) -> None:
        self._opened = opened
        self._writer = writer
        self._state: CatalogState | None = None
        self._last: CatalogState | None = None
        self._reserved: dict[str, Mapping[str, Position]] = {}

    @property
    def state(self) -> CatalogState:
        if self._state is None:
            found = load(self._opened, self._last, hidden=True)
            self._state = self._last = replace(found, reserved=dict(self._reserved))
            keep_programs(self._opened, self._writer, self._state)
        return self._state

    def forget(self) -> None:
        """Read it again when it is next asked for."""
        self._state = None

    def reserve(self, view: str, positions: Mapping[str, Position] | None) -> None:
        """A lane begins to build the view at these positions; None: it has ended."""
        self._reserved.pop(view, None)
        if positions is not None:
            self._reserved[view] = dict(positions)
        self.forget()

    def becomes(self, state: CatalogState | None) -> None:
        """What an installation has made of it; None if that has to be read."""
        self._state = state

    def wait(self, waiting: Mapping[str, Cause]) -> None:
        """These views owe a build that cannot be made now, each with its cause."""
        for name, cause in waiting.items():
            if self.state.views[name].record.stored_state != ViewState.RESYNC:
                self._writer.set_state(name, ViewState.RESYNC, cause)
                self.forget()


def load(opened: OpenProject, before: CatalogState | None = None, *, hidden: bool = False) -> CatalogState:
    """Read the catalog and resolve every maintained view against the relations as the catalog knows them.

    What `before` holds already, over the same relations, is not parsed and planned again. `hidden`: with the views that
    lanes have built and no reader sees yet.
    """
    relations = {record.relation.name: record for record in opened.warehouse.relations()}
    numeric = opened.project.settings.spark.numeric

    resolve = catalog_resolver(opened.project, relations)
    views: dict[str, MaintainedView] = {}
    frozen: dict[str, ViewRecord] = {}
    unreadable: dict[str, Cause] = {}
    older: dict[EarlierCatalog, Known] = {}
    for record in opened.warehouse.views(counted=False, hidden=hidden):
        if record.stored_state not in MAINTAINED or record.sql is None:
            frozen[record.name] = record
            continue
        own: Mapping[RelationName, RelationRecord] = relations
        own_resolve = resolve
        if record.earlier is not None:
            if record.earlier not in older:
                older[record.earlier] = _earlier(opened.project, relations, record.earlier)
            own = older[record.earlier].relations
            own_resolve = catalog_resolver(opened.project, own)
        was = before.views.get(record.name) if before is not None else None
        if was is not None and _same_view(was, record, own):
            views[record.name] = replace(was, record=record)
            continue
        try:
            definition = parse_view(record.name, record.sql, own_resolve, plain_numeric=numeric)
            program, outdated = known_program(opened.project.settings.spark, definition, record)
        except DydaError as error:
            # The catalog's relations have changed without this view: it is judged again, alone.
            frozen[record.name] = record
            unreadable[record.name] = ToBeBuilt(BuildReason.UNREADABLE, error.what)
            continue
        views[record.name] = MaintainedView(record, definition, program, outdated)
    sources = {record.name: record for record in opened.warehouse.sources(counted=False)}
    kept = opened.warehouse.knowledge()
    knowledge, unread = _knowledge(kept, relations, resolve, before)
    return CatalogState(
        views, relations, sources, frozen, unreadable, defaults(opened), knowledge, unread, kept, earlier=older
    )


def _earlier(project: Project, relations: Mapping[RelationName, RelationRecord], earlier: EarlierCatalog) -> Known:
    """The relations under the same names, as the view knows them; and its knowledge over these."""
    own = dict(relations)
    for relation in earlier.relations:
        record = relations.get(relation.name)
        captured = record is not None and record.captured
        own[relation.name] = RelationRecord(relation, record.fingerprint if record is not None else None, captured)
    kept = KnowledgeRecord(json.loads(earlier.knowledge))
    knowledge, unread = read_document(kept.document, catalog_resolver(project, own))
    return Known(own, knowledge, unread, kept)


def keep_programs(opened: OpenProject, writer: Writer, known: CatalogState) -> None:
    """Record the steps of views that were built before DyDa kept them."""
    for view in known.views.values():
        if view.record.program is None and view.outdated is None:
            writer.keep_program(view.name, fingerprint(view.program, opened.project.settings.spark.timezone))


def catalog_resolver(project: Project, relations: Mapping[RelationName, RelationRecord]) -> Resolve:
    """How a text's relations are found in the catalog."""

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        name = project.relation_name(source, schema, table)
        if name not in relations:
            raise UnknownRelation(f"relation {name} is not in the catalog", "Run: dyda apply")
        return relations[name].relation

    return resolve


def _knowledge(
    record: KnowledgeRecord,
    relations: Mapping[RelationName, RelationRecord],
    resolve: Resolve,
    before: CatalogState | None,
) -> tuple[Knowledge, tuple[Unread, ...]]:
    if before is not None and before.knowledge_record.document == record.document and not before.unread:
        same = (relations.get(name) == before.relations.get(name) for name in before.knowledge.relations)
        if all(same):
            return before.knowledge, ()
    return read_document(record.document, resolve)


def defaults(opened: OpenProject) -> Defaults:
    """`[preferences]` of dyda.toml."""
    settings = opened.project.settings.preferences
    component = Preference(settings.dispensable, settings.replaceable)
    return Defaults(component, settings.extent, settings.new_columns)


def _same_view(earlier: MaintainedView, record: ViewRecord, relations: Mapping[RelationName, RelationRecord]) -> bool:
    """Whether the text, the relations it reads and what its operators keep are what they were."""
    return (
        earlier.definition.sql == record.sql
        and earlier.record.states == record.states
        and earlier.record.program == record.program
        and all(
            (known := relations.get(scan.relation.name)) is not None and known.relation == scan.relation
            for scan in scans(earlier.definition.tree)
        )
    )


def last_definition(project: Project, known: CatalogState, record: ViewRecord) -> ViewDefinition | None:
    """What the view's last text means over the relations as the catalog knows them; None if it means nothing."""
    resolve = catalog_resolver(project, known.relations)
    try:
        return parse_view(record.name, record.sql or "", resolve, plain_numeric=project.settings.spark.numeric)
    except DydaError:
        return None
