"""What synchronization promises of extents holds for random views of every operator, whatever is dropped under them.

Any component may be dispensable, any column or relation is gone; no constraint is known. Where there is a legal form,
PostgreSQL evaluates the old tree and the new one over the same random rows, and the distinct rows over the columns that
both have are compared (rules V1 and V4 for every nesting). Where adaptation says that the extent, or some of its
columns, is the new one, that is checked as well, row by row.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import psycopg2
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from dyda.model.algebra.nodes import ViewDefinition, in_place
from dyda.model.preferences import Preference, Preferences
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from tests.properties.operators import COLUMNS, ROWS, TABLES, View, several_views
from tests.properties.test_trees import RELATIONS, evaluated
from tests.recompute_oracle import Judge
from va import FromExtent, MetadataOnly, adapt
from vs import Broken, Rewritten, World, effective_preferences, synchronize

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "200"))

KNOWN = {relation.name: relation for relation in RELATIONS.values()}
LOSSES = st.lists(
    st.tuples(st.sampled_from(sorted(KNOWN)), st.sampled_from([*COLUMNS, None])), min_size=1, max_size=2, unique=True
)
"""What is gone: a column, or a whole relation."""


def test_what_is_promised_holds(database: Callable[[str], str]) -> None:
    judge = Judge(database("judge"))
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for source in ("one", "two"):
        judge.forget(source)
    for source, table in TABLES:
        judge.execute(f"CREATE TABLE {source}.{table} ({described})")
    seen: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(
        several_views(2),
        st.lists(st.tuples(st.sampled_from(TABLES), ROWS), min_size=6, max_size=16),
        LOSSES,
        st.randoms(use_true_random=False),
        st.floats(0.5, 1),
    )
    def run(
        views: list[View],
        rows: list[tuple[tuple[str, str], tuple[object, ...]]],
        losses: list[tuple[RelationName, str | None]],
        choose: object,
        often: float,
    ) -> None:
        for source, table in TABLES:
            judge.execute(f"TRUNCATE {source}.{table}")
        for (source, table), row in rows:
            judge.cursor.execute(f"INSERT INTO {source}.{table} VALUES (%s, %s, %s, %s, %s, %s)", row)
        below: dict[str, ViewDefinition] = {}
        for view in views:
            read = parse_view(view.name, view.text, _resolve, views=below.__getitem__)
            below[view.name] = read
            old = _marked(replace(read, tree=in_place(read.tree)), lambda: choose.random() < often)  # type: ignore[attr-defined]
            judgement = synchronize(old, World(KNOWN, _after(losses)))
            seen[type(judgement).__name__] += 1
            if isinstance(judgement, Broken):
                continue
            note(f"{old.sql}\nbecame\n{judgement.definition.sql}")
            shared = [name for name in old.names if name in judgement.definition.names]
            extent = judgement.extent if isinstance(judgement, Rewritten) else "equivalent"
            try:
                before, after = (set(_rows(judge, d, shared)) for d in (old, judgement.definition))
            except psycopg2.errors.FeatureNotSupported:
                continue  # a FULL JOIN whose equality is gone
            seen[extent] += 1
            seen["moved"] += before != after
            holds = {"equivalent": before == after, "superset": before <= after, "subset": after <= before}
            assert holds.get(extent, True), f"{extent}: gone {before - after}, new {after - before}"
            plan = adapt(old, judgement.definition, [])
            seen[plan.kind] += 1
            if isinstance(plan, MetadataOnly | FromExtent):
                every = tuple(range(len(old.names)))
                kept = [old.names[place] for place in getattr(plan, "columns", every) or every]
                assert _rows(judge, old, kept, "ALL") == _rows(judge, judgement.definition, None, "ALL"), plan

    try:
        run()
    finally:
        judge.close()
    for outcome in ("Broken", "equivalent", "superset", "subset", "unknown", "moved", "projection", "reaggregation"):
        assert seen[outcome], f"there is no example of {outcome}: {seen}"


def _resolve(source: str, schema: str | None, table: str) -> Relation:
    return RELATIONS[source, table]


def _marked(definition: ViewDefinition, may_go: Callable[[], bool]) -> ViewDefinition:
    """The view with some of its components dispensable."""
    every = effective_preferences(definition)

    def marked(components: tuple[tuple[str, Preference], ...]) -> tuple[tuple[str, Preference], ...]:
        return tuple((name, Preference(dispensable=True)) for name, _ in components if may_go())

    preferences = Preferences("any", None, marked(every.items), marked(every.relations), marked(every.conditions))
    return replace(definition, preferences=preferences, sql=render_view(definition.tree, preferences))


def _after(losses: list[tuple[RelationName, str | None]]) -> dict[RelationName, Relation | None]:
    now: dict[RelationName, Relation | None] = {}
    for name, lost in losses:
        before = now.get(name, KNOWN[name])
        if lost is None or before is None:
            now[name] = None
        else:
            now[name] = replace(before, columns=tuple(column for column in before.columns if column.name != lost))
    return now


def _rows(
    judge: Judge, definition: ViewDefinition, shown: Sequence[str] | None, kept: str = "DISTINCT"
) -> Counter[str]:
    names = definition.names if shown is None else shown
    listed = ", ".join(f'".{name}"' for name in names) or "1"
    return judge.evaluate(f"SELECT {kept} {listed} FROM ({evaluated(definition.tree)}) AS whole")
