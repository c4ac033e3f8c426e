"""A view's tree means what its text means: both are evaluated by PostgreSQL, the tree node by node.

No maintenance and no Spark here, so that thousands of random nestings can be asked about what the parser made of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.model.algebra.nodes import (
    Aggregate,
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    ViewDefinition,
)
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from tests.properties.operators import COLUMNS, ROWS, TABLES, View, for_postgres, several_views
from tests.recompute_oracle import Judge

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "60"))

RELATIONS = {
    (source, table): Relation(
        RelationName(source, "public", table),
        number,
        tuple(
            Column(name, PgType(kind.split("(")[0].replace("int", "integer"), kind.replace("int", "integer")), place)
            for place, (name, kind) in enumerate(COLUMNS.items(), start=1)
        ),
        (),
    )
    for number, (source, table) in enumerate(TABLES, start=1)
}


def test_a_tree_means_what_its_text_means(database: Callable[[str], str]) -> None:
    judge = Judge(database("judge"))
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for source in ("one", "two"):
        judge.forget(source)
    for source, table in TABLES:
        judge.execute(f"CREATE TABLE {source}.{table} ({described})")

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(several_views(4), st.lists(st.tuples(st.sampled_from(TABLES), ROWS), min_size=4, max_size=16))
    def run(views: list[View], rows: list[tuple[tuple[str, str], tuple[object, ...]]]) -> None:
        for source, table in TABLES:
            judge.execute(f"TRUNCATE {source}.{table}")
        for (source, table), row in rows:
            judge.cursor.execute(f"INSERT INTO {source}.{table} VALUES (%s, %s, %s, %s, %s, %s)", row)
        parsed: dict[str, ViewDefinition] = {}
        texts: dict[str, str] = {}
        for view in views:
            parsed[view.name] = parse_view(view.name, view.text, _resolve, views=parsed.__getitem__)
            texts[view.name] = for_postgres(view.text, texts)
            tree, text = judge.evaluate(evaluated(parsed[view.name].tree)), judge.evaluate(texts[view.name])
            assert tree == text, f"{view.text}\ntree only {tree - text}\ntext only {text - tree}"

    try:
        run()
    finally:
        judge.close()


def _resolve(source: str, schema: str | None, table: str) -> Relation:
    return RELATIONS[source, table]


def evaluated(node: Node) -> str:
    """The node as a query of PostgreSQL's; a column is named by its reference, alias and all."""
    match node:
        case Scan(alias=alias, relation=relation):
            items = [f"{column.name} AS {_name(ColumnRef(alias, column.name))}" for column in relation.columns]
            return f"SELECT {', '.join(items)} FROM {relation.name.source}.{relation.name.table}"
        case Select(input=below, condition=condition):
            return f"SELECT * FROM {_below(below)} WHERE {_text(condition)}"
        case Join(left=left, right=right, condition=condition):
            where = f" WHERE {_text(condition)}" if condition is not None else ""
            return f"SELECT * FROM {_below(left)} CROSS JOIN {_below(right)}{where}"
        case OuterJoin(left=left, right=right, kind=kind, conditions=conditions):
            return f"SELECT * FROM {_below(left)} {kind} JOIN {_below(right)} ON {_all(conditions)}"
        case SemiJoin(left=left, right=right, conditions=conditions, anti=anti, membership=membership):
            if membership is not None:
                one, other = map(_text, membership)
                inner = f"SELECT {other} FROM {_below(right)} WHERE {_all(conditions)}"
                return f"SELECT * FROM {_below(left)} WHERE {one} NOT IN ({inner})"
            inner = f"SELECT 1 FROM {_below(right)} WHERE {_all(conditions)}"
            return f"SELECT * FROM {_below(left)} WHERE {'NOT ' if anti else ''}EXISTS ({inner})"
        case Group(input=below, alias=alias, keys=keys, aggregates=aggregates):
            items = [f"{_text(key.expression)} AS {_name(ColumnRef(alias, key.name))}" for key in keys]
            items += [f"{_aggregate(one)} AS {_name(ColumnRef(alias, one.name))}" for one in aggregates]
            by = ", ".join(str(place) for place in range(1, len(keys) + 1))
            return f"SELECT {', '.join(items)} FROM {_below(below)}" + (f" GROUP BY {by}" if keys else "")
        case Derived(input=below, alias=alias):
            items = [f"{_name(ref)} AS {_name(ColumnRef(alias, ref.column))}" for ref in below.columns]
            return f"SELECT {', '.join(items)} FROM {_below(below)}"
        case Project(input=below, items=items):
            listed = ", ".join(f"{_text(item.expression)} AS {_name(ColumnRef('', item.name))}" for item in items)
            return f"SELECT {listed} FROM {_below(below)}"
        case Distinct(input=below):
            return f"SELECT DISTINCT * FROM {_below(below)}"
        case SetOperation(kind=kind, all=all_, left=left, right=right):
            return f"({evaluated(left)}) {kind}{' all' if all_ else ''} ({evaluated(right)})"


def _below(node: Node) -> str:
    return f"({evaluated(node)}) AS below_{id(node)}"


def _name(reference: ColumnRef) -> str:
    return f'"{reference.alias}.{reference.column}"'


def _text(expression: Expression) -> str:
    rendered = expression.rendered(_name)
    return "(" + re.sub(r"\bAS string\)", "AS text)", re.sub(r"\bAS double\)", "AS double precision)", rendered)) + ")"


def _all(conditions: tuple[Expression, ...]) -> str:
    return " AND ".join(map(_text, conditions)) or "true"


def _aggregate(aggregate: Aggregate) -> str:
    argument = "*" if aggregate.argument is None else _text(aggregate.argument)
    only = f" FILTER (WHERE {_text(aggregate.only)})" if aggregate.only is not None else ""
    return f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{argument}){only}"
