"""The log as update messages: what each transaction did, under the relation names that the reader knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import RelationName
from dyda.sources.log.commit_order import transactions_in_order
from dyda.sources.log.schema_entries import SchemaEntry
from dyda.sources.log.transactions import Transaction

__all__ = ["Names", "concerned", "read_messages"]

WHOLE = "whole"
"""The image of a truncation that left nothing of the watched relation (sql/capture.sql)."""


@dataclass
class Names:
    """Which table each name means, transaction by transaction.

    `known` are the relations the reader knows, by oid; `watched` the names that capture was asked for. A name that the
    reader knows means one table, whatever that is called now, until one transaction takes the table's name away and
    gives it to another table: then it means that one. A name that became free in an earlier transaction is not passed
    on. Without `by_oid` the reader knows names only: what is logged about a table is reported under its watched name.
    """

    source: str
    known: Mapping[int, RelationName]
    watched: Mapping[int, RelationName]
    by_oid: bool = True
    _meant: dict[RelationName, int] = field(init=False)
    _named: dict[int, tuple[RelationName, ...]] = field(default_factory=dict)
    _before: dict[RelationName, int] = field(init=False)
    """What the names meant when the transaction began."""
    _left: dict[int, RelationName | None] = field(default_factory=dict)
    """Tables whose schema the transaction has changed, with the names they had before."""

    def __post_init__(self) -> None:
        self._meant = {name: oid for oid, name in self.known.items()}
        self.next_transaction()

    def next_transaction(self) -> None:
        self._before = dict(self._meant)
        self._left.clear()

    def of(self, root: int) -> tuple[RelationName, ...]:
        """The names under which rows of the table are reported; none: it was not asked for."""
        found = self._named.get(root)
        if found is None:
            found = tuple(name for name, oid in self._meant.items() if oid == root)
            watched = self.watched.get(root)
            if not found and watched is not None and watched not in self._meant:
                found = (watched,)
            self._named[root] = found
        return found

    def changes_of(self, entry: SchemaEntry) -> list[SchemaChange]:
        """The schema change that the entry logs, for each name that it concerns."""
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
            # The reader knows the new table already, but some of its views may not have seen the replacement.
            found.append(entry.change(self.known[entry.root]))
        return found


def read_messages(
    source: str, found: Mapping[int, Transaction], names: Names, *, clock: bool = True
) -> list[UpdateMessage]:
    """The transactions as messages, in the order of `transactions_in_order`."""
    messages = []
    alike: dict[object, tuple[Change, ...]] = {}
    for one in transactions_in_order(found.values(), clock=clock):  # names pass from relation to relation like this
        same = (one.entries, one.images)
        changes = alike.get(same)
        if changes is None or one.changes_schema:
            if one.changes_schema:
                alike.clear()
                names.next_transaction()
            changes = alike[same] = _changes(names, one)
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
    for (root, op, inserted, deleted), image in zip(one.entries, one.images, strict=True):
        if op == "S":
            changes += names.changes_of(SchemaEntry.read(root, image))
        elif op == "T":
            for name in names.of(root):
                _truncate(changes, Truncation(name, image == WHOLE))
        else:
            changes += [DataUpdate(name, inserted, deleted) for name in names.of(root)]
    return tuple(changes)


def _truncate(changes: list[Change], truncation: Truncation) -> None:
    """Each table of a truncated hierarchy logs it, in one statement: together they are one change."""
    for place in range(len(changes) - 1, -1, -1):
        change = changes[place]
        if not isinstance(change, Truncation):
            break
        if change.relation == truncation.relation:
            changes[place] = change if change.whole else truncation
            return
    changes.append(truncation)


def concerned(entries: Iterable[tuple[str, int, str, str]], names: Names) -> frozenset[RelationName]:
    """The relations that these schema changes and truncations are about: (xid, root, op, image), by transaction."""
    last: str | None = None
    found: set[RelationName] = set()
    for xid, root, op, image in entries:
        if xid != last:
            names.next_transaction()
            last = xid
        if op == "S":
            found |= {change.relation for change in names.changes_of(SchemaEntry.read(root, image))}
        else:
            found.update(names.of(root))
    return frozenset(found)
