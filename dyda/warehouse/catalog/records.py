"""What is read from the catalog and saved in it: plain frozen records, never rows of an open transaction."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dyda.model.cause import BuildReason, Cause, ToBeBuilt
from dyda.model.event import EVENTS, Level
from dyda.model.layout import Layout, LayoutChange, LayoutEvent
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.operator_state import State
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.view_state import ShownState, ViewState
from dyda.wording import sentence

__all__ = [
    "AbortRecord",
    "Blocker",
    "DaemonRecord",
    "EarlierCatalog",
    "EventRecord",
    "FreshnessRecord",
    "Identity",
    "IndexRecord",
    "KnowledgeRecord",
    "MessageRecord",
    "RelationRecord",
    "RelationState",
    "RequestRecord",
    "SourceRecord",
    "SourceState",
    "StateTable",
    "Status",
    "UnitRecord",
    "VersionRecord",
    "ViewColumn",
    "ViewRecord",
    "ViewVersion",
    "WaitingRecord",
]


@dataclass(frozen=True)
class ViewColumn:
    """A column as readers see it. `type` is the warehouse's; `passthrough`: it is a source's column as it is."""

    name: str
    type: str
    spark_type: str = "string"
    passthrough: bool = False


@dataclass(frozen=True)
class StateTable:
    """What one keyed operator of a view keeps, and by which of its delivered columns rows of it are looked up."""

    state: State
    indexed: tuple[str, ...] = ()


@dataclass(frozen=True)
class ViewVersion:
    """A definition about to be installed; the installation gives it its number.

    `file_text` is the view file this version was made from (None: a rewriting; the file last applied stays).
    `details` explain a rewriting: preferences, runners-up. `program` is the fingerprint of the steps that compute rows
    and states. `states` and `program` None: those of the version before.
    """

    sql: str
    columns: tuple[ViewColumn, ...]
    relations: tuple[RelationName, ...] = ()
    cause: Cause = ToBeBuilt(BuildReason.CREATED)  # noqa: RUF009
    file_text: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    states: tuple[StateTable, ...] | None = None
    program: str | None = None
    layout: Layout = field(default_factory=Layout)

    @property
    def layout_changes(self) -> tuple[LayoutChange, ...]:
        """What came and went of keys and indexes, as `details` have it."""
        entries = self.details.get("layout", ())
        return tuple(LayoutChange(LayoutEvent(entry["event"]), tuple(entry["columns"])) for entry in entries)


@dataclass(frozen=True)
class VersionRecord:
    """An installed version."""

    view: str
    version: int
    sql: str
    columns: tuple[ViewColumn, ...]
    relations: tuple[RelationName, ...]
    cause: Cause
    extent: int
    installed_at: datetime.datetime
    details: Mapping[str, Any]
    layout: Layout = field(default_factory=Layout)
    lost_indexes: tuple[Cause, ...] = ()


@dataclass(frozen=True)
class IndexRecord:
    """An index of a view's table. `purpose`: `rows` (how changes find their rows), `key` (proven), `declared key`,
    `declared`, or `by hand`. `columns` are the table's, in order, without expressions."""

    name: str
    purpose: str
    columns: tuple[str, ...]
    unique: bool
    definition: str
    bytes: int
    scans: int
    """How often it has been read since PostgreSQL's statistics were reset."""


@dataclass(frozen=True)
class EarlierCatalog:
    """What a view that waits knows of its sources: the relations that the catalog describes as they are after schema
    changes which the view has not processed, and the knowledge (a document, as JSON) as it was before these."""

    relations: tuple[Relation, ...]
    knowledge: str


@dataclass(frozen=True)
class ViewRecord:
    """A view at a glance.

    `stored_state` is what the catalog holds, `state` what users are shown: `live` appears as `fresh`, `stale`
    or `held`, by what is pending and when the sources were last polled.
    """

    name: str
    state: ShownState
    stored_state: ViewState
    cause: Cause | None
    version: int | None
    rows: int
    fresh_at: datetime.datetime | None
    lag_seconds: float | None
    positions: Mapping[str, Position]
    columns: tuple[ViewColumn, ...]
    sql: str | None
    relations: tuple[RelationName, ...]
    file_text: str | None
    created_at: datetime.datetime
    pending: int
    details: Mapping[str, Any]
    states: tuple[State, ...] = ()
    program: str | None = None
    """The fingerprint of the steps that computed its rows; None: built before fingerprints were recorded."""
    layout: Layout = field(default_factory=Layout)
    """That of its version; of one from before layouts were recorded: nothing is known."""
    narrowed: int | None = None
    """The size of its table in bytes, if that has columns that the view has lost."""
    earlier: EarlierCatalog | None = None
    """None unless the catalog has gone on without it."""

    @property
    def reason(self) -> str | None:
        """The cause of its state, in words."""
        return None if self.cause is None else sentence(self.cause)

    @property
    def behind(self) -> bool:
        """Whether the definition was rewritten while the view was held: its rows are those of an older one."""
        return bool(self.details.get("behind"))

    @property
    def sources(self) -> set[str]:
        """The sources that it reads, and those that it has positions for: others while it is behind."""
        return {*self.positions, *(name.source for name in self.relations)}


@dataclass(frozen=True)
class MessageRecord:
    """A message of the queue: its header, and what has become of it so far."""

    id: int
    message: UpdateMessage
    state: MessageState
    cause: Cause | None
    unit: int | None
    received_at: datetime.datetime
    approved: bool = False
    """An operator has approved it, so it is not stopped again."""

    @property
    def reason(self) -> str | None:
        """The cause of its state, in words."""
        return None if self.cause is None else sentence(self.cause)

    @property
    def source(self) -> str:
        return self.message.source

    @property
    def xid(self) -> int:
        return self.message.xid

    @property
    def kind(self) -> str:
        return self.message.kind

    @property
    def relations(self) -> frozenset[RelationName]:
        return self.message.relations

    @property
    def rows(self) -> int:
        return self.message.rows


@dataclass(frozen=True, eq=False)
class Identity:
    """Which server a source is: a restored, promoted or replaced one has other numbers (P2).

    Equal to anything that has the same two numbers; source adapters have their own class.
    """

    system_identifier: str
    timeline: str

    def __eq__(self, other: object) -> bool:
        if not (hasattr(other, "system_identifier") and hasattr(other, "timeline")):
            return NotImplemented
        theirs = (str(other.system_identifier), str(other.timeline))
        return (str(self.system_identifier), str(self.timeline)) == theirs

    def __hash__(self) -> int:
        return hash((str(self.system_identifier), str(self.timeline)))


@dataclass(frozen=True)
class SourceState:
    """What is new about a source. Fields left None stay as they are; an `error` or `mark` of '' clears it.

    `polled` stamps the time; `identity` is anything with `system_identifier` and `timeline`.
    """

    name: str
    identity: Any = None
    gap: int | None = None
    capture: str | None = None
    order: str | None = None
    reachable: bool | None = None
    error: str | None = None
    polled: bool = False
    mark: str | None = None


@dataclass(frozen=True)
class SourceRecord:
    """A source at its last poll. `pending` counts its messages in the queue, `lag_seconds` is the oldest one's age."""

    name: str
    identity: Identity | None
    gap: int | None
    capture: str | None
    order: str | None
    polled_at: datetime.datetime | None
    reachable: bool | None
    error: str | None
    pending: int
    lag_seconds: float
    mark: str | None = None
    """What the last installation left there; a source without it has lost transactions that were read."""


@dataclass(frozen=True)
class RelationState:
    """A relation as its views are planned with it, to be saved."""

    relation: Relation
    fingerprint: str | None = None
    captured: bool = True
    position: Position | None = None
    """The transactions of its source that the description includes; None: not known, or as it was."""


class RelationRecord(RelationState):
    """A relation as it was when its views were last planned."""


@dataclass(frozen=True)
class KnowledgeRecord:
    """What the sources mean to each other. `document` is knowledge.toml's form with full names, as it has evolved.

    `file_text` is the file last applied; since then schema changes may have changed the document (`evolved`) and ended
    constraints (`retired`, each a document of one entry with its `reason`).
    """

    document: Mapping[str, Any] = field(default_factory=dict)
    file_text: str | None = None
    retired: tuple[Mapping[str, Any], ...] = ()
    evolved: bool = False


@dataclass(frozen=True)
class UnitRecord:
    """What one unit of maintenance did and cost. `kind`: data, schema, merged, idle or build.

    `id` comes from the installation.
    """

    mode: str
    messages: int = 0
    rows: int = 0
    queries: int = 0
    jobs: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    started_at: datetime.datetime | None = None
    installed_at: datetime.datetime | None = None
    id: int | None = None
    kind: str = "data"


@dataclass(frozen=True)
class EventRecord:
    """An event as the catalog has it. `text` says what happened, `next` what to do about it; `cause` and `details` are
    its parts."""

    id: int
    at: datetime.datetime
    kind: str
    view: str | None
    source: str | None
    message: int | None
    text: str
    next: str | None
    cause: Mapping[str, Any] | None
    details: Mapping[str, Any]

    @property
    def level(self) -> Level:
        kind = EVENTS.get(self.kind)
        return Level.INFO if kind is None else kind.level  # a newer version may know more kinds


@dataclass(frozen=True)
class FreshnessRecord:
    """A view in `dyda.freshness`. `overdue_since`: when it was announced that it is older than it may be."""

    name: str
    state: str
    reason: str | None
    fresh_at: datetime.datetime | None
    lag_seconds: float | None
    overdue_since: datetime.datetime | None


@dataclass(frozen=True)
class AbortRecord:
    """An abandoned unit: its messages, and the relations whose schema changes it met."""

    messages: tuple[int, ...]
    relations: tuple[RelationName, ...]


@dataclass(frozen=True)
class RequestRecord:
    """What a command asked the running process to do. `state`: waiting, running, done, failed, cancelled."""

    id: int
    verb: str
    arguments: Mapping[str, Any]
    state: str
    progress: Any
    result: Any
    error: Mapping[str, Any] | None
    created_at: datetime.datetime
    finished_at: datetime.datetime | None


@dataclass(frozen=True)
class DaemonRecord:
    """The process that holds the project's lock. `running` is read from the lock; `role` is daemon or a command."""

    running: bool
    role: str | None = None
    pid: int | None = None
    host: str | None = None
    since: datetime.datetime | None = None
    fence: int | None = None
    obstacle: str | None = None
    """What keeps it from working, in words."""


@dataclass(frozen=True)
class WaitingRecord:
    """A daemon that waits for the project's lock."""

    pid: int
    host: str
    since: datetime.datetime


@dataclass(frozen=True)
class Blocker:
    """A session whose lock an installation waits for."""

    pid: int
    user: str | None
    application: str | None
    since: datetime.datetime | None
    query: str | None


@dataclass(frozen=True)
class Status:
    """Everything `dyda status` shows, read in one snapshot."""

    daemon: DaemonRecord
    sources: tuple[SourceRecord, ...]
    views: tuple[ViewRecord, ...]
    blockers: tuple[Blocker, ...] = ()
    waiting: tuple[WaitingRecord, ...] = ()
