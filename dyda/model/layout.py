"""How a view's rows are stored: what is known to be unique, and what its owner wants indexed."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dyda.model.algebra.derived_keys import derive_keys
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.relation import RelationName

__all__ = ["Layout", "LayoutChange", "LayoutEvent", "layout_changes", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """`key` is proven: no two rows agree in these output columns, NULLs counted as equal. So every row occurs once.
    `()` is proven too: the view never has more than one row. None: nothing is proven.

    A unique index on it holds, with NULLS NOT DISTINCT too. Its values may be longer than an index entry (the key of a
    DISTINCT view is all that it selects) and its columns more than an index has.

    `declared_key` is what the view's file says (`key = (…)`). It is checked against the rows, not proven, unless `key`
    is the same.
    """

    key: tuple[str, ...] | None = None
    declared_key: tuple[str, ...] | None = None
    indexes: tuple[tuple[str, ...], ...] = ()
    """`index = (…)` of the file, in its order."""

    @property
    def keyed(self) -> bool:
        """Whether every row is proven to occur once."""
        return self.key is not None


class LayoutEvent(enum.StrEnum):
    """What happens to a part of a layout."""

    KEY_PROVEN = "key_proven"
    KEY_UNPROVEN = "key_unproven"
    KEY_DECLARED = "key_declared"
    KEY_LOST = "key_lost"
    INDEX_DECLARED = "index_declared"
    INDEX_LOST = "index_lost"


@dataclass(frozen=True)
class LayoutChange:
    """One part of a layout that came or went."""

    event: LayoutEvent
    columns: tuple[str, ...] = ()


def layout_of(
    definition: ViewDefinition,
    types: Mapping[str, str],
    plain_numeric: str,
    untrusted: frozenset[RelationName] = frozenset(),
    before: Layout | None = None,
) -> Layout:
    """What the definition, over relations with the keys that they have in it, proves and asks for. `types` are the
    warehouse types of its columns. Of several keys that are proven: the declared one, or that of the layout `before`,
    by which its rows are stored, or the shortest."""
    declared, indexes = definition.preferences.key, definition.preferences.indexes
    keys = derive_keys(definition.tree, types, plain_numeric, untrusted)
    for known in (declared, before.key if before is not None else None):
        if known is not None and types.keys() >= set(known) and keys.includes(known):
            return Layout(known, declared, indexes)
    return Layout(next(iter(keys.minimal), None), declared, indexes)


def layout_changes(before: Layout, after: Layout) -> tuple[LayoutChange, ...]:
    """What came and what went."""

    def found() -> Iterator[LayoutChange]:
        for old, new, lost, gained in (
            (before.key, after.key, LayoutEvent.KEY_UNPROVEN, LayoutEvent.KEY_PROVEN),
            (before.declared_key, after.declared_key, LayoutEvent.KEY_LOST, LayoutEvent.KEY_DECLARED),
        ):
            if old != new and old is not None:
                yield LayoutChange(lost, old)
            if old != new and new is not None:
                yield LayoutChange(gained, new)
        yield from (LayoutChange(LayoutEvent.INDEX_LOST, one) for one in before.indexes if one not in after.indexes)
        yield from (LayoutChange(LayoutEvent.INDEX_DECLARED, one) for one in after.indexes if one not in before.indexes)

    return tuple(found())
