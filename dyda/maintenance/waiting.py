"""Waiting is by view: what a message that an operator has yet to decide about stops, and what goes on.

A message that is held or waits for approval stops the views that it concerns: of its source they process nothing after
it that concerns them (S1). Every other view goes on, each at its own position, also over the same tables.

    held            concerns the views that read its rows' relations, or what its schema changes touch (S4: columns)
    for approval    concerns the views that it would rewrite or break, or whose effect cannot be foreseen
    waits with it   an earlier change of the same table concerns the same views

Views can know one table at different times, but not different tables under one name. So a message that gives a name to
another table (a swap, or a rename to a name that is not free yet for all) also waits with a message that a view has
stopped at which knows the name's table before it. Everything else about a table is followed view by view: `plan.stay`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dyda.maintenance.catalog_state import MaintainedView
from dyda.model.cause import Cause, NeedsApproval, WaitsWith
from dyda.model.message import SchemaChange, UpdateMessage
from dyda.model.relation import RelationName
from dyda.model.schema_change import AddColumn, RenameRelation
from dyda.warehouse import visible_name
from scheduler import Queued

__all__ = ["Stops", "stops_of", "who_waits_for"]

Stops = Mapping[str, frozenset[int]]
"""By view, the messages that it cannot go beyond now."""


def stops_of(held: Mapping[int, Cause | None], queue: Iterable[Queued], views: Sequence[MaintainedView]) -> Stops:
    """Which of these views stop at which messages of the queue; those that stop at none are left out. `held` are the
    messages that wait for an operator, with their causes."""
    if not held:
        return {}
    found: dict[str, set[int]] = {}
    messages = sorted(
        (queued for queued in queue if queued.number in held or queued.message.schema_changes),
        key=lambda queued: queued.number,
    )

    def stop(queued: Queued, views: Iterable[MaintainedView]) -> None:
        for view in views:
            found.setdefault(view.name, set()).add(queued.number)

    for queued in messages:
        if queued.number in held and not isinstance(held[queued.number], WaitsWith):
            stop(queued, (view for view in _lacking(queued, views) if _concerns(queued, held[queued.number], view)))
    for queued in messages:
        cause = held.get(queued.number)
        if isinstance(cause, WaitsWith):
            stop(queued, (view for view in _lacking(queued, views) if cause.other in found.get(view.name, ())))
    for queued in messages:
        taken = _taken_names(queued.message)
        behind = (view for view in views if _behind(found.get(view.name, set()), queued, messages))
        if taken and any(not view.definition.relations.isdisjoint(taken) for view in behind):
            stop(queued, _lacking(queued, views))
    return {name: frozenset(numbers) for name, numbers in found.items()}


def who_waits_for(stops: Stops) -> dict[int, list[str]]:
    """By message, the views that stop at it, by name."""
    found: dict[int, list[str]] = {}
    for name in sorted(stops):
        for number in stops[name]:
            found.setdefault(number, []).append(name)
    return found


def _lacking(queued: Queued, views: Iterable[MaintainedView]) -> list[MaintainedView]:
    """The views that read a relation which the message changes, and do not have it."""
    message = queued.message
    return [
        view
        for view in views
        if message.relations & view.definition.relations and not view.has(message.source, message.xid)
    ]


def _concerns(queued: Queued, cause: Cause | None, view: MaintainedView) -> bool:
    if isinstance(cause, NeedsApproval):
        return any(effect.view == visible_name(view.name) for effect in cause.effects)
    rows = (change for change in queued.message.changes if not isinstance(change, SchemaChange))
    if any(change.relation in view.definition.relations for change in rows):
        return True
    read = _columns(view)
    return any(
        change.columns is None
        or not change.columns.isdisjoint(read.get(change.relation, frozenset()))
        or all(isinstance(step, AddColumn) for step in change.steps)
        for change in queued.message.schema_changes
        if change.relation in view.definition.relations
    )


def _columns(view: MaintainedView) -> dict[RelationName, frozenset[str]]:
    """By relation, the columns that the view reads."""
    read: dict[RelationName, frozenset[str]] = {}
    for occurrence in view.program.occurrences:
        name = occurrence.relation.name
        read[name] = read.get(name, frozenset()).union(occurrence.columns)
    return read


def _taken_names(message: UpdateMessage) -> set[RelationName]:
    """The names that mean other tables after the message than before it."""
    replaced = {change.relation for change in message.schema_changes if change.may_replace}
    renamed = {
        step.new
        for change in message.schema_changes
        for step in change.steps
        if isinstance(step, RenameRelation) and step.new != change.relation
    }
    return replaced | renamed


def _behind(stops: set[int], queued: Queued, messages: Sequence[Queued]) -> bool:
    """Whether a view that stops at these cannot have the message: it waits itself, one before it in the same source
    does, or one whose own schema change keeps the view from reading what it needs."""
    return any(
        (one.message.source == queued.message.source and one.number <= queued.number)
        or (one.message.source != queued.message.source and one.message.schema_changes)
        for one in messages
        if one.number in stops
    )
