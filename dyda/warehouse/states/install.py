"""Installing the changes of a view's states, in the transaction that installs its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import DydaError
from dyda.warehouse.catalog.records import StateTable
from dyda.warehouse.extents.entries import all_entries
from dyda.warehouse.extents.extent import check_types
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.tables import StoredState

__all__ = ["StateChange", "StateInstaller"]


@dataclass(frozen=True)
class StateChange:
    """State rows (c1 … cn, n) for state `number` of a view, from 0: a small `delta`, a `staging` table, or both.

    The view's mode says whether they are added to the state or replace it.
    """

    number: int
    delta: pa.Table | None = None
    staging: Staging | None = None

    def __post_init__(self) -> None:
        if self.delta is None and self.staging is None:
            raise ValueError(f"nothing changes in state {self.number}")


@dataclass(frozen=True)
class StateInstaller:
    """The states of one view, for one installation. `place` is the view's number in the installation."""

    cursor: Cursor
    view: str
    mode: str
    changes: Sequence[StateChange]
    place: int

    def keep(self, known: Sequence[StoredState], wanted: Sequence[StateTable]) -> tuple[StoredState, ...]:
        """The tables stay, their rows change; an index may be new."""
        self._check_numbers(len(known))
        kept = tuple(
            StoredState(stored.number, self.view, table, stored.form)
            for stored, table in zip(known, wanted, strict=True)
        )
        for before, after in zip(known, kept, strict=True):
            if before != after:
                after.index(self.cursor)
        for change in self.changes:
            extent = kept[change.number].extent
            entries = self._entries(change, len(extent.types))
            if self.mode == "replace":
                extent.replace(self.cursor, entries)
            else:
                extent.merge(self.cursor, entries)
        return kept

    def make(self, wanted: Sequence[StateTable], version: int) -> tuple[StoredState, ...]:
        """New tables, which need all their rows."""
        self._check_numbers(len(wanted))
        if wanted and (self.mode != "replace" or len(self.changes) != len(wanted)):
            raise DydaError(f"view {self.view}: new states need all rows, in mode 'replace'")
        by_number = {change.number: change for change in self.changes}
        made = []
        for number, table in enumerate(wanted):
            check_types(self.cursor, self.view, [type_ for _, type_ in table.state.columns])
            self.cursor.execute(
                "INSERT INTO dyda.extent (view, version) VALUES (%s, %s) RETURNING id", (self.view, version)
            )
            stored = StoredState.new(self.cursor, self.cursor.fetchone()[0], self.view, table)
            stored.create(self.cursor, self._entries(by_number[number], len(stored.extent.types)))
            made.append(stored)
        return tuple(made)

    def _check_numbers(self, states: int) -> None:
        numbers = [change.number for change in self.changes]
        if len(set(numbers)) != len(numbers) or not all(0 <= number < states for number in numbers):
            raise ValueError(f"view {self.view} has {states} states, not those with the numbers {numbers}")

    def _entries(self, change: StateChange, width: int) -> sql.Composable:
        delta = change.delta
        if delta is not None:
            # What `combine` gives has a column more, the tag.
            delta = delta.select([*(f"c{i}" for i in range(1, width + 1)), "n"])
        what = f"state {change.number} of view {self.view}"
        return all_entries(self.cursor, what, width, f"{self.place}_{change.number}", delta, change.staging)
