"""A view as steps: each a sum of select-project-join blocks, and what a keyed operator makes of the sum.

    step 1   Counted   + π_k(orders)                       the keys that EXISTS asks for
    step 2   Grouped   + customer ⋈ nation − customer ⋈ state 1
    view               + π(state 2)

A term reads tables of the sources and states of earlier steps. A state lives in the warehouse as a hidden extent; seen
from a term above it is a relation like any other, that changes as the step's own difference says (paper 002's pathway
of constructs, each with its own rule). Linear operators need no step: they are in the blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dyda.model.algebra.nodes import ColumnRef
from dyda.model.operator_state import Counted, Grouped, State
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from vm.join_block import JoinBlock, Occurrence
from vm.join_tree import SweepPlan, plan_sweep
from vm.unsatisfiable import is_unsatisfiable

__all__ = ["WAREHOUSE", "Program", "Step", "Term", "state_number", "state_relation"]

WAREHOUSE = ""
"""The name of the warehouse as a source: states, and extents while they are adapted."""

LARGE = 10**12


@dataclass(frozen=True)
class Term:
    """A signed block. `side` 1 is the right of a set operation. `plain` are the items that are nothing but a column."""

    block: JoinBlock
    sign: int = 1
    side: int = 0
    plain: tuple[ColumnRef | None, ...] = ()

    @cached_property
    def plan(self) -> SweepPlan:
        return plan_sweep(self.block)

    @cached_property
    def is_unsatisfiable(self) -> bool:
        """Whether no row can come out of it: nothing need be read for it."""
        return is_unsatisfiable(self.block)

    @property
    def states(self) -> frozenset[int]:
        """The steps whose states it reads."""
        found = (state_number(occurrence.relation) for occurrence in self.block.occurrences)
        return frozenset(number for number in found if number is not None)


@dataclass(frozen=True)
class Step:
    """One step; `state` None is the view itself. `types`: the Spark types of the items of all terms, where they must be
    given."""

    number: int
    terms: tuple[Term, ...]
    state: State | None = None
    types: tuple[str, ...] | None = None
    level: int = 0
    purpose: str = ""

    @property
    def width(self) -> int:
        return len(self.terms[0].block.items)

    @property
    def satisfiable(self) -> tuple[Term, ...]:
        """The terms that rows can come out of."""
        return tuple(term for term in self.terms if not term.is_unsatisfiable)

    @property
    def two_sided(self) -> bool:
        return any(term.side for term in self.terms)


@dataclass(frozen=True)
class Program:
    """The steps of a view in the order in which they are computed; the last one is the view."""

    view: str
    steps: tuple[Step, ...]
    revised: bool = field(default=False, compare=False)
    """Whether it was compiled otherwise before programs had fingerprints (vm/fingerprint.py)."""

    @property
    def states(self) -> tuple[Step, ...]:
        return self.steps[:-1]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    @property
    def terms(self) -> Iterator[Term]:
        return (term for step in self.steps for term in step.terms)

    @property
    def blocks(self) -> tuple[JoinBlock, ...]:
        return tuple(term.block for term in self.terms)

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """Every occurrence of a source's relation, in every term."""
        return tuple(
            occurrence
            for block in self.blocks
            for occurrence in block.occurrences
            if occurrence.relation.name.source != WAREHOUSE
        )

    @property
    def levels(self) -> list[list[Step]]:
        """Steps that do not depend on each other are together."""
        found: list[list[Step]] = [[] for _ in range(1 + max(step.level for step in self.steps))]
        for step in self.steps:
            found[step.level].append(step)
        return found

    def indexed(self, number: int) -> tuple[str, ...]:
        """The columns of a state by which steps above look rows up."""
        names: dict[str, None] = {}
        for term in self.terms:
            for component in term.plan.components:
                for edge in component.edges:
                    for alias in (edge.left, edge.right):
                        relation = term.block.by_alias[alias].relation
                        if state_number(relation) == number:
                            _, columns = edge.toward(alias)
                            names |= dict.fromkeys(columns[:1])
        return tuple(name for name in names if name != "key")


def state_relation(view: str, number: int, state: State) -> Relation:
    """A state as the steps above see it."""
    key = ("key",) if isinstance(state, Counted | Grouped) else ()
    columns = tuple(
        Column(name, PgType(re.sub(r"\([^)]*\)", "", type_), type_), place, name in (*key, "rows"))
        for place, (name, type_) in enumerate(state.delivered, start=1)
    )
    once = isinstance(state, Grouped) or (isinstance(state, Counted) and not state.rule.endswith("all"))
    # A lookup in the warehouse is cheap however large the state: no number of keys is worth reading all of it.
    return Relation(RelationName(WAREHOUSE, view, str(number)), number, columns, (key,) if once else (), LARGE)


def state_number(relation: Relation) -> int | None:
    """Which step's state the relation is; None for a source's table."""
    return relation.oid if relation.name.source == WAREHOUSE else None
