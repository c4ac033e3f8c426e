"""Relations: tables at sources, with typed columns; they refuse nonsense when asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dyda.errors import UnknownColumn
from dyda.model.types import PgType

__all__ = ["Column", "Relation", "RelationName"]


@dataclass(frozen=True, order=True)
class RelationName:
    """`source.schema.table`; identifiers exactly as the source spells them."""

    source: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(_shown(part) for part in (self.source, self.schema, self.table))


def _shown(identifier: str) -> str:
    plain = identifier.isidentifier() and identifier == identifier.lower()
    return identifier if plain else "`" + identifier.replace("`", "``") + "`"


@dataclass(frozen=True)
class Column:
    """One column. `generated` is '' (plain), 's' (stored) or 'v' (virtual: null in row images, rule C1)."""

    name: str
    type: PgType
    number: int
    not_null: bool = False
    generated: str = ""


@dataclass(frozen=True)
class Relation:
    """A relation as a source's catalog describes it. `oid` is its identity; names may move."""

    name: RelationName
    oid: int
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    estimated_rows: int = 0

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """The column called `name`, or an error that lists those there are."""
        try:
            return self.by_name[name]
        except KeyError:
            raise UnknownColumn(f"column {name!r} is not in {self.name}; it has: {', '.join(self.by_name)}") from None
