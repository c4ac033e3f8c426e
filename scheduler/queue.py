"""The update message queue: what waits in it, and the units of work that leave it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from dyda.model.message import UpdateMessage

__all__ = ["Consistency", "Queued", "Unit", "UnitKind", "numbers"]


class Consistency(enum.Enum):
    """Which states of the sources the warehouse may show (paper 003, Section 2)."""

    STRONG = "strong"
    """Each state is a state of the sources, in their order; states may be skipped, so batches are allowed."""
    COMPLETE = "complete"
    """Every source transaction has a warehouse state of its own, in arrival order."""


class UnitKind(enum.Enum):
    """Which of the algorithm families a unit needs."""

    DATA = "data"
    """Data updates only: view maintenance."""
    SCHEMA = "schema"
    """One message that changes a schema: synchronization and adaptation."""
    MERGED = "merged"
    """Messages that depend on each other in a cycle, as one update (paper 001, Section 6.5)."""
    IDLE = "idle"
    """Messages that concern no view: acknowledge them."""


@dataclass(frozen=True)
class Queued:
    """A received message; `number` is its place in arrival order."""

    number: int
    message: UpdateMessage


@dataclass(frozen=True)
class Unit:
    """Messages that are processed together, and why these. `idle`: the numbers of those that concern no view and are
    only acknowledged."""

    messages: tuple[Queued, ...]
    reason: str
    kind: UnitKind = UnitKind.DATA
    idle: frozenset[int] = frozenset()

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(queued.number for queued in self.messages)


def numbers(found: Iterable[int], limit: int = 8) -> str:
    """`3, 7 and 9` in ascending order; beyond `limit`, how many more there are."""
    ordered = sorted(found)
    if len(ordered) > limit:
        shown = [str(number) for number in ordered[: limit - 1]]
        return f"{', '.join(shown)} and {len(ordered) - len(shown)} more"
    if len(ordered) < 2:
        return "".join(map(str, ordered))
    return f"{', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"
