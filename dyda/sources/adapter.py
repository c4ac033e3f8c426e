"""What maintenance needs from a source: the interface that an adapter implements, and all of it.

    Source ── open() ──▶ Snapshot     one state of the source, held still: its position names it
      │                    ├─ messages since a position, and their row images
      │                    ├─ reads: lookups by key, scans
      │                    ├─ fingerprints: whether what was read is what was planned with
      │                    └─ durability: whether the source can still lose what the snapshot shows
      ├─ acknowledge()     every transaction of a position is installed for good
      ├─ attach() …        put capture in, repair it, take it out
      ├─ describe() …      the catalog, now
      └─ state()           capture as it is, and what the source can promise

What always holds (tests/conformance has a test for each; CORRECTNESS.md's rules in brackets):

- A snapshot's position, messages, images, lookups and scans belong to one and the same state (P1). A transaction whose
  effects it shows is in the position as a whole, under the number of the transaction itself.
- No transaction of a watched relation is missing from the messages. What could not be captured changes `gap`, what was
  lost again changes `identity` or takes a mark away, and what happened to a schema shows in the fingerprints (C5, R2).
- A message stays until it is acknowledged, however often the adapter or the source starts again; once its transaction
  is in an acknowledged position, it may be gone.
- What was made durable is still there after a crash of the source (P2).
- Transactions that wrote to the same row come in the order in which they wrote (P4).
- Values are texts as the source prints them, the same in images, lookups and scans (C1).
- Nobody at the source waits for any of this, or fails because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dyda.errors import CaptureBlocked
from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName

if TYPE_CHECKING:
    import pyarrow as pa

    from dyda.model.bag import Bag
    from dyda.sources.reading.scans import Scanned

__all__ = [
    "LACKS",
    "XID",
    "CaptureState",
    "Finding",
    "Inbox",
    "Snapshot",
    "Source",
    "SourceIdentity",
    "Waiting",
]

XID = "#xid"
"""In a table of images, the number of the transaction."""
LACKS = "##lacks"
"""In a table of images, the columns, as they are delivered, that the table did not have when the image was taken; NULL
if it had them all. Their values there are unknown, whatever is delivered in their place."""

Waiting: TypeAlias = Callable[[CaptureBlocked], None]
"""Called with the sessions in the way for as long as the wait lasts; raises to end it."""


@dataclass(frozen=True)
class SourceIdentity:
    """Which cluster answers, and which history of it (rule P2): if it changes, positions mean nothing any more."""

    system_identifier: str
    timeline: str


@dataclass(frozen=True)
class Finding:
    """One result of a check: `level` is ok, warning or error; `remedy` the exact statement that helps."""

    level: str
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class CaptureState:
    """Capture at a source as it is, and what the source can promise.

    `gap` counts the failures of capture; `unsettled` while a transaction that was not captured is still open. `marks`:
    the last ones that installations left (`Snapshot.make_durable`). `watched` maps the oid of each watched relation to
    (schema, table). `inline_schema_changes`: they come as messages, in order with the rows; otherwise only fingerprints
    show them. `commit_order`: messages come in the order of the commits; otherwise only conflicting ones do.
    """

    attached: bool
    identity: SourceIdentity
    gap: int = -1
    unsettled: bool = False
    inline_schema_changes: bool = False
    commit_order: bool = False
    marks: frozenset[str] = frozenset()
    watched: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @property
    def capture(self) -> str:
        """`attached`, `polling` (schemas are compared on every poll) or `detached`."""
        if not self.attached:
            return "detached"
        return "attached" if self.inline_schema_changes else "polling"

    @property
    def order(self) -> str:
        """How messages are ordered: by `commit`, or by each transaction's last log `sequence` (P4)."""
        return "commit" if self.commit_order else "sequence"


@dataclass(frozen=True)
class Inbox:
    """All messages that wait, by transaction and in the source's order, and how that differs from an earlier poll."""

    messages: Mapping[int, UpdateMessage]
    new: Sequence[UpdateMessage]
    gone: frozenset[int]
    before: int | None
    """The number of the inbox that `new` and `gone` are counted from; None: all is new."""
    number: int = 0


class Snapshot(Protocol):
    """One state of a source, held still. A context manager, closed at the end of the block."""

    queries: int
    """How many maintenance queries were asked so far."""
    unchecked: set[RelationName]
    """Tables read since the schemas were last compared."""
    scanned: set[RelationName]
    """Tables that tasks elsewhere may be reading at any time until the unit is over."""
    log_read: bool
    """Whether messages or images were read since the log was last found complete."""
    mark: str | None
    """The mark that `make_durable` left."""
    durable: bool
    """Whether the source can lose nothing any more of what the snapshot shows."""

    @property
    def position(self) -> Position: ...
    @property
    def identity(self) -> SourceIdentity: ...
    @property
    def gap(self) -> int: ...
    @property
    def state(self) -> CaptureState: ...

    # --- messages

    def inbox(self, after: Position | None) -> Inbox:
        """The transactions visible here and not in `after`, and what is new since the last poll."""
        ...

    def messages(self, after: Position | None) -> list[UpdateMessage]:
        """The same, without that."""
        ...

    def writers(self, relation: Relation) -> Collection[int]:
        """The transactions of the last inbox that wrote to this table."""
        ...

    def arrivals(self) -> frozenset[RelationName]:
        """Relations with a schema change or truncation committed after this snapshot, as far as that is known without
        waiting: reading on is pointless."""
        ...

    def changes(
        self,
        wanted: Mapping[RelationName, Sequence[str]],
        after: Position | None,
        known: Mapping[RelationName, Relation] | None = None,
        xids: Collection[int] | None = None,
        *,
        partial: bool = False,
    ) -> dict[RelationName, pa.Table]:
        """The row images visible here and not in `after`: the wanted columns, then #xid and #count, in order.

        `known` are the relations as the caller knows them: that table is meant even if another has its name now, and
        columns have the names they have there. `xids` leaves out all other transactions. An image without a wanted
        column breaks the unit; with `partial`, column ##lacks names what is missing.
        """
        ...

    # --- reads

    def stands(self, relation: Relation) -> bool:
        """Whether the table that is meant has this name now."""
        ...

    def oid(self, name: RelationName) -> int | None:
        """Of the table that has the name, or if none has, of the relation that the caller knows by it."""
        ...

    def lookup(self, relation: Relation, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        """The rows whose `key` columns equal one of the key tuples in `values`; a NULL equals nothing (R4, R5)."""
        ...

    def rows_or_partitions(
        self, relation: Relation, columns: Sequence[str], most: int, *, beside: bool = False
    ) -> Scanned:
        """All rows if they take at most so many bytes, or else pieces that any machine can read; small ones if they are
        read `beside` something that must not wait."""
        ...

    # --- fingerprints

    @property
    def fingerprints(self) -> dict[RelationName, str]:
        """Of each relation asked for, and of every watched one under its present name; from before the snapshot."""
        ...

    @property
    def logged_fingerprints(self) -> dict[RelationName, str]:
        """After the schema changes among the messages, of each relation that has any. If one differs from
        `fingerprints`, something happened that no message tells, and rows may have changed uncaptured (C5)."""
        ...

    def kept(self, name: RelationName) -> str | None:
        """What to remember of a relation, for `agrees`."""
        ...

    def agrees(self, name: RelationName, recorded: str | None) -> bool:
        """Whether the relation is as it was when `recorded` was kept, as far as the source can tell."""
        ...

    def compare(self, read: Collection[RelationName], looked_at: Collection[RelationName] = ()) -> None:
        """Break the unit unless the schemas are what they were before the snapshot (R2), also of what was only
        `looked_at`, which need not be captured."""
        ...

    def fingerprint_again(self) -> dict[RelationName, str]:
        """The fingerprints now, after the last read."""
        ...

    # --- durability

    def make_durable(self, known: str | None = None) -> None:
        """Afterwards the source can lose nothing of what the snapshot shows (P2). Leaves a mark in place of `known`: if
        the source is ever restored to an earlier state, the mark is gone."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Snapshot: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Source(Protocol):
    """One source of one project. Connects when first needed, and again after a loss."""

    @property
    def url(self) -> str: ...

    # --- the catalog

    def describe(self, tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Relation]:
        """The relations called (schema, table) as they are now; refuses what cannot be captured exactly (C3)."""
        ...

    def find(self, oids: Iterable[int]) -> dict[int, Relation | None]:
        """The relations with these oids, as they are and as they are called now; None: gone."""
        ...

    def sizes(self, oids: Iterable[int]) -> dict[int, int]:
        """How many bytes the relations with these oids have now, as far as they are there."""
        ...

    # --- capture

    def attach(
        self,
        relations: Iterable[Relation],
        waiting: Waiting | None = None,
        attached: Callable[[Relation], None] = lambda relation: None,
    ) -> None:
        """Capture these relations from now on (C6: before their schema and rows are read), and repair capture where
        something is missing. Idempotent. `waiting` is called with the sessions in the way; `attached` with each
        relation."""
        ...

    def stand_back(self, schema: str, table: str) -> None:
        """Keep capture from making statements fail on a relation that `describe` refuses."""
        ...

    def release(self, relations: Iterable[Relation]) -> None:
        """Stop capturing these relations."""
        ...

    def detach(self) -> None:
        """Remove everything DyDa put into this source."""
        ...

    def state(self) -> CaptureState: ...

    def check(self, tables: Iterable[tuple[str, str]], *, owner_known: bool = True) -> list[Finding]:
        """Connection, rights and capture, each with the statement that helps. `owner_known`: the project's number is,
        so it can be checked whose capture it is."""
        ...

    def obstacles(self, name: RelationName) -> list[Finding]:
        """What keeps one relation from being read or captured, each with the statement that helps."""
        ...

    # --- states

    def open(
        self,
        relations: Collection[RelationName] | Mapping[RelationName, int],
        lock: Collection[RelationName] = (),
        lock_limit: float = 30.0,
    ) -> Snapshot:
        """Hold the source's present state still.

        With a mapping from names to oids, what happens to a relation is reported under the name given here, whatever it
        is called now. `lock` keeps schema changes away from these relations until the snapshot is closed, for
        `lock_limit` seconds at most.
        """
        ...

    def acknowledge(self, position: Position) -> int:
        """Every transaction in `position` is installed for good: the source may forget it. How many entries it had."""
        ...

    def close(self) -> None: ...
