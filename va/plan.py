"""Adaptation plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dyda.model.algebra import ViewDefinition

__all__ = ["Adaptation", "Recompute", "adapt"]


@dataclass(frozen=True)
class Recompute:
    """Evaluate the definition over the sources as they are, and merge the difference into the extent."""

    definition: ViewDefinition
    reason: str


Adaptation: TypeAlias = Recompute


def adapt(definition: ViewDefinition, reason: str) -> Adaptation:
    """The plan that brings the view's extent to `definition`, for `reason`."""
    return Recompute(definition, reason)
