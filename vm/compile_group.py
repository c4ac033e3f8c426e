"""GROUP BY as steps: which accumulators keep an aggregate up, and how it is read from them.

    aggregate          accumulators                    read as
    count(x)           count(x)                        itself
    sum(x)             sum(x), count(x)                NULL where nothing was counted
    avg(x)             sum(x), count(x)                sum / count
    min(x), max(x)     the extreme                     itself; read again when it was deleted
    bool_and, bool_or  count of true, count of false   whether there is a false, a true
    float sums and averages, stddev, variance          read again for every touched group (rule K4)
    f(DISTINCT x)      f(x) over the distinct (keys, x), in steps of its own (rule K3)

An aggregate with FILTER (WHERE c) is the aggregate of CASE WHEN c THEN x END: every group stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import Aggregate, ColumnRef, Expression, Group, Node, ViewDefinition
from dyda.model.operator_state import Accumulator, Grouped, Rule
from vm.linear_terms import Linear, equal, product

__all__ = ["group", "same_arguments"]

INTEGERS = ("smallint", "integer", "bigint")
FLOATS = ("real", "double precision")


class Steps(Protocol):
    """What the compiler offers."""

    @property
    def view(self) -> ViewDefinition: ...

    def rows(self, node: Node) -> Linear: ...

    def counted(self, sides: Sequence[tuple[Linear, int]], rule: Rule, purpose: str) -> Linear: ...

    def grouped(self, linear: Linear, build: Callable[[Sequence[str]], Grouped], purpose: str) -> Linear: ...


def group(steps: Steps, node: Group) -> Linear:
    """The group's columns, from the states of its steps."""
    linear = steps.rows(node.input)
    plain = [aggregate for aggregate in node.aggregates if not _is_distinct(aggregate)]
    distinct: dict[Expression, list[Aggregate]] = {}
    for aggregate in node.aggregates:
        if _is_distinct(aggregate):
            distinct.setdefault(_argument(aggregate), []).append(aggregate)
    pieces = []
    if plain or not distinct:
        pieces.append(_piece(steps, linear, node, plain))
    for argument, aggregates in distinct.items():
        pieces.append(_distinct_piece(steps, linear, node, argument, aggregates))
    whole = pieces[0]
    for further in pieces[1:]:
        # The digest of the keys is never NULL, so groups of NULLs meet as well (rule R5).
        whole = product(whole, further).where([equal(whole.columns[0], further.columns[0])])
    return whole.only(node.columns)


def _is_distinct(aggregate: Aggregate) -> bool:
    return aggregate.distinct and aggregate.function not in ("min", "max", "bool_and", "bool_or")


def _argument(aggregate: Aggregate) -> Expression:
    """What is aggregated, NULL where FILTER leaves a row out."""
    argument = aggregate.argument or Expression("1", frozenset(), parts=("1",))
    if aggregate.only is None:
        return argument
    parts = ("CASE WHEN (", *aggregate.only.parts, ") THEN (", *argument.parts, ") END")
    return Expression("".join(map(str, parts)), aggregate.only.columns | argument.columns, parts=parts)


def _piece(steps: Steps, linear: Linear, node: Group, aggregates: Sequence[Aggregate]) -> Linear:
    """One grouping: its digest, the keys and these aggregates."""
    keys = [(ColumnRef("", f"k{i}"), key.expression) for i, key in enumerate(node.keys, start=1)]
    arguments: dict[Expression, ColumnRef] = {}
    for aggregate in aggregates:
        for expression in _arguments(aggregate):
            arguments.setdefault(expression, ColumnRef("", f"x{len(arguments) + 1}"))
    if not keys and not arguments:
        arguments[Expression("1", frozenset(), parts=("1",))] = ColumnRef("", "x1")  # something to tell rows by
    entries = linear.project([*keys, *((ref, expression) for expression, ref in arguments.items())])
    plan = _Accumulators(list(arguments))
    shown = ", ".join(f"{a.function}({a.argument.sql if a.argument else '*'})" for a in aggregates)
    by = ", ".join(key.expression.sql for key in node.keys) or "nothing"
    readings: list[Callable[[str], Expression]] = []

    def build(types: Sequence[str]) -> Grouped:
        plan.types = list(types[len(keys) :])
        for aggregate in aggregates:
            plan.require_numbers(steps.view.name, aggregate)
        readings.extend(plan.reading(aggregate) for aggregate in aggregates)
        return Grouped(tuple(types[: len(keys)]), tuple(plan.types), tuple(plan.accumulators))

    state = steps.grouped(entries, build, f"GROUP BY {by}" + (f": {shown}" if shown else ""))
    alias = state.columns[0].alias
    columns = [(state.columns[0], Expression.of(state.columns[0]))]
    for place, key in enumerate(node.keys, start=1):
        columns.append((ColumnRef(node.alias, key.name), Expression.of(ColumnRef(alias, f"k{place}"))))
    for aggregate, reading in zip(aggregates, readings, strict=True):
        columns.append((ColumnRef(node.alias, aggregate.name), reading(alias)))
    return state.project(columns)


def _distinct_piece(
    steps: Steps, linear: Linear, node: Group, argument: Expression, aggregates: Sequence[Aggregate]
) -> Linear:
    """The aggregates of one argument's distinct values: the set of (keys, value) first, then a grouping of that."""
    keys = [(ColumnRef("", f"k{i}"), key.expression) for i, key in enumerate(node.keys, start=1)]
    entries = linear.project([*keys, (ColumnRef("", "x"), argument)])
    values = steps.counted([(entries, 0)], "distinct", f"the distinct values of {argument.sql}")
    *groups, value = values.columns
    over = Group(
        node.input,
        node.alias,
        tuple(type(key)(key.name, Expression.of(place)) for key, place in zip(node.keys, groups, strict=True)),
        tuple(Aggregate(a.name, a.function, Expression.of(value)) for a in aggregates),
    )
    return _piece(steps, values, over, over.aggregates)


def _arguments(aggregate: Aggregate) -> tuple[Expression, ...]:
    """The columns that its accumulators aggregate."""
    if aggregate.argument is None and aggregate.only is None:
        return ()
    argument = _argument(aggregate)
    if aggregate.function in ("bool_and", "bool_or"):
        return (_case(argument, "1"), _case(_negated(argument), "1"))
    return (argument,)


def same_arguments(old: Sequence[Aggregate], new: Sequence[Aggregate], places: Sequence[int]) -> dict[int, int]:
    """Of two groupings of which the new one's aggregates are the old one's at `places`: for each argument of the new
    one's state the same argument of the old one's."""
    then, now = (list(dict.fromkeys(e for one in several for e in _arguments(one))) for several in (old, new))
    found = {}
    for aggregate, place in zip(new, places, strict=True):
        for mine, theirs in zip(_arguments(aggregate), _arguments(old[place]), strict=True):
            found[now.index(mine)] = then.index(theirs)
    return found


@dataclass
class _Accumulators:
    """The accumulators of one grouping, each once; `types` are known when Spark has seen the arguments."""

    arguments: list[Expression]
    types: list[str] = field(default_factory=list)
    accumulators: list[Accumulator] = field(default_factory=list)

    def place(self, function: str, argument: Expression, type_: str, recomputed: bool = False) -> str:
        """The state column that holds it."""
        wanted = Accumulator(function, self.arguments.index(argument), type_, recomputed)
        if wanted not in self.accumulators:
            self.accumulators.append(wanted)
        return f"a{self.accumulators.index(wanted) + 1}"

    def require_numbers(self, view: str, aggregate: Aggregate) -> None:
        """Spark would read numbers out of texts; whether a text is one shows only when it comes."""
        if aggregate.function in ("count", "min", "max", "bool_and", "bool_or"):
            return
        type_ = self.types[self.arguments.index(_arguments(aggregate)[0])]
        if type_ not in INTEGERS and type_ not in FLOATS and not type_.startswith("numeric("):
            shown = aggregate.argument.sql if aggregate.argument is not None else "*"
            raise UnsupportedSql(
                view,
                f"{aggregate.function}({shown}) is of type {type_}, which is not numeric",
                f"Cast it to a number: {aggregate.function}(CAST({shown} AS DECIMAL(20,4))).",
            )

    def reading(self, aggregate: Aggregate) -> Callable[[str], Expression]:
        """How the aggregate is read from a state row; accumulators that it needs are added."""
        found = _arguments(aggregate)
        if not found:
            return _text("{}", "rows")
        argument = found[0]
        type_ = self.types[self.arguments.index(argument)]
        match aggregate.function:
            case "min" | "max":
                return _text("{}", self.place(aggregate.function, argument, type_))
            case "count" | "bool_and" | "bool_or":
                pass
            case "sum" | "avg" if type_ not in FLOATS:
                pass
            case function:
                return _text("{}", self.place(function, argument, "double precision", recomputed=True))
        count = self.place("count", argument, "bigint")
        match aggregate.function:
            case "count":
                return _text("{}", count)
            case "bool_and" | "bool_or":
                others = self.place("count", found[1], "bigint")
                wanted = "{1} = 0" if aggregate.function == "bool_and" else "{0} > 0"
                return _text("CASE WHEN {0} + {1} > 0 THEN " + wanted + " END", count, others)
            case "sum":
                precision, scale = _digits(type_)
                result = "BIGINT" if type_ in INTEGERS else f"DECIMAL({min(38, precision + 10)},{scale})"
                place = self.place("sum", argument, f"numeric(38,{scale})")
                return _text("CASE WHEN {0} > 0 THEN CAST({1} AS " + result + ") END", count, place)
            case _:
                precision, scale = _digits(type_)
                place = self.place("sum", argument, f"numeric(38,{scale})")
                if type_ in INTEGERS:
                    return _text("CASE WHEN {0} > 0 THEN CAST({1} AS DOUBLE) / {0} END", count, place)
                result = f"DECIMAL({min(38, precision + 4)},{min(38, scale + 4)})"
                total = f"CAST({{1}} AS DECIMAL({min(38, precision + 10)},{scale}))"
                divided = f"CAST({total} / CAST({{0}} AS DECIMAL(20,0)) AS {result})"
                return _text("CASE WHEN {0} > 0 THEN " + divided + " END", count, place)


def _digits(type_: str) -> tuple[int, int]:
    if type_ in INTEGERS:
        return 19, 0
    found = re.fullmatch(r"numeric\((\d+),(\d+)\)", type_)
    if found is None:
        raise ValueError(f"{type_} cannot be added up")
    return int(found[1]), int(found[2])


def _text(template: str, *places: str) -> Callable[[str], Expression]:
    """An expression over columns of the state under `alias`."""

    def over(alias: str) -> Expression:
        refs = [ColumnRef(alias, place) for place in places]
        if template == "{}":
            return Expression.of(refs[0])
        parts: list[str | ColumnRef] = []
        for piece in re.split(r"(\{\d\})", template):
            parts.append(refs[int(piece[1])] if re.fullmatch(r"\{\d\}", piece) else piece)
        parts = [part for part in parts if part != ""]
        return Expression("".join(map(str, parts)), frozenset(refs), parts=tuple(parts))

    return over


def _case(condition: Expression, value: str) -> Expression:
    parts = ("CASE WHEN (", *condition.parts, f") THEN {value} END")
    return Expression("".join(map(str, parts)), condition.columns, parts=parts)


def _negated(condition: Expression) -> Expression:
    parts = ("NOT (", *condition.parts, ")")
    return Expression("".join(map(str, parts)), condition.columns, parts=parts)
