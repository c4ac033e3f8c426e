"""One evaluation per block: worlds multiplied through the joins, ΔV = new − old where that is not zero.

    SELECT c1 … cn, n − o AS n
    FROM ((a JOIN b …: a.o·b.o AS o, a.n·b.n AS n) JOIN c …)        o, n: counts in the old and in the new world
    WHERE n <> o

One n-way join replaces the telescoping sum of n terms (Equation 5 of paper 001). A full build is the same query with
the new world alone, a run of transactions the same with tags (vm/worlds.py). Output columns are text, ready for the
warehouse to cast back: PostgreSQL's own text where a column is only passed on, and where it is computed the text that
PostgreSQL would print. Only floating point numbers may be spelled otherwise (1.0E10), so they are no keys between what
is stored and what is captured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.bag import Bag
from vm.join_block import JoinBlock, Occurrence
from vm.worlds import NEW_WORLD, TWO_WORLDS, Counting, Whole, Worlds, before

__all__ = [
    "Evaluation",
    "Frame",
    "Scanner",
    "as_text",
    "build_evaluation",
    "counts",
    "delta_evaluation",
    "frame_columns",
    "in_parts",
    "join_order",
    "joined",
    "render",
    "render_combined",
    "world_evaluation",
]

Scanner = Callable[[Occurrence], "Sequence[Any] | Bag"]
"""scanner(occurrence): all rows, or picklable partitions of the whole relation; `occurrence.columns` as text."""


FEW = 100_000
"""Rows of one relation that are given to every task of a large join."""
LARGE = 1_000_000
"""Rows of all relations together that are scanned: from here on Spark must not give whole relations to every task."""


@dataclass(frozen=True)
class Frame:
    """The rows of one occurrence: entries (text columns, then two numbers) and, with numbers of its own, a scan."""

    occurrence: Occurrence
    table: pa.Table
    partitions: tuple[Any, ...] = ()
    scanned: bool = False
    counting: Counting = TWO_WORLDS

    @property
    def is_empty(self) -> bool:
        return not self.partitions and self.table.num_rows == 0

    @property
    def is_changed(self) -> bool:
        return self.counting.changed(self.table)

    @property
    def rows(self) -> int:
        """About how many there are; what a source has never counted counts nothing."""
        scanned = max(self.occurrence.relation.estimated_rows, 0) if self.partitions else 0
        return int(self.table.num_rows) + scanned

    @property
    def has_few(self) -> bool:
        return len(self.partitions) <= 1 and self.rows <= FEW


@dataclass(frozen=True)
class Evaluation:
    """What Spark is asked for one block. `counting`: ΔV, ΔV per transaction, or a world as it is. `types`: if given,
    each item is cast to its Spark type before it becomes text, so that the terms of a sum agree. `sign`: 1 or -1, of a
    term in its sum."""

    view: str
    block: JoinBlock
    frames: tuple[Frame, ...]
    counting: Counting
    types: tuple[str, ...] | None = None
    sign: int = 1
    side: int | None = None
    """Written behind the items where a set operation has to know: 0 left, 1 right."""
    sum: Hashable | None = None
    """Evaluations with the same one are terms of one sum, and only that is asked for: rows of theirs may cancel out."""

    @property
    def tagged(self) -> bool:
        """Whether there is a column `t` behind `n`: the transaction of the run."""
        return self.counting.tag is not None

    @property
    def is_empty(self) -> bool:
        """No combination can exist, or none can differ: Spark need not run."""
        if any(frame.is_empty for frame in self.frames):
            return True
        return self.counting.difference and not any(frame.is_changed for frame in self.frames)

    @property
    def scanned(self) -> bool:
        return any(frame.partitions for frame in self.frames)

    @property
    def entries(self) -> int:
        return sum(int(frame.table.num_rows) for frame in self.frames)

    @property
    def is_large(self) -> bool:
        """Whether Spark's tasks are to read more than what may be given to all of them."""
        scanned = [frame for frame in self.frames if frame.partitions]
        return any(len(frame.partitions) > 1 for frame in scanned) or sum(frame.rows for frame in scanned) > LARGE

    @property
    def few(self) -> frozenset[str]:
        """The occurrences of which there are so few rows that every task may have them all."""
        return frozenset(frame.occurrence.alias for frame in self.frames if frame.has_few)


def delta_evaluation(
    block: JoinBlock,
    worlds: Mapping[str, Worlds | Whole],
    scanner: Scanner | None = None,
    *,
    counting: Counting | None = None,
    types: Sequence[str] | None = None,
    sign: int = 1,
    side: int | None = None,
    sum: Hashable | None = None,
) -> Evaluation:
    """The evaluation of ΔV over what `sweep` found; `scanner` is needed for occurrences that are Whole."""
    counting = counting or next(iter(worlds.values())).counting
    block, spark_types = _typed(block, types)
    frames = []
    for occurrence in block.occurrences:
        world = worlds[occurrence.alias]
        if isinstance(world, Worlds):
            frames.append(Frame(occurrence, world.table, counting=counting))
            continue
        if scanner is None:
            raise ValueError(f"{occurrence.alias} must be scanned ({world.reason}) but there is no scanner")
        rows = scanner(occurrence)
        if isinstance(rows, Bag):
            frames.append(Frame(occurrence, world.with_rows(rows).table, counting=counting))
        else:
            frames.append(Frame(occurrence, world.table, tuple(rows), scanned=True, counting=counting))
    return Evaluation(block.view, block, tuple(frames), counting, spark_types, sign, side, sum)


world_evaluation = partial(delta_evaluation, counting=NEW_WORLD)
"""The rows of the new world over what `demand` found."""


def build_evaluation(
    block: JoinBlock,
    rows: Mapping[str, Sequence[Any] | Bag],
    pending: Mapping[str, Bag] | None = None,
    *,
    types: Sequence[str] | None = None,
    sign: int = 1,
    side: int | None = None,
    sum: Hashable | None = None,
) -> Evaluation:
    """The whole view over the `rows` of every occurrence, or partitions of them, less `pending`: captured changes that
    the state asked for does not include yet."""
    worlds = {}
    for occurrence in block.occurrences:
        none = Bag.empty(list(occurrence.columns))
        restored = before(none, (pending or {}).get(occurrence.alias, none))
        worlds[occurrence.alias] = Whole(NEW_WORLD.table(restored, none), "the whole view is asked for", NEW_WORLD)
    return world_evaluation(block, worlds, lambda one: rows[one.alias], types=types, sign=sign, side=side, sum=sum)


def in_parts(evaluation: Evaluation, most: int) -> list[Evaluation]:
    """Evaluations that scan at most so many partitions each, and have the entries of this one together.

    A combination has one row of each frame, so one frame's rows can be taken in parts. Where two frames are scanned,
    one of them would be read again for each part of the other: such an evaluation stays whole.
    """
    scanned = [frame for frame in evaluation.frames if frame.partitions]
    if len(scanned) != 1 or len(scanned[0].partitions) <= most:
        return [evaluation]
    (frame,) = scanned
    none = frame.table.slice(0, 0)
    parts = []
    for start in range(0, len(frame.partitions), most):
        part = replace(frame, partitions=frame.partitions[start : start + most], table=none if start else frame.table)
        parts.append(replace(evaluation, frames=tuple(part if one is frame else one for one in evaluation.frames)))
    return parts


def _typed(block: JoinBlock, types: Sequence[str] | None) -> tuple[JoinBlock, tuple[str, ...] | None]:
    """The block whose items have these types. A column that is passed on with its own type keeps its text."""
    if types is None:
        return block, None
    items = []
    computed: set[ColumnRef] = set()
    for item, spark_type in zip(block.items, types, strict=True):
        expression = item.expression
        column = expression.column
        if column is None or block.carried(column).spark_type.upper() != spark_type.upper():
            computed |= expression.columns
            parts = ("CAST(", *expression.parts, f" AS {spark_type})")
            sql = f"CAST({expression.sql} AS {spark_type})"
            expression = Expression(sql, expression.columns, parts=parts if expression.parts else (sql,))
        items.append(replace(item, expression=expression))
    occurrences = tuple(_carrying(occurrence, computed) for occurrence in block.occurrences)
    return replace(block, items=tuple(items), occurrences=occurrences), tuple(types)


def _carrying(occurrence: Occurrence, computed: set[ColumnRef]) -> Occurrence:
    """The occurrence with the values, too, of columns that are computed with after all."""
    carried = []
    for one in occurrence.carried:
        if one.value is None and one.text is not None and ColumnRef(occurrence.alias, one.column.name) in computed:
            one = replace(one, value=re.sub(r"t(?=\d+_\d+$)", "v", one.text))
        carried.append(one)
    return replace(occurrence, carried=tuple(carried))


def render(evaluation: Evaluation, sources: Mapping[str, str], types: Sequence[str], few: Collection[str] = ()) -> str:
    """Spark SQL with columns c1 … cn, n and, if tagged, t.

    `sources` gives, per alias, a query that delivers the frame's columns. `types` are the Spark types of the select
    items as Spark's analysis gives them. Frames of a `few` rows are handed to every task instead of being shuffled.
    Every query in FROM has an alias: Spark reads `FROM (…) WHERE (true)` as a table called `where`.
    """
    block = evaluation.block
    query, remaining = joined(evaluation, sources, few)
    outputs = [f"{_encoded(block, i, types[i])} AS c{i + 1}" for i in range(len(block.items))]
    counting = evaluation.counting
    if evaluation.side is not None:
        outputs.append(f"'{evaluation.side}' AS c{len(block.items) + 1}")
    outputs += counts(evaluation)
    conditions = "".join(f" AND ({block.render(conjunct)})" for conjunct in remaining)
    return f"SELECT {', '.join(outputs)} FROM ({query}) x WHERE {counting.kept}{conditions}"


def counts(evaluation: Evaluation) -> list[str]:
    """What a combination counts in its sum and, if tagged, to which transaction it belongs."""
    counting = evaluation.counting
    found = [f"{counting.count} AS n" if evaluation.sign > 0 else f"-({counting.count}) AS n"]
    return found if counting.tag is None else [*found, f"CAST({counting.tag} AS INT) AS t"]


def joined(
    evaluation: Evaluation,
    sources: Mapping[str, str],
    few: Collection[str] = (),
    *,
    last: Collection[Expression] = (),
    later: Collection[Expression] = (),
) -> tuple[str, list[Expression]]:
    """The combinations with their two numbers, o and n, and the conditions that are left to be asked: those `later`,
    for which all columns are there, and those that read none. Those `last` are asked of whole combinations alone."""
    block = evaluation.block
    order = join_order(evaluation, without=last)
    remaining = list(block.conjuncts)
    placed: set[str] = set()
    query = ""
    for occurrence in order:
        placed.add(occurrence.alias)
        waiting = later if len(placed) == len(order) else [*later, *last]
        ready = [one for one in remaining if one.aliases <= placed and one.aliases and one not in waiting]
        remaining = [conjunct for conjunct in remaining if conjunct not in ready]
        conditions = " AND ".join(f"({block.render(conjunct)})" for conjunct in ready)
        columns = frame_columns(evaluation, placed, remaining)
        source = sources[occurrence.alias]
        if not query:
            where = f" WHERE {conditions}" if conditions else ""
            numbers = f"{occurrence.old} AS o, {occurrence.new} AS n"
            query = f"SELECT {''.join(f'{c}, ' for c in columns)}{numbers} FROM ({source}) x{where}"
            continue
        join = f"JOIN ({source}) y ON {conditions}" if conditions else f"CROSS JOIN ({source}) y"
        one, other = (part.format(occurrence.old, occurrence.new) for part in evaluation.counting.product)
        numbers = f"{one} AS o, {other} AS n"
        handed = "y" if occurrence.alias in few else "x" if len(placed) == 2 and placed & {*few} else ""
        hint = f"/*+ BROADCAST({handed}) */ " if handed else ""
        query = f"SELECT {hint}{''.join(f'{c}, ' for c in columns)}{numbers} FROM ({query}) x {join}"
    return query, remaining


def render_combined(
    evaluations: Mapping[int, tuple[Evaluation, Sequence[str]]],
    source: str,
    width: int,
    *,
    tagged: bool,
    place: str = "f",
) -> str:
    """The same for several evaluations at once, over combinations that are made and counted already: w, the number of
    the evaluation that a row is of, c1 … up to `width`, n and, if `tagged`, t. With each come the types of its items.
    `place` is what w is if not that number.

    `source` delivers f, that number, the columns, n and maybe t. One query that tells rows apart is planned in a
    fraction of the time that a union takes. A branch is evaluated for its own rows only, so none fails on another's.
    """
    outputs = [f"{place} AS w"]
    for item in range(width):
        texts = {
            number: _encoded(one.block, item, types[item]) if item < len(one.block.items) else "CAST(NULL AS STRING)"
            for number, (one, types) in evaluations.items()
        }
        outputs.append(f"{_of_its_own(texts)} AS c{item + 1}")
    outputs.append("n")
    if tagged:
        tags = {number: "CAST(t AS INT)" if one.tagged else "1" for number, (one, _) in evaluations.items()}
        outputs.append(f"{_of_its_own(tags)} AS t")
    conditions = {
        number: " AND ".join(f"({one.block.render(conjunct)})" for conjunct in one.block.conjuncts) or "TRUE"
        for number, (one, _) in evaluations.items()
    }
    return f"SELECT {', '.join(outputs)} FROM ({source}) x WHERE {_of_its_own(conditions)}"


def _of_its_own(texts: Mapping[int, str]) -> str:
    """What to compute for a row, by the number of the evaluation that it is of. It is found by halving, because Spark
    looks at one branch after the other, for each row and column."""
    numbers = sorted(texts)
    starts = [place for place, number in enumerate(numbers) if not place or texts[number] != texts[numbers[place - 1]]]

    def chosen(first: int, end: int) -> str:
        if end - first == 1:
            return texts[numbers[starts[first]]]
        middle = (first + end) // 2
        return f"CASE WHEN f < {numbers[starts[middle]]} THEN {chosen(first, middle)} ELSE {chosen(middle, end)} END"

    return chosen(0, len(starts))


def join_order(evaluation: Evaluation, without: Collection[Expression] = ()) -> list[Occurrence]:
    """Left-deep from the smallest changed frame along the conditions, so that no step multiplies without need."""
    conjuncts = [conjunct for conjunct in evaluation.block.conjuncts if conjunct not in without]

    def cost(frame: Frame) -> tuple[bool, bool, int, int]:
        changed = evaluation.counting.difference and not frame.scanned and frame.is_changed
        return (not changed, frame.scanned, frame.table.num_rows, frame.occurrence.index)

    waiting = [frame.occurrence for frame in sorted(evaluation.frames, key=cost)]
    order = [waiting.pop(0)]
    while waiting:
        placed = {occurrence.alias for occurrence in order}
        linked = [o for o in waiting if _linked(conjuncts, placed, o.alias, equalities=True)]
        linked = linked or [o for o in waiting if _linked(conjuncts, placed, o.alias)]
        order.append((linked or waiting)[0])
        waiting.remove(order[-1])
    return order


def _linked(conjuncts: Sequence[Expression], placed: set[str], alias: str, equalities: bool = False) -> bool:
    return any(
        alias in conjunct.aliases and conjunct.aliases & placed and (conjunct.equality is not None or not equalities)
        for conjunct in conjuncts
    )


def frame_columns(evaluation: Evaluation, placed: set[str], remaining: Sequence[Expression]) -> list[str]:
    """Frame columns of the placed occurrences that a later condition or the select list still reads."""
    block = evaluation.block
    names: dict[str, None] = {}
    for conjunct in remaining:
        for ref in sorted(conjunct.columns):
            names[block.carried(ref).value or ""] = None
    for item in block.items:
        passed = item.expression.column
        if passed is not None:
            carried = block.carried(passed)
            names[carried.text or carried.value or ""] = None
            continue
        for ref in sorted(item.expression.columns):
            names[block.carried(ref).value or ""] = None
    available = {c.name for alias in placed for c in block.by_alias[alias].frame}
    return [name for name in names if name in available]


def _encoded(block: JoinBlock, index: int, spark_type: str) -> str:
    """The item's text as PostgreSQL prints it: it may meet the same value that was captured."""
    expression = block.items[index].expression
    if expression.column is not None:
        return block.carried(expression.column).output
    return as_text(block.render(expression), spark_type)


def as_text(sql: str, spark_type: str) -> str:
    """A computed value as PostgreSQL prints it."""
    spark_type = spark_type.lower()
    if spark_type == "binary":
        return rf"'\\x' || lower(hex({sql}))"
    if spark_type == "boolean":
        return f"substr(CAST({sql} AS STRING), 1, 1)"
    if spark_type == "timestamp":
        # In UTC whatever zone the session is in; local times would be ambiguous when clocks are turned back.
        utc = f"timestampadd(MICROSECOND, unix_micros({sql}), TIMESTAMP_NTZ '1970-01-01 00:00:00')"
        return f"CAST({utc} AS STRING) || '+00'"
    return f"CAST({sql} AS STRING)"
