"""What happens: one event for each change of a state. Data, never a sentence; `dyda.event_wording` makes the sentences.

An event is a frozen value of one of the kinds below; `Event` is all of them. `view`, `source`, `message` and `cause`
mean the same in all of them, and an event has those that it concerns. An event is saved in the transaction that changes
the state, so that neither is there without the other.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, get_args

from dyda.model.cause import Cause
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState

__all__ = ["EVENTS", "Event", "Level", "message_moved", "view_moved"]


class Level(enum.StrEnum):
    """How much an event matters to whoever looks after the warehouse."""

    INFO = "info"
    """As it should be."""
    WARNING = "warning"
    """Somebody has to decide or to repair something, or will have to if it lasts."""
    ERROR = "error"
    """Readers see rows that no longer follow their sources, or nobody works."""


# --- views


@dataclass(frozen=True)
class ViewBuilding:
    """A new view is to be built."""

    kind: ClassVar[str] = "view.building"
    level: ClassVar[Level] = Level.INFO
    view: str


@dataclass(frozen=True)
class ViewBuilt:
    """All its rows were read from the sources, and readers see them."""

    kind: ClassVar[str] = "view.built"
    level: ClassVar[Level] = Level.INFO
    view: str
    rows: int | None
    cause: Cause | None = None


@dataclass(frozen=True)
class ViewRewritten:
    """A schema change took something that the view needs: its definition lost or replaced these components."""

    kind: ClassVar[str] = "view.rewritten"
    level: ClassVar[Level] = Level.WARNING
    view: str
    version: int
    components: tuple[str, ...]
    cause: Cause
    extent: str | None = None
    """How its rows relate to those from before."""


@dataclass(frozen=True)
class ViewAdapted:
    """It has a new definition, of its file or because it followed a schema change, and its rows have followed."""

    kind: ClassVar[str] = "view.adapted"
    level: ClassVar[Level] = Level.INFO
    view: str
    version: int
    cause: Cause
    adaptation: str | None = None
    """How its rows followed."""


@dataclass(frozen=True)
class ViewRecovered:
    """It was broken, held or kept waiting, and follows its sources again."""

    kind: ClassVar[str] = "view.recovered"
    level: ClassVar[Level] = Level.INFO
    view: str
    was: ViewState


@dataclass(frozen=True)
class ViewBroken:
    """It serves its last correct rows: no legal form of it is left, or its rows cannot be computed."""

    kind: ClassVar[str] = "view.broken"
    level: ClassVar[Level] = Level.ERROR
    view: str
    cause: Cause | None


@dataclass(frozen=True)
class ViewHeld:
    """It waits for an operator, and serves its last correct rows."""

    kind: ClassVar[str] = "view.held"
    level: ClassVar[Level] = Level.ERROR
    view: str
    cause: Cause | None


@dataclass(frozen=True)
class ViewResync:
    """It will be rebuilt, and serves its old rows until then."""

    kind: ClassVar[str] = "view.resync"
    level: ClassVar[Level] = Level.INFO
    view: str
    cause: Cause | None


@dataclass(frozen=True)
class ViewWaiting:
    """It stays as it is until something that it needs is back."""

    kind: ClassVar[str] = "view.waiting"
    level: ClassVar[Level] = Level.WARNING
    view: str
    cause: Cause


@dataclass(frozen=True)
class ViewStale:
    """What readers see of it is older than it may be."""

    kind: ClassVar[str] = "view.stale"
    level: ClassVar[Level] = Level.ERROR
    view: str
    lag_seconds: float
    limit_seconds: float
    reason: str | None = None


@dataclass(frozen=True)
class ViewFresh:
    """It was older than it may be, and is no longer."""

    kind: ClassVar[str] = "view.fresh"
    level: ClassVar[Level] = Level.INFO
    view: str
    lag_seconds: float


@dataclass(frozen=True)
class ViewRelaid:
    """What is unique in its rows, or the indexes that its file declares, are not what they were."""

    kind: ClassVar[str] = "view.relaid"
    level: ClassVar[Level] = Level.INFO
    view: str
    cause: Cause


@dataclass(frozen=True)
class ViewIndexLost:
    """It has lost a key or an index. Its rows are right."""

    kind: ClassVar[str] = "view.index_lost"
    level: ClassVar[Level] = Level.WARNING
    view: str
    cause: Cause


@dataclass(frozen=True)
class ViewDropped:
    """It is gone, with its rows and its history."""

    kind: ClassVar[str] = "view.dropped"
    level: ClassVar[Level] = Level.INFO
    view: str


# --- messages


@dataclass(frozen=True)
class MessageApproval:
    """The message waits until an operator approves or rejects what it would do."""

    kind: ClassVar[str] = "message.approval"
    level: ClassVar[Level] = Level.WARNING
    message: int
    source: str
    cause: Cause | None


@dataclass(frozen=True)
class MessageQuarantined:
    """A value in the message cannot be computed."""

    kind: ClassVar[str] = "message.quarantined"
    level: ClassVar[Level] = Level.ERROR
    message: int
    source: str
    cause: Cause | None


@dataclass(frozen=True)
class MessageHeld:
    """An operator holds the message."""

    kind: ClassVar[str] = "message.held"
    level: ClassVar[Level] = Level.INFO
    message: int
    source: str
    cause: Cause | None


@dataclass(frozen=True)
class MessageReleased:
    """The message waits for nobody any more; it is processed in its turn."""

    kind: ClassVar[str] = "message.released"
    level: ClassVar[Level] = Level.INFO
    message: int
    source: str


@dataclass(frozen=True)
class MessageApproved:
    """An operator approved the message."""

    kind: ClassVar[str] = "message.approved"
    level: ClassVar[Level] = Level.INFO
    message: int
    source: str


@dataclass(frozen=True)
class MessageRejected:
    """An operator rejected the message: the views that it would rewrite or break are broken."""

    kind: ClassVar[str] = "message.rejected"
    level: ClassVar[Level] = Level.WARNING
    message: int
    source: str
    views: tuple[str, ...]


@dataclass(frozen=True)
class MessageSkipped:
    """An operator took the message out: the views that it touches are rebuilt instead."""

    kind: ClassVar[str] = "message.skipped"
    level: ClassVar[Level] = Level.WARNING
    message: int
    source: str
    cause: Cause | None


# --- sources


@dataclass(frozen=True)
class SourceLost:
    """It is out of reach."""

    kind: ClassVar[str] = "source.lost"
    level: ClassVar[Level] = Level.ERROR
    source: str
    detail: str


@dataclass(frozen=True)
class SourceBack:
    """It can be reached again."""

    kind: ClassVar[str] = "source.back"
    level: ClassVar[Level] = Level.INFO
    source: str


@dataclass(frozen=True)
class SourceGap:
    """It has changes that were not captured: its views are rebuilt."""

    kind: ClassVar[str] = "source.gap"
    level: ClassVar[Level] = Level.WARNING
    source: str
    cause: Cause


@dataclass(frozen=True)
class SourceDrift:
    """The source, or a relation of it, is not what it was, and no message shows why."""

    kind: ClassVar[str] = "source.drift"
    level: ClassVar[Level] = Level.WARNING
    source: str
    cause: Cause


@dataclass(frozen=True)
class SourceDetached:
    """DyDa was removed from it."""

    kind: ClassVar[str] = "source.detached"
    level: ClassVar[Level] = Level.WARNING
    source: str


# --- units


@dataclass(frozen=True)
class UnitInstalled:
    """A unit of maintenance was installed. `unit_kind`: data, schema, merged, idle or build."""

    kind: ClassVar[str] = "unit.installed"
    level: ClassVar[Level] = Level.INFO
    unit: int
    unit_kind: str
    messages: int
    rows: int
    views: int
    seconds: float


@dataclass(frozen=True)
class UnitMerged:
    """Messages that depend on each other in a cycle were installed as one unit."""

    kind: ClassVar[str] = "unit.merged"
    level: ClassVar[Level] = Level.INFO
    unit: int
    messages: int
    rows: int
    views: int
    seconds: float


@dataclass(frozen=True)
class UnitAborted:
    """A unit of these messages was abandoned: a schema changed under it. It is tried again."""

    kind: ClassVar[str] = "unit.aborted"
    level: ClassVar[Level] = Level.INFO
    messages: tuple[int, ...]
    detail: str
    seconds: float


# --- the daemon, the warehouse, the configuration


@dataclass(frozen=True)
class DaemonStarted:
    """A daemon works on the project."""

    kind: ClassVar[str] = "daemon.started"
    level: ClassVar[Level] = Level.INFO
    pid: int
    host: str
    views: int
    consistency: str


@dataclass(frozen=True)
class DaemonTookOver:
    """A daemon that stood by works in the place of one that has ended."""

    kind: ClassVar[str] = "daemon.took_over"
    level: ClassVar[Level] = Level.WARNING
    pid: int
    host: str


@dataclass(frozen=True)
class DaemonStopped:
    """The daemon has ended in an orderly way."""

    kind: ClassVar[str] = "daemon.stopped"
    level: ClassVar[Level] = Level.WARNING
    pid: int
    host: str


@dataclass(frozen=True)
class DaemonBlocked:
    """The daemon cannot go on, and tries again."""

    kind: ClassVar[str] = "daemon.blocked"
    level: ClassVar[Level] = Level.ERROR
    detail: str


@dataclass(frozen=True)
class DaemonUnblocked:
    """The daemon goes on."""

    kind: ClassVar[str] = "daemon.unblocked"
    level: ClassVar[Level] = Level.INFO


@dataclass(frozen=True)
class WarehouseBack:
    """The warehouse was out of reach, and is back."""

    kind: ClassVar[str] = "warehouse.back"
    level: ClassVar[Level] = Level.WARNING
    seconds: float


@dataclass(frozen=True)
class ConfigurationRefused:
    """dyda.toml, knowledge.toml or a view's file was refused: what was in force stays in force."""

    kind: ClassVar[str] = "configuration.refused"
    level: ClassVar[Level] = Level.WARNING
    detail: str
    remedy: str


Event = (
    ViewBuilding
    | ViewBuilt
    | ViewRewritten
    | ViewAdapted
    | ViewRecovered
    | ViewBroken
    | ViewHeld
    | ViewResync
    | ViewWaiting
    | ViewStale
    | ViewFresh
    | ViewRelaid
    | ViewIndexLost
    | ViewDropped
    | MessageApproval
    | MessageQuarantined
    | MessageHeld
    | MessageReleased
    | MessageApproved
    | MessageRejected
    | MessageSkipped
    | SourceLost
    | SourceBack
    | SourceGap
    | SourceDrift
    | SourceDetached
    | UnitInstalled
    | UnitMerged
    | UnitAborted
    | DaemonStarted
    | DaemonTookOver
    | DaemonStopped
    | DaemonBlocked
    | DaemonUnblocked
    | WarehouseBack
    | ConfigurationRefused
)

EVENTS: dict[str, type[Event]] = {kind.kind: kind for kind in get_args(Event)}
"""Every kind of event, by its name."""


def view_moved(view: str, before: ViewState, why: Cause | None, after: ViewState, cause: Cause | None) -> Event | None:
    """What it is that a view goes from one state, and its cause, to another; None if it is in both already."""
    if (before, why) == (after, cause):
        return None
    match after:
        case ViewState.BROKEN:
            return ViewBroken(view, cause)
        case ViewState.HELD:
            return ViewHeld(view, cause)
        case ViewState.RESYNC:
            return ViewResync(view, cause)
        case ViewState.BUILDING:
            return ViewBuilding(view)
        case ViewState.LIVE:
            return ViewRecovered(view, before) if cause is None else ViewWaiting(view, cause)


def message_moved(
    number: int, source: str, before: MessageState, after: MessageState, cause: Cause | None
) -> tuple[Event, ...]:
    """What it is that a message goes from one state to another; nothing if that concerns nobody."""
    match after:
        case MessageState.APPROVAL:
            return (MessageApproval(number, source, cause),)
        case MessageState.QUARANTINED | MessageState.BROKEN:
            return (MessageQuarantined(number, source, cause),)
        case MessageState.HELD:
            return (MessageHeld(number, source, cause),)
        case MessageState.SKIPPED:
            return (MessageSkipped(number, source, cause),)
        case MessageState.WAITING:
            return (MessageReleased(number, source),) if before is not MessageState.RUNNING else ()
        case MessageState.RUNNING:
            return ()
