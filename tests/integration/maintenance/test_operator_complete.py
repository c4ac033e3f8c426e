"""Level `complete` for a run of transactions (rule W6): a state for each, and few Spark jobs for all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg2
import pytest

from dyda import commands, faults
from dyda.maintenance.cycle import Outcome
from dyda.model.position import Position
from tests.recompute_oracle import PINNED, _printed
from tests.town import Town

pytestmark = pytest.mark.long

SOURCES = {"one": "r", "two": "s", "three": "t"}
COLUMNS = "id int PRIMARY KEY, k int, n int"
TRANSACTIONS = 1000
JOBS = 20

VIEWS = {
    "joined": "SELECT r.id AS a, s.id AS b, t.n FROM one.r r JOIN two.s s ON r.k = s.k JOIN three.t t ON s.n = t.k",
    "grouped": "SELECT r.k, count(*) AS c, sum(s.n) AS s FROM one.r r JOIN two.s s ON r.k = s.k GROUP BY r.k",
    "padded": "SELECT r.id, s.id AS b FROM one.r r LEFT JOIN two.s s ON r.k = s.k AND s.n > 1",
    "left_over": "SELECT r.k FROM one.r r EXCEPT ALL SELECT t.k FROM three.t t",
}


@dataclass
class Writer:
    """Commits single-row transactions at three sources in turn and remembers them."""

    town: Town
    random: random.Random
    done: list[tuple[str, int, str]] = field(default_factory=list)
    """Source, transaction id and statement, in the order of commit."""

    def __post_init__(self) -> None:
        self.connections = {source: self.town.connect(source) for source in SOURCES}
        self.alive: dict[str, list[int]] = {source: [] for source in SOURCES}
        self.next = 1

    def commit(self) -> None:
        source = self.random.choice(list(SOURCES))
        statement = self.statement(source, SOURCES[source])
        connection = self.connections[source]
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            assert cursor.rowcount == 1, statement
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            self.done.append((source, cursor.fetchone()[0], statement))

    def statement(self, source: str, table: str) -> str:
        alive, draw = self.alive[source], self.random
        value = draw.choice(["NULL", "0", "1", "2", "3", "4"])
        kind = draw.choice(["insert", "insert", "update", "delete", "delete" if len(alive) > 12 else "insert"])
        if kind == "insert" or not alive:
            self.next += 1
            alive.append(self.next)
            return f"INSERT INTO {table} VALUES ({self.next}, {value}, {draw.randint(0, 4)})"
        if kind == "update":
            return f"UPDATE {table} SET k = {value}, n = {draw.randint(0, 4)} WHERE id = {draw.choice(alive)}"
        return f"DELETE FROM {table} WHERE id = {alive.pop(draw.randrange(len(alive)))}"

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


class Witness:
    """Looks at the warehouse after each commit: one transaction more, and every view as PostgreSQL evaluates it."""

    def __init__(self, town: Town, writer: Writer) -> None:
        self.town, self.writer = town, writer
        self.connection = psycopg2.connect(town.warehouse)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.cursor.execute(PINNED)
        self.installed: list[tuple[str, int, str]] = []
        self.seen: set[tuple[str, int, str]] = set()

    def look(self) -> None:
        self.cursor.execute("SELECT DISTINCT source, position FROM dyda.position")
        positions: dict[str, list[Position]] = {}
        for source, text in self.cursor.fetchall():
            positions.setdefault(source, []).append(Position.parse(text))
        fresh = []
        for entry in self.writer.done:
            included = {position.includes(entry[1]) for position in positions[entry[0]]}
            assert len(included) == 1, f"all views are in one state, but not with {entry}"
            if included == {True} and entry not in self.seen:
                fresh.append(entry)
            assert entry not in self.seen or included == {True}, f"{entry} was there already"
        if not fresh:
            return
        assert len(fresh) == 1, f"one transaction per state, not {len(fresh)}"
        (entry,) = fresh
        before = [earlier for earlier in self.writer.done if earlier[0] == entry[0]]
        mine = [earlier for earlier in self.installed if earlier[0] == entry[0]]
        assert mine == before[: len(mine)], "in the order of commit"
        assert before[len(mine)] == entry, "in the order of commit"
        self.installed.append(entry)
        self.seen.add(entry)
        judge = self.town.judge()
        judge.execute(f"SET search_path = {entry[0]}; {entry[2]}")
        for name, text in VIEWS.items():
            extent, expected = _printed(self.cursor, f"SELECT * FROM public.{name}"), judge.evaluate(text)
            assert extent == expected, (
                f"{name} after {len(self.installed)} transactions, the last was {entry}:"
                f" extra {extent - expected}, missing {expected - extent}"
            )

    def close(self) -> None:
        self.connection.close()


def test_W6_a_thousand_transactions_are_a_thousand_states_in_few_jobs(new_town: Callable[..., Town]) -> None:
    town = new_town('consistency = "complete"')
    for source, table in SOURCES.items():
        town.source(source, f"CREATE TABLE {table} ({COLUMNS})")
        town.judge().copy(source, town.sources[source], [table])
    for name, text in VIEWS.items():
        town.view(name, text)
    town.apply()
    writer = Writer(town, random.Random(5))
    witness = Witness(town, writer)
    try:
        for _ in range(TRANSACTIONS):
            writer.commit()
        assert town.engine is not None
        jobs = town.engine.jobs
        with town.maintainer() as maintainer, faults.on("install.committed", witness.look):
            while maintainer.cycle() is not Outcome.IDLE:
                pass
        assert len(witness.installed) == TRANSACTIONS
        assert town.engine.jobs - jobs < JOBS
    finally:
        witness.close()
        writer.close()
    town.check()
    assert not commands.pending(town.folder)
    assert {answer["result"] for answer in commands.verify(town.folder, engine=town.engine)} == {"equal"}
