"""What the catalog tells and is told: plain frozen records, never rows of an open transaction."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName

__all__ = [
    "Blocker",
    "DaemonRecord",
    "MessageRecord",
    "RelationRecord",
    "RequestRecord",
    "SourceRecord",
    "SourceUpdate",
    "Status",
    "UnitRecord",
    "UnitStatistics",
    "VersionRecord",
    "ViewColumn",
    "ViewRecord",
    "ViewVersion",
]


@dataclass(frozen=True)
class ViewColumn:
    """A column as readers see it. `type` is the warehouse's; `passthrough`: it is a source's column as it is."""

    name: str
    type: str
    spark_type: str = "string"
    passthrough: bool = False


@dataclass(frozen=True)
class ViewVersion:
    """A definition about to be installed; the installation gives it its number.

    `file_text` is the view file this version was made from (None: an evolution, the file last applied stays what
    it was). `details` is room for what later tells the story of a rewriting: preferences, runners-up.
    """

    sql: str
    columns: tuple[ViewColumn, ...]
    relations: tuple[RelationName, ...] = ()
    cause: str = "apply"
    file_text: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class VersionRecord:
    """An installed version."""

    view: str
    version: int
    sql: str
    columns: tuple[ViewColumn, ...]
    relations: tuple[RelationName, ...]
    cause: str
    extent: int
    installed_at: datetime.datetime
    details: Mapping[str, Any]


@dataclass(frozen=True)
class ViewRecord:
    """A view at a glance.

    `stored_state` is what the catalog holds (`live`, `building`, `resync`, `broken`, `held`); `state` is what users
    are shown: `live` appears as `fresh`, `stale` or `held`, by what is pending and when the sources were last polled.
    """

    name: str
    state: str
    stored_state: str
    reason: str | None
    version: int | None
    rows: int
    fresh_at: datetime.datetime | None
    lag_seconds: float | None
    positions: Mapping[str, Position]
    columns: tuple[ViewColumn, ...]
    definition: str | None
    relations: tuple[RelationName, ...]
    file_text: str | None
    created_at: datetime.datetime
    pending: int
    details: Mapping[str, Any]


@dataclass(frozen=True)
class MessageRecord:
    """A message of the queue: its header, and what has become of it so far."""

    id: int
    message: UpdateMessage
    state: str
    reason: str | None
    unit: int | None
    received_at: datetime.datetime

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


@dataclass(frozen=True)
class SourceUpdate:
    """News of a source. Fields left None stay as they are; an `error` of '' clears it; `polled` stamps the time.

    `system_identifier` and `timeline` say which server it is: a restored, promoted or replaced one has others (P2).
    """

    name: str
    system_identifier: str | None = None
    timeline: str | None = None
    gap: int | None = None
    capture: str | None = None
    capture_order: str | None = None
    reachable: bool | None = None
    error: str | None = None
    polled: bool = False


@dataclass(frozen=True)
class SourceRecord:
    """A source as last heard of. `pending` counts its messages in the queue, `lag_seconds` is the oldest one's age."""

    name: str
    system_identifier: str | None
    timeline: str | None
    gap: int | None
    capture: str | None
    order: str | None
    polled_at: datetime.datetime | None
    reachable: bool | None
    error: str | None
    pending: int
    lag_seconds: float


@dataclass(frozen=True)
class RelationRecord:
    """A relation as it was when its views were last planned. Written with fingerprint None, the known one stays."""

    relation: Relation
    fingerprint: str | None = None
    captured: bool = False


@dataclass(frozen=True)
class UnitStatistics:
    """What one unit of maintenance did and cost."""

    started_at: datetime.datetime
    mode: str
    messages: int = 0
    rows: int = 0
    queries: int = 0
    jobs: int = 0
    phases: Mapping[str, float] = field(default_factory=dict)
    id: int | None = None


@dataclass(frozen=True)
class UnitRecord:
    """A unit that was installed."""

    statistics: UnitStatistics
    installed_at: datetime.datetime


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
    """Who works on the project now. `running` is the lock's truth, not a heartbeat's; `role` is daemon or a command."""

    running: bool
    role: str | None = None
    pid: int | None = None
    host: str | None = None
    since: datetime.datetime | None = None
    fence: int | None = None


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
