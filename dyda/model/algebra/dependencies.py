"""Functional dependencies: which attributes of a node's rows decide which others.

An attribute is a column of some level of the tree, or the row itself: each occurrence of a relation, each grouping and
each set operation has a hidden one. So "this is a key" is one more dependency, from the key's columns to the row.

Two rows agree in an attribute if its values are equal by *value*, as Spark compares them (1.0 is 1.00; texts go by
their bytes), or both NULL. That is at least as fine as a source's own equality, so whatever is unique there is unique
here; and for the types that a key of a view may have it is what a unique index in the warehouse compares by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from dyda.model.algebra.nodes import ColumnRef
from dyda.model.types import PgType

__all__ = ["Attribute", "Dependency", "Literal", "Rows"]

Attribute = int
Literal = tuple[str, str]
"""A constant that is written in the view: its kind and its value."""

LIMIT = 2000
"""How many sets of columns are tried for one node."""


@dataclass(frozen=True)
class Dependency:
    """Rows that agree in `given` agree in `decides`. `padded`: and where all of `given` is NULL, so is `decides`; that
    is what an outer join that pads the rows with NULLs leaves intact."""

    given: frozenset[Attribute]
    decides: frozenset[Attribute]
    padded: bool = False


@dataclass(frozen=True)
class Rows:
    """What is known of a node's rows. Two of them that agree in all of `identity` are one and the same row, and so
    agree in every attribute."""

    columns: dict[ColumnRef, Attribute]
    identity: frozenset[Attribute]
    dependencies: tuple[Dependency, ...]
    never_null: frozenset[Attribute] = frozenset()
    types: dict[Attribute, PgType] = field(default_factory=dict)
    """Of columns that are passed on as a source has them."""
    literals: dict[Attribute, frozenset[Literal]] = field(default_factory=dict)
    """Columns that have no other values than these; never NULL."""

    @property
    def ordered(self) -> tuple[Attribute, ...]:
        """The columns' attributes, in the columns' order."""
        return tuple(self.columns.values())

    def also(
        self,
        dependencies: Iterable[Dependency] = (),
        never_null: Iterable[Attribute] = (),
        literals: dict[Attribute, frozenset[Literal]] | None = None,
    ) -> Rows:
        """The same rows, of which more is known."""
        return replace(
            self,
            dependencies=(*self.dependencies, *dependencies),
            never_null=self.never_null.union(never_null),
            literals={**self.literals, **(literals or {})},
        )

    def padded(self) -> Rows:
        """The same rows beside some that are NULL in every attribute, the rows themselves included."""
        lasting = (replace(d, padded=True) for d in self.dependencies if d.padded or d.given & self.never_null)
        return replace(self, dependencies=tuple(lasting), never_null=frozenset(), literals={})

    def closure(self, given: Iterable[Attribute]) -> frozenset[Attribute]:
        """Everything that these attributes decide."""
        known = set(given)
        waiting = list(self.dependencies)
        grown = True
        while grown:
            grown, rest = False, []
            for dependency in waiting:
                if dependency.given <= known:
                    known |= dependency.decides
                    grown = True
                else:
                    rest.append(dependency)
            waiting = rest
        return frozenset(known)

    def is_key(self, given: Iterable[Attribute]) -> bool:
        """Whether no two rows agree in these."""
        return self.identity <= self.closure(given)

    def minimal_keys(self, usable: Callable[[Attribute], bool] = lambda attribute: True) -> list[tuple[Attribute, ...]]:
        """The minimal keys among the usable columns, the smaller first, each in the columns' order. Where there are
        very many candidates, one of them."""
        deciding = frozenset(attribute for dependency in self.dependencies for attribute in dependency.given)
        columns = [attribute for attribute in dict.fromkeys(self.ordered) if attribute in deciding]
        columns = [attribute for attribute in columns if usable(attribute)]
        if not self.is_key(columns):
            return []
        needed = [one for one in columns if not self.is_key([other for other in columns if other != one])]
        if self.is_key(needed):
            return [tuple(needed)]
        found = self._beyond(needed, [one for one in columns if one not in needed])
        return [tuple(one for one in columns if one in key) for key in found]

    def _beyond(self, needed: Sequence[Attribute], others: Sequence[Attribute]) -> list[frozenset[Attribute]]:
        """The minimal keys that consist of what each of them needs and some of the others."""
        found: list[frozenset[Attribute]] = []
        tried = 0
        for size in range(1, len(others) + 1):
            for some in combinations(others, size):
                key = frozenset((*needed, *some))
                if any(known <= key for known in found):
                    continue
                tried += 1
                if tried > LIMIT:
                    return found or [self._reduced(needed, others)]
                if self.is_key(key):
                    found.append(key)
        return found

    def _reduced(self, needed: Sequence[Attribute], others: Sequence[Attribute]) -> frozenset[Attribute]:
        kept = list(others)
        for one in reversed(others):
            fewer = [other for other in kept if other != one]
            kept = fewer if self.is_key([*needed, *fewer]) else kept
        return frozenset((*needed, *kept))
