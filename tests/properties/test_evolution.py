"""Random schema changes and data over three databases, in any order and at any step of maintenance.

Whatever happens, a view that is not broken equals its current definition as PostgreSQL evaluates it over the sources,
and a broken one serves the rows that it had when it broke. Nothing here knows how views are rewritten or adapted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dyda import commands, faults
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from tests.town import Town

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "6"))

TABLES = {"one": ("r",), "two": ("s", "u"), "three": ("t",)}
COLUMNS = "k int, a int, b int"

VIEWS = {
    "kept": "SELECT r.k, r.a /* dispensable */, s.b FROM one.r r JOIN two.s s ON r.k = s.k",
    "replaced": """
        -- dyda: extent = any
        SELECT r.k /* replaceable */, r.a /* dispensable, replaceable */, t.b
        FROM one.r r /* replaceable */ JOIN three.t t ON r.k = t.k /* replaceable */
        WHERE t.a > 0 /* dispensable */
    """,
    "grown": """
        -- dyda: new_columns = append, extent = superset
        SELECT u.k, u.a FROM two.u u WHERE u.b > 1 /* dispensable */
    """,
    "strict": "SELECT t.k, t.a, s.b FROM three.t t JOIN two.s s ON t.k = s.k",
    "twice": """
        -- dyda: extent = any
        SELECT x.k, y.a /* dispensable */ FROM two.u x JOIN two.u y ON x.k = y.b /* dispensable */
    """,
}

KNOWLEDGE = """
[[join]]
between = ["one.r", "two.s"]
on = "r.k = s.k"

[[join]]
between = ["two.u", "three.t"]
on = "u.k = t.k"

[[join]]
between = ["two.s", "two.u"]
on = "s.k = u.k"

[[containment]]
of = "one.r(k, a)"
is = "subset"
in = "two.u(k, a)"

[[function]]
attribute = "one.r.a"
equals = "two.s.a"

[[function]]
attribute = "one.r.k"
equals = "two.u.k"
"""

PLACES = st.tuples(st.sampled_from(sorted(TABLES)), st.integers(0, 5), st.integers(0, 5))
"""A source, and numbers that choose a table and a column among those there are at that moment."""
DATA = st.tuples(st.sampled_from(["insert", "insert", "insert", "update", "delete"]), PLACES, st.integers(0, 3))
SCHEMA = st.tuples(
    st.sampled_from(
        [
            "rename column",
            "drop column",
            "drop column",
            "add column",
            "rename table",
            "drop table",
            "create table",
            "retype",
            "rewrite",
            "truncate",
            "swap",
            "exchange columns",
        ]
    ),
    PLACES,
    st.integers(0, 3),
)
TRANSACTIONS = st.lists(st.one_of(DATA, DATA, DATA, SCHEMA), min_size=1, max_size=3)
MOMENTS = st.sampled_from(
    ["unit.snapshots-open", "unit.messages-received", "unit.swept", "unit.evaluated", "unit.checked"]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), TRANSACTIONS),
        st.tuples(st.just("commit"), TRANSACTIONS),
        st.tuples(st.just("cycle")),
        st.tuples(st.just("commit at"), MOMENTS, TRANSACTIONS),
        st.tuples(st.just("settle")),
    ),
    min_size=4,
    max_size=16,
)


class Source:
    """Changes one source, whatever it looks like by now."""

    def __init__(self, town: Town, name: str) -> None:
        self.town, self.name = town, name
        self.fresh = 0

    def commit(self, actions: list[tuple[str, tuple[str, int, int], int]]) -> None:
        connection = self.town.connect(self.name)
        try:
            with connection, connection.cursor() as cursor:
                for kind, (_, table, column), value in actions:
                    self._act(cursor, kind, table, column, value)
        finally:
            connection.close()

    def _new(self, word: str) -> str:
        self.fresh += 1
        return f"{word}{self.fresh}"

    def _act(self, cursor: Any, kind: str, table: int, column: int, value: int) -> None:
        tables = _names(
            cursor, "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        )
        missing = sorted(set(TABLES[self.name]) - set(tables))
        if kind == "create table":
            if missing:
                cursor.execute(f"CREATE TABLE {missing[0]} ({COLUMNS}); INSERT INTO {missing[0]} VALUES (1, 1, 2)")
            return
        if not tables:
            return
        chosen = tables[table % len(tables)]
        columns = _names(
            cursor,
            f"SELECT attname FROM pg_attribute WHERE attrelid = '{chosen}'::regclass AND attnum > 0"
            " AND NOT attisdropped AND atttypid IN ('int'::regtype, 'bigint'::regtype)",
        )
        if not columns:
            return
        at = columns[column % len(columns)]
        other = columns[(column + 1) % len(columns)]
        match kind:
            case "insert":
                values = ", ".join(str((value + number) % 4) for number in range(len(columns)))
                cursor.execute(f"INSERT INTO {chosen} ({', '.join(columns)}) VALUES ({values})")
            case "update":
                cursor.execute(f"UPDATE {chosen} SET {at} = {value} WHERE {other} = {value + 1}")
            case "delete":
                cursor.execute(f"DELETE FROM {chosen} WHERE {at} = {value}")
            case "rename column":
                cursor.execute(f"ALTER TABLE {chosen} RENAME COLUMN {at} TO {self._new('c')}")
            case "exchange columns" if at != other:
                cursor.execute(
                    f"ALTER TABLE {chosen} RENAME COLUMN {at} TO passing;"
                    f" ALTER TABLE {chosen} RENAME COLUMN {other} TO {at};"
                    f" ALTER TABLE {chosen} RENAME COLUMN passing TO {other}"
                )
            case "drop column" if len(columns) > 1:
                cursor.execute(f"ALTER TABLE {chosen} DROP COLUMN {at}")
            case "add column":
                name = next((n for n in "kab" if n not in columns), None) or self._new("d")
                cursor.execute(f"ALTER TABLE {chosen} ADD COLUMN {name} int" + (" DEFAULT 2" if value % 2 else ""))
            case "rename table":
                cursor.execute(f"ALTER TABLE {chosen} RENAME TO {self._new('w')}")
            case "drop table":
                cursor.execute(f"DROP TABLE {chosen}")
            case "retype":
                cursor.execute(f"ALTER TABLE {chosen} ALTER COLUMN {at} TYPE bigint")
            case "rewrite":
                cursor.execute(f"ALTER TABLE {chosen} ALTER COLUMN {at} TYPE bigint USING {at} + 1")
            case "truncate":
                cursor.execute(f"TRUNCATE {chosen}")
            case "swap":
                kept = self._new("x")
                cursor.execute(f"CREATE TABLE next AS SELECT * FROM {chosen} WHERE {at} IS DISTINCT FROM {value}")
                cursor.execute(
                    f"ALTER TABLE {chosen} RENAME TO {kept}; ALTER TABLE next RENAME TO {chosen}; DROP TABLE {kept}"
                )


def _names(cursor: Any, query: str) -> list[str]:
    cursor.execute(query)
    return sorted(name for (name,) in cursor.fetchall())


class Witness:
    """Remembers, at every commit of the warehouse, the rows of each view that is not broken."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.correct: dict[str, Counter[str]] = {}
        self.rewritten = 0
        self.broken = 0

    def note(self) -> None:
        for state in commands.views(self.town.folder):
            if state["state"] != "broken":
                self.correct[state["name"]] = self.town.extent(state["name"])

    def check(self) -> None:
        states = {state["name"]: state for state in commands.views(self.town.folder)}
        live = [name for name, state in states.items() if state["state"] != "broken"]
        assert {states[name]["state"] for name in live} <= {"fresh", "stale"}, states  # stale: not polled for a while
        self.town.check_definitions(*live)
        for name in states.keys() - set(live):
            assert self.town.extent(name) == self.correct[name], f"{name} is broken and must not move"
        self.broken += len(states) - len(live)


PUT_OFF: list[tuple[Any, ...]] = [
    ("commit", [("insert", ("one", 0, 0), 0)]),
    ("cycle",),
    ("settle",),
    ("commit at", "unit.snapshots-open", [("rewrite", ("one", 0, 3), 2)]),
    ("cycle",),
    ("commit", [("insert", ("one", 3, 1), 3)]),
    ("commit", [("drop column", ("one", 0, 4), 3)]),
]
"""What is rebuilt beside the others is put off for a change that nobody else has to follow: nothing is at rest yet."""


@pytest.mark.parametrize("lanes", [False, True], ids=["in turn", "lanes"])
def test_views_survive_whatever_their_sources_do(
    tmp_path: Path, database: Callable[[str], str], engine: Engine, lanes: bool
) -> None:
    """With lanes, whatever reads a source for a rebuild or an adaptation is done beside the units."""
    numbers = iter(range(10_000))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(st.sampled_from(["strong", "complete"]), st.sampled_from(["pessimistic", "optimistic"]), STEPS)
    @example("strong", "pessimistic", PUT_OFF)
    def run(consistency: str, detection: str, steps: list[tuple[Any, ...]]) -> None:
        options = f'consistency = "{consistency}"\ndetection = "{detection}"'
        options += "\nlane_size = 1" if lanes else ""
        town = Town(tmp_path / f"town{next(numbers)}", database, engine, options)
        try:
            play(town, steps, with_lanes if lanes else Town.maintainer)
        finally:
            town.close()

    run()


def play(
    town: Town, steps: list[tuple[Any, ...]], running: Callable[[Town], AbstractContextManager[Maintainer]]
) -> None:
    for source, tables in TABLES.items():
        town.source(source, *(f"CREATE TABLE {table} ({COLUMNS})" for table in tables))
        town.execute(source, *(f"INSERT INTO {table} VALUES (1, 1, 2), (2, 1, 3)" for table in tables))
    for name, text in VIEWS.items():
        town.view(name, text.strip())
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.apply()
    sources = {name: Source(town, name) for name in TABLES}
    witness = Witness(town)
    witness.note()
    witness.check()

    def commit(actions: list[tuple[str, tuple[str, int, int], int]]) -> None:
        """One transaction per source that the actions name."""
        for name, source in sources.items():
            mine = [action for action in actions if action[1][0] == name]
            if mine:
                source.commit(mine)

    def commit_last(waiting: list[Any]) -> None:
        if waiting:
            commit(waiting.pop())

    with (
        running(town) as maintainer,
        faults.on("install.committed", witness.note),
        faults.on("lane.shown", witness.note),
    ):
        for step in steps:
            match step:
                case ("commit", actions):
                    commit(actions)
                case ("cycle",):
                    maintainer.cycle()
                case ("commit at", moment, actions):
                    waiting = [actions]
                    with faults.on(moment, partial(commit_last, waiting)):
                        maintainer.cycle()
                case ("settle",):
                    settle(maintainer)
                    witness.check()
        settle(maintainer)
    witness.check()
    assert not commands.pending(town.folder), "nothing is left in the queue"


@contextmanager
def with_lanes(town: Town) -> Iterator[Maintainer]:
    """A loop that runs lanes, as the daemon's does."""
    with town.opened() as opened, opened.warehouse.lock(role="daemon") as writer:
        maintainer = Maintainer(opened, writer, stopping=lambda: False)
        try:
            yield maintainer
        finally:
            maintainer.close()


def settle(maintainer: Maintainer) -> None:
    """Until nothing is to be done, and no lane runs."""
    for _ in range(500):
        if maintainer.cycle() is Outcome.IDLE and (maintainer.lanes is None or not maintainer.lanes.active):
            return
        if maintainer.lanes is not None:
            maintainer.lanes.wait(0.1)
    raise AssertionError("maintenance does not come to rest")
