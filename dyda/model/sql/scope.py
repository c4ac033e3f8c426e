"""Which column a written name means: the scopes of FROM clauses, of GROUP BY, and of the query around a subquery."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dyda.errors import UnknownColumn, UnknownRelation
from dyda.model.algebra.column_facts import COMPUTED, Facts
from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.relation import RelationName
from dyda.model.sql.text import SqlText

__all__ = ["RESERVED", "GroupScope", "Scope", "Source"]

RESERVED = ("#count", "#xid")
"""Columns that captured rows carry besides their own."""

SYSTEM_COLUMNS = frozenset({"cmax", "cmin", "ctid", "tableoid", "xmax", "xmin"})
"""Every PostgreSQL table has them: they tell where a row version is stored, and change although the row does not."""


@dataclass(frozen=True)
class Source:
    """One item of FROM: what it is called in the text, its alias in the tree, and its columns."""

    name: str | None
    alias: str
    columns: dict[str, Facts]
    parts: tuple[str, ...] = ()
    """The whole name, if it may qualify columns because no alias is written."""
    relation: RelationName | None = None
    """Set if it is a relation of a source."""

    def answers(self, qualifier: Sequence[str]) -> bool:
        """Whether `qualifier` names it: by its alias, or without one by its name or the end of its name."""
        if not self.parts or len(qualifier) == 1:
            return list(qualifier) == [self.name]
        return len(qualifier) <= len(self.parts) and self.parts[-len(qualifier) :] == tuple(qualifier)

    @property
    def shown(self) -> str:
        return self.name if self.name is not None else "a subquery without a name"


@dataclass
class Scope:
    """The columns an expression may use: those of some sources, with USING's shared columns merged.

    `standins` are columns that no relation has, with the expressions that replace them once an expression is read.
    `outer` is the scope of the query around, for a subquery that may refer to it.
    """

    text: SqlText
    sources: list[Source]
    merged: dict[str, ColumnRef] = field(default_factory=dict)
    item_names: frozenset[str] = frozenset()
    standins: dict[ColumnRef, Expression] = field(default_factory=dict)
    outer: Around | None = None

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        if len(parts) == 1 and (len(self.sources) > 1 or self.outer is not None):
            self.text.loose = True
        try:
            return self._own(parts, offset)
        except (UnknownRelation, UnknownColumn) as unknown:
            if self.outer is None:
                raise
            try:
                found = self.outer.find(parts, offset)
            except (UnknownRelation, UnknownColumn):
                raise unknown from None
        if not self.outer.has(found):
            raise self.text.refusal_at(
                offset,
                f"a reference to a query further out ({'.'.join(parts)}) is not supported in a view",
                "A subquery may only refer to the query directly around it: join the relation there.",
            )
        return found

    def has(self, reference: ColumnRef) -> bool:
        """Whether the column belongs to this scope, not to the query around it."""
        return reference in self.standins or any(source.alias == reference.alias for source in self.sources)

    def facts(self, reference: ColumnRef) -> Facts:
        for source in self.sources:
            if source.alias == reference.alias:
                return source.columns[reference.column]
        return self.outer.facts(reference) if self.outer is not None else COMPUTED

    def standin(self, reference: ColumnRef) -> Expression | None:
        found = self.standins.get(reference)
        return found if found is not None or self.outer is None else self.outer.standin(reference)

    def _own(self, parts: Sequence[str], offset: int) -> ColumnRef:
        *qualifier, name = parts
        if not qualifier and name in self.merged:
            return self.merged[name]
        sources = [source for source in self.sources if not qualifier or source.answers(qualifier)]
        if not sources:
            raise UnknownRelation(
                f"{self.text.place(offset)}: {'.'.join(qualifier)} in {'.'.join(parts)} is not in FROM here",
                f"FROM has: {', '.join(source.shown for source in self.sources)}.",
            )
        holders = [source for source in sources if name in source.columns]
        if not holders and name in SYSTEM_COLUMNS:
            raise UnknownColumn(
                f"{self.text.place(offset)}: {'.'.join(parts)} is a system column of PostgreSQL; no view can read it",
                "Remove it; use the table's key to tell rows apart.",
            )
        if not holders:
            having = "; ".join(f"{s.shown} has: {', '.join(s.columns)}" for s in sources)
            known = {str(s.relation): frozenset(s.columns) for s in sources if s.relation is not None}
            raise UnknownColumn(
                f"{self.text.place(offset)}: there is no column {name!r} here; {having}",
                self._hint(name, sources),
                column=name,
                relation=next(iter(known), None) if len(sources) == 1 else None,
                relations=known,
            )
        if len(holders) > 1:
            written = [ColumnRef(source.name, name) for source in holders if source.name is not None]
            remedy = f"Write {' or '.join(map(str, written))}."
            raise self.text.refusal_at(offset, f"the column {name!r} is in several relations", remedy)
        if name in RESERVED or name.startswith("##"):
            what = f"a column called {name!r} cannot be read: DyDa reserves this name"
            raise self.text.refusal_at(offset, what, "Rename it at the source.")
        column = holders[0].columns[name].column
        if column is not None and column.generated == "v":
            raise self.text.refusal_at(
                offset,
                f"{ColumnRef(holders[0].shown, name)} is a virtual generated column, whose values are not captured",
                "Make it STORED at the source, write its expression in the view, or remove it.",
            )
        return ColumnRef(holders[0].alias, name)

    def star(self, qualifier: Sequence[str], offset: int) -> list[tuple[str, ColumnRef]]:
        """The columns of * or alias.*; those joined with USING come first, once."""
        merged = {} if qualifier else self.merged
        sources = [source for source in self.sources if not qualifier or source.answers(qualifier)]
        if not sources:
            self.find([*qualifier, "*"], offset)
        return list(merged.items()) + [
            (name, Scope(self.text, [source]).find([name], offset))
            for source in sources
            for name in source.columns
            if name not in merged
        ]

    def _hint(self, name: str, sources: Iterable[Source]) -> str:
        if name in self.item_names:
            return "It is the name of a select item: repeat the item's expression here."
        if any(source.name == name for source in sources):
            return f"{name} is a relation here, not a column: write {name}.* or one of its columns."
        alike = [column for source in sources for column in source.columns if column.lower() == name.lower()]
        if alike:
            return f"Quote it to keep its capitals: `{alike[0]}`."
        return "Correct the name; names without backticks are folded to lower case."

    def __add__(self, other: Scope) -> Scope:
        return Scope(
            self.text,
            self.sources + other.sources,
            {**self.merged, **other.merged},
            self.item_names | other.item_names,
            {**self.standins, **other.standins},
        )


@dataclass
class GroupScope:
    """The columns above GROUP BY: only the keys. `items` are names of select items that HAVING may use."""

    below: Scope
    alias: str
    keys: dict[ColumnRef, ColumnRef]
    known: dict[ColumnRef, Facts]
    items: dict[str, Expression] = field(default_factory=dict)

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        named = self.items.get(parts[0]) if len(parts) == 1 else None
        try:
            reference = self.below.find(parts, offset)
        except UnknownColumn:
            if named is None:
                raise
            self.below.text.loose = True
            return ColumnRef("", parts[0])
        key = self.keys.get(reference)
        if named is not None and named.column != key:
            raise self.below.text.refusal_at(
                offset,
                f"{parts[0]!r} is both a column and a select item here",
                "Write the column with its relation's alias, or repeat the item's expression.",
            )
        if key is not None:
            return key
        if not self.below.has(reference):
            return reference
        what = f"{'.'.join(parts)} is neither grouped nor inside an aggregate"
        raise self.below.text.refusal_at(offset, what, "Add it to GROUP BY, or aggregate it: min(…), max(…), sum(…).")

    def has(self, reference: ColumnRef) -> bool:
        return reference.alias == self.alias

    def facts(self, reference: ColumnRef) -> Facts:
        return self.known[reference] if reference in self.known else self.below.facts(reference)

    def standin(self, reference: ColumnRef) -> Expression | None:
        return self.items.get(reference.column) if reference.alias == "" else None


Around: TypeAlias = Scope | GroupScope
