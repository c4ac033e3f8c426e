"""A sum of signed terms, computed so that nothing is evaluated for rows that its terms take from each other.

    L ⟕ R  =  L ⋈ R  +  pad(L)  −  pad(L ⋈ D)        pad(L) has the rows that have a match, too, until D takes them away

    terms without what may fail ─▶ added up ─▶ a condition that may fail ─▶ added up ─▶ … ─▶ the select list

Terms with the same conditions and columns are added up before anything that may fail is computed: the rows left are
those of the query itself, now or before the change, and only those may be blamed for an error. This is slower than
evaluating every term by itself, so it is done after that has failed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dyda.model.algebra.nodes import ColumnRef, Expression
from vm.evaluation import Evaluation, as_text, counts, joined
from vm.join_block import JoinBlock

__all__ = ["helps", "may_fail", "render_sum"]

FLOATS = ("FLOAT", "DOUBLE")

SURE = re.compile(
    r"(?i)(AND|OR|NOT|IS|NULL|TRUE|FALSE|DISTINCT|FROM|IN|BETWEEN|LIKE|ESCAPE|COALESCE|NULLIF|CASE|WHEN|THEN|ELSE|END"
    r"|DATE|TIMESTAMP|UPPER|LOWER)"
)
"""Words of an expression that fails for no value."""


@lru_cache(maxsize=4096)
def may_fail(expression: Expression) -> bool:
    """Whether computing it may fail for some value: anything but comparisons of columns and constants is suspected."""
    if expression.equality is not None or expression.column is not None:
        return False
    text = " ".join(part for part in expression.parts if isinstance(part, str)) if expression.parts else expression.sql
    text = re.sub(r"(?i)CAST\(NULL AS \w+(\([\d, ]*\))?\)", " ", text)
    text = re.sub(r"""'(\\.|[^'\\])*'|"(\\.|[^"\\])*\"""", " ", text)
    words = re.findall(r"[^\W\d]\w*", text)
    return not all(map(SURE.fullmatch, words)) or bool(re.search(r"[-+*/%|&^~`]", text))


def helps(evaluations: Collection[Evaluation]) -> bool:
    """Whether terms may have rows that the view has not: they are subtracted by another term or by what is pending,
    or a condition is checked before they are joined."""
    return any(
        one.sign < 0
        or any(frame.partitions and frame.table.num_rows for frame in one.frames)
        or (len(one.frames) > 1 and any(map(may_fail, one.block.conjuncts)))
        for one in evaluations
    )


@dataclass(frozen=True)
class _Rest:
    """What is still to be computed for rows that are added up; terms of which it is the same may cancel out."""

    later: tuple[Expression, ...]
    items: tuple[Expression, ...]
    side: int | None

    @property
    def values(self) -> list[ColumnRef]:
        """The columns that are computed with."""
        computed = [*self.later, *(item for item in self.items if item.column is None)]
        return sorted({ref for expression in computed for ref in expression.columns})

    @property
    def passed(self) -> list[ColumnRef]:
        return sorted({item.column for item in self.items if item.column is not None})


class _Names:
    """What the columns are called; no lambda variable of the view's may be called like one of them."""

    def __init__(self, rests: Iterable[_Rest]) -> None:
        text = " ".join(expression.sql for rest in rests for expression in (*rest.later, *rest.items))
        self._prefix = ""
        while re.search(self._prefix + r"[bp]\d+", text):
            self._prefix += "_"
        self._numbers: dict[ColumnRef, int] = {}

    def value(self, ref: ColumnRef) -> str:
        return f"{self._prefix}b{self._numbers.setdefault(ref, len(self._numbers))}"

    def text(self, ref: ColumnRef) -> str:
        return f"{self._prefix}p{self._numbers.setdefault(ref, len(self._numbers))}"

    def of(self, rest: _Rest) -> list[str]:
        return [*map(self.value, rest.values), *map(self.text, rest.passed)]


def render_sum(
    evaluations: Sequence[Evaluation],
    sources: Sequence[Mapping[str, str]],
    types: Sequence[Sequence[str]],
    *,
    large: bool = False,
) -> str:
    """Spark SQL for the sum, with the columns of `render`; of each term what `render` takes. The session must not fold
    constants, nor push a condition down."""
    waiting = [_rest(evaluation) for evaluation in evaluations]
    names = _Names(waiting)
    tag = ["t"] if evaluations[0].tagged else []
    kinds = {
        ref: one.block.carried(ref).spark_type
        for one, rest in zip(evaluations, waiting, strict=True)
        for ref in rest.values
    }
    sums: dict[_Rest, list[str]] = {}
    typed: dict[tuple[Expression, ...], Sequence[str]] = {}
    for evaluation, source, rest, kind in zip(evaluations, sources, waiting, types, strict=True):
        few = evaluation.few if large else ()
        sums.setdefault(rest, []).append(_term(evaluation, source, rest, names, few))
        typed.setdefault(rest.items, kind)
    while asked := max((rest for rest in sums if rest.later), key=lambda rest: len(rest.later), default=None):
        added = _added_up(asked, sums.pop(asked), names, tag, kinds)
        condition, *later = asked.later
        rest = _Rest(tuple(later), asked.items, asked.side)
        columns = ", ".join([*names.of(rest), "n", *tag])
        sums.setdefault(rest, []).append(f"SELECT {columns} FROM ({added}) x WHERE ({condition.rendered(names.value)})")
    return " UNION ALL ".join(
        _selected(rest, _added_up(rest, queries, names, tag, kinds), typed[rest.items], names, tag)
        for rest, queries in sums.items()
    )


def _rest(evaluation: Evaluation) -> _Rest:
    block = evaluation.block
    return _Rest(_deferred(block), tuple(item.expression for item in block.items), evaluation.side)


def _deferred(block: JoinBlock) -> tuple[Expression, ...]:
    """The conditions that may fail, save those without which nothing would connect two of the occurrences: their cross
    product may be beyond all bounds."""
    together = {occurrence.alias: {occurrence.alias} for occurrence in block.occurrences}

    def connect(conjunct: Expression) -> bool:
        united = set().union(*(together[alias] for alias in conjunct.aliases))
        new = any(together[alias] != united for alias in conjunct.aliases)
        together.update(dict.fromkeys(united, united))
        return new

    for conjunct in block.conjuncts:
        if not may_fail(conjunct):
            connect(conjunct)
    return tuple(one for one in block.conjuncts if may_fail(one) and not connect(one))


def _term(evaluation: Evaluation, sources: Mapping[str, str], rest: _Rest, names: _Names, few: Collection[str]) -> str:
    """The term's rows in the columns that are still needed, and what they count."""
    block = evaluation.block
    last = [one for one in block.conjuncts if may_fail(one) and one not in rest.later]
    query, remaining = joined(evaluation, sources, few, last=last, later=rest.later)
    columns = [f"{block.carried(ref).value} AS {names.value(ref)}" for ref in rest.values]
    columns += [f"{block.carried(ref).output} AS {names.text(ref)}" for ref in rest.passed]
    now = "".join(f" AND ({block.render(one)})" for one in remaining if one not in rest.later)
    listed = ", ".join([*columns, *counts(evaluation)])
    return f"SELECT {listed} FROM ({query}) x WHERE {evaluation.counting.kept}{now}"


def _added_up(
    rest: _Rest, queries: Sequence[str], names: _Names, tag: Sequence[str], kinds: Mapping[ColumnRef, str]
) -> str:
    """Each row once, and none that counts nothing. Spark takes 0.0 and -0.0 for one key, which they are not."""
    floats = {names.value(ref) for ref in rest.values if kinds[ref].upper() in FLOATS}
    columns = names.of(rest)
    listed = [f"first({name}) AS {name}" if name in floats else name for name in columns]
    keys = [f"CAST({name} AS STRING)" if name in floats else name for name in columns] + [*tag]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    union = " UNION ALL ".join(queries)
    return f"SELECT {', '.join([*listed, 'sum(n) AS n', *tag])} FROM ({union}){grouped} HAVING sum(n) <> 0"


def _selected(rest: _Rest, query: str, types: Sequence[str], names: _Names, tag: Sequence[str]) -> str:
    outputs = [
        names.text(item.column) if item.column is not None else as_text(item.rendered(names.value), types[place])
        for place, item in enumerate(rest.items)
    ]
    if rest.side is not None:
        outputs.append(f"'{rest.side}'")
    listed = [f"{output} AS c{place}" for place, output in enumerate(outputs, start=1)]
    return f"SELECT {', '.join([*listed, 'n', *tag])} FROM ({query})"
