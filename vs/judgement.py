"""What becomes of a definition: it holds, it is rewritten, or it is broken."""

from __future__ import annotations

from dataclasses import dataclass, field

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.cause import Clause

__all__ = ["Alternative", "Broken", "Holds", "Judgement", "Rewritten"]


@dataclass(frozen=True)
class Holds:
    """The definition is still valid; its tree is resolved against today's relations. `followed`: renames and types that
    its text follows, in words; empty if the text is unchanged."""

    definition: ViewDefinition
    followed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Alternative:
    """A legal rewriting that another one was preferred to."""

    sql: str
    extent: str
    cost: int
    reason: str


@dataclass(frozen=True)
class Rewritten:
    """The best legal rewriting. Occurrences that stay keep their aliases, output columns that stay their names.
    `extent`: how its distinct rows relate to the old ones, as far as constraints prove it: `equivalent`, `superset`,
    `subset` or `unknown`. `cost`: maintenance queries per update. `reason`, `changes`: why this one, and what became of
    each component."""

    definition: ViewDefinition
    extent: str
    cost: int
    reason: str
    changes: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    runners_up: tuple[Alternative, ...] = field(default=())


@dataclass(frozen=True)
class Broken:
    """No legal form of the view is known: it is frozen at its last correct extent, with this reason.

    `component` is what cannot be kept, `remedy` the preference or constraint that would have saved it, `preference`
    what the view's owner allows, where that rules the rewritings out.
    """

    reason: str
    component: str = ""
    remedy: str = ""
    preference: Clause | None = None


Judgement = Holds | Rewritten | Broken
