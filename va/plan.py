"""Adaptation plans: what an extent needs so that it follows its definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, assert_never

from dyda.model.algebra import ViewDefinition, scans
from dyda.model.message import SchemaChange, Truncation
from dyda.model.relation import RelationName
from dyda.model.schema_change import ChangeType, RenameColumn

__all__ = ["Adaptation", "MetadataOnly", "Recompute", "adapt"]


@dataclass(frozen=True)
class MetadataOnly:
    """The rows stay as they are; only the definition's text may be another. No source is asked."""

    kind: ClassVar[str] = "metadata"
    definition: ViewDefinition
    reason: str


@dataclass(frozen=True)
class Recompute:
    """Evaluate the definition over the sources as they are, and merge the difference into the extent."""

    kind: ClassVar[str] = "recompute"
    definition: ViewDefinition
    reason: str


Adaptation: TypeAlias = MetadataOnly | Recompute


def adapt(before: ViewDefinition, after: ViewDefinition, changes: Sequence[SchemaChange | Truncation]) -> Adaptation:
    """The plan that brings the extent of `before` to `after`, given what happened to the relations they read."""
    for change in changes:
        match change:
            case Truncation(relation):
                return Recompute(after, f"{relation} was truncated")
            case SchemaChange():
                why = _moved(before, after, change)
                if why is not None:
                    return Recompute(after, why)
            case _:
                assert_never(change)
    return MetadataOnly(after, "; ".join(dict.fromkeys(str(change) for change in changes)))


def _moved(before: ViewDefinition, after: ViewDefinition, change: SchemaChange) -> str | None:
    """Why rows that the view uses may be others than the extent knows; None if they are not."""
    if not change.steps:
        return f"{change}, and nobody knows how"
    renamed = any(isinstance(step, RenameColumn) for step in change.steps)
    used = _columns(before, change.relation) | _columns(after, change.relation) | _columns(after, change.new_name)
    for step in change.steps:
        unused = isinstance(step, ChangeType) and not renamed and step.column not in used
        if step.moves_rows and not unused:
            return str(change)
    return None


def _columns(definition: ViewDefinition, relation: RelationName) -> set[str]:
    aliases = {scan.alias for scan in scans(definition.tree) if scan.relation.name == relation}
    return {ref.column for ref in definition.columns if ref.alias in aliases}
