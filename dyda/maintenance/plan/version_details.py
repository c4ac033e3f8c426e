"""What a view's history says: the schema changes, what became of the definition, how its rows followed.

Plain data for the catalog's JSON (`ViewVersion.details`), and the cause of a view that breaks.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dyda.model.cause import CommittedChange, SchemaChanged
from dyda.model.layout import LayoutChange
from dyda.model.message import DataUpdate, SchemaChange, Truncation
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.schema_change import RenameColumn, RenameRelation
from scheduler import Queued
from va import Adaptation, Reaggregate
from vs import Broken, Holds, Rewritten

__all__ = ["Moved", "because", "changed", "relaid", "story", "unseen"]


@dataclass(frozen=True)
class Moved:
    """A schema change or truncation under a view, and when its transaction was committed, if the source knows."""

    change: SchemaChange | Truncation
    committed_at: datetime.datetime | None
    message: int | None = None
    """Its number in the queue."""

    @property
    def command(self) -> str:
        return self.change.command if isinstance(self.change, SchemaChange) else "TRUNCATE"

    @property
    def ddl(self) -> str:
        return self.change.ddl if isinstance(self.change, SchemaChange) else ""

    @property
    def at(self) -> str | None:
        return self.committed_at.astimezone(datetime.UTC).isoformat() if self.committed_at else None


def unseen(
    messages: Iterable[Queued], positions: Mapping[str, Position], relations: Collection[RelationName]
) -> list[Moved]:
    """What the messages changed about the relations other than by row images, and a view at these positions lacks."""
    return [
        Moved(change, queued.message.committed_at, queued.number)
        for queued in messages
        if queued.message.kind != "data"
        and (position := positions.get(queued.message.source)) is not None
        and not position.includes(queued.message.xid)
        for change in queued.message.changes
        if not isinstance(change, DataUpdate) and change.relation in relations
    ]


def story(
    judgement: Holds | Rewritten,
    moved: Sequence[Moved],
    adaptation: Adaptation | Reaggregate,
    queries: int = 0,
    rows: int = 0,
    seconds: float = 0.0,
) -> dict[str, Any]:
    """The details of a version: `queries` were put to sources, `rows` were written, in so many `seconds`."""
    details: dict[str, Any] = {
        "changes": [changed(one) for one in moved],
        "followed": list(judgement.followed),
        "adaptation": {
            "kind": adaptation.kind,
            "reason": adaptation.reason,
            "queries": queries,
            "rows": rows,
            "seconds": round(seconds, 3),
        },
    }
    if isinstance(judgement, Rewritten):
        details["components"] = list(judgement.changes)
        details["rewriting"] = {"reason": judgement.reason, "extent": judgement.extent, "cost": judgement.cost}
        details["runners_up"] = [
            {"sql": other.sql, "reason": other.reason, "extent": other.extent, "cost": other.cost}
            for other in judgement.runners_up
        ]
    else:
        details["components"] = []
    return details


def relaid(changes: Sequence[LayoutChange]) -> dict[str, Any]:
    """What came and went of keys and indexes, as a version's details have it; nothing if nothing did."""
    return {"layout": [asdict(change) for change in changes]} if changes else {}


def changed(moved: Moved) -> dict[str, Any]:
    """One change as a version's details have it."""
    return {
        "source": moved.change.relation.source,
        "relation": str(moved.change.relation),
        "command": moved.command,
        "ddl": moved.ddl,
        "committed_at": moved.at,
        "message": moved.message,
        "renamed": _renamed(moved.change),
    }


def _renamed(change: SchemaChange | Truncation) -> dict[str, Any]:
    """What has another name since: columns by their old names, and the relation itself."""
    steps = change.steps if isinstance(change, SchemaChange) else ()
    columns = {step.old: step.new for step in steps if isinstance(step, RenameColumn)}
    relation = next((str(step.new) for step in steps if isinstance(step, RenameRelation)), None)
    return {"columns": columns, "relation": relation}


def because(judgement: Broken, moved: Sequence[Moved], refused: str | None = None) -> SchemaChanged:
    """Why a view is broken: the component, the schema changes, and what would have helped."""
    changes = tuple(
        CommittedChange(one.change.relation.source, str(one.change.relation), one.command, one.ddl, one.message, one.at)
        for one in moved
        if isinstance(one.change, SchemaChange)
    )
    return SchemaChanged(
        refused or judgement.reason,
        judgement.component or None,
        judgement.remedy or None,
        changes,
        None if refused else judgement.preference,
    )
