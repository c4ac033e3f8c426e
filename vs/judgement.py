"""What becomes of a definition: it holds, it follows a rename, or it is broken."""

from __future__ import annotations

from dataclasses import dataclass

from dyda.model.algebra import ViewDefinition

__all__ = ["Broken", "Holds", "Judgement"]


@dataclass(frozen=True)
class Holds:
    """The definition means something; its tree is resolved against today's relations.

    `followed` says in words what was followed; empty if the text is the same as before.
    """

    definition: ViewDefinition
    followed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Broken:
    """No legal form of the view is known: it is frozen at its last correct extent, with this reason."""

    reason: str


Judgement = Holds | Broken
