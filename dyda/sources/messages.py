"""The log as update messages: what each transaction did, under the names that the reader knows the relations by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dyda.model.message import Change, DataUpdate, Truncation, UpdateMessage
from dyda.model.relation import RelationName
from dyda.sources.schema_log import SchemaEntry

__all__ = ["Names", "read_messages"]


@dataclass
class Names:
    """Who is called what. An oid is an identity; a name is what the reader's catalog says until it has caught up.

    `known` are the relations the reader knows, by oid; `watched` the names that capture was asked for. A relation that
    the reader knows keeps his name whatever it is called by now. One that takes a name from another is reported under
    that name from then on, until it loses it again. Without `by_oid` the reader knows names only: schema changes of
    whatever was watched under a name are reported under it.
    """

    source: str
    known: Mapping[int, RelationName]
    watched: Mapping[int, RelationName]
    by_oid: bool = True
    _taken: dict[int, RelationName] = field(default_factory=dict)

    def of(self, root: int) -> RelationName | None:
        """The name under which rows of the relation are reported; None: nobody asked for it."""
        name = self.known.get(root) or self._taken.get(root)
        if name is not None:
            return name
        name = self.watched.get(root)
        return None if name in self.known.values() else name

    def told_by(self, entry: SchemaEntry) -> RelationName | None:
        """The name under which a schema change is reported."""
        if not entry.replaces:
            return self.of(entry.root) or (None if self.by_oid else self.watched.get(entry.root))
        name = entry.name(self.source)
        for root in [root for root, taken in self._taken.items() if taken == name]:
            del self._taken[root]
        if entry.root not in self.known:
            self._taken[entry.root] = name
        return name


def read_messages(source: str, rows: Iterable[Sequence[Any]], names: Names) -> list[UpdateMessage]:
    """The rows of sql/messages.sql as messages, in commit order where the source knows it, else P4's."""
    entries: dict[int, list[Sequence[Any]]] = {}
    last: dict[int, int] = {}
    committed: dict[int, datetime | None] = {}
    for row in rows:
        xid = row[0]
        entries.setdefault(xid, []).append(row)
        last[xid], committed[xid] = row[6], row[7]
    order = sorted(entries, key=lambda xid: last[xid])
    if all(at is not None for at in committed.values()):
        order.sort(key=lambda xid: committed[xid])  # type: ignore[arg-type,return-value]
    messages = []
    for xid in order:  # names pass from relation to relation in this order
        changes: list[Change] = []
        for _, root, op, inserted, deleted, image, *_ in entries[xid]:
            change = _change(names, root, op, inserted, deleted, image)
            if change is None or (isinstance(change, Truncation) and changes[-1:] == [change]):
                continue  # each part of a hierarchy that is truncated says so
            changes.append(change)
        if changes:
            messages.append(UpdateMessage(source, xid, last[xid], tuple(changes), committed[xid]))
    return messages


def _change(names: Names, root: int, op: str, inserted: int, deleted: int, image: str | None) -> Change | None:
    if op == "S":
        entry = SchemaEntry.read(root, image)
        told = names.told_by(entry)
        return None if told is None else entry.change(told)
    name = names.of(root)
    if name is None:
        return None
    return Truncation(name) if op == "T" else DataUpdate(name, inserted, deleted)
