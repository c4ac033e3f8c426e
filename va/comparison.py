"""Two forms of a view compared: what stays, what is lost, what is new. All in the names of the new form.

Occurrences are the same if their table is (by oid), columns if number and type are, whatever they are called; a column
that was dropped and added again is a new one. A replacement (paper 001, Equation 3) equates one occurrence with another
table's, column by column.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property

from dyda.model.algebra.nodes import ColumnRef, Expression, Scan, ViewDefinition, conjuncts, scans
from dyda.model.relation import Relation

__all__ = ["Comparison", "find_replacement", "meaning"]

LOST = "#lost"

QUOTED = re.compile(r"""'(\\.|[^'\\])*'|"(\\.|[^"\\])*"|`[^`]*`""", re.DOTALL)


@dataclass(frozen=True)
class Replacement:
    """The occurrence `old` is replaced by `new`; `columns` of the one by columns of the other."""

    old: str
    new: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """`before` and `after`; `replacement` says which columns of the one count as columns of the other."""

    before: ViewDefinition
    after: ViewDefinition
    replacement: Replacement | None = None

    @cached_property
    def old(self) -> dict[str, Scan]:
        return {scan.alias: scan for scan in scans(self.before.tree)}

    @cached_property
    def new(self) -> dict[str, Scan]:
        return {scan.alias: scan for scan in scans(self.after.tree)}

    @cached_property
    def kept(self) -> dict[str, str]:
        """Occurrences that stay: the alias before, the alias after. By alias first, then by table."""
        found: dict[str, str] = {}
        free = dict(self.new)
        for by_alias in (True, False):
            for alias, scan in self.old.items():
                same = [
                    other.alias
                    for other in free.values()
                    if _identity(other.relation) == _identity(scan.relation) and (other.alias == alias or not by_alias)
                ]
                if alias not in found and same:
                    found[alias] = same[0]
                    del free[same[0]]
        return found

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """Occurrences that are gone and not replaced, by their alias before."""
        replaced = {self.replacement.old} if self.replacement else set()
        return tuple(alias for alias in self.old if alias not in self.kept and alias not in replaced)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Occurrences that are new and replace nothing, by their alias after."""
        taken = {*self.kept.values(), *([self.replacement.new] if self.replacement else ())}
        return tuple(alias for alias in self.new if alias not in taken)

    def column(self, ref: ColumnRef) -> ColumnRef | None:
        """What a column of `before` is in `after`; None if it is gone, or of another type."""
        if self.replacement is not None and ref.alias == self.replacement.old:
            there = self.replacement.columns.get(ref.column)
            return None if there is None else ColumnRef(self.replacement.new, there)
        if ref.alias not in self.kept:
            return None
        before, after = self.old[ref.alias].relation, self.new[self.kept[ref.alias]].relation
        name = after.called(ref.column, before)
        if name is None or after.column(name).type != before.column(ref.column).type:
            return None
        return ColumnRef(self.kept[ref.alias], name)

    def translated(self, expression: Expression) -> Expression:
        """An expression of `before` in the names of `after`; a lost column becomes LOST, which equals nothing."""
        return expression.over(lambda ref: self.column(ref) or ColumnRef(LOST, f"{ref.alias}.{ref.column}"))

    @cached_property
    def items(self) -> tuple[int | None, ...]:
        """For each output column of `after`, the place of an equal one of `before`."""
        places: dict[Hashable, int] = {}
        for place, item in enumerate(self.before.select.items):
            places.setdefault(meaning(self.translated(item.expression)), place)
        return tuple(places.get(meaning(item.expression)) for item in self.after.select.items)

    @cached_property
    def lost_conditions(self) -> tuple[Expression, ...]:
        """Conditions of `before` that `after` does not make, in the names of `after`."""
        now = {meaning(condition) for condition in conjuncts(self.after.tree)}
        then = [self.translated(condition) for condition in conjuncts(self.before.tree)]
        return tuple(condition for condition in then if meaning(condition) not in now)

    @cached_property
    def added_conditions(self) -> tuple[Expression, ...]:
        """Conditions of `after` that `before` does not make."""
        then = {meaning(self.translated(condition)) for condition in conjuncts(self.before.tree)}
        return tuple(condition for condition in conjuncts(self.after.tree) if meaning(condition) not in then)


def meaning(expression: Expression) -> Hashable:
    """Equal for equivalent expressions: the sides of an equality may be swapped, outer parentheses do not count."""
    if expression.column is not None:
        return expression.column
    if expression.equality is not None:
        return frozenset(expression.equality)
    return _bare(expression.sql)


def find_replacement(before: ViewDefinition, after: ViewDefinition) -> Replacement | None:
    """How the only lost occurrence was replaced: every condition on it is now one on the other."""
    plain = Comparison(before, after)
    if len(plain.lost) != 1:
        return None
    for alias in plain.added:
        columns = _bindings(plain, plain.lost[0], alias)
        if columns is not None:
            return Replacement(plain.lost[0], alias, columns)
    return None


def _bindings(plain: Comparison, old: str, new: str) -> dict[str, str] | None:
    """The column of `new` that replaces each column of `old`; None if a condition has no counterpart."""
    bound: dict[str, str] = {}
    for condition in conjuncts(plain.before.tree):
        if old not in condition.aliases:
            continue
        for other in conjuncts(plain.after.tree):
            more = _bound(plain, condition, other, old, new, bound)
            if more is not None:
                bound = more
                break
        else:
            return None
    named = {item.name: item for item in plain.after.select.items}
    for item in plain.before.select.items:
        if old in item.expression.aliases and item.name in named:
            bound = _bound(plain, item.expression, named[item.name].expression, old, new, bound) or bound
    used = {ref.column for ref in plain.after.columns if ref.alias == new}
    if not used or not used <= set(bound.values()):
        return None
    return bound


def _bound(
    plain: Comparison, one: Expression, other: Expression, old: str, new: str, bound: Mapping[str, str]
) -> dict[str, str] | None:
    """`bound`, and what makes the two expressions the same; None if nothing does."""
    pairs: list[list[tuple[ColumnRef, ColumnRef]]] = []
    if one.equality is not None and other.equality is not None:
        left, right = one.equality
        pairs = [
            list(zip((left, right), other.equality, strict=True)),
            list(zip((right, left), other.equality, strict=True)),
        ]
    elif _shape(one) == _shape(other):
        mine = [part for part in one.parts if isinstance(part, ColumnRef)]
        theirs = [part for part in other.parts if isinstance(part, ColumnRef)]
        pairs = [list(zip(mine, theirs, strict=True))]
    for attempt in pairs:
        found = dict(bound)
        for ref, counterpart in attempt:
            if ref.alias != old:
                if plain.column(ref) != counterpart:
                    break
                continue
            if counterpart.alias != new or found.get(ref.column, counterpart.column) != counterpart.column:
                break
            if not _comparable(plain, ref, counterpart):
                break
            found[ref.column] = counterpart.column
        else:
            if len(set(found.values())) == len(found):
                return found
    return None


def _comparable(plain: Comparison, ref: ColumnRef, counterpart: ColumnRef) -> bool:
    """Whether values of the one, as text, are values of the other and compute alike on Spark."""
    one = plain.old[ref.alias].relation.column(ref.column).type
    other = plain.new[counterpart.alias].relation.column(counterpart.column).type
    return one == other or one.prints_like(other)


def _shape(expression: Expression) -> str:
    return _bare("".join(part if isinstance(part, str) else "?" for part in expression.parts))


def _identity(relation: Relation) -> tuple[str, int]:
    return relation.name.source, relation.oid


def _bare(text: str) -> str:
    """The text without blanks and brackets around the whole of it."""
    text = text.strip()
    while text.startswith("(") and _closes_at_end(text):
        text = text[1:-1].strip()
    return text


def _closes_at_end(text: str) -> bool:
    """Whether the bracket that opens the text is closed by its last character. Brackets in quoted text do not count."""
    depth = 0
    for place, character in enumerate(QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text), start=1):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return place == len(text)
    return False
