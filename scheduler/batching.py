"""From an order to units: messages with data updates are batched, schema changes and merged ones are alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.deco import Planned
from scheduler.needs import Entry
from scheduler.queue import Consistency, Queued, Unit, UnitKind

__all__ = ["take_run", "take_unit"]


def take_unit(
    order: Iterable[Planned], concerned: Callable[[Entry], bool], consistency: Consistency, batch_rows: int
) -> Unit | None:
    """The first unit of a legal order; None if the order is empty. A batch is a stretch of the order, so it is as legal
    as the order itself, and ends before a schema change. At least one message is taken, however large."""
    taken: list[Planned] = []
    idle: set[int] = set()
    rows = 0
    end = "all that can be processed now"
    for planned in order:
        first = planned.entries[0]
        works = planned.merged or concerned(first)
        if works and (planned.merged or first.changes_schema):
            if not taken:
                kind = UnitKind.MERGED if planned.merged else UnitKind.SCHEMA
                return Unit(_messages([planned]), planned.reason, kind)
            end = f"message {first.number} changes a schema"
            break
        rows += first.rows
        if taken and rows > batch_rows:
            end = f"batch_rows is {batch_rows}"
            break
        taken.append(planned)
        if not works:
            idle.add(first.number)
        if consistency is Consistency.COMPLETE:
            break
    if not taken:
        return None
    if len(taken) == len(idle):
        reason = "concerns no view: acknowledged without work"
        return Unit(_messages(taken), reason, UnitKind.IDLE, frozenset(idle))
    return Unit(_messages(taken), _reason(taken, consistency, end), UnitKind.DATA, frozenset(idle))


def take_run(order: Iterable[Planned], concerned: Callable[[Entry], bool], limit: int) -> tuple[Unit, ...]:
    """The longest stretch at the front of a legal order without a schema change, one message each; messages that
    concern no view are part of it. `limit` counts rows, at least one per message; one message is always taken."""
    run: list[Unit] = []
    rows = 0
    for planned in order:
        unit = take_unit([planned], concerned, Consistency.COMPLETE, limit)
        if unit is None or unit.kind not in (UnitKind.DATA, UnitKind.IDLE):
            break
        rows += max(1, sum(entry.rows for entry in planned.entries))
        if run and rows > limit:
            break
        run.append(unit)
    return tuple(run)


def _messages(taken: Iterable[Planned]) -> tuple[Queued, ...]:
    return tuple(entry.queued for planned in taken for entry in planned.entries)


def _reason(taken: list[Planned], consistency: Consistency, end: str) -> str:
    """Why these together, and, if an earlier message was passed over, why."""
    passing = next((planned for planned in taken if planned.overtaken is not None), None)
    if consistency is Consistency.COMPLETE:
        order = passing.reason if passing else f"message {taken[0].entries[0].number} in arrival order"
        return f"{order}; complete consistency: every source transaction is its own state"
    count = "1 message" if len(taken) == 1 else f"{len(taken)} messages"
    return f"{count} in one batch: {end}" + (f"; {passing.reason}" if passing else "")
