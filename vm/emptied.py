"""What of a view begins with nothing once relations are empty (rule C4).

    L ⋈ R        nothing: every term has R            γ(R), δ(R)   nothing; without keys the one row of no rows
    R ⟕ S        nothing; the keys of S stay          S ⟕ R, S ▷ R, S + R   terms without R remain: they must be read

In a term that reads something empty no row is left, whatever the others hold. So what has such a term alone holds
nothing, and what comes later is all that it holds: neither its rows from before nor any source is asked for them.
"""

from __future__ import annotations

from collections.abc import Collection

from dyda.model.relation import RelationName
from vm.program import WAREHOUSE, Program

__all__ = ["emptied"]


def emptied(program: Program, relations: Collection[RelationName]) -> frozenset[RelationName] | None:
    """The relations, and the states as relations, that begin with nothing if `relations` do; the view is the last. None
    if the view does not: some term of it, or of a state of it, reads none of them while another does."""
    empty = set(relations)
    for step in program.steps:
        read = [any(one.relation.name in empty for one in term.block.occurrences) for term in step.terms]
        if all(read):
            empty.add(RelationName(WAREHOUSE, program.view, str(step.number)))
        elif any(read) or step is program.last:
            return None
    return frozenset(empty)
