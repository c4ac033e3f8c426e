"""Random views of every operator, nested, in a core of SQL that Spark and PostgreSQL read alike.

The core, and how it keeps out of what the two understand differently:

    integers    columns, +, coalesce, CASE, length; sum is bigint here and numeric there, and prints the same
    decimals    always cast to a scale: two digits ("num"), six digits ("six": averages and variances of exact numbers)
    floats      every value is a small multiple of a quarter, NaN or infinite, so that a sum is exact in any order
                ("float"); an average is passed on, compared, made distinct, never computed with ("quotient")
    texts       upper, ||, coalesce, cast of an integer; sorted by code point on both sides
    booleans    comparisons, IS NULL, bool_and, bool_or
    outside     division (but in avg), casts that round, variances of floats, texts as numbers, FULL JOIN without an
                equality (PostgreSQL cannot), LEFT SEMI JOIN (it has no such words)

What remains is spelled differently in two places only: `double` and `string`. See `for_postgres`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hypothesis import strategies as st

__all__ = ["BATCHES", "COLUMNS", "ROWS", "TABLES", "Batch", "Change", "View", "for_postgres", "several_views"]

TABLES = (("one", "r"), ("one", "s"), ("two", "u"))
COLUMNS = {"id": "int", "k": "int", "t": "text", "n": "numeric(6,2)", "f": "double precision", "b": "boolean"}
KINDS = {"id": "int", "k": "int", "t": "text", "n": "num", "f": "float", "b": "bool"}
CONSTANTS = {
    "int": "cast(1 AS int)",
    "num": "cast(1 AS decimal(12,2))",
    "six": "cast(1 AS decimal(20,6))",
    "text": "'x'",
    "float": "cast(1 AS double)",
    "quotient": "cast(1 AS double)",
    "bool": "true",
}
COMPARED = {"int": "1", "num": "1", "six": "1", "text": "'a'", "float": "1", "quotient": "1", "bool": "true"}

UNIFORM = {
    "int": "cast({0} AS bigint)",
    "num": "cast({0} AS decimal(12,2))",
    "six": "cast({0} AS decimal(20,6))",
    "text": "{0}",
    "float": "{0}",
    "quotient": "{0}",
    "bool": "{0}",
}
"""By kind, what makes its expressions of one type."""

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Expressions (or names) with their kinds."""


@dataclass(frozen=True)
class View:
    """One view: its file's text, and what it delivers."""

    name: str
    text: str
    columns: Columns


def for_postgres(text: str, below: Mapping[str, str]) -> str:
    """The view in PostgreSQL's words, with the views it reads (`below`, name to PostgreSQL's text) in their place."""
    text = re.sub(r"\bAS double\)", "AS double precision)", text)
    text = re.sub(r"\bAS string\)", "AS text)", text)
    return re.sub(r"(?<=FROM |JOIN )(v\d+)\b", lambda found: f"({below[found[1]]})", text)


@dataclass
class Drawing:
    """One view while it is being drawn: names are used once, and its size is limited."""

    draw: st.DrawFn
    views: Sequence[View]
    common: list[tuple[str, Columns]] = field(default_factory=list)
    named: int = 0
    left: int = 6
    """Occurrences of relations that the view may still have."""

    def name(self, letter: str) -> str:
        self.named += 1
        return f"{letter}{self.named}"

    def one_of(self, choices: Iterable[Any]) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def maybe(self, one_in: int = 2) -> bool:
        return bool(self.draw(st.integers(1, one_in)) == one_in)


@st.composite
def several_views(draw: st.DrawFn, count: int) -> list[View]:
    """Views of which later ones may read earlier ones."""
    views: list[View] = []
    for number in range(count):
        drawing = Drawing(draw, views)
        with_ = ""
        if drawing.maybe(4):
            text, columns = query(drawing, 1)
            name = drawing.name("w")
            with_ = f"WITH {name} AS ({text}) "
            drawing.common.append((name, columns))
        text, columns = query(drawing, draw(st.integers(1, 3)))
        used = any(re.search(rf"\b{name}\b", text) for name, _ in drawing.common)
        views.append(View(f"v{number}", with_ + text if used else text, columns))
    return views


def query(drawing: Drawing, depth: int, kinds: Sequence[str] | None = None) -> tuple[str, Columns]:
    """A query with columns c0, c1, …; of these kinds and then of exactly their types, if they are given."""
    if depth > 0 and drawing.left > 1 and drawing.maybe(4):
        operation = drawing.one_of(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
        kinds = kinds or [drawing.one_of(UNIFORM) for _ in range(drawing.draw(st.integers(1, 3)))]
        left, columns = query(drawing, depth - 1, kinds)
        right, _ = query(drawing, depth - 1, kinds)
        return f"({left}) {operation} ({right})", columns
    from_, scope = joined(drawing, depth)
    where = _conditions(drawing, scope, depth)
    if drawing.maybe(3):
        return _grouped(drawing, f"FROM {from_}{where}", scope, kinds)
    wanted = kinds or [drawing.one_of([kind for _, kind in scope]) for _ in range(drawing.draw(st.integers(1, 3)))]
    items = [_expression(drawing, scope, kind) for kind in wanted]
    if kinds is None and depth > 0 and drawing.left > 0 and drawing.maybe(6):
        item, kind = _scalar(drawing, scope, depth)
        items, wanted = [*items, item], [*wanted, kind]
    distinct = "DISTINCT " if drawing.maybe(4) else ""
    if kinds is not None:
        items = _uniform(items, kinds)
    return f"SELECT {distinct}{_select(items)} FROM {from_}{where}", _named(wanted)


def _uniform(items: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """A view of two sides whose types differ is refused, since Spark would widen them: int and bigint, …"""
    return [UNIFORM[kind].format(item) for item, kind in zip(items, kinds, strict=True)]


def _select(items: Sequence[str]) -> str:
    return ", ".join(f"{item} AS c{place}" for place, item in enumerate(items))


def _named(kinds: Sequence[str]) -> Columns:
    return tuple((f"c{place}", kind) for place, kind in enumerate(kinds))


def relation(drawing: Drawing, depth: int) -> tuple[str, Columns]:
    """An item of FROM under an alias of its own, and the columns that it brings into scope."""
    drawing.left -= 1
    forms = ["table"] * 3 + ["derived"] * (2 if depth > 0 and drawing.left > 0 else 0)
    forms += ["common"] * 3 * bool(drawing.common) + ["view"] * bool(drawing.views)
    alias = drawing.name("a")
    match drawing.one_of(forms):
        case "table":
            source, table = drawing.one_of(TABLES)
            text, columns = f"{source}.{table}", tuple(KINDS.items())
        case "derived":
            text, columns = query(drawing, depth - 1)
            text = f"({text})"
        case "common":
            text, columns = drawing.one_of(drawing.common)
        case _:
            view = drawing.one_of(drawing.views)
            text, columns = view.name, view.columns
    return f"{text} {alias}", tuple((f"{alias}.{name}", kind) for name, kind in columns)


def joined(drawing: Drawing, depth: int) -> tuple[str, Columns]:
    """One relation, or a join of two or three in every way there is."""
    text, scope = relation(drawing, depth)
    for _ in range(drawing.one_of([0, 0, 1, 1, 2])):
        if drawing.left <= 0:
            break
        right, columns = relation(drawing, depth)
        equality = _pair(drawing, scope, columns, "=")
        kind = drawing.one_of(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN"])
        if equality is None or kind == "CROSS JOIN":
            text, scope = f"{text} CROSS JOIN {right}", scope + columns
            continue
        on = [equality]
        if kind != "FULL JOIN" and drawing.maybe(4):
            on.append(_pair(drawing, scope, columns, "<") or equality)
        if kind != "FULL JOIN" and drawing.maybe(4):
            on.append(_filter(drawing, drawing.one_of([scope, columns])))
        text, scope = f"{text} {kind} {right} ON {' AND '.join(on)}", scope + columns
    return text, scope


def _pair(drawing: Drawing, left: Columns, right: Columns, sign: str) -> str | None:
    """A comparison of a column of each side, of one kind, mostly an integer; None if they have none in common."""
    common = sorted({kind for _, kind in left} & {kind for _, kind in right})
    if not common:
        return None
    kind = "int" if "int" in common and not drawing.maybe(5) else drawing.one_of(common)
    return f"{_column(drawing, left, kind)} {sign} {_column(drawing, right, kind)}"


def _column(drawing: Drawing, scope: Columns, kind: str) -> str:
    return str(drawing.one_of([name for name, its in scope if its == kind]))


def _conditions(drawing: Drawing, scope: Columns, depth: int) -> str:
    conditions = [_filter(drawing, scope)] if drawing.maybe(3) else []
    if depth > 0 and drawing.left > 0 and drawing.maybe(3):
        conditions.append(_subquery(drawing, scope, depth))
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _filter(drawing: Drawing, scope: Columns) -> str:
    name, kind = drawing.one_of(scope)
    forms = ["{0} IS NULL", "{0} IS NOT NULL", "{0} > {1}", "({0} <> {1} OR {0} IS NULL)", "NOT ({0} = {1})"]
    if kind == "int":
        forms += ["{0} IN (0, 2)", "{0} BETWEEN 0 AND 2", "{0} + 1 < 3"]
    if kind == "bool":
        forms += ["{0}", "NOT {0}"]
    return str(drawing.one_of(forms).format(name, COMPARED[kind]))


def _subquery(drawing: Drawing, scope: Columns, depth: int) -> str:
    """EXISTS, IN, their negations (SQL's rules for NULL decide NOT IN), or a comparison with a single value."""
    if drawing.maybe(4):
        value, kind = _scalar(drawing, scope, depth)
        name, its = drawing.one_of(scope)
        return f"{name if its == kind else CONSTANTS[kind]} {drawing.one_of(['=', '<', '<='])} {value}"
    inner, columns = relation(drawing, depth - 1)
    correlated = _pair(drawing, scope, columns, "=")
    form = drawing.one_of(["EXISTS", "NOT EXISTS", "IN", "NOT IN", "NOT IN"])
    conditions = [_filter(drawing, columns)] if drawing.maybe(3) else []
    common = sorted({kind for _, kind in scope} & {kind for _, kind in columns})
    if form.endswith("EXISTS") or not common:
        if correlated is not None:
            conditions.append(correlated)
            if drawing.maybe(5):
                conditions.append(_pair(drawing, scope, columns, "<") or correlated)
        form = form if form.endswith("EXISTS") else "EXISTS"
        return f"{form} (SELECT 1 FROM {inner}{_where(conditions)})"
    kind = drawing.one_of(common)
    if correlated is not None and drawing.maybe(4):
        conditions.append(correlated)
    outer, member = _column(drawing, scope, kind), _column(drawing, columns, kind)
    return f"{outer} {form} (SELECT {member} FROM {inner}{_where(conditions)})"


def _where(conditions: Sequence[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _scalar(drawing: Drawing, scope: Columns, depth: int) -> tuple[str, str]:
    """A subquery that is one value: an aggregate, alone or per row of what stands around it."""
    inner, columns = relation(drawing, depth - 1)
    value, kind = _aggregate(drawing, columns, None)
    correlated = _pair(drawing, scope, columns, "=")
    conditions = [correlated] if correlated is not None and drawing.maybe() else []
    return f"(SELECT {value} FROM {inner}{_where(conditions)})", kind


def _grouped(drawing: Drawing, tail: str, scope: Columns, kinds: Sequence[str] | None) -> tuple[str, Columns]:
    """GROUP BY some columns, or none, with aggregates of every kind, and HAVING."""
    wanted: list[str] = []
    items: list[str] = []
    keys: list[str] = []
    for kind in kinds or [None] * drawing.draw(st.integers(1, 4)):  # type: ignore[list-item]
        here = [name for name, its in scope if kind is None or its == kind]
        if here and drawing.maybe():
            key = drawing.one_of(here)
            if dict(scope)[key] == "int" and drawing.maybe(4):
                key = f"{key} + 1"
            items.append(key)
            keys.append(key)
            wanted.append(kind or dict(scope)[key.removesuffix(" + 1")])
        else:
            item, its = _aggregate(drawing, scope, kind)
            items.append(item)
            wanted.append(its)
    if len(items) == len(keys):
        if kinds is None:
            items.append("count(*)")
            wanted.append("int")
        elif not keys:
            raise AssertionError("a query has columns")
    group = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
    having = ""
    if drawing.maybe(3):
        value, kind = _aggregate(drawing, scope, None)
        forms = ["count(*) > 1", "count(*) < 3", f"{value} IS NOT NULL", f"{value} > {COMPARED[kind]}"]
        having = f" HAVING {drawing.one_of(forms)}"
    if kinds is not None:
        items = _uniform(items, kinds)
    return f"SELECT {_select(items)} {tail}{group}{having}", _named(wanted)


AGGREGATES: dict[str, dict[str, tuple[str, ...]]] = {
    # kind of the result: kind of the argument: forms; {f} is where FILTER stands
    "int": {
        "": ("count(*){f}",),
        "any": ("count({0}){f}", "count(DISTINCT {0}){f}"),
        "int": ("sum({0}){f}", "min({0}){f}", "max({0}){f}", "sum(DISTINCT {0}){f}"),
    },
    "num": {"num": ("cast(sum({0}){f} AS decimal(12,2))", "min({0}){f}", "max({0}){f}")},
    "six": {
        "int": tuple(
            f"cast({function}({{0}}){{f}} AS decimal(20,6))"
            for function in ("avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop")
        ),
        "num": ("cast(avg({0}){f} AS decimal(20,6))",),
        "six": ("cast(sum({0}){f} AS decimal(20,6))", "min({0}){f}", "max({0}){f}"),
    },
    "text": {"text": ("min({0}){f}", "max({0}){f}")},
    "float": {"float": ("sum({0}){f}", "min({0}){f}", "max({0}){f}")},
    "quotient": {"float": ("avg({0}){f}",), "quotient": ("min({0}){f}", "max({0}){f}")},
    "bool": {"bool": ("bool_and({0}){f}", "bool_or({0}){f}")},
}


def _aggregate(drawing: Drawing, scope: Columns, kind: str | None) -> tuple[str, str]:
    """An aggregate with a result of this kind, over whatever the scope has."""
    present = {its for _, its in scope}
    choices = [
        (result, argument, form)
        for result, by_argument in AGGREGATES.items()
        if kind is None or result == kind
        for argument, forms in by_argument.items()
        if argument in ("", "any") or argument in present
        for form in forms
    ]
    if not choices:  # nothing there has such a result: an aggregate of a constant
        function = "bool_or" if kind == "bool" else "min"
        return f"{function}({CONSTANTS[str(kind)]})", str(kind)
    result, argument, form = drawing.one_of(choices)
    name = "" if argument == "" else drawing.one_of([n for n, its in scope if argument in ("any", its)])
    only = f" FILTER (WHERE {_filter(drawing, scope)})" if drawing.maybe(4) else ""
    return form.format(name, f=only), result


def _expression(drawing: Drawing, scope: Columns, kind: str) -> str:
    """An expression of this kind over what is in scope."""
    names = [name for name, its in scope if its == kind]
    if not names:
        return CONSTANTS[kind]
    name, other = drawing.one_of(names), drawing.one_of(names)
    if drawing.maybe():
        return str(name)
    integer = next((n for n, its in scope if its == "int"), "1")
    forms = {
        "int": (f"{name} + {other}", f"coalesce({name}, 9)", f"CASE WHEN {name} > 1 THEN {other} ELSE 0 END"),
        "num": (f"cast({name} + 1 AS decimal(12,2))", f"cast(coalesce({name}, 7) AS decimal(12,2))"),
        "six": (f"cast({name} + 1 AS decimal(20,6))",),
        "text": (f"upper({name})", f"{name} || '-'", f"coalesce({name}, '?')", f"cast({integer} AS string)"),
        "float": (f"{name} * 2", f"coalesce({name}, {other})", f"cast({integer} AS double)"),
        "quotient": (f"coalesce({name}, {other})",),
        "bool": (f"{integer} > 1", f"{name} IS NULL", f"{name} AND {other}", f"NOT {name}"),
    }
    return str(drawing.one_of(forms[kind]))


INTEGERS = st.one_of(st.none(), st.integers(0, 3))
ROWS = st.tuples(
    st.integers(0, 4),
    INTEGERS,
    st.sampled_from([None, "", "a", "b", "ä b"]),
    st.sampled_from([None, "0", "1", "2.5", "-1.25"]),
    st.sampled_from([None, "0.5", "-2.25", "3", "NaN", "Infinity", "-Infinity"]),
    st.sampled_from([None, True, False]),
)
CHANGES = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from(TABLES), st.lists(ROWS, min_size=1, max_size=3)),
    st.tuples(st.just("insert"), st.sampled_from(TABLES), st.lists(ROWS, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.sampled_from(TABLES), st.integers(0, 4)),
    st.tuples(st.just("update"), st.sampled_from(TABLES), st.tuples(st.integers(0, 4), ROWS, st.integers(1, 5))),
    st.tuples(st.sampled_from(["truncate", "empty", "thin"]), st.sampled_from(TABLES), st.none()),
)
Change: TypeAlias = tuple[str, tuple[str, str], Any]
Batch: TypeAlias = list[list[Change]]
"""Transactions, each of changes that may name both sources: it is then one transaction at each."""
BATCHES: st.SearchStrategy[Batch] = st.lists(st.lists(CHANGES, min_size=1, max_size=4), min_size=1, max_size=3)
