"""From a view's algebra to its program.

Linear operators map sums of terms to sums of terms. Every other operator becomes linear over a state, with D the set of
keys that its right side has (a step `Counted`, kept by counts of its own):

    L ⋉ R        L ⋈ D                             L ⟕ R     L ⋈ R + pad(L) − pad(L ⋈ D)
    L ▷ R        L − L ⋈ D                         δ(Q)      D of whole rows
    x NOT IN R   L − L⋈D₁ + σ(x not NULL)(L⋈D₁ − L⋈D₂ − L⋈D₃ + L⋈D₂⋈D₃)        (rule K2)
                 D₁: there is a row, D₂: there is one with y NULL, D₃: there is one with y = x

D has each key once, so these are exact for bags and for any signs. What could not be kept up by counting (float sums,
a deleted extreme) is read again for the touched groups only (rules K1, K3, K4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    OutputColumn,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    ViewDefinition,
    expressions,
)
from dyda.model.operator_state import Counted, Grouped, Kept, Rule, State
from dyda.model.types import PgType
from vm.careful import may_fail
from vm.compile_group import group
from vm.join_block import JoinBlock, join_block
from vm.linear_terms import NULL, Linear, Part, equal, product, same
from vm.program import Program, Step, Term, state_relation

__all__ = ["TypesOf", "compile_view"]

TypesOf = Callable[[int, JoinBlock], Sequence[str]]
"""types_of(step, block): the warehouse types of a block's items, as Spark's analysis gives them or the catalog has
them; asked only where a step needs to know."""

MOST_TERMS = 9
"""A sum of more terms is materialized before it is joined: each term is swept and evaluated on its own."""


def compile_view(
    view: ViewDefinition, types_of: TypesOf, plain_numeric: str = "decimal(38,18)", *, checked: bool = False
) -> Program:
    """The program of a view. `checked`: it was compiled before, and `types_of` repeats what was found then."""
    compiler = _Compiler(view, types_of, plain_numeric, checked)
    linear = compiler.query(view.tree)
    terms, types = compiler.terms(len(compiler.steps), [(linear, 0)], keyed=False)
    level = compiler.level(terms)
    last = Step(len(compiler.steps), terms, None, types, level)
    return Program(view.name, (*compiler.steps, last), compiler.revised)


@dataclass
class _Compiler:
    view: ViewDefinition
    types_of: TypesOf
    plain_numeric: str
    checked: bool
    steps: list[Step] = field(default_factory=list)
    sums: dict[tuple[Term, ...], Linear] = field(default_factory=dict)
    """What is materialized, by its terms."""
    scanned: int = 0
    revised: bool = False

    def __post_init__(self) -> None:
        self.used = frozenset(ref for expression in expressions(self.view.tree) for ref in expression.columns)

    # --- rows

    def rows(self, node: Node) -> Linear:
        """What the operator delivers, in the columns that something reads: then a sum has the same ones whether it is
        materialized or not. One column at least: rows count, too."""
        linear = self.whole_rows(node)
        columns = [ref for ref in linear.columns if ref in self.used]
        return linear.only(columns or linear.columns[:1])

    def whole_rows(self, node: Node) -> Linear:
        match node:
            case Scan():
                return Linear.scan(node)
            case Select(input=below, condition=condition):
                pushed = _pushed(below, condition)
                return self.rows(below).where([condition]) if pushed is None else self.rows(pushed)
            case Join(left=left, right=right, condition=on):
                joined = self.joined(self.rows(left), self.rows(right))
                return joined.where([on]) if on is not None else joined
            case OuterJoin():
                return self.outer(node)
            case SemiJoin():
                return self.semi(node)
            case Group():
                return group(self, node)
            case Derived(input=query, alias=alias):
                linear = self.query(query)
                return linear.renamed([ColumnRef(alias, column.column) for column in linear.columns])
            case Project() | Distinct() | SetOperation():
                raise ValueError(f"{type(node).__name__} is below another operator without an alias")
            case _:
                assert_never(node)

    def joined(self, left: Linear, right: Linear) -> Linear:
        """The cross join; a side of too many terms is materialized first."""
        while len(left.parts) * len(right.parts) > MOST_TERMS:
            if len(left.parts) >= len(right.parts):
                left = self.keep(left)
            else:
                right = self.keep(right)
        return product(left, right)

    def outer(self, node: OuterJoin) -> Linear:
        left, right = self.rows(node.left), self.rows(node.right)
        left, right = self.few(left), self.few(right)
        whole = product(left, right).where(node.conditions)
        if node.kind in ("left", "full"):
            matched = self.matched(left, right, node.conditions)
            whole = whole + (left - matched).padded(right.columns, self.null(right))
        if node.kind in ("right", "full"):
            matched = self.matched(right, left, node.conditions)
            whole = whole + (right - matched).padded(left.columns, self.null(left))
        return whole

    def few(self, linear: Linear) -> Linear:
        """Both sides of an outer join are in several terms: more than three on one side would multiply."""
        return self.keep(linear) if len(linear.parts) > 3 else linear

    def null(self, linear: Linear) -> Callable[[ColumnRef], Expression]:
        """NULL of the type that a column has, where that is known without asking."""
        relations = {scan.alias: scan.relation for part in linear.parts for scan in part.scans}

        def typed(ref: ColumnRef) -> Expression:
            column = next((p.outputs[ref].column for p in linear.parts if p.outputs[ref].column is not None), None)
            if column is None:
                return NULL
            computation = relations[column.alias].column(column.column).type.computation(self.plain_numeric)
            if computation is None:
                return NULL
            text = f"CAST(NULL AS {computation.spark_type})"
            return Expression(text, frozenset(), parts=(text,))

        return typed

    def semi(self, node: SemiJoin) -> Linear:
        left, right = self.rows(node.left), self.rows(node.right)
        if node.membership is not None:
            return self.not_in(left, right, node.conditions, *node.membership)
        matched = self.matched(left, right, node.conditions)
        if not node.anti:
            return matched
        # What was materialized to be matched is materialized here, too: only terms over the same occurrences can be
        # added up before what may fail is computed (vm.careful).
        return (self.keep(left) if len(left.parts) > MOST_TERMS else left) - matched

    def not_in(
        self, left: Linear, right: Linear, conditions: tuple[Expression, ...], x: Expression, y: Expression
    ) -> Linear:
        """K2. A row without any right row stays; beyond that x must be known, as must every y, and none be x."""
        left = self.few(left)
        any_row = self.matched(left, right, conditions)
        unknown = self.matched(left, right, (*conditions, _is_null(y)))
        there = self.matched(left, right, (*conditions, _equals(x, y)))
        both = self.matched(unknown, right, (*conditions, _equals(x, y)))
        known = (any_row - unknown - there + both).where([_is_not_null(x)])
        return left - any_row + known

    def matched(self, left: Linear, right: Linear, conditions: Sequence[Expression]) -> Linear:
        """L ⋉ R: the rows of the left that have a match, each as often as it is there."""
        ours, theirs = set(left.columns), set(right.columns)
        mine = [one for one in conditions if not one.columns & theirs]
        local = [one for one in conditions if one.columns and one.columns <= theirs]
        mixed = [one for one in conditions if one not in mine and one not in local]
        pairs: dict[ColumnRef, list[ColumnRef]] = {}
        rest = []
        for condition in mixed:
            if condition.equality is None:
                rest.append(condition)
                continue
            one, other = condition.equality
            one, other = (one, other) if one in ours else (other, one)
            pairs.setdefault(other, []).append(one)
        if not rest:
            keys = list(pairs)
            found = self.counted([(self.some(right.where(local), keys), 0)], "distinct", _asked(keys, conditions))
            joined = self.joined(left, found)
            on = [equal(one, place) for key, place in zip(keys, found.columns, strict=False) for one in pairs[key]]
        else:
            # Any other condition: the left's columns that it reads, of those left rows that have a match.
            # In the order in which they are written: a rename must not put the columns of a state into another order.
            written = (part for condition in mixed for part in condition.parts if not isinstance(part, str))
            keys = list(dict.fromkeys(ref for ref in written if ref in ours))
            asking = _only_with(left, keys)
            if asking is not None and any(map(may_fail, mixed)):
                asking, self.revised = None, True
            asking = asking or left.where(mine)
            both = self.joined(asking, right.where(local)).where(mixed)
            found = self.counted([(self.some(both, keys), 0)], "distinct", _asked(keys, conditions))
            joined = self.joined(left, found)
            never_null = {ref for ones in pairs.values() for ref in ones}
            places = zip(keys, found.columns, strict=True)
            on = [(equal if key in never_null else same)(key, place) for key, place in places]
        return joined.where([*mine, *on]).only(left.columns)

    def some(self, linear: Linear, keys: Sequence[ColumnRef]) -> Linear:
        """These columns; a constant if there are none, so that there is something to count."""
        if keys:
            return linear.only(keys)
        return linear.project([(ColumnRef("", "exists"), Expression("1", frozenset(), parts=("1",)))])

    # --- queries

    def query(self, node: Query) -> Linear:
        match node:
            case Project(input=below, items=items):
                return self.rows(below).project([(ColumnRef("", item.name), item.expression) for item in items])
            case Distinct(input=below):
                linear = self.query(below)
                return self.counted([(linear, 0)], "distinct", "DISTINCT").renamed(linear.columns)
            case SetOperation(kind=kind, all=every, left=left, right=right):
                one, other = self.query(left), self.query(right)
                other = other.renamed(one.columns)
                self.require_same(one, other)
                if kind == "union" and every:
                    return one + other
                rule: Rule = "union" if kind == "union" else f"{kind} all" if every else kind  # type: ignore[assignment]
                name = f"{kind} {'all' if every else ''}".strip().upper()
                return self.counted([(one, 0), (other, 1)], rule, name).renamed(one.columns)
            case _:
                assert_never(node)

    # --- steps

    def counted(self, sides: Sequence[tuple[Linear, int]], rule: Rule, purpose: str) -> Linear:
        """The rows of a set operation, from a step of its own; without `key`."""
        number = len(self.steps)
        terms, _ = self.terms(number, sides, keyed=True)
        types = self.entry_types(terms)
        return self.step(terms, Counted(types, rule), types, purpose, skip=1)

    def grouped(self, linear: Linear, build: Callable[[Sequence[str]], Grouped], purpose: str) -> Linear:
        """The state rows of a grouping: columns key, k1 …, rows, a1 …"""
        number = len(self.steps)
        terms, _ = self.terms(number, [(linear, 0)], keyed=True)
        types = self.entry_types(terms)
        return self.step(terms, build(types), types, purpose)

    def keep(self, linear: Linear) -> Linear:
        """The sum itself, materialized; the same sum is the same occurrence, as it is otherwise."""
        terms, _ = self.terms(len(self.steps), [(linear, 0)], keyed=False)
        if terms not in self.sums:
            types = self.entry_types(terms)
            self.sums[terms] = self.step(terms, Kept(types), types, "intermediate result")
        return self.sums[terms].renamed(linear.columns)

    def entry_types(self, terms: tuple[Term, ...]) -> tuple[str, ...]:
        """The types of a new step's entries; those of an earlier one, if it has the same."""
        for step in self.steps:
            if step.terms == terms and step.state is not None:
                return step.state.entries
        return tuple(self.types_of(len(self.steps), terms[0].block))

    def step(self, terms: tuple[Term, ...], state: State, types: Sequence[str], purpose: str, skip: int = 0) -> Linear:
        made = Step(len(self.steps), terms, state, _spark_types(types, self.plain_numeric), self.level(terms), purpose)
        for step in self.steps:
            if (step.terms, step.state) == (made.terms, made.state):
                return self.scan(step.number, skip)
        self.steps.append(made)
        return self.scan(made.number, skip)

    def scan(self, number: int, skip: int = 0) -> Linear:
        """An occurrence of a state."""
        state = self.steps[number].state
        assert state is not None
        self.scanned += 1
        scan = Scan(f"#{number}.{self.scanned}", state_relation(self.view.name, number, state))
        return Linear.scan(scan).only(scan.columns[skip:])

    def level(self, terms: Sequence[Term]) -> int:
        return 1 + max((self.steps[number].level for term in terms for number in term.states), default=-1)

    def terms(
        self, number: int, sides: Sequence[tuple[Linear, int]], *, keyed: bool
    ) -> tuple[tuple[Term, ...], tuple[str, ...] | None]:
        """The sum's blocks. Items are compared by value where the step is keyed, or where terms disagree on how a
        column travels; then all terms give it the type that it has in the first one."""
        pairs = [(part, side, linear.columns) for linear, side in sides for part in linear.parts]
        width = len(pairs[0][2])
        shown = [[part.outputs[columns[i]] for i in range(width)] for part, _, columns in pairs]
        values = [keyed or not _passed_alike(pairs, shown, i) for i in range(width)]
        terms = []
        for (part, side, _), outputs in zip(pairs, shown, strict=True):
            items = [
                OutputColumn(f"c{i + 1}", _by_value(output) if values[i] else output)
                for i, output in enumerate(outputs)
            ]
            block = join_block(self.view.name, self.view.sql, part.scans, part.conjuncts, items, self.plain_numeric)
            terms.append(Term(block, part.sign, side, tuple(output.column for output in outputs)))
        types = None
        if len(terms) > 1 and any(values):
            types = _spark_types(self.types_of(number, terms[0].block), self.plain_numeric)
        return tuple(terms), types

    def require_same(self, left: Linear, right: Linear) -> None:
        """Spark would widen the types of a set operation's sides; what is widened is not what was written."""
        if self.checked:
            return
        types = []
        for linear in (left, right):
            first = Linear(linear.columns, linear.parts[:1])
            terms, _ = self.terms(len(self.steps), [(first, 0)], keyed=False)
            types.append(self.types_of(len(self.steps), terms[0].block))
        for column, one, other in zip(left.columns, *types, strict=True):
            if _spark_types([one], self.plain_numeric) != _spark_types([other], self.plain_numeric):
                raise UnsupportedSql(
                    self.view.name,
                    f"the sides of a set operation have the types {one} and {other} in column {column.column}",
                    "Cast both sides to the same type: CAST(… AS …).",
                )


def _pushed(node: Node, condition: Expression) -> Node | None:
    """The operator with a condition on its left side alone applied there: what is compared or counted gets less, and
    the condition joins where it belongs. None if it has to stay above."""
    match node:
        case SemiJoin(left=left):
            return replace(node, left=Select(left, condition))
        case OuterJoin(left=left, kind="left") if condition.columns <= set(left.columns):
            return replace(node, left=Select(left, condition))
        case OuterJoin(right=right, kind="right") if condition.columns <= set(right.columns):
            return replace(node, right=Select(right, condition))
    return None


def _only_with(linear: Linear, keys: Sequence[ColumnRef]) -> Linear | None:
    """The occurrences that these columns come from, without the others: a superset of the values that are there, which
    is as good for asking which of them have a match, unless that may fail for those that are not. Only of a single
    term: signs would not cancel any more."""
    if len(linear.parts) != 1 or linear.parts[0].sign != 1:
        return None
    (part,) = linear.parts
    needed = {alias for key in keys for alias in part.outputs[key].aliases}
    scans = tuple(scan for scan in part.scans if scan.alias in needed)
    if not scans or len(scans) == len(part.scans):
        return None
    own = tuple(conjunct for conjunct in part.conjuncts if conjunct.aliases and conjunct.aliases <= needed)
    return Linear(tuple(keys), (Part(scans, own, {key: part.outputs[key] for key in keys}),))


def _passed_alike(pairs: Sequence[tuple[Part, int, object]], shown: Sequence[Sequence[Expression]], i: int) -> bool:
    """Whether every term passes on a column of one and the same type there, or NULL."""
    types: set[PgType] = set()
    for (part, _, _), outputs in zip(pairs, shown, strict=True):
        column = outputs[i].column
        if column is None:
            if outputs[i].columns or not outputs[i].sql.upper().startswith(("NULL", "CAST(NULL AS")):
                return len(pairs) == 1
            continue
        scan = next(scan for scan in part.scans if scan.alias == column.alias)
        types.add(scan.relation.column(column.column).type)
    return len(types) == 1


def _by_value(expression: Expression) -> Expression:
    """The same, as something that is computed: by its value and not by its text."""
    if expression.column is None:
        return expression
    return Expression(expression.sql, expression.columns, None, None, expression.parts)


def _spark_types(types: Sequence[str], plain_numeric: str) -> tuple[str, ...]:
    found = []
    for column in state_relation("", 0, Kept(tuple(types))).columns:
        computation = column.type.computation(plain_numeric)
        found.append(computation.spark_type if computation is not None else "STRING")
    return tuple(found)


def _asked(keys: Sequence[ColumnRef], conditions: Sequence[Expression]) -> str:
    return f"what has a match: {' AND '.join(condition.sql for condition in conditions) or 'any row'}"


def _is_null(expression: Expression) -> Expression:
    return _around(expression, "(", ") IS NULL")


def _is_not_null(expression: Expression) -> Expression:
    return _around(expression, "(", ") IS NOT NULL")


def _around(expression: Expression, before: str, after: str) -> Expression:
    parts = (before, *expression.parts, after)
    return Expression("".join(map(str, parts)), expression.columns, parts=parts)


def _equals(x: Expression, y: Expression) -> Expression:
    if x.column is not None and y.column is not None:
        return equal(x.column, y.column)
    parts = ("(", *x.parts, ") = (", *y.parts, ")")
    return Expression("".join(map(str, parts)), x.columns | y.columns, parts=parts)
