"""Plans are exact for any rows: what a plan says is carried out by PostgreSQL, and compared with the new view itself.

Random pairs of views over small relations with NULLs, duplicates and keys; no constraint holds but the keys. The
sweeps that fold data updates in have properties of their own (test_maintenance.py): here nothing else moves, so the
difference that a replaced relation makes is V'(new) − V'(old as restored from the extent).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.cursor import Cursor
from dyda.model.algebra.nodes import ColumnRef, ViewDefinition, conjuncts, scans
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from tests.projection import projection
from va import EXTENT, FromExtent, MetadataOnly, Recompute, adapt

INT, TEXT = PgType("integer", "integer"), PgType("text", "text")
TABLES = ("r", "s", "t")
COLUMNS = (("k", INT), ("a", TEXT), ("b", INT))
FILTERS = ("{0}.a = 'x'", "{0}.b > 1", "{0}.b IS NULL", "{0}.a IN ('x', 'y')", "{0}.k + 1 > {0}.b")
COMPUTED = ("{0}.b + 1", "upper({0}.a)")


def relation(number: int, keyed: bool) -> Relation:
    columns = tuple(Column(name, type_, place, name == "k" and keyed) for place, (name, type_) in enumerate(COLUMNS, 1))
    return Relation(RelationName("p", "q", TABLES[number]), number + 1, columns, (("k",),) if keyed else ())


@dataclass(frozen=True)
class Draft:
    """A view before it is text: occurrences (alias, table), select items and conditions."""

    occurrences: tuple[tuple[str, str], ...]
    items: tuple[str, ...]
    conditions: tuple[str, ...]

    @property
    def sql(self) -> str:
        items = ", ".join(f"{item} AS i{place}" for place, item in enumerate(self.items))
        tables = ", ".join(f"p.{table} {alias}" for alias, table in self.occurrences)
        where = " AND ".join(f"({condition})" for condition in self.conditions)
        return f"SELECT {items} FROM {tables}" + (f" WHERE {where}" if where else "")

    def without(self, alias: str) -> Draft:
        return Draft(
            tuple(one for one in self.occurrences if one[0] != alias),
            tuple(item for item in self.items if f"{alias}." not in item) or ("1",),
            tuple(condition for condition in self.conditions if f"{alias}." not in condition),
        )


def item(draw: st.DrawFn, aliases: list[str]) -> str:
    alias = draw(st.sampled_from(aliases))
    return draw(st.sampled_from([*(f"{alias}.{name}" for name, _ in COLUMNS), *(f.format(alias) for f in COMPUTED)]))


def joined(draw: st.DrawFn, alias: str, others: list[str]) -> str:
    other, column = draw(st.sampled_from(others)), draw(st.sampled_from(["k", "a", "b"]))
    return f"{alias}.{column} = {other}.{column}"


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    tables = draw(st.lists(st.sampled_from(TABLES), min_size=1, max_size=2))
    occurrences = tuple((f"o{place}", table) for place, table in enumerate(tables))
    aliases = [alias for alias, _ in occurrences]
    items = tuple(item(draw, aliases) for _ in range(draw(st.integers(1, 4))))
    conditions = [joined(draw, alias, aliases[:place]) for place, alias in enumerate(aliases) if place]
    for filter_ in draw(st.lists(st.sampled_from(FILTERS), max_size=2)):
        conditions.append(filter_.format(draw(st.sampled_from(aliases))))
    if draw(st.booleans()):  # everything that is used is shown: what a replaced relation is restored from
        items += tuple(dict.fromkeys(re.findall(r"o\d\.\w", " ".join([*items, *conditions]))))
    return Draft(occurrences, items, tuple(dict.fromkeys(conditions)))


@st.composite
def changed(draw: st.DrawFn, before: Draft) -> Draft:
    """One to three changes of a view."""
    after = before
    for change in draw(st.lists(st.sampled_from(CHANGES), min_size=1, max_size=3)):
        after = change(draw, after)
    return after


def less(draw: st.DrawFn, view: Draft) -> Draft:
    kept = draw(st.lists(st.sampled_from(view.items), min_size=1, max_size=len(view.items)))
    return replace(view, items=tuple(kept))


def more(draw: st.DrawFn, view: Draft) -> Draft:
    return replace(view, items=(*view.items, item(draw, [alias for alias, _ in view.occurrences])))


def tighter(draw: st.DrawFn, view: Draft) -> Draft:
    alias, _ = draw(st.sampled_from(view.occurrences))
    return replace(view, conditions=(*view.conditions, draw(st.sampled_from(FILTERS)).format(alias)))


def looser(draw: st.DrawFn, view: Draft) -> Draft:
    if not view.conditions:
        return view
    gone = draw(st.sampled_from(view.conditions))
    return replace(view, conditions=tuple(condition for condition in view.conditions if condition != gone))


def wider(draw: st.DrawFn, view: Draft) -> Draft:
    alias = f"n{len(view.occurrences)}"
    if alias in dict(view.occurrences):
        return view
    on = joined(draw, alias, [known for known, _ in view.occurrences])
    added = (*view.occurrences, (alias, draw(st.sampled_from(TABLES))))
    return Draft(added, (*view.items, item(draw, [alias])), (*view.conditions, on))


def replaced(draw: st.DrawFn, view: Draft) -> Draft:
    alias, table = draw(st.sampled_from(view.occurrences))
    other = draw(st.sampled_from([name for name in TABLES if name != table]))
    return replace(view, occurrences=tuple((a, other if a == alias else t) for a, t in view.occurrences))


def dropped(draw: st.DrawFn, view: Draft) -> Draft:
    return view.without(view.occurrences[-1][0]) if len(view.occurrences) > 1 else view


CHANGES: list[Callable[[st.DrawFn, Draft], Draft]] = [less, more, tighter, looser, wider, replaced, replaced, dropped]

VALUES = {"k": st.integers(1, 2), "a": st.sampled_from(["x", "y", None]), "b": st.sampled_from([1, 2, None])}
ROWS = st.lists(st.tuples(VALUES["k"], VALUES["a"], VALUES["b"]), min_size=1, max_size=5)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Draft, Draft, tuple[bool, ...], dict[str, list[Any]]]:
    before = draw(drafts())
    keyed = tuple(draw(st.booleans()) for _ in TABLES)
    rows = {}
    for table, unique in zip(TABLES, keyed, strict=True):
        found = draw(ROWS)
        rows[table] = list({row[0]: row for row in found}.values()) if unique else found
    return before, draw(changed(before)), keyed, rows


@pytest.fixture(scope="module")
def cursor(server: Any) -> Iterator[Any]:
    connection = psycopg2.connect(server.url())
    try:
        with connection.cursor() as found:
            for table in (*TABLES, "restored"):
                found.execute(f"CREATE TEMPORARY TABLE {table} (k int, a text, b int)")
            yield found
    finally:
        connection.close()


def query(view: ViewDefinition, tables: Mapping[str, str]) -> str:
    """The view for PostgreSQL, with other tables for some aliases."""

    def name(ref: ColumnRef) -> str:
        return f'"{ref.alias}"."{ref.column}"'

    items = ", ".join(
        f"{one.expression.rendered(name)} AS i{place}" for place, one in enumerate(projection(view).items)
    )
    read = ", ".join(f'{tables.get(scan.alias, scan.relation.name.table)} "{scan.alias}"' for scan in scans(view.tree))
    where = " AND ".join(f"({condition.rendered(name)})" for condition in conjuncts(view.tree)) or "true"
    return f"SELECT {items} FROM {read} WHERE {where}"


def rows_of(cursor: Cursor, sql: str) -> Counter[tuple[Any, ...]]:
    cursor.execute(sql)
    return Counter(cursor.fetchall())


def carried_out(cursor: Cursor, before: ViewDefinition, plan: FromExtent) -> Counter[tuple[Any, ...]]:
    """What the plan makes of the old extent."""
    cursor.execute(f"CREATE TEMPORARY TABLE extent AS {query(before, {})}")
    width = len(projection(before).items)
    cursor.execute("; ".join(f"ALTER TABLE extent RENAME i{place} TO c{place + 1}" for place in range(width)))
    if plan.query is not None:
        rows = rows_of(cursor, query(plan.query, {EXTENT: "extent"}))
    else:
        rows = rows_of(cursor, f"SELECT {', '.join(f'c{place + 1}' for place in plan.columns or ())} FROM extent")
    if plan.complement is not None:
        rows += rows_of(cursor, query(plan.complement, {}))
    if plan.restored is not None:
        known = dict(plan.restored.columns)
        columns = ", ".join(f"c{known[name] + 1}" if name in known else "NULL" for name, _ in COLUMNS)
        distinct = ", ".join(f"c{place + 1}" for place in plan.restored.distinct)
        cursor.execute(f"INSERT INTO restored SELECT {columns} FROM (SELECT DISTINCT {distinct} FROM extent) d")
        now = rows_of(cursor, query(plan.definition, {}))
        then = rows_of(cursor, query(plan.definition, {plan.restored.alias: "restored"}))
        rows.update(now)
        rows.subtract(then)
    return rows


@given(cases())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_plan_gives_exactly_the_new_view(
    cursor: Cursor, case: tuple[Draft, Draft, tuple[bool, ...], dict[str, list[Any]]]
) -> None:
    old, new, keyed, rows = case
    relations = {table: relation(number, keyed[number]) for number, table in enumerate(TABLES)}
    before, after = (parse_view("v", view.sql, lambda s, q, t: relations[t]) for view in (old, new))
    plan = adapt(before, after, ())
    if isinstance(plan, Recompute):
        assert plan.reason
        return
    if isinstance(plan, MetadataOnly):
        plan = FromExtent("metadata", after, "", columns=tuple(range(len(projection(before).items))))
    cursor.execute("SAVEPOINT example")
    try:
        for table, found in rows.items():
            for row in found:
                cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", row)
        assert isinstance(plan, FromExtent), plan
        made = carried_out(cursor, before, plan)
        expected = rows_of(cursor, query(after, {}))
        assert {row: count for row, count in made.items() if count} == dict(expected), (plan.kind, plan.reason)
    finally:
        cursor.execute("ROLLBACK TO SAVEPOINT example")


def test_the_cases_reach_every_kind_of_plan() -> None:
    found: Counter[str] = Counter()

    @given(cases())
    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    def look(case: tuple[Draft, Draft, tuple[bool, ...], dict[str, list[Any]]]) -> None:
        old, new, keyed, _ = case
        relations = {table: relation(number, keyed[number]) for number, table in enumerate(TABLES)}
        before, after = (parse_view("v", view.sql, lambda s, q, t: relations[t]) for view in (old, new))
        found[adapt(before, after, ()).kind] += 1

    look()
    assert set(found) == {"metadata", "projection", "selection", "join", "delta", "complement", "recompute"}, found
