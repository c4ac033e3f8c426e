"""Relations: tables at sources, with typed columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from dyda.errors import UnknownColumn
from dyda.model.types import PgType

__all__ = ["Column", "Relation", "RelationName", "quoted"]


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
    return identifier if plain else quoted(identifier)


def quoted(identifier: str) -> str:
    """The identifier in backticks, as Spark SQL and knowledge.toml quote."""
    return "`" + identifier.replace("`", "``") + "`"


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
    """A relation as a source's catalog describes it. `oid` is its identity; names may change.

    `succeeds`: if it took its name from another table, the numbers of that table's columns, each with the number of
    the column here that had the same name at that moment.
    """

    name: RelationName
    oid: int
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    estimated_rows: int = 0
    succeeds: tuple[tuple[int, int], ...] | None = field(default=None, compare=False, repr=False)

    def __hash__(self) -> int:
        """Of what tells relations apart, mostly: their columns would be looked at a thousand times in each unit."""
        return hash((self.name, self.oid))

    @cached_property
    def by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        """The column called `name`, or an error that lists the existing ones."""
        try:
            return self.by_name[name]
        except KeyError:
            raise UnknownColumn(f"column {name!r} is not in {self.name}; it has: {', '.join(self.by_name)}") from None

    def called(self, name: str, before: Relation) -> str | None:
        """The current name of the column that was called `name` in `before`; None: it is gone.

        A column is identified by its number, which a rename does not change; between different tables, by its name.
        """
        number: int | None = before.column(name).number
        if self.succeeds is not None:
            number = dict(self.succeeds).get(number or 0)
        elif before.oid != self.oid:
            return name if name in self.by_name else None
        return next((column.name for column in self.columns if column.number == number), None)
