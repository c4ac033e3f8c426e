"""A steady load on four databases: pgbench at a fixed rate on each, and a schema change somewhere every few seconds.

pgbench runs prepared transactions of its own clock: what waited for a lock is made up for, so the rate asked for is the
rate that arrives unless the machine cannot keep it. Its statements name columns that never change; everything else of
a table is free to be renamed, retyped, added and dropped while it runs.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from dyda import embedded

__all__ = ["CLIENTS", "COLD", "HOT", "SOURCES", "Load", "Pgbench", "SchemaChanges", "Table", "schema"]

HOT = 20_000
COLD = 200
CLIENTS = 2
"""Of each pgbench."""

SOURCES = {
    "crm": ("customer", "city"),
    "shop": ("orders", "product"),
    "depot": ("shipment", "place"),
    "pay": ("payment", "currency"),
}
"""Each with a table that the load writes all the time, and one that only schema changes and their like touch."""

SCRIPT = """
\\set id random(1, {rows})
\\set other random(1, {rows})
\\set amount random(1, 1000000)
\\set kind random(1, 10)
\\if :kind <= 6
UPDATE {table} SET amount = :amount / 100.0 WHERE id = :id;
\\elif :kind <= 8
UPDATE {table} SET quantity = 1 + :amount % {cold}, other = :other WHERE id BETWEEN :id AND :id + 2;
\\else
BEGIN;
INSERT INTO {table} VALUES (nextval('{table}_number'), :other, :amount / 100.0, 1 + :amount % {cold}, 'new');
DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id > {rows} ORDER BY id LIMIT 1);
COMMIT;
\\endif
"""


def schema(source: str) -> list[str]:
    """The statements that make a source's tables: as many rows at the end as at the beginning."""
    hot, cold = SOURCES[source]
    return [
        f"CREATE TABLE {hot} (id bigint PRIMARY KEY, other int, amount numeric(12,2), quantity int, note text)",
        f"INSERT INTO {hot} SELECT i, 1 + i * 7919 % {HOT}, i % 1000, 1 + i % {COLD}, 'note ' || i % 100"
        f" FROM generate_series(1, {HOT}) i",
        f"CREATE INDEX ON {hot} (other)",
        f"CREATE INDEX ON {hot} (quantity)",
        f"CREATE SEQUENCE {hot}_number START {HOT + 1}",
        f"CREATE TABLE {cold} (id int PRIMARY KEY, title text, size int)",
        f"INSERT INTO {cold} SELECT i, 'title ' || i, i % 7 FROM generate_series(1, {COLD}) i",
        f"ANALYZE {hot}, {cold}",
    ]


class Pgbench:
    """pgbench on one database. `done` counts the transactions it has reported so far."""

    def __init__(
        self,
        url: str,
        table: str,
        rate: float,
        seconds: float,
        seed: int,
        folder: Path,
        text: str = SCRIPT,
        options: Sequence[str] = (),
    ) -> None:
        self.log = folder / f"pgbench-{table}.log"
        script = folder / f"{table}.pgbench"
        script.write_text(text.format(table=table, rows=HOT, cold=COLD))
        arguments = [
            *("--no-vacuum", "--protocol=prepared", f"--client={CLIENTS}", "--jobs=1", f"--random-seed={seed}"),
            *(f"--rate={rate}", f"--time={int(seconds)}", "--progress=5", f"--file={script}", *options, url),
        ]
        with open(self.log, "wb") as output:
            self.process = subprocess.Popen(
                [str(embedded.binaries() / "pgbench"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def done(self) -> int:
        """Transactions so far: exact at the end, until then by its reports every five seconds."""
        text = self.log.read_text(errors="replace")
        total = re.search(r"number of transactions actually processed: (\d+)", text)
        if total:
            return int(total[1])
        at, done = 0.0, 0.0
        for seconds, rate in re.findall(r"progress: ([\d.]+) s, ([\d.]+) tps", text):
            done += (float(seconds) - at) * float(rate)
            at = float(seconds)
        return round(done)

    @property
    def late(self) -> float:
        """Milliseconds that its transactions lately waited for their turn."""
        found = re.findall(r"lag ([\d.]+) ms", self.log.read_text(errors="replace"))
        return float(found[-1]) if found else 0.0

    def finish(self) -> None:
        """Wait for its end; whatever made it stop before is an error."""
        if self.process.wait(120) != 0:
            raise AssertionError(f"pgbench failed:\n{self.log.read_text(errors='replace')[-2000:]}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait(30)


@dataclass
class Table:
    """What a table and the columns that may be renamed are called now."""

    source: str
    name: str
    base: str
    hot: bool
    columns: dict[str, str] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)
    wide: bool = False


class SchemaChanges(threading.Thread):
    """One schema change every `interval` seconds, of a random kind, at a random source; `after` those of an earlier
    load, whose tables are as they left them."""

    def __init__(self, urls: dict[str, str], interval: float, seed: int, after: SchemaChanges | None = None) -> None:
        super().__init__(name="schema changes", daemon=True)
        self.urls, self.interval = urls, interval
        self.random = random.Random(seed)
        self.tables = []
        for source in urls:
            hot, cold = SOURCES[source]
            self.tables.append(Table(source, hot, hot, True, {"note": "note"}))
            self.tables.append(Table(source, cold, cold, False, {"title": "title", "size": "size"}))
        self.kinds: dict[str, int] = {}
        self.missed = 0
        """Changes given up because a lock was not to be had in time; they are made up for by the next one."""
        self.error: BaseException | None = None
        self._ended = threading.Event()
        self._connections: dict[str, Any] = {}
        self._numbers = 0
        if after is not None:
            self.tables, self._numbers = after.tables, after._numbers

    @property
    def done(self) -> int:
        return sum(self.kinds.values())

    def stop(self) -> None:
        self._ended.set()

    def end(self) -> None:
        """No more of them; what went wrong with one is raised here."""
        self._ended.set()
        self.join(60)
        for connection in self._connections.values():
            connection.close()
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            due = time.monotonic() + self.interval
            while not self._ended.wait(max(0.0, due - time.monotonic())):
                while not self._ended.is_set() and not self._change():
                    self.missed += 1
                due += self.interval
        except BaseException as error:
            self.error = error

    def _change(self) -> bool:
        """One change; False if its lock was not to be had."""
        hot, cold = ([table for table in self.tables if table.hot is kind] for kind in (True, False))
        kinds = {
            "rename column": (4, hot + cold),
            "add column": (2, hot + cold),
            "drop column": (2, [table for table in hot + cold if table.extra]),
            "retype": (1, cold),
            "rename table": (1, cold),
            "swap": (1, cold),
            "truncate": (1, cold),
            "rename and write": (2, cold),
        }
        possible = {kind: (weight, tables) for kind, (weight, tables) in kinds.items() if tables}
        (kind,) = self.random.choices(list(possible), [weight for weight, _ in possible.values()])
        table = self.random.choice(possible[kind][1])
        try:
            with self._cursor(table.source) as cursor:
                getattr(self, "_" + kind.replace(" ", "_"))(cursor, table)
        except (psycopg2.errors.LockNotAvailable, psycopg2.errors.DeadlockDetected):
            return False
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        return True

    @contextlib.contextmanager
    def _cursor(self, source: str) -> Iterator[Any]:
        if source not in self._connections:
            self._connections[source] = psycopg2.connect(self.urls[source])
        with self._connections[source] as connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '2s'")
            yield cursor

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _rename_column(self, cursor: Any, table: Table) -> None:
        base = self.random.choice(sorted(table.columns))
        old = table.columns[base]
        new = base if old != base else f"{base}_{self._number()}"
        cursor.execute(f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}")
        table.columns[base] = new

    def _add_column(self, cursor: Any, table: Table) -> None:
        name = f"extra_{self._number()}"
        cursor.execute(f"ALTER TABLE {table.name} ADD COLUMN {name} int DEFAULT 7")
        table.extra.append(name)

    def _drop_column(self, cursor: Any, table: Table) -> None:
        cursor.execute(f"ALTER TABLE {table.name} DROP COLUMN {table.extra[0]}")
        table.extra.pop(0)

    def _retype(self, cursor: Any, table: Table) -> None:
        kind = "int" if table.wide else "bigint"
        cursor.execute(f"ALTER TABLE {table.name} ALTER COLUMN {table.columns['size']} TYPE {kind}")
        table.wide = not table.wide

    def _rename_table(self, cursor: Any, table: Table) -> None:
        new = table.base if table.name != table.base else f"{table.base}_{self._number()}"
        cursor.execute(f"ALTER TABLE {table.name} RENAME TO {new}")
        table.name = new

    def _swap(self, cursor: Any, table: Table) -> None:
        """The table is built anew beside itself and takes the old one's name, as online schema changers do."""
        fresh = f"fresh_{self._number()}"
        cursor.execute(f"CREATE TABLE {fresh} (LIKE {table.name} INCLUDING ALL)")
        cursor.execute(f"INSERT INTO {fresh} SELECT * FROM {table.name}")
        cursor.execute(f"DROP TABLE {table.name}")
        cursor.execute(f"ALTER TABLE {fresh} RENAME TO {table.name}")

    def _truncate(self, cursor: Any, table: Table) -> None:
        cursor.execute(f"TRUNCATE {table.name}")
        cursor.execute(f"INSERT INTO {table.name} SELECT i, 'again ' || i, 1 FROM generate_series(1, {COLD}) i")

    def _rename_and_write(self, cursor: Any, table: Table) -> None:
        """Rows before and after a change of their columns, in one transaction."""
        title, new = table.columns["title"], f"title_{self._number()}"
        which = self.random.randint(1, COLD)
        cursor.execute(f"UPDATE {table.name} SET {title} = 'before' WHERE id = {which}")
        cursor.execute(f"ALTER TABLE {table.name} RENAME COLUMN {title} TO {new}")
        cursor.execute(f"UPDATE {table.name} SET {new} = 'after {which}' WHERE id = {which}")
        table.columns["title"] = new


class Load:
    """All of it, as a context manager; `finish` waits for the end of the time."""

    def __init__(
        self, urls: dict[str, str], rate: float, interval: float, seconds: float, seed: int, folder: Path
    ) -> None:
        self.writers = [
            Pgbench(url, SOURCES[source][0], rate / len(urls), seconds, seed + number, folder)
            for number, (source, url) in enumerate(urls.items())
        ]
        self.changes = SchemaChanges(urls, interval, seed)
        self.changes.start()

    @property
    def transactions(self) -> int:
        return sum(writer.done for writer in self.writers)

    @property
    def running(self) -> bool:
        return any(writer.process.poll() is None for writer in self.writers)

    @property
    def late(self) -> float:
        return max(writer.late for writer in self.writers)

    def finish(self) -> None:
        self.changes.end()
        for writer in self.writers:
            writer.finish()

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self.writers:
            writer.stop()
        self.changes.stop()
