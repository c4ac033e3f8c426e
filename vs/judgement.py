"""Does a view's definition still hold over the relations as they are now?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dyda.errors import DydaError
from dyda.model.algebra import ViewDefinition
from dyda.model.parse import parse_view
from dyda.model.relation import Relation

__all__ = ["Broken", "Holds", "Judgement", "judge"]


@dataclass(frozen=True)
class Holds:
    """The definition means something; its tree is resolved against today's relations."""

    definition: ViewDefinition


@dataclass(frozen=True)
class Broken:
    """No legal form of the view is known: it is frozen at its last correct extent, with this reason."""

    reason: str


Judgement = Holds | Broken


def judge(
    name: str, sql: str, resolve: Callable[[str, str | None, str], Relation], plain_numeric: str = "decimal(38,18)"
) -> Judgement:
    """Read the definition again over what `resolve` finds now."""
    try:
        return Holds(parse_view(name, sql, resolve, plain_numeric=plain_numeric))
    except DydaError as error:
        return Broken(error.what)
