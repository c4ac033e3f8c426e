"""The log as update messages: what each transaction did, under the names that the reader knows the relations by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import RelationName
from dyda.sources.log.commit_order import transactions_in_order
from dyda.sources.log.schema_entries import SchemaEntry
from dyda.sources.log.transactions import Transaction

__all__ = ["Names", "concerned", "read_messages"]


@dataclass
class Names:
    """Who is called what, transaction by transaction.

    `known` are the relations the reader knows, by oid; `watched` the names that capture was asked for. What the reader
    knows by a name is a table, whatever it is called by now, until a transaction takes that table's name away from it
    and gives it to another one: then that one is meant, and the old one is nobody's. A name that became free in an
    earlier transaction may go to anybody. Without `by_oid` the reader knows names only: whatever is logged about a
    table that was watched under a name is reported under it.
    """

    source: str
    known: Mapping[int, RelationName]
    watched: Mapping[int, RelationName]
    by_oid: bool = True
    _meant: dict[RelationName, int] = field(init=False)
    _named: dict[int, tuple[RelationName, ...]] = field(default_factory=dict)
    _before: dict[RelationName, int] = field(init=False)
    """What was meant when the transaction began."""
    _left: dict[int, RelationName | None] = field(default_factory=dict)
    """Tables whose schema the transaction changed so far, under the names they had before."""

    def __post_init__(self) -> None:
        self._meant = {name: oid for oid, name in self.known.items()}
        self.next_transaction()

    def next_transaction(self) -> None:
        self._before = dict(self._meant)
        self._left.clear()

    def of(self, root: int) -> tuple[RelationName, ...]:
        """The names under which rows of the table are reported; none: nobody asked for it."""
        found = self._named.get(root)
        if found is None:
            found = tuple(name for name, oid in self._meant.items() if oid == root)
            watched = self.watched.get(root)
            if not found and watched is not None and watched not in self._meant:
                found = (watched,)
            self._named[root] = found
        return found

    def told_by(self, entry: SchemaEntry) -> list[SchemaChange]:
        """What the entry says, to each name that it concerns."""
        if entry.replaces:
            return self._replaced(entry)
        self._left.setdefault(entry.root, entry.left(self.source))
        names = self.of(entry.root)
        if not names and not self.by_oid and entry.root in self.watched:
            names = (self.watched[entry.root],)
        return [entry.change(name) for name in names]

    def _replaced(self, entry: SchemaEntry) -> list[SchemaChange]:
        taken = entry.name(self.source)
        self._named.clear()
        if not self.by_oid:
            self._meant[taken] = entry.root
            return [entry.change(taken)]
        found = []
        for name, oid in self._meant.items():
            first = self._before[name]
            if first in self._left and self._left[first] in (taken, None):
                found.append(entry.change(name, oid))
                self._meant[name] = entry.root
        if not found and entry.root in self.known:
            # The reader knows the new table already, and may have views that have yet to see that it came.
            found.append(entry.change(self.known[entry.root]))
        return found


def read_messages(
    source: str, found: Mapping[int, Transaction], names: Names, *, clock: bool = True
) -> list[UpdateMessage]:
    """The transactions as messages, in commit order where the source knows it and its `clock` is right, else P4's."""
    messages = []
    alike: dict[tuple[tuple[int, str, int, int], ...], tuple[Change, ...]] = {}
    for one in transactions_in_order(found.values(), clock=clock):  # names pass from relation to relation like this
        changes = alike.get(one.told)
        if changes is None or one.changes_schema:
            if one.changes_schema:
                alike.clear()
                names.next_transaction()
            changes = alike[one.told] = _changes(names, one)
            if one.changes_schema:
                alike.clear()
        if not changes:
            continue
        message = one.message
        if message is None or message.changes != changes:
            message = one.message = UpdateMessage(source, one.xid, one.last, changes, one.committed)
        messages.append(message)
    return messages


def _changes(names: Names, one: Transaction) -> tuple[Change, ...]:
    changes: list[Change] = []
    for (root, op, inserted, deleted), image in zip(one.told, one.images, strict=True):
        for change in _told(names, root, op, inserted, deleted, image):
            if not isinstance(change, Truncation) or changes[-1:] != [change]:
                changes.append(change)  # each part of a hierarchy that is truncated says so
    return tuple(changes)


def _told(names: Names, root: int, op: str, inserted: int, deleted: int, image: str | None) -> Sequence[Change]:
    if op == "S":
        return names.told_by(SchemaEntry.read(root, image))
    if op == "T":
        return [Truncation(name) for name in names.of(root)]
    return [DataUpdate(name, inserted, deleted) for name in names.of(root)]


def concerned(entries: Iterable[tuple[str, int, str, str]], names: Names) -> frozenset[RelationName]:
    """The relations that these schema changes and truncations are about: (xid, root, op, image), by transaction."""
    last: str | None = None
    found: set[RelationName] = set()
    for xid, root, op, image in entries:
        if xid != last:
            names.next_transaction()
            last = xid
        if op == "S":
            found |= {change.relation for change in names.told_by(SchemaEntry.read(root, image))}
        else:
            found.update(names.of(root))
    return frozenset(found)
