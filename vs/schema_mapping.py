"""From the relations as known before to the relations as they are now.

A search uses the names known before; only the finished rewriting gets today's. Columns are identified by number and
relations by oid: both survive a rename and are never reused, so a column that is dropped and added again is a new one.
Where another table took the name (and the caller decides that the name is meant), columns are identified by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef
from dyda.model.relation import Column, Relation, RelationName

__all__ = ["Passage"]


@dataclass(frozen=True)
class Passage:
    """`relations` as known before, by name; `now` those that changed, None if gone."""

    relations: Mapping[RelationName, Relation]
    now: Mapping[RelationName, Relation | None]

    def after(self, name: RelationName) -> Relation | None:
        """The relation as it is now; None if it is gone."""
        return self.now[name] if name in self.now else self.relations.get(name)

    def column(self, name: RelationName, column: str) -> Column | None:
        """The column as it is now; None if it is gone, or holds nothing that could be read."""
        before, after = self.relations[name], self.after(name)
        if after is None:
            return None
        called = after.called(column, before)
        found = after.by_name[called] if called is not None else None
        virtual = found is not None and found.generated == "v" and before.column(column).generated != "v"
        return None if virtual else found

    def why_gone(self, name: RelationName, column: str) -> str:
        """What happened to a column that cannot be read any more, in words."""
        after = self.after(name)
        if after is None:
            return f"{name} was dropped"
        virtual = column in after.by_name and after.by_name[column].generated == "v"
        became = "is now a virtual generated column" if virtual else "was dropped"
        return f"column {column} of {name} {became}"

    def added(self, name: RelationName) -> tuple[Column, ...]:
        """The columns that were not there before, as far as a view can read them."""
        before, after = self.relations[name], self.after(name)
        if after is None:
            return ()
        known = {after.called(column.name, before) for column in before.columns}
        new = [column for column in after.columns if column.name not in known]
        return tuple(column for column in new if column.generated != "v")

    def not_null(self, name: RelationName, column: str) -> bool:
        """Whether the column may not be NULL; of one that is gone, whether it might have been."""
        found = self.column(name, column) or self.relations[name].column(column)
        return found.not_null

    def keys(self, name: RelationName) -> Iterator[frozenset[str]]:
        """Today's keys under the names known before."""
        before, after = self.relations[name], self.after(name)
        if after is None:
            return
        old = {found.name: column.name for column in before.columns if (found := self.column(name, column.name))}
        for key in after.keys:
            if all(column in old for column in key):
                yield frozenset(old[column] for column in key)

    def said(self, name: RelationName, reference: ColumnRef) -> list[str]:
        """What was followed, in words: the relation's new name, the column's."""
        before, after = self.relations[name], self.after(name)
        column = self.column(name, reference.column)
        if after is None or column is None:
            return []
        words = [f"{before.name} was renamed to {after.name}"] if after.name != before.name else []
        if column.name != reference.column:
            words.append(f"column {reference.column} of {after.name} was renamed to {column.name}")
        return words
