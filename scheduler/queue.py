"""The update message queue and the next unit of work in it."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from dyda.model.message import UpdateMessage

__all__ = ["Consistency", "Queued", "Unit", "next_unit"]


class Consistency(enum.Enum):
    """What a warehouse state may stand for (paper 003, Section 2)."""

    STRONG = "strong"
    """Each state is a state of the sources, in their order; states may be skipped, so batches are allowed."""
    COMPLETE = "complete"
    """Every source transaction has a warehouse state of its own, in arrival order."""


@dataclass(frozen=True)
class Queued:
    """A received message; `number` is its place in arrival order."""

    number: int
    message: UpdateMessage


@dataclass(frozen=True)
class Unit:
    """Messages that are processed in one refresh, and why just these."""

    messages: tuple[Queued, ...]
    reason: str


def next_unit(queue: Sequence[Queued], consistency: Consistency, batch_rows: int) -> Unit | None:
    """The first messages of `queue` (in arrival order) to process together; None if it is empty.

    A batch is a prefix of the queue, so the messages of each source stay in their order. One message is always
    taken, however large: a source transaction cannot be split.
    """
    if not queue:
        return None
    if consistency is Consistency.COMPLETE:
        return Unit((queue[0],), "complete consistency: every source transaction is its own state")
    rows = 0
    for taken, queued in enumerate(queue):
        rows += queued.message.rows
        if taken and rows > batch_rows:
            return Unit(tuple(queue[:taken]), f"the first {taken} of {len(queue)} messages: batch_rows is {batch_rows}")
    return Unit(tuple(queue), "all messages received: one batch")
