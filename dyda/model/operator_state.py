"""What a keyed operator stores beside the extent: counts and sums, so that it need not ask the sources for them.

    operator                            state row                               delivers
    DISTINCT, set operations, EXISTS    (key, row, left, right)                 the row, as often as `rule` says
    GROUP BY                            (key, group, rows, accumulators)        the state row itself, once
    an intermediate result              the row                                 the row

`key` is a digest of the row's or the group's canonical text. It is never NULL, so that a group of NULLs is found like
any other (rule R5), and two states of one grouping join on it. All groups are stored, also those that HAVING hides;
the group without keys always exists (rule K3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["Accumulator", "Counted", "Grouped", "Kept", "Rule", "State"]

Rule: TypeAlias = Literal["distinct", "union", "except", "except all", "intersect", "intersect all"]

KEY = ("key", "text")


@dataclass(frozen=True)
class Counted:
    """Rows with their counts on the left and on the right; those with neither are not stored.

    Delivered: distinct, union: once; except: once if right is 0; except all: left - right times, not below 0;
    intersect: once if both are not 0; intersect all: the smaller number. For `distinct` there is no right.
    """

    types: tuple[str, ...]
    rule: Rule

    @property
    def entries(self) -> tuple[str, ...]:
        """The types of an added entry."""
        return self.types

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """Name and warehouse type of each column of a state row."""
        return (KEY, *_numbered("c", self.types), ("l", "bigint"), ("r", "bigint"))

    @property
    def delivered(self) -> tuple[tuple[str, str], ...]:
        """Those columns that the steps above read."""
        return self.columns[:-2]


@dataclass(frozen=True)
class Accumulator:
    """One number of a group. `argument` is an index into the arguments; None counts rows.

    count     the number of rows whose argument is not NULL
    sum       their exact sum, 0 without rows; squares: of their squares
    min, max  the extreme, NULL without rows; only deleting it asks the sources (Table 1 of paper 002)
    With `recomputed`, `function` is any aggregate of PostgreSQL that adding and subtracting cannot maintain, such as
    sums of floats (rule K4). The affected groups are read again from the sources.
    """

    function: str
    argument: int | None
    type: str
    recomputed: bool = False


@dataclass(frozen=True)
class Grouped:
    """Groups with their number of rows and their accumulators. `keys` and `arguments` are warehouse types."""

    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    accumulators: tuple[Accumulator, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        return self.keys + self.arguments

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        accumulated = tuple(accumulator.type for accumulator in self.accumulators)
        return (KEY, *_numbered("k", self.keys), ("rows", "bigint"), *_numbered("a", accumulated))

    @property
    def delivered(self) -> tuple[tuple[str, str], ...]:
        return self.columns


@dataclass(frozen=True)
class Kept:
    """A materialized bag of rows, where the operators above would otherwise ask for it in too many ways."""

    types: tuple[str, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        return self.types

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        return _numbered("c", self.types)

    @property
    def delivered(self) -> tuple[tuple[str, str], ...]:
        return self.columns


State: TypeAlias = Counted | Grouped | Kept


def _numbered(letter: str, types: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((f"{letter}{place}", type_) for place, type_ in enumerate(types, start=1))
