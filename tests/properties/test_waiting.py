"""Views at different positions while messages wait are each right at their own positions.

Random rows and schema changes, and an operator who holds, releases, approves and rejects in any order. Every source
transaction is recorded with its id and the tables as it left them. After each step PostgreSQL evaluates the text of
every view, broken ones too, over the tables as the view's own positions say, and must get the view's rows. In the end
everything is decided, and all views are right over the sources as they are. DYDA_EXAMPLES says how many stories there
are. Each is a number: DYDA_STORY says which one is told first.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
import pytest

from dyda import commands, faults
from dyda.commands.pending_decisions import NotPossible
from dyda.engine import Engine
from dyda.errors import DydaError
from dyda.maintenance.catalog_state import load
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse import ViewRecord
from tests.recompute_oracle import PINNED, printed
from tests.town import Town

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "2"))
STORY = int(os.environ.get("DYDA_STORY", "0"))
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")
"""The same for all processes of one run, which must agree on the stories; None: there is only one process."""
FIRST = STORY or (random.Random(RUN).randrange(1, 1_000_000) if "DYDA_EXAMPLES" in os.environ else 1)
STEPS = 12

ANY = "-- dyda: extent = any\n"
VIEWS = {
    "items": "SELECT i.id, i.name FROM shop.item i",
    "prices": ANY + "SELECT i.id, i.price /* dispensable */ FROM shop.item i",
    "dear": "SELECT i.kind, max(i.price) AS price FROM shop.item i GROUP BY i.kind",
    "kinds": "SELECT i.kind, count(*) AS n FROM shop.item i GROUP BY i.kind",
    "sold": "SELECT i.name, s.day FROM shop.item i JOIN shop.sale s ON i.id = s.item",
    "sales": "SELECT s.day, count(*) AS n FROM shop.sale s GROUP BY s.day",
    "notes": ANY + "SELECT i.kind, n.text /* dispensable */ FROM shop.item i JOIN crm.note n ON i.id = n.item",
    "texts": "SELECT DISTINCT n.text FROM crm.note n",
}
LATER = {
    "days": "SELECT DISTINCT s.day FROM shop.{sale} s",
    "lines": "SELECT n.* FROM crm.{note} n",
}


@dataclass(frozen=True)
class Table:
    """A table as one transaction left it."""

    columns: tuple[tuple[str, str], ...]
    rows: str


@dataclass
class Source:
    """What a source's tables were after each of its transactions, by their oids."""

    town: Town
    name: str
    states: list[tuple[int, dict[int, Table]]] = field(default_factory=list)
    called: dict[str, list[int]] = field(default_factory=dict)
    """By name, the oids of all tables that have had it: the text of a broken view may mean one of long ago."""

    def execute(self, *statements: str) -> None:
        xid = self.town.execute(self.name, *statements)
        self.states.append((xid, self.now()))

    def now(self) -> dict[int, Table]:
        found = {}
        with psycopg2.connect(self.town.sources[self.name]) as connection, connection.cursor() as cursor:
            cursor.execute(PINNED)
            for oid, table in self.tables(cursor):
                self.called.setdefault(table, []).append(oid)
                cursor.execute(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                    " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                    (oid,),
                )
                columns = tuple(cursor.fetchall())
                rows = "\n".join(printed(self.town.sources[self.name], f"SELECT * FROM {table}").elements())
                found[oid] = Table(columns, rows)
        connection.close()
        return found

    @staticmethod
    def tables(cursor: psycopg2.extensions.cursor) -> list[tuple[int, str]]:
        cursor.execute(
            "SELECT oid::bigint, relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " ORDER BY oid"
        )
        return [(int(oid), str(name)) for oid, name in cursor.fetchall()]

    def at(self, oid: int, position: Position) -> tuple[Table | None, Table | None]:
        """The table where the position is: after the last transaction that it has, and before the first that it lacks.
        These differ where it has a later one that is none of the view's affair."""
        last = first = None
        lacking = False
        before: Table | None = None
        for xid, tables in self.states:
            table = tables.get(oid)
            if table != before:
                if xid == 0 or position.includes(xid):
                    last = table
                    first = first if lacking else table
                else:
                    lacking = True
            before = table
        return last, first


class Story:
    """One town and what happens in it."""

    def __init__(self, town: Town, seed: int) -> None:
        self.town, self.random = town, random.Random(seed)
        self.told: list[str] = []
        self.counter = 100
        town.source(
            "shop",
            "CREATE TABLE item (id int PRIMARY KEY, name text, price int, kind text, spare int)",
            "INSERT INTO item SELECT n, 'item ' || n, n % 4, 'kind ' || n % 3, n FROM generate_series(1, 6) n",
            "CREATE TABLE sale (item int, day int, amount int)",
            "INSERT INTO sale SELECT n % 5, n % 4, n FROM generate_series(1, 8) n",
        )
        town.source(
            "crm",
            "CREATE TABLE note (item int, text text, author text)",
            "INSERT INTO note VALUES (1, 'a', 'Ann'), (2, 'b', 'Bob')",
        )
        for name, text in VIEWS.items():
            town.view(name, text)
        town.apply()
        self.sources = {name: Source(town, name) for name in town.sources}
        for source in self.sources.values():
            source.states.append((0, source.now()))

    # --- what happens

    def step(self) -> None:
        happens: list[Callable[[], object]] = [
            self.rows,
            self.change_schema,
            self.hold,
            self.decide,
            self.settle,
            self.apply,
        ]
        self.random.choices(happens, [6, 4, 3, 3, 5, 1])[0]()

    def say(self, text: str) -> None:
        self.told.append(text)

    def _tables(self) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """Every table: its source, its name, its columns with their types."""
        for name, url in self.town.sources.items():
            with psycopg2.connect(url) as connection, connection.cursor() as cursor:
                for oid, table in Source.tables(cursor):
                    cursor.execute(
                        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                        " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
                        (oid,),
                    )
                    yield name, table, cursor.fetchall()
            connection.close()

    def _run(self, source: str, *statements: str) -> None:
        self.say(f"{source}: {'; '.join(statements)}")
        self.sources[source].execute(*statements)

    def _value(self, column: str, kind: str) -> str:
        self.counter += 1
        if column == "id":
            return str(self.counter)
        number = self.random.randrange(8)
        return f"'{column} {number}'" if kind == "text" else str(number)

    def rows(self) -> None:
        source, table, columns = self.random.choice(list(self._tables()))
        what = self.random.choice(["insert", "insert", "delete", "update", "all"])
        values = ", ".join(self._value(name, kind) for name, kind in columns)
        name, kind = self.random.choice(columns)
        chosen = f"ctid = (SELECT min(ctid) FROM {table})"
        match what:
            case "insert":
                self._run(source, f"INSERT INTO {table} VALUES ({values})")
            case "delete":
                self._run(source, f"DELETE FROM {table} WHERE {chosen}")
            case "update":
                self._run(source, f"UPDATE {table} SET {name} = {self._value(name, kind)} WHERE {chosen}")
            case _ if self.random.random() < 0.3:
                self._run(source, f"TRUNCATE {table}", f"INSERT INTO {table} VALUES ({values})")
            case _:
                self._run(source, f"INSERT INTO {table} VALUES ({values})", f"DELETE FROM {table} WHERE {chosen}")

    def change_schema(self) -> None:
        source, table, columns = self.random.choice(list(self._tables()))
        self.counter += 1
        name, kind = self.random.choice(columns)
        same = [other for other, type_ in columns if type_ == kind and other != name]
        changes = ["drop", "drop", "rename column", "rename", "rename", "add", "type", "exchange", "swap"]
        what = self.random.choice(changes)
        match what:
            case "drop" if len(columns) > 2 and name not in ("id", "item"):
                self._run(source, f"ALTER TABLE {table} DROP {name}")
            case "rename column" if name != "id":
                self._run(source, f"ALTER TABLE {table} RENAME {name} TO {name.split('_')[0]}_{self.counter}")
            case "rename":
                self._run(source, f"ALTER TABLE {table} RENAME TO {table.split('_')[0]}_{self.counter}")
            case "swap":
                old = f"{table.split('_')[0]}old_{self.counter}"
                self._run(
                    source,
                    f"CREATE TABLE between (LIKE {table} INCLUDING ALL)",
                    f"INSERT INTO between SELECT * FROM {table}",
                    f"ALTER TABLE {table} RENAME TO {old}",
                    f"ALTER TABLE between RENAME TO {table}",
                    f"DROP TABLE {old}",
                )
            case "add":
                self._run(source, f"ALTER TABLE {table} ADD extra_{self.counter} int DEFAULT {self.counter}")
            case "type" if kind == "integer":
                self._run(source, f"ALTER TABLE {table} ALTER {name} TYPE bigint")
            case "exchange" if same and name != "id" and "id" not in same:
                other = self.random.choice(same)
                self._run(
                    source,
                    f"ALTER TABLE {table} RENAME {name} TO between",
                    f"ALTER TABLE {table} RENAME {other} TO {name}",
                    f"ALTER TABLE {table} RENAME between TO {other}",
                )
            case _:
                self._run(source, f"ALTER TABLE {table} ALTER {name} SET STATISTICS 50")

    def hold(self) -> None:
        """What is new comes into the queue, and one message of it is held."""
        receiving = faults.on("unit.messages-received", _received)
        with self.town.maintainer() as maintainer, receiving, contextlib.suppress(Received):
            maintainer.cycle()
        pending = [m["id"] for m in commands.pending(self.town.folder) if m["state"] == "waiting"]
        if pending:
            number = self.random.choice(pending)
            answer = commands.pending_hold(self.town.folder, number)
            self.say(f"hold {number}: {answer['views']}")

    def decide(self, always: bool = False) -> bool:
        """One of those that wait, whichever; whether there was one."""
        waiting = [m for m in commands.pending(self.town.folder) if m["state"] in ("held", "approval")]
        if not waiting:
            return False
        message = self.random.choice(waiting)
        number = message["id"]
        if message["state"] == "held":
            decision = commands.pending_release
        else:
            decision = (
                commands.pending_reject if self.random.random() < 0.3 and not always else commands.pending_approve
            )
        try:
            answer = decision(self.town.folder, number)
            self.say(f"{decision.__name__} {number}: {answer['views']}")
        except NotPossible:
            # It waits with another one, which was not chosen.
            assert message["cause"]["kind"] == "waits_with", message
        return True

    def apply(self) -> None:
        """A new view; not over a table with a change that nobody has decided about."""
        left = [name for name in LATER if not (self.town.folder / "views" / f"{name}.sql").exists()]
        if not left:
            return
        name = left[0]
        tables = {table.split("_")[0]: table for _, table, _ in self._tables()}
        file = self.town.folder / "views" / f"{name}.sql"
        file.write_text(LATER[name].format(**tables))
        try:
            self.town.apply()
            self.say(f"apply {name}")
        except DydaError as error:
            self.say(f"apply {name}: {error.what}")
            file.unlink()

    def settle(self) -> None:
        self.town.settle()
        self.say(f"settle: {[(m['id'], m['state'], m['views']) for m in commands.pending(self.town.folder)]}")
        self.check()

    def finish(self) -> None:
        """Everything is decided, in any order."""
        self.settle()
        while self.decide(always=True):
            self.settle()
        assert commands.pending(self.town.folder) == []
        with self.town.opened() as opened:
            records = opened.warehouse.views()
            assert {record.earlier for record in records} == {None}
        alive = [view["name"] for view in commands.views(self.town.folder) if view["state"] != "broken"]
        assert {self.town.state(name)["state"] for name in alive} <= {"fresh"}
        self.town.check_definitions(*alive)

    # --- what must be true

    def check(self) -> None:
        with self.town.opened() as opened:
            records, known = opened.warehouse.views(), load(opened)
            queue = {(message.source, message.xid): message.id for message in opened.warehouse.messages()}
        self._check_queue(records, queue)
        oids = {name: record.relation.oid for name, record in known.relations.items()}
        for record in records:
            extent = self.town.extent(record.name)
            found = [self._evaluated(record, oids, place) for place in (0, 1)]
            assert extent in found, (
                f"view {record.name} ({record.stored_state}) has {dict(extent)}, and should have one of {found}"
                f" by {record.sql} at {dict(record.positions)}"
            )

    def _check_queue(self, records: Sequence[ViewRecord], queue: Mapping[tuple[str, int], int]) -> None:
        """A message is in the queue as long as a view lacks it, and no longer; who waits for it lacks it."""
        lacked = {
            (name, xid): {record.name for record in records if _lacks(record, name, xid)}
            for name, source in self.sources.items()
            for xid, _ in source.states[1:]
        }
        assert queue.keys() == {message for message, views in lacked.items() if views}
        for message in commands.pending(self.town.folder):
            (key,) = (key for key, number in queue.items() if number == message["id"])
            assert set(message["views"]) <= lacked[key], message

    def _evaluated(self, record: ViewRecord, oids: dict[RelationName, int], place: int) -> Counter[str] | str:
        judge = self.town.judge()
        for forgotten in self.sources:
            judge.forget(forgotten)
        for name in record.relations:
            position = record.positions.get(name.source)
            source = self.sources[name.source]
            broken = record.stored_state == ViewState.BROKEN
            meant = reversed(source.called[name.table]) if broken else [oids[name]]
            there = (source.at(oid, position)[place] for oid in meant if position is not None)
            table = next((table for table in there if table is not None), None)
            if table is None:
                return f"{name} is not there"
            described = ", ".join(f'"{column}" {kind}' for column, kind in table.columns)
            judge.execute(f'CREATE TABLE {name.source}."{name.table}" ({described})')
            self._fill(f'{name.source}."{name.table}"', table.rows.splitlines())
        try:
            return judge.recompute((record.sql or "").replace("`public`.", ""))
        except psycopg2.Error as error:
            return str(error)

    def _fill(self, table: str, lines: Iterable[str]) -> None:
        for line in lines:
            values = [None if value == "\\N" else value for value in line.split("\t")]
            self.town.judge().cursor.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(values))})", values)


def _lacks(record: ViewRecord, source: str, xid: int) -> bool:
    position = record.positions.get(source)
    return record.stored_state != ViewState.BROKEN and position is not None and not position.includes(xid)


class Received(Exception):
    """The queue knows the messages, and nothing has been done about them."""


def _received() -> None:
    raise Received


@pytest.mark.parametrize("seed", range(FIRST, FIRST + EXAMPLES))
@pytest.mark.parametrize("mode", ["approve", "auto"])
def test_views_that_wait_and_views_that_go_on_are_right_where_they_are(
    seed: int, mode: str, tmp_path: Path, database: Callable[[str], str], engine: Engine
) -> None:
    consistency = "complete" if seed % 2 else "strong"
    town = Town(tmp_path / "town", database, engine, f'schema_changes = "{mode}"\nconsistency = "{consistency}"')
    story = Story(town, seed)
    try:
        story.check()
        for _ in range(STEPS):
            story.step()
        story.finish()
    except BaseException:
        print(f"story {seed} ({mode}):", *story.told, sep="\n  ")
        raise
    finally:
        town.close()
