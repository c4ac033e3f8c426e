"""Which watched relation a streamed row belongs to, and which of that relation's columns its values are.

A stream names tables by oid and columns by name, as they were when the row was written. So capture tells in the stream
when a table becomes part of a relation or leaves it, and what a relation's columns are after each schema change:

    M  a table came: its relation, what it was part of before, the relation's columns by number
    R  a table went: its relation
    S  a schema change: the relation before and after (sql/observing.sql)

A reader that begins in the middle takes what it does not know from the first of these that it meets, which also tells
what was before it; or if none comes, from what the source keeps, read under the snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

__all__ = ["Columns", "Layout", "Told", "read_told"]

Columns: TypeAlias = Mapping[str, int]
"""A relation's columns: the number of each name."""


@dataclass(frozen=True)
class Told:
    """What capture says in the stream. `image`: that of the log's entry, for S and T."""

    op: str
    root: int
    relid: int
    was: int | None = None
    columns: Columns | None = None
    before: Columns | None = None
    image: str | None = None
    unseen: bool = False
    """A schema change that comes after another one, of which nothing was told."""


def read_told(content: bytes) -> Told:
    found = json.loads(content)
    image, columns, before, unseen = found.get("image"), found.get("columns"), None, False
    if found["op"] == "S":
        entry = json.loads(image or "{}")
        columns = (entry.get("after") or {}).get("columns")
        before = (entry.get("before") or {}).get("columns")
        unseen = bool(entry.get("unseen"))
    return Told(
        found["op"],
        int(found["root"]),
        int(found["relid"]),
        found.get("was"),
        _columns(columns),
        _columns(before),
        image,
        unseen,
    )


def _columns(found: Sequence[Sequence[Any]] | None) -> Columns | None:
    return None if found is None else {name: int(number) for number, name, *_ in found}


@dataclass
class Layout:
    """As it is at one place of the stream."""

    root_of: dict[int, int] = field(default_factory=dict)
    columns: dict[int, Columns] = field(default_factory=dict)

    @classmethod
    def before(cls, told: Iterable[Told], kept: Callable[[], Mapping[int, tuple[int, Columns]]]) -> Layout:
        """As it was before all of these; `kept` is what the source knows of each table after them."""
        found = cls()
        parts: set[int] = set()
        for one in told:
            if one.op in "MR" and one.relid not in parts:
                parts.add(one.relid)
                root = one.was if one.op == "M" else one.root
                if root:
                    found.root_of[one.relid] = root
            columns = one.before if one.op == "S" and one.before is not None else one.columns
            if columns is not None:
                found.columns.setdefault(one.root, columns)
        for relid, (root, columns) in kept().items():
            if relid not in parts:
                found.root_of[relid] = root
            found.columns.setdefault(root, columns)
        return found

    def follow(self, one: Told) -> None:
        if one.op == "M":
            self.root_of[one.relid] = one.root
        elif one.op == "R":
            self.root_of.pop(one.relid, None)
        if one.columns is not None:
            self.columns[one.root] = one.columns

    def shape(self, root: int, names: tuple[str, ...]) -> str:
        """The number in the relation of each of these columns of one of its tables; 0: it has none such."""
        numbers = self.columns.get(root, {})
        return _shape(tuple(numbers.get(name, 0) for name in names))


@lru_cache(maxsize=1000)
def _shape(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
