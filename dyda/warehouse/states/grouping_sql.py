"""The SQL of a grouping's state: how entries move its numbers, and what the numbers of a whole group are.

Entries name the group's texts p1 … pm and the arguments' texts x1 … xa. Numbers 1 … are the accumulators.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from psycopg2 import sql

from dyda.model.operator_state import Accumulator, Grouped
from dyda.warehouse.connection import load
from dyda.warehouse.states.canonical_values import canonical, extreme, printed

__all__ = ["Grouping", "key_of", "listed", "needs_single_tag", "texts"]


def needs_single_tag(state: Grouped) -> bool:
    """Whether the state can take only one transaction at a time."""
    return any(accumulator.recomputed or _is_extreme(accumulator) for accumulator in state.accumulators)


def _is_extreme(accumulator: Accumulator) -> bool:
    return not accumulator.recomputed and accumulator.function in ("min", "max")


def texts(letter: str, types: Sequence[str], first: int, *, by_value: bool = True) -> list[str]:
    """Select items that turn the columns c<first> … of entries into the canonical texts <letter>1 …"""
    items = []
    for place, type_ in enumerate(types):
        value = f"c{first + place}::{type_}"
        items.append(f"{printed(type_, canonical(type_, value) if by_value else value)} AS {letter}{place + 1}")
    return items


def listed(items: Sequence[str]) -> sql.SQL:
    """Items that others follow."""
    return sql.SQL("".join(f"{item}, " for item in items))


def key_of(names: Sequence[str]) -> str:
    """The digest of a row's or a group's canonical text; two that are not equal never share one."""
    return f"encode(sha256(convert_to(ROW({', '.join(names)})::text, 'UTF8')), 'hex')"


@dataclass(frozen=True)
class Grouping:
    """The statements for one state."""

    state: Grouped

    @cached_property
    def keys(self) -> list[str]:
        return [f"p{place}" for place in range(1, len(self.state.keys) + 1)]

    @cached_property
    def arguments(self) -> list[str]:
        return [f"x{place}" for place in range(1, len(self.state.arguments) + 1)]

    @property
    def rows_column(self) -> str:
        return f"c{len(self.keys) + 2}"

    def _column(self, number: int) -> str:
        """Of accumulator `number`, from 1, in the state's table."""
        return f"c{len(self.keys) + 2 + number}"

    @property
    def _prints(self) -> sql.SQL:
        state = self.state
        return listed([*texts("p", state.keys, 1), *texts("x", state.arguments, len(state.keys) + 1)])

    @property
    def befores(self) -> list[str]:
        return ["rows_before", *(f"before_{number}" for number, _ in self._numbered)]

    @property
    def afters(self) -> list[str]:
        return ["rows_after", *(f"after_{number}" for number, _ in self._numbered)]

    @property
    def _numbered(self) -> list[tuple[int, Accumulator]]:
        return list(enumerate(self.state.accumulators, start=1))

    # --- the change that entries make

    def change(self, entries: sql.Composable, extent: sql.Composable) -> sql.Composed:
        """Columns: key, p1 …, t, stale, negative, existed, remains, `befores`, `afters`."""
        alone = not self.keys
        netted = sorted({i for _, a in self._numbered if (i := self._watched(a)) is not None})
        moves = [_Move(number, accumulator, self) for number, accumulator in self._numbered]
        parts = {
            "prints": self._prints,
            "keys": listed(self.keys),
            "arguments": listed(self.arguments),
            "nets": _added(
                f"sum(n) OVER (PARTITION BY {', '.join([*self.keys, 't', f'x{i}'])}) AS net_{i}" for i in netted
            ),
            "changes": _added(item for move in moves for item in move.changes),
            "key": sql.SQL(key_of(self.keys)),
            "sums": _added(item for move in moves for item in move.sums),
            "partition": sql.SQL(", ".join(self.keys) or "true"),
            "rows_column": sql.SQL(self.rows_column),
            "placed": _added(item for move in moves for item in move.placed),
            "stale": sql.SQL(" OR ".join(item for move in moves for item in move.stale) or "false"),
            "negative": sql.SQL(" OR ".join(["rows_after < 0", *(item for move in moves for item in move.negative)])),
            "before_exists": sql.SQL("true" if alone else "rows_before > 0"),
            "after_exists": sql.SQL("true" if alone else "rows_after > 0"),
            "befores": _added(self._shown(move.accumulator, move.before, f"before_{move.number}") for move in moves),
            "afters": _added(self._shown(move.accumulator, move.after, f"after_{move.number}") for move in moves),
            "before_names": sql.SQL(", ".join(self.befores)),
            "after_names": sql.SQL(", ".join(self.afters)),
        }
        return load("combine_grouped.sql").format(entries=entries, extent=extent, **parts)

    def _watched(self, accumulator: Accumulator) -> int | None:
        """The argument, from 1, whose values must be added up one by one."""
        if accumulator.argument is None or not (accumulator.recomputed or _is_extreme(accumulator)):
            return None
        return accumulator.argument + 1

    def _shown(self, accumulator: Accumulator, value: str, name: str) -> str:
        typed = canonical(accumulator.type, f"({value})::{accumulator.type}")
        return f"{printed(accumulator.type, typed)} AS {name}"

    # --- whole groups

    def whole(self, entries: sql.Composable, *, asked: bool) -> sql.Composed:
        """State rows (c1 …, n, negative) from all entries of the groups; with `asked`, of the marked groups alone."""
        repeated = any(accumulator.recomputed for accumulator in self.state.accumulators)
        parts = {
            "key": sql.SQL(key_of(self.keys)),
            "state_keys": _added(f"{name} AS c{place}" for place, name in enumerate(self.keys, start=2)),
            "rows_column": sql.SQL(self.rows_column),
            "printed": _added(self._shown(a, f"a{number}", self._column(number)) for number, a in self._numbered),
            "exists": sql.SQL("CASE WHEN rows > 0 THEN 1 ELSE 0 END" if self.keys else "1"),
            "keys": listed(self.keys),
            "arguments": listed(self.arguments),
            "accumulators": _added(f"{self._total(a)} AS a{number}" for number, a in self._numbered),
            "one": sql.SQL("CASE WHEN copy IS NULL THEN 0 ELSE 1 END" if repeated else "net"),
            "copies": sql.SQL("LEFT JOIN LATERAL generate_series(1, net) AS copy ON true" if repeated else ""),
            "prints": self._prints,
            "group_keys_arguments": sql.SQL(", ".join([*self.keys, *self.arguments]) or "()"),
            "group_keys": sql.SQL(", ".join(self.keys) or "()"),
            "having": sql.SQL("HAVING bool_or(asked)" if asked and self.keys else ""),
        }
        return load("whole_grouped.sql").format(entries=entries, **parts)

    def _total(self, accumulator: Accumulator) -> str:
        if accumulator.argument is None:
            return (
                f"{accumulator.function}(*) FILTER (WHERE n > 0)" if accumulator.recomputed else "coalesce(sum(n), 0)"
            )
        text = f"x{accumulator.argument + 1}"
        type_ = self.state.arguments[accumulator.argument]
        if accumulator.recomputed:
            return f'{accumulator.function}({text}::{type_} ORDER BY {text} COLLATE "C") FILTER (WHERE n > 0)'
        if _is_extreme(accumulator):
            return extreme(accumulator.function, type_, text, "n > 0")
        return additive(accumulator.function, type_, text)

    def again(self, entries: sql.Composable, extent: sql.Composable) -> sql.Composed:
        """Columns: key, p1 …, negative, existed, remains, `befores`, `afters`."""
        columns = [self.rows_column, *(self._column(number) for number, _ in self._numbered)]
        types = ["bigint", *(accumulator.type for accumulator in self.state.accumulators)]
        keys = [f"whole.c{place} AS {name}" for place, name in enumerate(["key", *self.keys], start=1)]
        parts = {
            "keys": sql.SQL(", ".join(keys)),
            "befores": _added(
                f"{printed(type_, f'e.{column}')} AS {name}"
                for type_, column, name in zip(types, columns, self.befores, strict=True)
            ),
            "afters": _added(f"whole.{column} AS {name}" for column, name in zip(columns, self.afters, strict=True)),
            "before_names": sql.SQL(", ".join(self.befores)),
            "after_names": sql.SQL(", ".join(self.afters)),
        }
        return load("recombine.sql").format(whole=self.whole(entries, asked=True), extent=extent, **parts)


def additive(function: str, type_: str, text: str) -> str:
    """What n copies of a value add to a count or a sum; an exact number."""
    match function:
        case "count":
            return f"coalesce(sum(n) FILTER (WHERE {text} IS NOT NULL), 0)"
        case "sum":
            return f"coalesce(sum({text}::{type_}::numeric * n), 0)"
        case "squares":
            return f"coalesce(sum({text}::{type_}::numeric * {text}::{type_}::numeric * n), 0)"
        case _:
            raise ValueError(f"{function} cannot be maintained by adding")


class _Move:
    """One accumulator's part of the statement that moves a group."""

    def __init__(self, number: int, accumulator: Accumulator, grouping: Grouping) -> None:
        self.number = number
        self.accumulator = accumulator
        self.changes: list[str] = []
        self.sums: list[str] = []
        self.placed: list[str] = []
        self.stale: list[str] = []
        self.negative: list[str] = []
        column = f"e.{grouping._column(number)}"
        if accumulator.recomputed:
            self._recompute(column, alone=not grouping.keys)
        elif _is_extreme(accumulator) and accumulator.argument is not None:
            self._extreme(column, grouping.state.arguments[accumulator.argument], accumulator.argument + 1)
        else:
            self._add(column, grouping)

    def _recompute(self, column: str, *, alone: bool) -> None:
        number, argument = self.number, self.accumulator.argument
        touched = "true" if argument is None else f"bool_or(net_{argument + 1} <> 0)"
        self.changes = [f"{touched} AS touched_{number}"]
        self.placed = [f"touched_{number}", f"{column} AS old_{number}"]
        self.stale = [f"touched_{number}" if alone else f"touched_{number} AND rows_after > 0"]
        self.before = self.after = f"old_{number}"

    def _extreme(self, column: str, type_: str, argument: int) -> None:
        number, function, text = self.number, self.accumulator.function, f"x{argument}"
        nearer, farther = ("least", ("<=", ">")) if function == "min" else ("greatest", (">=", "<"))
        old, inserted, removed = f"old_{number}", f"inserted_{number}", f"removed_{number}"
        self.changes = [
            f"{extreme(function, type_, text, f'net_{argument} > 0')} AS {inserted}",
            f"{extreme(function, type_, text, f'net_{argument} < 0')} AS {removed}",
        ]
        self.placed = [inserted, removed, f"{column} AS {old}"]
        # The old extreme may be gone, and nothing that came is known to be beyond it.
        self.stale = [
            f"rows_after > 0 AND coalesce({removed} {farther[0]} {old}, {removed} IS NOT NULL)"
            f" AND coalesce({inserted} {farther[1]} {old}, true)"
        ]
        self.before = old
        self.after = f"CASE WHEN rows_after > 0 THEN {nearer}({old}, {inserted}) END"

    def _add(self, column: str, grouping: Grouping) -> None:
        number, argument = self.number, self.accumulator.argument
        if argument is None:
            change = "sum(n)"
        else:
            change = additive(self.accumulator.function, grouping.state.arguments[argument], f"x{argument + 1}")
        self.changes = [f"{change} AS change_{number}"]
        self.sums = [f"sum(change_{number}) OVER up AS sum_{number}"]
        old = f"coalesce({column}::numeric, 0)"
        self.before, self.after = f"before_{number}", f"after_{number}"
        self.placed = [
            f"{old} + sum_{number} - change_{number} AS before_{number}",
            f"{old} + sum_{number} AS after_{number}",
        ]
        if self.accumulator.function == "count":
            self.negative = [f"after_{number} < 0"]


def _added(items: Iterable[str]) -> sql.SQL:
    """Items that follow others."""
    return sql.SQL("".join(f", {item}" for item in items))
