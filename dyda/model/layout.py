"""How a view's rows are stored: what is known to be unique, and what its owner wants indexed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Layout"]


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
