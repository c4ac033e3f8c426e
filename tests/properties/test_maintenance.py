"""Random schemas, views, transactions and interleavings over two databases.

After every commit of the warehouse each extent must equal what PostgreSQL, not our engine, computes from the source
states that the committed positions name. The test keeps its own history of what every transaction did (from
RETURNING, not from our log) and builds those states from it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda import commands, faults
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.model.position import Position
from tests.town import Town

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "6"))

COLUMNS = {"id": "int", "k": "int", "t": "text", "n": "numeric(6,2)"}
INTEGERS = st.one_of(st.none(), st.integers(0, 3))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ä b"]))
NUMBERS = st.one_of(st.none(), st.sampled_from(["0", "1", "2.5"]))
ROWS = st.tuples(st.integers(0, 5), INTEGERS, TEXTS, NUMBERS)
TABLES = [("one", "r"), ("one", "s"), ("two", "t"), ("two", "u")]


@st.composite
def views(draw: st.DrawFn) -> str:
    """A select-project-join over two or three occurrences; self-joins, cross and non-equi joins among them."""
    tables = draw(st.lists(st.sampled_from(TABLES), min_size=1, max_size=3))
    aliases = [f"x{i}" for i in range(len(tables))]
    conditions = []
    for i in range(1, len(tables)):
        other = draw(st.integers(0, i - 1))
        form = draw(st.sampled_from(["=", "=", "=", "=", "<", "none", "both"]))
        column, second = draw(st.sampled_from(["id", "k"])), draw(st.sampled_from(["id", "k"]))
        if form in ("=", "<"):
            conditions.append(f"{aliases[i]}.{column} {form} {aliases[other]}.{second}")
        elif form == "both":
            conditions.append(f"{aliases[i]}.k = {aliases[other]}.k AND {aliases[i]}.t = {aliases[other]}.t")
    for alias in aliases:
        filters = ["", "", f"{alias}.k > 0", f"{alias}.t IS NOT NULL", f"{alias}.n < 2", f"{alias}.id + 1 <> 3"]
        conditions += [chosen for chosen in [draw(st.sampled_from(filters))] if chosen]
    candidates = [f"{alias}.{column}" for alias in aliases for column in COLUMNS]
    candidates += [f"{alias}.k + {alias}.id" for alias in aliases] + [f"upper({alias}.t)" for alias in aliases]
    items = draw(st.lists(st.sampled_from(candidates), min_size=1, max_size=4))
    select = ", ".join(f"{item} AS c{number}" for number, item in enumerate(items))
    joined = " CROSS JOIN ".join(f"{s}.{t} {a}" for (s, t), a in zip(tables, aliases, strict=True))
    return f"SELECT {select} FROM {joined}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")


OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from(TABLES), st.lists(ROWS, min_size=1, max_size=3)),
    st.tuples(st.just("delete"), st.sampled_from(TABLES), st.integers(0, 5)),
    st.tuples(st.just("update"), st.sampled_from(TABLES), st.tuples(st.integers(0, 5), INTEGERS)),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("do"), st.integers(0, 2), OPERATIONS),
        st.tuples(st.sampled_from(["commit", "commit", "rollback"]), st.integers(0, 2)),
        st.tuples(st.just("cycle")),
    ),
    min_size=4,
    max_size=24,
)


@dataclass
class History:
    """What every committed transaction did, by source: the test's own record."""

    done: dict[str, list[tuple[int, dict[str, Counter[tuple[Any, ...]]]]]] = field(default_factory=dict)

    def state(self, source: str, table: str, position: Position) -> Counter[tuple[Any, ...]]:
        bag: Counter[tuple[Any, ...]] = Counter()
        for xid, effects in self.done.get(source, []):
            if position.includes(xid):
                bag.update(effects.get(table, Counter()))
        assert all(count >= 0 for count in bag.values()), "the history itself is wrong"
        return bag


class Writer:
    """A session at each source that may have a transaction open across cycles."""

    def __init__(self, town: Town, history: History) -> None:
        self.town, self.history = town, history
        self.open: dict[str, tuple[Any, int, dict[str, Counter[tuple[Any, ...]]]]] = {}

    def do(self, operation: tuple[str, tuple[str, str], Any]) -> None:
        kind, (source, table), what = operation
        if source not in self.open:
            connection = self.town.connect(source)
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '20ms'; SELECT pg_current_xact_id()::text::bigint")
                self.open[source] = (connection, cursor.fetchone()[0], {})
        connection, _, effects = self.open[source]
        effect = effects.setdefault(table, Counter())
        try:
            with connection.cursor() as cursor:
                self._execute(cursor, kind, table, what, effect)
        except psycopg2.errors.LockNotAvailable:  # another open transaction holds the row: give up this one
            connection.close()
            del self.open[source]

    def _execute(self, cursor: Any, kind: str, table: str, what: Any, effect: Counter[tuple[Any, ...]]) -> None:
        if kind == "insert":
            for row in what:
                cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s) RETURNING *", row)
                effect.update(cursor.fetchall())
        elif kind == "delete":
            cursor.execute(f"DELETE FROM {table} WHERE id = %s RETURNING *", [what])
            effect.subtract(cursor.fetchall())
        else:
            cursor.execute(f"DELETE FROM {table} WHERE id = %s RETURNING *", [what[0]])
            old = cursor.fetchall()
            effect.subtract(old)
            for row in old:
                cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s) RETURNING *", [row[0], what[1], *row[2:]])
                effect.update(cursor.fetchall())

    def end(self, how: str) -> None:
        for source, (connection, xid, effects) in self.open.items():
            if how == "commit":
                connection.commit()
                self.history.done.setdefault(source, []).append((xid, effects))
            connection.close()
        self.open.clear()


class Witness:
    """Checks the warehouse after every commit."""

    def __init__(self, town: Town, history: History, texts: dict[str, str]) -> None:
        self.town, self.history, self.texts = town, history, texts
        self.checked = 0
        self.last: dict[tuple[str, str], Position] = {}

    def check(self) -> None:
        judge = self.town.judge()
        for name, text in self.texts.items():
            record = self.town.state(name)
            positions = {source: Position.parse(p) for source, p in record["positions"].items()}
            for source, position in positions.items():
                assert position.covers(self.last.get((name, source), position)), "positions only move forward"
                self.last[name, source] = position
            for source, table in TABLES:
                judge.execute(f"TRUNCATE {source}.{table}")
                if source in positions:
                    for row, count in self.history.state(source, table, positions[source]).items():
                        for _ in range(count):
                            judge.cursor.execute(f"INSERT INTO {source}.{table} VALUES (%s, %s, %s, %s)", row)
            expected, extent = judge.recompute(text), self.town.extent(name)
            assert extent == expected, f"{text}\nextra {extent - expected}\nmissing {expected - extent}\nat {positions}"
        self.checked += 1


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_every_committed_state_equals_its_definition(
    consistency: str, tmp_path: Path, database: Callable[[str], str], engine: Engine
) -> None:
    numbers = iter(range(10_000))

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(
        st.lists(views(), min_size=1, max_size=3),
        st.lists(st.tuples(st.sampled_from(TABLES), ROWS), max_size=12),
        STEPS,
    )
    def run(
        texts: list[str], rows: list[tuple[tuple[str, str], tuple[Any, ...]]], steps: list[tuple[Any, ...]]
    ) -> None:
        town = Town(tmp_path / f"town{next(numbers)}", database, engine, f'consistency = "{consistency}"')
        try:
            play(town, {f"v{number}": text for number, text in enumerate(texts)}, rows, steps)
        finally:
            town.close()

    run()


def play(
    town: Town, texts: dict[str, str], rows: list[tuple[tuple[str, str], tuple[Any, ...]]], steps: list[tuple[Any, ...]]
) -> None:
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for source in ("one", "two"):
        town.source(source, *[f"CREATE TABLE {table} ({described})" for s, table in TABLES if s == source])
        town.judge().forget(source)
    for source, table in TABLES:
        town.judge().execute(f"CREATE TABLE {source}.{table} ({described})")
    history = History()
    writers = [Writer(town, history) for _ in range(3)]
    for place, row in rows:
        writers[0].do(("insert", place, [row]))
    writers[0].end("commit")
    for name, text in texts.items():
        town.view(name, text)
    town.apply()
    witness = Witness(town, history, texts)
    witness.check()
    with town.maintainer() as maintainer, faults.on("install.committed", witness.check):
        for step in steps:
            match step:
                case ("do", writer, operation):
                    writers[writer].do(operation)
                case ("commit" | "rollback" as how, writer):
                    writers[writer].end(how)
                case ("cycle",):
                    maintainer.cycle()
        for writer in writers:
            writer.end("commit")
        for _ in range(200):
            if maintainer.cycle() is Outcome.IDLE:
                break
    witness.check()
    assert all(view["state"] == "fresh" for view in commands.views(town.folder))
    assert not commands.pending(town.folder), "nothing is left in the queue"
