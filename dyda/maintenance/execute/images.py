"""Row images in the sources' logs, under one poll: all that wait, or those that are asked for.

    unit ─▶ images of its own transactions, for all views together
    hop  ─▶ images of what waits, of the relation that the hop has read, and of no other

A unit of a long queue needs few of the images that wait. Its own are read at once. What else waits matters only where a
source has been asked for rows that may contain it already; it is read when that is known.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dyda.maintenance.observe.poll import Poll
from dyda.model.bag import COUNT, Bag
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.parallel import in_parallel
from dyda.sources.adapter import LACKS, XID
from vm import JoinBlock

__all__ = ["Images", "lacking"]

Selection = tuple[Relation, tuple[str, ...], tuple[int, ...]]
"""A relation, its columns, and transactions."""


@dataclass
class _Logged:
    """Images of a relation, in pieces that were read together, each in log order. `places`: in which piece a
    transaction's are; one without images of the relation counts as read, too."""

    asked_as: RelationName
    columns: list[str]
    pieces: list[pa.Table] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    """How many transactions each piece is of."""

    def add(self, piece: pa.Table, xids: Collection[int]) -> None:
        self.places.update(dict.fromkeys(xids, len(self.pieces)))
        self.pieces.append(piece)
        self.sizes.append(len(xids))

    def rows(self, xids: Iterable[int]) -> pa.Table:
        asked: dict[int, list[int]] = {}
        for xid in xids:
            asked.setdefault(self.places[xid], []).append(xid)
        return pa.concat_tables([self._of(place, mine) for place, mine in sorted(asked.items())])

    def _of(self, place: int, xids: list[int]) -> pa.Table:
        piece = self.pieces[place]
        if len(xids) == self.sizes[place]:
            return piece
        return piece.filter(pc.is_in(piece.column(XID), value_set=pa.array(xids, pa.int64())))


@dataclass(eq=False)
class Images:
    """By relation as the reader knows it: once a unit of this poll has followed a schema change, another table or other
    columns may have the same names. A table has `##lacks`, `#xid` and `#count`, too."""

    poll: Poll
    few: bool = False
    """Whether only those are read that are asked for. What the poll has found of the log must be what it found last."""
    after: Mapping[str, Position | None] = field(default_factory=dict)
    """By source, what the views have already that this is for, where that is more than all views have."""
    selected: dict[Selection, Bag] = field(default_factory=dict)
    """What was selected already: most views have the same positions."""
    _logged: dict[Relation, _Logged] = field(default_factory=dict)

    @classmethod
    def given(
        cls, poll: Poll, tables: Mapping[Relation, pa.Table], after: Mapping[str, Position | None] | None = None
    ) -> Images:
        """As if these were all the images that the poll shows."""
        found = cls(poll, after=after or {})
        for relation, table in tables.items():
            names = [name for name in table.column_names if name not in (LACKS, XID, COUNT)]
            found._logged[relation] = _whole(relation.name, names, table)
        return found

    @property
    def tables(self) -> dict[Relation, pa.Table]:
        """All that was read."""
        return {relation: pa.concat_tables(logged.pieces) for relation, logged in self._logged.items() if logged.pieces}

    def want(self, blocks: Iterable[JoinBlock], known_as: Mapping[RelationName, RelationName]) -> None:
        """Images of every relation that these read, with all the columns that any of them needs. `known_as`: names that
        the poll knows by another one.

        An image may be older or younger than one of these columns: that matters once it is computed with."""
        touched = None if self.few else set().union(*{queued.message.relations for queued in self.poll.queue})
        wanted: dict[Relation, dict[str, None]] = {}
        for block in blocks:
            meant = {occurrence.relation.name: occurrence.relation for occurrence in block.occurrences}
            for name, columns in block.wanted.items():
                if name.source not in self.poll.snapshots:
                    continue
                if touched is not None and known_as.get(name, name) not in touched:
                    continue
                had = self._logged.get(meant[name])
                if had is None or not set(columns) <= set(had.columns):
                    # A view that has come this far in the poll goes on with what it has read.
                    before = had.columns if had is not None else []
                    wanted.setdefault(meant[name], {}).update(dict.fromkeys([*before, *columns]))
        for relation, every in wanted.items():
            self._logged[relation] = _Logged(known_as.get(relation.name, relation.name), list(every))
        if not self.few:
            self._read(dict.fromkeys(wanted))

    def read_of(self, transactions: Mapping[str, Collection[int]]) -> None:
        """Read those of these transactions (by source) at once, of all relations that are wanted."""
        if not self.few:
            return
        wanted: dict[Relation, Collection[int] | None] = {}
        for relation, logged in self._logged.items():
            wrote = self.poll.snapshots[relation.name.source].writers(relation)
            mine = transactions.get(relation.name.source, ())
            if missing := [xid for xid in mine if xid in wrote and xid not in logged.places]:
                wanted[relation] = missing
        self._read(wanted)

    def transactions(self, relation: Relation) -> Collection[int] | None:
        """Those that may have images of the relation; None if nothing is wanted of it."""
        logged = self._logged.get(relation)
        if logged is None:
            return None
        return self.poll.snapshots[relation.name.source].writers(relation) if self.few else logged.places.keys()

    def rows(self, relation: Relation, xids: Collection[int]) -> pa.Table:
        """The images of these transactions; each one's in log order."""
        logged = self._logged[relation]
        missing = [xid for xid in xids if xid not in logged.places]
        if missing:
            every = self.poll.snapshots[relation.name.source].writers(relation)
            if 2 * len(missing) > len(every):
                logged.pieces, logged.places, logged.sizes = [], {}, []
                self._read({relation: None})
                logged.places.update({xid: 0 for xid in every if xid not in logged.places})
                logged.sizes[0] = len(logged.places)
            else:
                self._read({relation: missing})
        return logged.rows(xids)

    def _read(self, wanted: Mapping[Relation, Collection[int] | None]) -> None:
        """The images of these transactions; None: of all."""
        by_source: dict[str, list[Relation]] = {}
        for relation in wanted:
            by_source.setdefault(relation.name.source, []).append(relation)

        def read(source: str) -> dict[Relation, pa.Table]:
            after = self.after.get(source, self.poll.after.get(source))
            found: dict[Relation, pa.Table] = {}
            for relations in _one_of_a_name(by_source[source]):
                tables = {self._logged[relation].asked_as: relation for relation in relations}
                asked = {name: self._logged[relation].columns for name, relation in tables.items()}
                parts = [wanted[relation] for relation in relations]
                xids = None if None in parts else {xid for part in parts for xid in part or ()}
                images = self.poll.snapshots[source].changes(asked, after, tables, xids, partial=True)
                found |= {relation: images[name] for name, relation in tables.items()}
            return found

        for images in in_parallel(read, by_source):
            for relation, table in images.items():
                xids, logged = wanted[relation], self._logged[relation]
                if xids is None:
                    logged.add(table, pc.unique(table.column(XID)).to_pylist())
                else:
                    mine = table.filter(pc.is_in(table.column(XID), value_set=pa.array(list(xids), pa.int64())))
                    logged.add(mine, xids)


def lacking(images: pa.Table) -> set[str]:
    """The columns that some of these tables did not have, yet or any more, when the row was logged."""
    return {name for text in pc.unique(images.column(LACKS)).to_pylist() if text for name in json.loads(text)}


def _whole(asked_as: RelationName, columns: list[str], table: pa.Table) -> _Logged:
    found = _Logged(asked_as, columns)
    found.add(table, pc.unique(table.column(XID)).to_pylist())
    return found


def _one_of_a_name(relations: Iterable[Relation]) -> Iterator[list[Relation]]:
    """The relations, no two of a name together. One view may have followed a schema change that another follows in
    this unit: they describe one table differently, if only in its size, and each finds the images by its own."""
    groups: list[dict[RelationName, Relation]] = []
    for relation in relations:
        group = next((group for group in groups if relation.name not in group), None)
        if group is None:
            groups.append(group := {})
        group[relation.name] = relation
    return (list(group.values()) for group in groups)
