"""The smallest history that shows a wrong extent: delta debugging with PostgreSQL as the judge.

One wrong row is followed. First the transactions between the two commits around the violation are thinned out, as long
as what should have become of the row stays the same; then the rows that were there before.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar

from tests.torture.bench import Bench, Name, NotEvaluated, State
from tests.torture.history import Commit, History, Position, Transaction, ViewState
from tests.torture.states import States

__all__ = ["Shrinker", "minimise", "short"]

Item = TypeVar("Item", bound=Hashable)
SHOWN = 12
"""Rows of a table and transactions that are shown at the most."""


def minimise(items: Sequence[Item], holds: Callable[[Sequence[Item]], bool], until: float) -> list[Item]:
    """A subset for which `holds` holds and from which no single item can go (Zeller's ddmin), as far as time allows."""
    items = list(items)
    parts = 2
    while items and time.monotonic() < until:
        size = -(-len(items) // parts)
        for start in range(0, len(items), size):
            rest = items[:start] + items[start + size :]
            if time.monotonic() >= until:
                return items
            if holds(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size <= 1:
                break
            parts = min(parts * 2, len(items))
    return items


class Shrinker:
    def __init__(
        self,
        history: History,
        states: States,
        bench: Bench,
        loadable: Callable[[ViewState], dict[Name, State]],
        patience: float,
    ) -> None:
        self.history, self.states, self.bench, self.loadable = history, states, bench, loadable
        self.patience = patience
        self._keys = itertools.count()

    def smallest(
        self, name: str, commit: Commit, earlier: ViewState | None, view: ViewState, expected: Counter[str]
    ) -> str:
        """The two commits, and what lies between them that matters for the first wrong row."""
        until = time.monotonic() + self.patience
        extent = self.history.bags[view.rows]
        row = min(row for row in {*extent, *expected} if extent.get(row, 0) != expected[row])
        found, wanted = extent.get(row, 0), expected[row]
        after, before = self._loaded(view), {}
        if earlier is not None and earlier.definition == view.definition:
            before = self._loaded(earlier)
        if any(before[table].shape != state.shape for table, state in after.items() if table in before):
            before = {}
        lines = [f"  definition: {view.definition}", f"  {row} is there {_times(found)}, should be {_times(wanted)}"]
        if earlier is None:
            lines.append("  this is the view's first commit")
        else:
            lines.append(
                f"  the commit before: {_at(earlier)}"
                + ("" if earlier.definition == view.definition else f", {earlier.definition}")
            )
        added = self._added(earlier, view, after) if earlier is not None else []
        hint = self._hint(view, after, added, row, found, until)
        if before:
            added, before = self._thin(view.definition, before, added, row, wanted, until)
            after = before
        lines += [f"  {'.'.join(table)} {_columns(state)}: {_rows(state)}" for table, state in after.items()]
        lines += [f"  {one.source} {one.xid}: {'; '.join(one.steps)}" for one in added[:SHOWN]]
        lines += [f"  … and {len(added) - SHOWN} more"] if len(added) > SHOWN else []
        lines.append(f"  commit {commit.number}: {_at(view)}")
        return "\n".join(lines + ([f"  {hint}"] if hint else []))

    def _loaded(self, view: ViewState) -> dict[Name, State]:
        """Nothing if its text has names that the tables did not have there."""
        try:
            return {table: _kept(state) for table, state in self.loadable(view).items()}
        except LookupError:
            return {}

    def _added(self, earlier: ViewState, view: ViewState, tables: Mapping[Name, State]) -> list[Transaction]:
        """The transactions that the commit adds and that concern the view, in the order in which they committed."""
        found = []
        for source, text in view.positions.items():
            if source in earlier.positions:
                oids = {state.oid for table, state in tables.items() if table[0] == source}
                steps = self.states[source].added(Position.parse(earlier.positions[source]), Position.parse(text))
                found += [one for one in steps if oids & one.tables]
        return sorted(found, key=lambda one: one.order)

    def _thin(
        self,
        definition: str,
        before: dict[Name, State],
        added: list[Transaction],
        row: str,
        wanted: int,
        until: float,
    ) -> tuple[list[Transaction], dict[Name, State]]:
        """The fewest transactions and rows that still say how often the row should be there."""
        was = self._count(definition, before, [], row)
        added = minimise(added, lambda some: self._count(definition, before, some, row) == wanted, until)
        if was is None or (not added and not wanted):
            return added, before  # nothing called for the row, so everything is as good an example as nothing
        rows = [(table, text) for table, state in before.items() for text, n in state.rows.items() for _ in range(n)]
        numbered = list(enumerate(rows))

        def holds(some: Sequence[tuple[int, tuple[Name, str]]]) -> bool:
            fewer = self._only(before, [entry for _, entry in some])
            return (
                self._count(definition, fewer, [], row) == was and self._count(definition, fewer, added, row) == wanted
            )

        return added, self._only(before, [entry for _, entry in minimise(numbered, holds, until)])

    def _hint(
        self,
        view: ViewState,
        after: dict[Name, State],
        added: list[Transaction],
        row: str,
        found: int,
        until: float,
    ) -> str:
        """One transaction too many or too few that would explain the row."""
        for one in added:
            if time.monotonic() < until and self._count(view.definition, after, [one], row, -1) == found:
                return f"as if {one.source} {one.xid} were not in it: {'; '.join(one.steps)}"
        for source, text in view.positions.items():
            oids = {state.oid for table, state in after.items() if table[0] == source}
            later = [one for one in self.states[source].outside(Position.parse(text)) if oids & one.tables]
            for one in sorted(later, key=lambda one: one.order)[:20]:
                if time.monotonic() < until and self._count(view.definition, after, [one], row) == found:
                    return f"as if {one.source} {one.xid} were in it already: {'; '.join(one.steps)}"
        for one in added:
            if time.monotonic() < until and self._count(view.definition, after, [one], row) == found:
                return f"as if {one.source} {one.xid} were in it twice: {'; '.join(one.steps)}"
        return ""

    def _count(
        self,
        definition: str,
        states: Mapping[Name, State],
        transactions: Sequence[Transaction],
        row: str,
        sign: int = 1,
    ) -> int | None:
        """How often the row is there after these transactions; None if there is no such state."""
        moved = {}
        for table, state in states.items():
            rows = Counter(state.rows)
            for one in transactions:
                if one.source == table[0]:
                    if state.oid in one.shapes:
                        return None
                    for text, count in one.effects.get(state.oid, {}).items():
                        rows[text] += sign * count
            if min(rows.values(), default=0) < 0:
                return None
            moved[table] = State(state.oid, state.shape, ("tried", next(self._keys)), +rows)
        try:
            return self.bench.evaluate(definition, moved)[row]
        except NotEvaluated:
            return None

    def _only(self, states: dict[Name, State], rows: Sequence[tuple[Name, str]]) -> dict[Name, State]:
        return {
            table: State(
                state.oid,
                state.shape,
                ("only", next(self._keys)),
                Counter(text for name, text in rows if name == table),
            )
            for table, state in states.items()
        }


def short(position: str) -> str:
    """A position as people can read it."""
    return position if len(position) <= 80 else f"{position[:80]}… ({position.count(',') + 1} in progress)"


def _kept(state: State) -> State:
    return State(state.oid, state.shape, state.key, Counter(state.rows))


def _at(view: ViewState) -> str:
    return ", ".join(f"{source} at {short(text)}" for source, text in sorted(view.positions.items()))


def _columns(state: State) -> str:
    return f"({', '.join(f'{name} {type_}' for name, type_ in state.shape.columns)})"


def _rows(state: State) -> str:
    rows = [text for text, count in sorted(state.rows.items()) for _ in range(count)]
    return " ".join(rows[:SHOWN]) + (f" … {len(rows) - SHOWN} more" if len(rows) > SHOWN else "") or "empty"


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")
