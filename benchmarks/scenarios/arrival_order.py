"""Compensation by arrival order, as paper 003 prints it, for sources that cannot name the state they answer from.

    source   ── ΔR ─────── answer ── ΔR' ──▶        FIFO: what arrives before an answer is in the answer,
                 in it              not in it       what arrives after it is not

`ArrivalOrder.ask` corrects every answer to the state after the messages that are ours, so that `sweep` has nothing left
to compensate (`pending` is empty). This is right only as long as the picture is: a source that locks and reads without
a snapshot breaks it even under perfect FIFO (paper 000, Figure 1). Sources with snapshots are never read this way.

Nested SWEEP (paper 003, Section 6) absorbs what arrives while keys travel into the change that is computed, round by
round; a round asks only for new keys. Updates that keep interfering would never let it end, so after `rounds` it is
plain SWEEP (Section 6.2). A batch under a snapshot is the same with the end fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dyda.model.bag import Bag
from dyda.model.relation import RelationName
from vm.join_block import JoinBlock, Occurrence
from vm.join_tree import SweepPlan
from vm.keys import KeyPredicate, KeySet
from vm.sweep import Ask, SweepLimits, sweep
from vm.worlds import Whole, Worlds, before

__all__ = ["ArrivalOrder", "Nested", "nested_sweep"]


@dataclass
class _Answer:
    """The rows with the keys asked for so far, in the state after the messages that are ours."""

    predicate: KeyPredicate
    rows: Bag


class ArrivalOrder:
    """Messages in the order in which they arrive, and answers corrected to the state after the first of them."""

    def __init__(self, block: JoinBlock, ask: Ask) -> None:
        self._block = block
        self._ask = ask
        self._received: dict[RelationName, list[Bag]] = {name: [] for name in block.relations}
        self._ours: dict[RelationName, int] = dict.fromkeys(block.relations, 0)
        self._answers: dict[tuple[str, tuple[str, ...]], _Answer] = {}

    def receive(self, relation: RelationName, change: Bag) -> None:
        """A message arrived; also while `ask` waits for an answer."""
        self._received.setdefault(relation, []).append(change)

    @property
    def waiting(self) -> int:
        """Messages that arrived and are not ours."""
        return sum(len(self._received[name]) - count for name, count in self._ours.items())

    def absorb(self) -> None:
        """All that has arrived is ours now. Known answers are corrected to the state after it."""
        newly = {name: self._received[name][count:] for name, count in self._ours.items()}
        self._ours = {name: len(self._received[name]) for name in self._ours}
        for (alias, _), answer in self._answers.items():
            occurrence = self._block.by_alias[alias]
            # The state after a change is the state before its reverse.
            undone = -_total(occurrence, newly[occurrence.relation.name])
            answer.rows = before(answer.rows, undone.filter(answer.predicate(undone.table)))

    @property
    def deltas(self) -> dict[str, Bag]:
        """What is ours, per occurrence."""
        return {
            one.alias: _total(one, self._received[one.relation.name][: self._ours[one.relation.name]]).consolidate()
            for one in self._block.occurrences
        }

    def ask(self, alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        """An `Ask` for `sweep`, whose `pending` is empty then. Keys that were asked for before are not asked again."""
        occurrence = self._block.by_alias[alias]
        known = self._answers.get((alias, tuple(key)))
        if known is None:
            families = tuple(occurrence.by_column[column].family or "" for column in key)
            known = _Answer(KeyPredicate(tuple(key), families, KeySet(values.slice(0, 0))), Bag.empty(columns))
            self._answers[alias, tuple(key)] = known
        missing = values.filter(pc.invert(known.predicate(values)))
        if missing.num_rows:
            asked = KeyPredicate(known.predicate.columns, known.predicate.families, KeySet(missing))
            answer = self._ask(alias, columns, key, missing).select(columns)
            # FIFO: just now the source's answer and all that it had announced before are here, and nothing later.
            name = occurrence.relation.name
            not_ours = _total(occurrence, self._received[name][self._ours[name] :])
            rows = before(answer.filter(asked(answer.table)), not_ours.filter(asked(not_ours.table)))
            known.rows = (known.rows + rows).consolidate()
            together = pa.concat_tables([known.predicate.keys.values, missing])
            known.predicate = KeyPredicate(asked.columns, asked.families, KeySet(together))
        return known.rows


@dataclass(frozen=True)
class Nested:
    """One composite change: the worlds for it, what it consists of, and how many sweeps it took."""

    worlds: Mapping[str, Worlds | Whole]
    deltas: Mapping[str, Bag]
    rounds: int


def nested_sweep(plan: SweepPlan, arrival: ArrivalOrder, rounds: int = 3, limits: SweepLimits | None = None) -> Nested:
    """One change for all that has arrived and for what arrives meanwhile. What arrives in the last round stays."""
    arrival.absorb()
    for number in range(1, rounds + 1):
        deltas = arrival.deltas
        worlds = sweep(plan, deltas, {}, arrival.ask, limits)
        if not arrival.waiting or number == rounds:
            return Nested(worlds, deltas, number)
        arrival.absorb()
    raise ValueError("a sweep takes one round at least")


def _total(occurrence: Occurrence, changes: Iterable[Bag]) -> Bag:
    total = Bag.empty(list(occurrence.columns))
    for change in changes:
        total += change.select(list(occurrence.columns))
    return total
