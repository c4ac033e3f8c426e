"""What pending renames have called a thing: until they are processed, each of its names means all of them.

A view says `crm.public.customer`. Message 5 renames that table to `client`, message 6 drops a column of `client`.
Looked up by name alone, message 6 would concern no view and be thrown away, and the drop would be lost. So the names
that pending renames connect form one class, and views and messages are compared by class. Once message 5 is
processed, the view says `client` itself and the class is gone.

A class may join two tables for a while (two tables that swap their names). Then a message waits or merges where it
need not have; nothing is missed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from dyda.model.relation import RelationName

__all__ = ["Columns", "Names"]

Columns = frozenset[str] | None
"""Columns of a relation; None is the relation as a whole, whatever its columns."""

_Name = TypeVar("_Name")


class Names:
    """The classes of relation and column names under the renames given, oldest first."""

    def __init__(
        self,
        relations: Iterable[tuple[RelationName, RelationName]] = (),
        columns: Iterable[tuple[RelationName, str, str]] = (),
    ) -> None:
        self._relations: dict[RelationName, list[RelationName]] = {}
        for old, new in relations:
            _join(self._relations, old, new)
        self._columns: dict[RelationName, dict[str, list[str]]] = {}
        for relation, old_column, new_column in columns:
            _join(self._columns.setdefault(self.relation(relation), {}), old_column, new_column)

    def relation(self, name: RelationName) -> RelationName:
        """The name of the class of `name`: the oldest one, which is what views still say."""
        if not self._relations:
            return name
        found = self._relations.get(name)
        return found[0] if found else name

    def columns(self, relation: RelationName, columns: Columns) -> Columns:
        """`columns` with every other name that each of them has, had or will have."""
        if columns is None or not self._columns:
            return columns
        known = self._columns.get(self.relation(relation))
        if not known:
            return columns
        return columns.union(*(known[column] for column in columns if column in known))


def _join(classes: dict[_Name, list[_Name]], old: _Name, new: _Name) -> None:
    first = classes.setdefault(old, [old])
    second = classes.setdefault(new, [new])
    if first is not second:
        first.extend(second)
        for name in second:
            classes[name] = first
