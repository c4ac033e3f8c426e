"""A unit's changes through the steps of the views, level by level: one Spark job per level for all views together.

    changes of relations ─sweep─▶ Spark: entries of each step ─▶ warehouse: state before, state after
                                            ▲                                        │
                                            └──── the state's own change ◀───────────┘      … up to ΔV

What a step cannot keep up by counting (a deleted extreme, float sums) is read again: a demand sweep reads all rows of
just the groups concerned (rule K1).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from dyda.maintenance.execute.possible_rows import limits
from dyda.model.bag import COUNT, Bag
from dyda.model.operator_state import Grouped, State
from dyda.model.relation import RelationName
from dyda.warehouse.states.combine import Combined
from dyda.warehouse.states.install import StateChange
from vm import (
    TAG,
    WAREHOUSE,
    Ask,
    Evaluation,
    JoinBlock,
    Lookup,
    Program,
    Scanner,
    Step,
    SweepPlan,
    Term,
    Whole,
    Worlds,
    asking,
    course,
    delta_evaluation,
    demand,
    own_worlds,
    state_number,
    sweep,
    together,
    world_evaluation,
)

__all__ = ["Running", "States", "Stepping", "ViewDelta"]


class States(Protocol):
    """What is kept of the views' keyed operators, as committed; the warehouse's writer offers it."""

    def combine(self, view: str, number: int, state: State, entries: pa.Table) -> Combined: ...

    def recombine(self, view: str, number: int, state: State, entries: pa.Table, groups: pa.Table) -> Combined: ...

    def state_rows(
        self, view: str, number: int, state: State, columns: Sequence[str], key: Sequence[str], values: pa.Table
    ) -> Bag: ...


@dataclass(frozen=True)
class ViewDelta:
    """What a unit does to a view: its rows (c1 … cn, n) and the rows of its states."""

    rows: pa.Table | None = None
    states: tuple[StateChange, ...] = ()


@dataclass
class Running:
    """One view on its way through the levels. `deltas` and `pending` give the images of a block's source relations;
    `tagged`: every change says which transaction of a run it belongs to (rule W6)."""

    program: Program
    deltas: Callable[[JoinBlock], Mapping[str, Bag]]
    pending: Callable[[JoinBlock], Mapping[str, Bag]]
    lookup: Lookup
    scan: Scanner
    tagged: bool = False
    standing: Callable[[JoinBlock], Hashable | None] = lambda block: None
    """Equal for views whose blocks over the same relations have the same changes; None: no other view has the same."""
    emptied: frozenset[RelationName] = frozenset()
    """Relations and states that begin with nothing (vm.emptied). Nothing comes out of a block over one of them but what
    its own changes lead to."""
    delivered: dict[int, pa.Table] = field(default_factory=dict)
    changed: dict[int, pa.Table] = field(default_factory=dict)
    rows: pa.Table | None = None

    def inputs(self, block: JoinBlock) -> tuple[dict[str, Bag], Mapping[str, Bag]]:
        """Per occurrence, what is ours and what the rows as read have too much. A state is read as it was before the
        unit: what our change adds to it is what it lacks."""
        moved = {
            alias: -change.select(list(block.by_alias[alias].columns))
            for alias, change in self._moved_states(block).items()
        }
        ours = {alias: bag.consolidate() for alias, bag in self._ours(block).items()}
        return ours, ChainMap(moved, cast("dict[str, Bag]", self.pending(block)))  # what waits is looked at if need be

    def moves(self, block: JoinBlock) -> bool:
        """Whether anything of ours changes what the block reads; what is pending is not looked at."""
        return any(len(bag.consolidate()) for bag in self._ours(block).values())

    def begins(self, step: Step) -> bool:
        """Whether the step's state holds nothing before the unit, not even the row of a group without keys (K3)."""
        return RelationName(WAREHOUSE, self.program.view, str(step.number)) in self.emptied

    def _ours(self, block: JoinBlock) -> dict[str, Bag]:
        ours = {**self.deltas(block), **self._moved_states(block)}
        empty = {one.alias for one in block.occurrences if one.relation.name in self.emptied}
        return {alias: bag for alias, bag in ours.items() if not empty or alias in empty}

    def _moved_states(self, block: JoinBlock) -> dict[str, Bag]:
        return {
            occurrence.alias: _changes(self.delivered[number], list(occurrence.columns), tagged=self.tagged)
            for occurrence in block.occurrences
            if (number := state_number(occurrence.relation)) is not None and number in self.delivered
        }

    def result(self, tag: int = 1) -> ViewDelta:
        """What transaction `tag` of the run does."""
        states = (
            StateChange(number, delta=mine)
            for number, table in sorted(self.changed.items())
            if (mine := _of(table, tag)).num_rows
        )
        return ViewDelta(_of(self.rows, tag) if self.rows is not None else None, tuple(states))


def _changes(delivered: pa.Table, columns: list[str], *, tagged: bool) -> Bag:
    """A state's change as a sweep takes it."""
    table = delivered.select([*columns, "n"]).rename_columns([*columns, COUNT])
    if tagged:
        table = table.add_column(len(columns), TAG, pc.cast(delivered.column("t"), pa.int64()))
    return Bag(table)


def _of(table: pa.Table, tag: int) -> pa.Table:
    if "t" not in table.column_names:
        return table
    return table.filter(pc.equal(table.column("t"), tag)).drop_columns(["t"])


@dataclass
class Stepping:
    """Takes views through their levels. `evaluate` runs one Spark job for all evaluations it is given."""

    evaluate: Callable[[Sequence[Evaluation]], list[pa.Table]]
    states: States
    early_check: Callable[[Collection[RelationName]], None]
    workers: Executor

    def run(self, views: Sequence[Running], swept: Callable[[], None]) -> None:
        """`swept` is called when the sources have been asked and Spark has not."""
        for level in range(max((len(view.program.levels) for view in views), default=0)):
            steps = [(view, step) for view in views for step in _at(view.program, level)]
            work = self._differences(steps)
            swept()
            tables = self.evaluate([evaluation for *_, evaluation in work]) if work else []
            for view, step in steps:
                mine = [
                    _entries(term, table)
                    for (one, other, term, _), table in zip(work, tables, strict=True)
                    if one is view and other is step
                ]
                if mine or (step.state is not None and view.begins(step)):
                    self._finish(view, step, pa.concat_tables(mine) if mine else _no_entries(step))

    def _differences(self, steps: Sequence[tuple[Running, Step]]) -> list[tuple[Running, Step, Term, Evaluation]]:
        """What Spark is to compute; views with the same positions share a sweep."""
        changed: dict[Hashable, list[tuple[Running, Step, Term]]] = {}
        for view, step in steps:
            for term in step.satisfiable:
                if view.moves(term.block):
                    way, standing = course(term.plan), view.standing(term.block)
                    shared = None if way is None or standing is None else (way, standing)
                    changed.setdefault(shared or object(), []).append((view, step, term))
        found = {}
        for alike in changed.values():
            first, _, _ = alike[0]
            plan = together([term.plan for *_, term in alike])
            self.early_check(plan.block.relations)
            ask = self._asking(first, plan.block)
            kept = limits(plan.block, [term.block for *_, term in alike])
            worlds = sweep(plan, *first.inputs(plan.block), ask, workers=self.workers, possible=kept)
            for view, step, term in alike:
                own = own_worlds(worlds, plan, term.plan)
                if len(alike) == 1:
                    own = _with_single_rows(view.program, term.block, own, ask)
                name = (view.program.view, step.number, term.side)
                evaluation = delta_evaluation(term.block, own, view.scan, types=step.types, sign=term.sign, sum=name)
                found[id(view), id(term)] = evaluation
        return [
            (view, step, term, found[id(view), id(term)])
            for view, step in steps
            for term in step.satisfiable
            if (id(view), id(term)) in found
        ]

    def _asking(self, view: Running, block: JoinBlock) -> Ask:
        return asking(block, view.lookup, view.program, self.states.state_rows)

    def _finish(self, view: Running, step: Step, entries: pa.Table) -> None:
        """What the entries make of the step's state, or of the view."""
        if step.state is None:
            view.rows = _consolidated(entries)
            return
        if not entries.num_rows and not view.begins(step):
            return
        name = view.program.view
        combined = self.states.combine(name, step.number, step.state, entries)
        parts = [combined]
        if combined.stale.num_rows:
            parts.append(self._read_again(view, step, combined.stale.drop_columns(["key"])))
        view.changed[step.number] = pa.concat_tables([part.state for part in parts])
        view.delivered[step.number] = pa.concat_tables([part.delivered for part in parts])

    def _read_again(self, view: Running, step: Step, groups: pa.Table) -> Combined:
        """The groups' state from all of their rows, in the new world."""
        assert isinstance(step.state, Grouped)
        terms = step.satisfiable  # one at least: a group that is to be read again came out of it
        self.early_check({name for term in terms for name in term.block.relations})
        evaluations = []
        for term in terms:
            deltas, pending = view.inputs(term.block)
            worlds = _demanded(term, groups, deltas, pending, self._asking(view, term.block))
            name = (view.program.view, step.number, term.side)
            evaluations.append(
                world_evaluation(term.block, worlds, view.scan, types=step.types, sign=term.sign, sum=name)
            )
        tables = self.evaluate(evaluations)
        entries = pa.concat_tables([_entries(term, table) for term, table in zip(terms, tables, strict=True)])
        return self.states.recombine(view.program.view, step.number, step.state, entries, groups)


def _with_single_rows(
    program: Program, block: JoinBlock, worlds: dict[str, Worlds | Whole], ask: Ask
) -> dict[str, Worlds | Whole]:
    """The one row of a group without keys is at hand: no Spark task need go and read it."""
    for occurrence in block.occurrences:
        number, world = state_number(occurrence.relation), worlds[occurrence.alias]
        state = program.steps[number].state if number is not None else None
        if isinstance(world, Whole) and isinstance(state, Grouped) and not state.keys:
            row = ask(occurrence.alias, occurrence.columns, (), pa.table({}))
            worlds[occurrence.alias] = world.with_rows(row)
    return worlds


def _at(program: Program, level: int) -> list[Step]:
    return program.levels[level] if level < len(program.levels) else []


def _demanded(
    term: Term, groups: pa.Table, deltas: Mapping[str, Bag], pending: Mapping[str, Bag], ask: Ask
) -> dict[str, Worlds | Whole]:
    """The rows of these groups: from the occurrence that has most of their keys as plain columns."""
    places: dict[str, dict[str, str]] = {}
    for key, ref in zip(groups.column_names, term.plain, strict=False):
        if ref is not None:
            places.setdefault(ref.alias, {}).setdefault(ref.column, key)
    plan: SweepPlan = term.plan
    if not places:
        return demand(plan, plan.block.occurrences[0].alias, (), groups.select([]), pending, ask, deltas=deltas)
    alias = max(places, key=lambda one: len(places[one]))
    columns = tuple(places[alias])
    values = groups.select([places[alias][column] for column in columns]).rename_columns(list(columns))
    return demand(plan, alias, columns, values, pending, ask, deltas=deltas)


def _entries(term: Term, table: pa.Table) -> pa.Table:
    """What Spark computed for a term, and its side."""
    return table.append_column("side", pa.repeat(pa.scalar(term.side, pa.int16()), table.num_rows))


def _no_entries(step: Step) -> pa.Table:
    texts = {f"c{place}": pa.array([], pa.string()) for place in range(1, step.width + 1)}
    return pa.table({**texts, "n": pa.array([], pa.int64()), "side": pa.array([], pa.int16())})


def _consolidated(entries: pa.Table) -> pa.Table:
    names = [name for name in entries.column_names if name not in ("side", "n")]  # with the tag, if there is one
    rows = Bag(entries.select([*names, "n"]).rename_columns([*names, COUNT])).consolidate().table
    return rows.rename_columns([*names, "n"])
