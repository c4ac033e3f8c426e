"""Lookups that several views share: within one snapshot no source is asked twice for the same keys.

    view 1 ──customer by id: 1, 2──▶ ┌────────┐ ──1, 2──▶ source
    view 2 ──customer by id: 2, 3──▶ │ memory │ ──3─────▶ source
    view 3 ──customer by id: 1, 3──▶ └────────┘           not asked at all

Keys travel from changed rows mostly before a condition is looked at, so views over the same relations send the same
keys along the same edge, and the relation is asked once for all of them. The rows have all columns that any view of the
batch needs. Answers are what the snapshot shows: each view still compensates for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from dyda.model.bag import Bag
from dyda.model.operator_state import State
from dyda.model.relation import Column, Relation, RelationName
from vm.join_block import JoinBlock
from vm.keys import KeyPredicate, KeySet
from vm.program import Program, state_number
from vm.sweep import Ask

__all__ = ["Lookup", "SharedLookups", "asking", "needed_columns"]

Lookup: TypeAlias = Callable[[Relation, Sequence[str], Sequence[str], pa.Table], Bag]
"""lookup(relation, columns, key, values): its rows, at least those with one of these keys, from one snapshot."""

StateRows: TypeAlias = Callable[[str, int, State, Sequence[str], Sequence[str], pa.Table], Bag]
"""state_rows(view, number, state, columns, key, values): the same of a view's state, as the warehouse has it."""


def asking(
    block: JoinBlock, lookup: Lookup, program: Program | None = None, state_rows: StateRows | None = None
) -> Ask:
    """What a sweep of the block asks: tables of their sources, and states of the program if it is part of one."""

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        relation = block.by_alias[alias].relation
        number = state_number(relation)
        if number is None or program is None or state_rows is None:
            return lookup(relation, columns, key, values)
        state = program.steps[number].state
        assert state is not None
        return state_rows(program.view, number, state, columns, key, values)

    return ask


def needed_columns(blocks: Iterable[JoinBlock]) -> dict[Relation, tuple[str, ...]]:
    """Per relation, the columns that any of the blocks reads, in the relation's order."""
    used: dict[Relation, set[str]] = {}
    for block in blocks:
        for occurrence in block.occurrences:
            used.setdefault(occurrence.relation, set()).update(occurrence.columns)
    return {
        relation: tuple(column.name for column in relation.columns if column.name in names)
        for relation, names in used.items()
    }


_Identity: TypeAlias = tuple[RelationName, int, tuple[Column, ...]]


def _identity(relation: Relation) -> _Identity:
    """Which table is meant, with which columns; views may remember different estimates of its size."""
    return relation.name, relation.oid, relation.columns


@dataclass
class _Memory:
    """The rows of one relation with the keys asked for so far, and maybe others. `lock`: no key is asked for twice."""

    rows: Bag
    values: pa.Table
    lock: threading.Lock = field(default_factory=threading.Lock)


class SharedLookups:
    """A lookup that remembers what the sources, each in its own way, have answered. Of use for one snapshot of each
    only; `asked` and `saved` count queries."""

    def __init__(self, sources: Mapping[str, Lookup], needed: Mapping[Relation, Sequence[str]] | None = None) -> None:
        self._sources = sources
        self._needed: dict[_Identity, set[str]] = {}
        for relation, columns in (needed or {}).items():
            self._needed.setdefault(_identity(relation), set()).update(columns)
        self._memories: dict[tuple[_Identity, tuple[str, ...], tuple[str, ...]], _Memory] = {}
        self._counting = threading.Lock()
        self.asked = 0
        self.saved = 0

    def __call__(self, relation: Relation, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        """At least the rows with these keys, maybe more: the sweep keeps what it asked for."""
        ordered = tuple(sorted(key))
        memory = self._memory(relation, columns, ordered)
        with memory.lock:
            known = self._predicate(relation, ordered, memory.values)
            wanted = values.select(list(ordered))
            missing = wanted.filter(pc.invert(known(wanted))) if memory.values.num_rows else wanted
            with self._counting:
                self.asked += missing.num_rows > 0
                self.saved += missing.num_rows == 0
            if missing.num_rows:
                lookup = self._sources[relation.name.source]
                answer = lookup(relation, memory.rows.columns, ordered, missing).select(memory.rows.columns)
                if memory.values.num_rows:
                    # A source's equality may be wider than ours: a row that two questions find is kept for one of them.
                    new = self._predicate(relation, ordered, missing)
                    answer = memory.rows.filter(known(memory.rows.table)) + answer.filter(new(answer.table))
                memory.rows = answer
                memory.values = pa.concat_tables([memory.values, missing])
            return memory.rows.select(columns)

    def _memory(self, relation: Relation, columns: Sequence[str], key: tuple[str, ...]) -> _Memory:
        identity = _identity(relation)
        needed = {*self._needed.get(identity, ()), *columns, *key}
        delivered = tuple(column.name for column in relation.columns if column.name in needed)
        none = pa.table({name: pa.array([], pa.string()) for name in key})
        return self._memories.setdefault((identity, key, delivered), _Memory(Bag.empty(delivered), none))

    @staticmethod
    def _predicate(relation: Relation, key: tuple[str, ...], values: pa.Table) -> KeyPredicate:
        computations = [relation.column(column).type.computation() for column in key]
        families = tuple(computation.family if computation else "" for computation in computations)
        return KeyPredicate(key, families, KeySet(values))
