"""Why a view or a message is in the state it is in: data, never a sentence. `dyda.wording` makes the sentences.

A cause is a frozen value of one of the kinds below; `Cause` is all of them. Whatever is decided because of a cause is
decided by its kind and its parts. `detail` is what Spark, PostgreSQL or `vs` said: it is shown and never read.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, get_args

from dyda.model.layout import LayoutChange
from dyda.model.view_state import ViewState


@dataclass(frozen=True)
class Text:
    """A sentence and no more: what an older DyDa wrote down."""

    kind: ClassVar[str] = "text"
    text: str


# --- what an operator decides


@dataclass(frozen=True)
class HeldByOperator:
    """An operator holds the message."""

    kind: ClassVar[str] = "held_by_operator"
    message: int


@dataclass(frozen=True)
class Effect:
    """What a message would do to a view: `rewritten`, `broken` or `unknown`."""

    view: str
    effect: str


@dataclass(frozen=True)
class NeedsApproval:
    """The message would cost views something, and an operator has yet to agree."""

    kind: ClassVar[str] = "needs_approval"
    message: int
    effects: tuple[Effect, ...]


@dataclass(frozen=True)
class WaitsWith:
    """The message changes the same table as `other`, which needs approval."""

    kind: ClassVar[str] = "waits_with"
    message: int
    other: int


@dataclass(frozen=True)
class WaitsBehind:
    """The message gives a name to another table, and views that wait for `other` need the one that had it."""

    kind: ClassVar[str] = "waits_behind"
    message: int
    other: int


@dataclass(frozen=True)
class MessagesPending:
    """So many messages were received that the view does not have yet; they are processed in their turn."""

    kind: ClassVar[str] = "messages_pending"
    messages: int


@dataclass(frozen=True)
class NotPolled:
    """The view's sources were not polled lately: no daemon runs, or it is busy."""

    kind: ClassVar[str] = "not_polled"


@dataclass(frozen=True)
class Rejected:
    """An operator rejected the rewriting: the view waits for its file, not for its relations."""

    kind: ClassVar[str] = "rejected"
    message: int
    source: str
    ddl: str


@dataclass(frozen=True)
class Skipped:
    """An operator has taken the message out, and says why."""

    kind: ClassVar[str] = "skipped"
    note: str


@dataclass(frozen=True)
class MessageSkipped:
    """The view lacks a message that an operator has taken out. `row` is the one that it was quarantined for."""

    kind: ClassVar[str] = "message_skipped"
    message: int
    note: str
    row: str | None = None


@dataclass(frozen=True)
class Detached:
    """DyDa was removed from the source."""

    kind: ClassVar[str] = "detached"
    source: str


# --- rows that cannot be computed


@dataclass(frozen=True)
class Uncomputable:
    """A row that Spark can neither hold nor compute with; which one and where, as far as that is known."""

    kind: ClassVar[str] = "uncomputable"
    detail: str
    relation: str | None = None
    column: str | None = None
    row: str | None = None


@dataclass(frozen=True)
class Quarantined:
    """The view needs these messages, which are quarantined."""

    kind: ClassVar[str] = "quarantined"
    messages: tuple[int, ...]
    because: Cause


@dataclass(frozen=True)
class RowsInTheWay:
    """The view was to be built, for this reason, and cannot be computed over the rows that its sources have now."""

    kind: ClassVar[str] = "rows_in_the_way"
    to_be_built: Cause
    because: Uncomputable


# --- schema changes


@dataclass(frozen=True)
class CommittedChange:
    """A schema change of a source: its message, and when it was committed if the source knows."""

    source: str
    relation: str
    command: str
    ddl: str
    message: int | None = None
    committed_at: str | None = None


@dataclass(frozen=True)
class Clause:
    """What the view's owner allows: for a relation, a column or a condition by its name, or (`view`) for the extent."""

    part: str
    name: str | None = None
    dispensable: bool | None = None
    replaceable: bool | None = None
    extent: str | None = None


@dataclass(frozen=True)
class SchemaChanged:
    """These changes leave no legal form of the view. `component` is what cannot be kept, `remedy` what would help,
    `preference` what rules the rewritings out."""

    kind: ClassVar[str] = "schema_changed"
    detail: str
    component: str | None = None
    remedy: str | None = None
    changes: tuple[CommittedChange, ...] = ()
    preference: Clause | None = None


@dataclass(frozen=True)
class Followed:
    """The definition has followed these changes, in words; `detail` is how its rows did."""

    kind: ClassVar[str] = "followed"
    changes: tuple[str, ...] = ()
    detail: str | None = None


@dataclass(frozen=True)
class LayoutChanged:
    """What is proven unique in the view's rows is not what it was: a source has dropped or added a key."""

    kind: ClassVar[str] = "layout_changed"
    changes: tuple[LayoutChange, ...]


@dataclass(frozen=True)
class Unforeseen:
    """What a schema change does to the view cannot be foreseen."""

    kind: ClassVar[str] = "unforeseen"
    detail: str


@dataclass(frozen=True)
class NotMaintained:
    """The view is broken or held already, for this reason: a schema change does nothing to it."""

    kind: ClassVar[str] = "not_maintained"
    state: ViewState
    because: Cause | None = None


@dataclass(frozen=True)
class NotBuilt:
    """The view was to be built, for this reason, and its definition means nothing now."""

    kind: ClassVar[str] = "not_built"
    to_be_built: Cause
    detail: str


@dataclass(frozen=True)
class SourceAway:
    """The view needs a source that is out of reach."""

    kind: ClassVar[str] = "source_away"
    source: str
    detail: str


@dataclass(frozen=True)
class Behind:
    """The definition has followed a schema change, the rows have not: they do when the view can be built, or when a
    lane has built it."""

    kind: ClassVar[str] = "behind"
    detail: str | None = None
    away: tuple[SourceAway, ...] = ()
    lane: bool = False


# --- what was not logged


class SourceDrift(enum.StrEnum):
    """What happened to a source."""

    CAPTURE_LOST = "capture_lost"
    REPLACED = "replaced"
    TRANSACTIONS_LOST = "transactions_lost"
    CHANGES_MISSED = "changes_missed"


@dataclass(frozen=True)
class SourceDrifted:
    """Something happened to a source that no message shows. `unsettled`: transactions behind it are still open."""

    kind: ClassVar[str] = "source_drifted"
    source: str
    drift: SourceDrift
    unsettled: bool = False


class RelationDrift(enum.StrEnum):
    """What happened to a relation."""

    UNCAPTURED = "uncaptured"
    ROWS_UNSEEN = "rows_unseen"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class RelationDrifted:
    """A relation has changed, and no message shows why."""

    kind: ClassVar[str] = "relation_drifted"
    source: str
    relation: str
    drift: RelationDrift


# --- rights, and what the warehouse does not take


@dataclass(frozen=True)
class Obstacle:
    """What is wrong, and what to do about it: often a statement."""

    what: str
    remedy: str = ""


@dataclass(frozen=True)
class RightsMissing:
    """The source's role may not read or capture a relation that the view reads."""

    kind: ClassVar[str] = "rights_missing"
    source: str
    relation: str
    obstacles: tuple[Obstacle, ...]


@dataclass(frozen=True)
class InstallRefused:
    """The warehouse cannot take the view's rows or columns."""

    kind: ClassVar[str] = "install_refused"
    detail: str


@dataclass(frozen=True)
class DependentObjects:
    """Relations of users depend on what readers query of the view, whose columns are to change."""

    kind: ClassVar[str] = "dependent_objects"
    detail: str
    dependents: tuple[str, ...]


@dataclass(frozen=True)
class NegativeCount:
    """A row would have a negative count: the extent is wrong."""

    kind: ClassVar[str] = "negative_count"
    detail: str


@dataclass(frozen=True)
class Unshown:
    """Readers do not see the view's rows: what they query was dropped, or replaced by something else."""

    kind: ClassVar[str] = "unshown"
    view: str
    reader: str
    replaced: bool


@dataclass(frozen=True)
class DeclaredKeyRepeated:
    """Rows of the view agree in the key that its file declares: it is not enforced."""

    kind: ClassVar[str] = "declared_key_repeated"
    view: str
    columns: tuple[str, ...]
    detail: str


@dataclass(frozen=True)
class DeclaredIndexLost:
    """The view has not the index, or key (`unique`), that its file declares."""

    kind: ClassVar[str] = "declared_index_lost"
    view: str
    columns: tuple[str, ...]
    detail: str
    unique: bool = False


@dataclass(frozen=True)
class HandmadeIndexLost:
    """The view has lost an index that a user made on its table."""

    kind: ClassVar[str] = "handmade_index_lost"
    view: str
    name: str
    definition: str
    detail: str


LostIndex = DeclaredKeyRepeated | DeclaredIndexLost | HandmadeIndexLost


# --- why a view is built


class BuildReason(enum.StrEnum):
    """Why a view is to be built, where nothing went wrong."""

    CREATED = "created"
    FILE_CHANGED = "file_changed"
    APPLIED_AGAIN = "applied_again"
    REQUESTED = "requested"
    RETURNED = "returned"
    """What a broken view reads is back."""
    EVOLVED = "evolved"
    """A schema change: `detail` says what became of the view."""
    OUTDATED = "outdated"
    """Another version of DyDa, or other settings, have computed it."""
    UNREADABLE = "unreadable"
    """Its text means nothing over the relations as the catalog knows them."""
    DUE = "due"


@dataclass(frozen=True)
class ToBeBuilt:
    """The view is to be built."""

    kind: ClassVar[str] = "to_be_built"
    reason: BuildReason
    detail: str | None = None


@dataclass(frozen=True)
class Following:
    """The view is to be built, and follows these changes on the way."""

    kind: ClassVar[str] = "following"
    to_be_built: Cause
    followed: tuple[str, ...]


@dataclass(frozen=True)
class Several:
    """More than one at once, as where a view waits for several messages."""

    kind: ClassVar[str] = "several"
    causes: tuple[Cause, ...]


Cause = (
    Text
    | HeldByOperator
    | NeedsApproval
    | WaitsWith
    | WaitsBehind
    | MessagesPending
    | NotPolled
    | Rejected
    | Skipped
    | MessageSkipped
    | Detached
    | Uncomputable
    | Quarantined
    | RowsInTheWay
    | SchemaChanged
    | Followed
    | LayoutChanged
    | Unforeseen
    | NotMaintained
    | NotBuilt
    | SourceAway
    | Behind
    | SourceDrifted
    | RelationDrifted
    | RightsMissing
    | InstallRefused
    | DependentObjects
    | NegativeCount
    | Unshown
    | DeclaredKeyRepeated
    | DeclaredIndexLost
    | HandmadeIndexLost
    | ToBeBuilt
    | Following
    | Several
)

KINDS: dict[str, type[Cause]] = {kind.kind: kind for kind in get_args(Cause)}
"""Every kind of cause, by its name."""
