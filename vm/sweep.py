"""SWEEP in both directions over a join tree (paper 003, Section 5.1, for batches; rules W1 to W6).

    a ──x──▶ b ──y──▶ c        leaves to root …
    a ◀──x── b ◀──y── c        … then root to leaves

Keys travel outward from changed rows; at each hop the source returns only the rows those keys reach, and what comes
back is turned into worlds (vm/worlds.py). `demand` goes one way only: from the rows that have given keys outward.
Hops that do not build on each other, the left and the right sweep of paper 003 (Section 5.3), may be asked at once.

A row that no condition of the block can keep is in no combination, neither before nor after: its keys need not travel.
Views that are swept alike are asked for once, so what a hop saves must be worth a question of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from dyda.model.bag import Bag
from vm.join_block import Occurrence
from vm.join_tree import INEXACT, Component, Hop, SweepPlan
from vm.keys import KeyPredicate, KeySet, distinct_keys
from vm.sweep_state import Learned
from vm.worlds import TAG, TAGGED, TWO_WORLDS, Whole, Worlds

__all__ = ["Ask", "Limit", "SweepLimits", "demand", "sweep"]

AT_ONE_SOURCE = 2
"""Concurrent lookups at one source: it has other work to do, but left and right sweep may meet there."""

Ask: TypeAlias = Callable[[str, Sequence[str], Sequence[str], pa.Table], Bag]
"""ask(alias, columns, key, values): rows of that occurrence's relation, at least those with one of these keys."""


Limit: TypeAlias = Callable[[pa.Table], "pa.Array | pa.ChunkedArray | None"]
"""limit(rows): which of an occurrence's rows, as texts, may be in a combination; None: all of them may."""

MANY_KEYS = 100
"""Up to so many keys, rows are not looked at: other views may ask for the same."""
WORTH = 4
"""How many times fewer keys must be left."""


@dataclass(frozen=True)
class SweepLimits:
    """Where a parallel scan becomes cheaper than a lookup."""

    keys: int = 50_000
    share: float = 0.2
    share_from: int = 1_000

    def exceeded(self, keys: int, estimated_rows: int) -> bool:
        return keys > self.keys or (keys > self.share_from and keys > self.share * estimated_rows)


def sweep(
    plan: SweepPlan,
    deltas: Mapping[str, Bag],
    pending: Mapping[str, Bag],
    ask: Ask,
    limits: SweepLimits | None = None,
    workers: Executor | None = None,
    possible: Mapping[str, Limit] | None = None,
) -> dict[str, Worlds | Whole]:
    """Read what ΔV needs and nothing else. `deltas` are ours, `pending` is captured, visible and not ours. `possible`
    tells for some occurrences which rows conditions may keep.

    `ask` must answer from the very snapshot in which both were read. It is called once per directed tree edge at the
    most, and not at all where no key travels. If a delta has a TAG column, worlds are tagged and keys travel from every
    row of every transaction (W6). With `workers`, sources are asked at once, each by two threads at the most.
    """
    counting = TAGGED if any(TAG in delta.columns for delta in deltas.values()) else TWO_WORLDS
    occurrences = plan.block.occurrences
    learned = {occurrence.alias: Learned(occurrence, deltas, pending, counting) for occurrence in occurrences}
    changed = [c for c in plan.components if any(len(learned[alias].ours) for alias in c.aliases)]
    result: dict[str, Worlds | Whole] = {}
    for component in plan.components:
        reason = ""
        if not changed:
            pass
        elif component not in changed:
            reason = _unconnected(component)
        elif len(changed) > 1:
            reason = "rows changed on both sides of a join that has no pushable equality"
        else:
            asking = _Asking(learned, ask, limits or SweepLimits(), workers, possible or {})
            reason = asking.both_ways(component)
        for alias in component.aliases:
            result[alias] = learned[alias].whole(reason) if reason else learned[alias].worlds()
    return result


def demand(
    plan: SweepPlan,
    alias: str,
    columns: Sequence[str],
    values: pa.Table,
    pending: Mapping[str, Bag],
    ask: Ask,
    limits: SweepLimits | None = None,
    deltas: Mapping[str, Bag] | None = None,
    workers: Executor | None = None,
) -> dict[str, Worlds | Whole]:
    """What the block needs for combinations in which `alias` has one of the key tuples `values` in `columns` (K1).

    The new world is S − P as in `sweep`, and old = new unless `deltas` are given. Columns in which a value is NULL, or
    which no source can look up, are left out of the question, so rows with other keys may come along; of an occurrence
    that is Whole all do. The caller keeps what it wants.
    """
    learned = {one.alias: Learned(one, deltas or {}, pending, only_covered=True) for one in plan.block.occurrences}
    whole: dict[str, str] = {
        other: _unconnected(c) for c in plan.components if alias not in c.aliases for other in c.aliases
    }
    asking = _Asking(learned, ask, limits or SweepLimits(), workers)
    predicate = _demanded(learned[alias].occurrence, columns, values)
    if isinstance(predicate, str):
        reason = predicate
    elif not (reason := asking.too_many(predicate.keys, "those asked for", alias)):
        asking.start(alias, predicate)
        whole |= asking.outward(plan.component(alias), alias)
    if reason:
        whole |= dict.fromkeys(plan.component(alias).aliases, reason)
    return {other: one.whole(whole[other]) if other in whole else one.worlds() for other, one in learned.items()}


def _demanded(occurrence: Occurrence, columns: Sequence[str], values: pa.Table) -> KeyPredicate | str:
    """What to ask the occurrence for, or why it cannot be asked."""
    families: dict[str, str] = {}
    without_null = [name for name, array in zip(columns, values.columns, strict=True) if not array.null_count]
    for name in without_null:
        family = occurrence.by_column[name].family
        if family is not None and family not in INEXACT:
            families[name] = family
    if not families:
        if len(without_null) < len(columns):
            return f"a key of {occurrence.alias} is NULL, which no lookup finds"
        return f"no source can look up {', '.join(columns) or 'nothing'} of {occurrence.alias}"
    asked = tuple(families)
    types = [occurrence.by_column[name].column.type.name for name in asked]
    named = values.rename_columns(list(columns)).select(list(asked))
    keys = distinct_keys([named], asked, asked, tuple(families.values()), types)
    return KeyPredicate(asked, tuple(families.values()), keys)


def _unconnected(component: Component) -> str:
    return f"no pushable equality leads to {', '.join(component.aliases)}"


class _Asking:
    """Hops over one component, in any order in which each comes after those that it builds on."""

    def __init__(
        self,
        learned: Mapping[str, Learned],
        ask: Ask,
        limits: SweepLimits,
        workers: Executor | None,
        possible: Mapping[str, Limit] | None = None,
    ) -> None:
        self._possible = possible or {}
        self._learned = learned
        self._ask = ask
        self._limits = limits
        self._workers = workers or _Here()

    def both_ways(self, component: Component) -> str:
        """Leaves to root, then root to leaves (W1). Returns why the component must be scanned instead, or ''."""
        return next(iter(self._run(component.hops, stop=True).values()), "")

    def outward(self, component: Component, alias: str) -> dict[str, str]:
        """From `alias` to the leaves. Returns which occurrences must be scanned instead, and why."""
        return self._run(component.outward(alias), stop=False)

    def too_many(self, keys: KeySet, sender: str, target: str) -> str:
        if not self._limits.exceeded(len(keys), self._learned[target].occurrence.relation.estimated_rows):
            return ""
        return f"{len(keys)} distinct keys travel from {sender} to {target}: a scan is cheaper than a lookup"

    def start(self, alias: str, predicate: KeyPredicate) -> None:
        """Learn the rows with keys that no neighbour sent. Without a single key there are none."""
        one = self._learned[alias]
        one.learn("", predicate, self._answer(alias, predicate) if len(predicate.keys) else Bag.empty(one.columns))

    def _run(self, hops: Sequence[Hop], *, stop: bool) -> dict[str, str]:
        """Ask along all hops. A target with too many keys is left out, with what is behind it; or all stops."""
        left_out: dict[str, str] = {}
        waiting = list(hops)
        running: dict[Future[Bag], tuple[Hop, KeyPredicate]] = {}
        try:
            while waiting or running:
                for hop in list(waiting):
                    asked = [one for one, _ in running.values()]
                    # W2 reads all that others send to the sender, so they come first.
                    if any(one.target == hop.sender and one.sender != hop.target for one in (*waiting, *asked)):
                        continue
                    predicate = self._predicate(hop)
                    if hop.sender in left_out:
                        left_out[hop.target] = left_out[hop.sender]
                    elif reason := self.too_many(predicate.keys, hop.sender, hop.target):
                        left_out[hop.target] = reason
                        if stop:
                            return left_out
                    elif len(predicate.keys):
                        source = self._source(hop.target)
                        if sum(self._source(one.target) == source for one in asked) >= AT_ONE_SOURCE:
                            continue
                        running[self._workers.submit(self._answer, hop.target, predicate)] = hop, predicate
                    waiting.remove(hop)
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    hop, predicate = running.pop(future)
                    self._learned[hop.target].learn(hop.sender, predicate, future.result())
        finally:
            wait(running)  # no reader may be left when the caller continues
        return left_out

    def _answer(self, alias: str, predicate: KeyPredicate) -> Bag:
        return self._ask(alias, self._learned[alias].columns, predicate.columns, predicate.keys.values)

    def _predicate(self, hop: Hop) -> KeyPredicate:
        at_sender, at_target = hop.edge.toward(hop.target)
        # W2: what the target itself sent to the sender must not be sent back as if it were news.
        rows = self._learned[hop.sender].known_from_others(hop.target)
        relation = self._learned[hop.target].occurrence.relation
        types = [relation.column(column).type.name for column in at_target]
        keys = distinct_keys(rows, at_sender, at_target, hop.edge.families, types)
        limit = self._possible.get(hop.sender)
        if limit is not None and len(keys) > MANY_KEYS:
            kept = [_limited(table, limit) for table in rows]
            fewer = distinct_keys(kept, at_sender, at_target, hop.edge.families, types)
            if WORTH * len(fewer) <= len(keys):
                keys = fewer
        return KeyPredicate(at_target, hop.edge.families, keys)

    def _source(self, alias: str) -> str:
        return self._learned[alias].occurrence.relation.name.source


def _limited(rows: pa.Table, limit: Limit) -> pa.Table:
    mask = limit(rows)
    return rows if mask is None else rows.filter(mask)


class _Here(Executor):
    """Does at once, in this thread, what it is given."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments, **named))
        return done
