"""Churn: random data and schema changes at three sources while the daemon is killed with SIGKILL again and again.

    python -m tests.torture.churn --seconds 1800 --seed 1

A round: some transactions while no daemon runs, a daemon, more transactions under it, SIGKILL: at a moment of the
test's choosing, or by the daemon itself at a fault point. Other rounds leave nothing to luck: changes that depend on
each other are received together, and a schema changes while the daemon is stopped in the middle of a unit. Dropped
columns come back, and `dyda apply` recovers the views that broke. At the end (and now and then) a daemon runs until
nothing is left, and PostgreSQL recomputes every view that is not broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from dyda import commands, faults
from tests.torture.daemon import Daemon, TortureFailed
from tests.town import Town

COLUMNS = {"id": "int", "k": "int", "t": "text", "n": "numeric(8,2)", "spare": "int"}
WIDER = {"k": ("bigint", "(k + 1) % 8"), "n": ("numeric(10,3)", "n + 1"), "t": ("varchar(60)", "upper(t)")}
TABLES = {"crm": ("customer", "city"), "booking": ("flight", "seat"), "tours": ("tour", "guide")}
VIEWS = {
    "passengers": "SELECT c.id, c.t AS name, f.n AS price FROM crm.customer c JOIN booking.flight f ON c.k = f.k",
    "trips": "SELECT f.id AS flight, t.t AS tour FROM booking.flight f JOIN tours.tour t ON f.id = t.k",
    "journeys": "SELECT c.id, f.id AS flight, t.n FROM crm.customer c JOIN booking.flight f ON c.id = f.id"
    " JOIN tours.tour t ON t.k = c.k WHERE f.k > 1",
    "guides": "SELECT g.id, upper(g.t) AS name FROM tours.guide g WHERE g.k > 1",
    "seats": "SELECT s.id, s.k + 1 AS row, c.t AS city FROM booking.seat s JOIN crm.city c ON s.k = c.k",
    "pairs": "SELECT a.id AS one, b.id AS other FROM tours.guide a JOIN tours.guide b ON a.k = b.k",
}
UNDER_WAY = 60.0
"""Seconds to wait for the daemon's next installation before it is killed anyway."""


@dataclass
class Table:
    """What the test knows of a table: what it and its columns are called now; None: dropped."""

    source: str
    base: str
    name: str
    columns: dict[str, str | None] = field(default_factory=lambda: {name: name for name in COLUMNS})
    wide: set[str] = field(default_factory=set)
    extra: list[str] = field(default_factory=list)

    @property
    def present(self) -> dict[str, str]:
        return {base: name for base, name in self.columns.items() if name is not None}


def readers(source: str, table: str, column: str = r"\w+") -> set[str]:
    """The views whose text reads the column; without one, those that read the table."""
    found = set()
    for view, text in VIEWS.items():
        for alias in re.findall(rf"\b{source}\.{table} (\w+)", text):
            if re.search(rf"\b{alias}\.{column}\b", text):
                found.add(view)
    return found


@dataclass
class Summary:
    seed: int
    seconds: float = 0.0
    transactions: int = 0
    schema_changes: int = 0
    kills: int = 0
    aborts: int = 0
    merged: int = 0
    """Units of kind merged that were installed."""
    together: int = 0
    units: int = 0
    recoveries: int = 0
    unbroken: int = 0
    total: int = 0

    def __str__(self) -> str:
        return (
            f"churn: {self.seconds:.0f} s, seed {self.seed}, {self.transactions} transactions,"
            f" {self.schema_changes} of them schema changes, {self.kills} kills, {self.aborts} aborts,"
            f" {self.merged} merged units, {self.together} of {self.units} units took several messages,"
            f" {self.recoveries} views recovered, views unbroken {self.unbroken}/{self.total}"
        )


class Churn:
    """One run over a town that has no sources yet. A town with an engine needs a process only for what is killed."""

    def __init__(self, town: Town, seed: int, say: Callable[[str], None] = lambda text: None) -> None:
        self.town, self.say = town, say
        self.random = random.Random(seed)
        self.summary = Summary(seed, total=len(VIEWS))
        self.tables = [Table(source, name, name) for source, names in TABLES.items() for name in names]
        self.daemon: Daemon | None = None
        self.daemons: list[Daemon] = []
        self.doomed: set[str] = set()
        """Views that read a column which was dropped and which were not seen unbroken, all being settled, since."""
        self.frozen: dict[str, Counter[str]] = {}
        self.journal: list[str] = []
        self.numbers = 0
        self.trace: Callable[[str], None] | None = None

    # --- the whole run

    def prepare(self) -> None:
        for source, names in TABLES.items():
            described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            self.town.source(source, *[f"CREATE TABLE {name} ({described})" for name in names])
        for table in self.tables:
            self._execute(table.source, [self._insert(table, 8)])
        for view, text in VIEWS.items():
            self.town.view(view, text)
        if self.town.engine is None:
            self.town.run("apply", "--yes", timeout=600)
        else:
            self.town.apply()

    def run(self, rounds: int | None = None, seconds: float | None = None) -> Summary:
        """`rounds` kills, or as many as fit into `seconds`."""
        begun = time.monotonic()
        try:
            self.prepare()
            done = 0
            while done < rounds if rounds is not None else time.monotonic() - begun < (seconds or 0):
                done += 1
                self.note(f"round {done}")
                (self.ambush, self.corner, self.round, self.round)[(done - 1) % 4]()
                self.look()
                if self.frozen and self.random.random() < 0.5:
                    self.mend()
                if rounds is None and done % 8 == 0:
                    self.settle()
                    self.say(f"{self._counted()} after {done} rounds")
            self.settle()
            if self.frozen:  # what was dropped last has broken its views by now
                self.mend()
                self.settle()
            if self.summary.unbroken * 2 < len(VIEWS):
                raise TortureFailed(f"broken at the end: {sorted(self.frozen)}")
        except BaseException:
            self.say("\n".join(["the last steps:", *self.journal[-60:]]))
            raise
        finally:
            for daemon in self.daemons:
                if daemon.alive:
                    daemon.kill(children=True)
                daemon.bury()
        self.summary.seconds = time.monotonic() - begun
        return self._counted()

    def round(self) -> None:
        """Writes without a daemon, a daemon, writes under it, SIGKILL."""
        for _ in range(self.random.randrange(4)):
            self.step()
        if self.random.random() < 0.35:
            point = self.random.choice([point for point in faults.POINTS if not point.startswith("sweep.")])
            daemon = self.start(f"{point}=kill:{self.random.randint(1, 3)}")
        else:
            daemon = self.start()
        if daemon.up():
            before = self._units()
            for _ in range(self.random.randint(3, 8)):
                self.step()
                if self.random.random() < 0.6:
                    self.chase()
            goal = before + self.random.randint(1, 3)
            self._until(lambda: self._units() >= goal or self._idle(before) or not daemon.alive, UNDER_WAY)
            if self.random.random() < 0.7:
                self.chase()
            time.sleep(self.random.uniform(0, 0.4))
        self.kill(daemon)

    def ambush(self) -> None:
        """Changes at two sources that depend on each other in a cycle are received, and the daemon dies over them."""
        tables = [table for table in self.tables if table.base in ("customer", "flight")]
        for table in tables:
            self._execute(table.source, [self._insert(table, 2)])
        for table in tables:
            self.rename_column(table, "k")
        if not self.doomed:
            self.drop_used(self.random.choice([table for table in self.tables if table.base in ("seat", "guide")]), "k")
        daemon = self.start("unit.messages-received=kill")
        self._until(lambda: not daemon.alive, 300)
        self.kill(daemon)
        merged = [
            unit
            for unit in commands.pending_plan(self.town.folder, self.town.engine)["units"]
            if unit["kind"] == "merged"
        ]
        self.note(f"merged: {[unit['messages'] for unit in merged]}")
        if not merged and not self.frozen:
            raise TortureFailed("changes that depend on each other in a cycle are not merged")

    def corner(self) -> None:
        """A schema changes while the daemon stands in the middle of a unit that reads it: the unit is void."""
        one, other = (table for table in self.tables if table.base in ("customer", "flight"))
        self._execute(one.source, [self._insert(one, 2)])
        aborts = self._aborts()
        daemon = self.start("unit.messages-received=stop")
        self._until(lambda: daemon.stopped or not daemon.alive, 300)
        self.rename_column(other, "id")
        daemon.process.send_signal(signal.SIGCONT)
        self._until(lambda: not daemon.alive or (self._aborts() > aborts and self._drained()), 300)
        if self._aborts() == aborts:
            raise TortureFailed(f"the unit was not void:\n{daemon.text()[-4000:]}")
        self.kill(daemon)

    def start(self, fault: str = "") -> Daemon:
        self.note(f"daemon {fault}")
        self.numbers += 1
        self.daemon = Daemon(self.town.folder, self.town.folder / f"daemon-{self.numbers}.log", fault)
        self.daemons = [daemon for daemon in self.daemons if daemon.alive] + [self.daemon]
        return self.daemon

    def kill(self, daemon: Daemon) -> None:
        self.note("kill" if daemon.alive else "killed itself")
        if daemon.alive:
            daemon.kill(children=self.random.random() < 0.5)
        else:
            daemon.bury()
        daemon.check()
        self.daemon = None
        self.summary.kills += 1

    def settle(self) -> None:
        """Nothing is written any more: everything is processed, and every view is what it must be."""
        self.note("settle")
        if self.town.engine is None:
            self.town.run("daemon", "--until-idle", timeout=600)
        else:
            self.town.settle()
        self.check()

    def check(self) -> None:
        self.look()
        states = {view["name"]: view for view in commands.views(self.town.folder)}
        alive = [name for name, view in states.items() if view["state"] != "broken"]
        self.summary.unbroken = len(alive)
        # On a slow machine a view is stale ten seconds after its sources were polled; that nothing is pending is below.
        odd = {name: view for name, view in states.items() if view["state"] not in ("fresh", "stale", "broken")}
        if odd:
            raise TortureFailed(f"neither fresh nor broken: {odd}")
        unexpected = {name: states[name]["reason"] for name in set(states) - set(alive) - self.doomed}
        if unexpected:
            raise TortureFailed(f"broken although everything they read is there: {unexpected}")
        pending = json.loads(self.town.run("pending", "--json").stdout)
        if pending:
            raise TortureFailed(f"left in the queue: {pending}")
        self.town.check_definitions(*alive)
        self.doomed -= set(alive)

    def look(self) -> None:
        """While no daemon runs: a broken view keeps the rows it had when it broke."""
        broken = {view["name"] for view in commands.views(self.town.folder) if view["state"] == "broken"}
        extents = {name: self.town.extent(name) for name in sorted(broken)}
        for name, extent in extents.items():
            if self.frozen.get(name, extent) != extent:
                raise TortureFailed(f"{name} is broken, and its rows moved: {self.frozen[name]} became {extent}")
        self.frozen = extents

    def mend(self) -> None:
        """Everything is called and typed as in the views' files again; then `dyda apply`."""
        for table in self.tables:
            self.restore(table)
        broken, self.frozen = len(self.frozen), {}
        daemon = self.start() if self.random.random() < 0.5 else None
        if daemon is not None:
            daemon.up()
        fault = "" if daemon or self.random.random() < 0.5 else "install.before-commit=kill"
        applying = [sys.executable, "-m", "dyda", "-C", str(self.town.folder), "apply", "--yes"]
        for attempt in range(5):
            self.note(f"apply {fault}")
            environment = os.environ | ({"DYDA_FAULT": fault} if fault else {})
            log = self.town.folder / "apply.log"
            with open(log, "wb") as output:
                process = subprocess.Popen(
                    applying, stdout=output, stderr=output, env=environment, start_new_session=True
                )
            for _ in range(3):
                self.data()
                time.sleep(self.random.uniform(0, 0.5))
            code = process.wait(300)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if code == 0:
                self.summary.recoveries += broken
                break
            if not fault or code != -signal.SIGKILL:
                raise TortureFailed(f"apply ended with {code} (attempt {attempt}):\n{log.read_text()[-4000:]}")
            fault = ""
        if daemon is not None:
            self.kill(daemon)

    # --- one transaction

    def step(self) -> None:
        if self.random.random() < 0.6:
            self.data()
        else:
            self.schema_change()

    def data(self) -> int | None:
        table = self.random.choice(self.tables)
        return self._execute(table.source, [self._change(table) for _ in range(self.random.randint(1, 3))])

    def chase(self) -> None:
        """A data update, and a schema change as soon as it has been received: its unit is under way then."""
        table = self.random.choice(self.tables)
        xid = self._execute(table.source, [self._insert(table, 2)])
        if xid is None:
            return
        self._until(lambda: self._received(table.source, xid) or not (self.daemon and self.daemon.alive), 3)
        self.schema_change(self.random.choice([other for other in self.tables if other.source != table.source]))

    def schema_change(self, table: Table | None = None) -> None:
        table = table or self.random.choice(self.tables)
        kinds: dict[Callable[[Table], None], int] = {
            self.rename_column: 4,
            self.rename_column_back: 4,
            self.add_column: 1,
            self.drop_unused: 1,
            self.retype: 3,
            self.truncate: 1,
            self.drop_used: 1,
            self.rename_table: 2,
            self.swap: 2,
            self.mixed: 2,
        }
        self.random.choices(list(kinds), list(kinds.values()))[0](table)

    def rename_column(self, table: Table, base: str = "") -> None:
        base = base or self.random.choice(sorted(table.present))
        old, new = table.columns[base], f"{base}_{self._number()}"
        if old is not None and self._alter(table, f"RENAME COLUMN {old} TO {new}"):
            table.columns[base] = new

    def rename_column_back(self, table: Table) -> None:
        renamed = [base for base, name in table.present.items() if name != base]
        if renamed:
            base = self.random.choice(renamed)
            if self._alter(table, f"RENAME COLUMN {table.columns[base]} TO {base}"):
                table.columns[base] = base

    def add_column(self, table: Table) -> None:
        name = f"extra_{self._number()}"
        if self._alter(table, f"ADD COLUMN {name} int DEFAULT 7"):
            table.extra.append(name)

    def drop_unused(self, table: Table) -> None:
        if table.extra and self._alter(table, f"DROP COLUMN {table.extra[0]}"):
            table.extra.pop(0)

    def retype(self, table: Table) -> None:
        base = self.random.choice(sorted(WIDER))
        name = table.columns[base]
        if name is None:
            return
        kind, using = (COLUMNS[base], base) if base in table.wide else WIDER[base]
        using = re.sub(rf"\b{base}\b", name, using)
        if self._alter(table, f"ALTER COLUMN {name} TYPE {kind} USING {using}"):
            table.wide ^= {base}

    def truncate(self, table: Table) -> None:
        self._execute(table.source, [f"TRUNCATE {table.name}", self._insert(table, 4)], schema=True)

    def drop_used(self, table: Table, base: str = "") -> None:
        base = base or self.random.choice(["n", "t", "k"])
        would = self.doomed | readers(table.source, table.base, base)
        name = table.columns[base]
        if name is not None and len(would) * 2 <= len(VIEWS) and self._alter(table, f"DROP COLUMN {name}"):
            table.columns[base] = None
            table.wide.discard(base)
            self.doomed = would

    def rename_table(self, table: Table) -> None:
        new = table.base if table.name != table.base else f"{table.base}_{self._number()}"
        if self._alter(table, f"RENAME TO {new}"):
            table.name = new

    def swap(self, table: Table) -> None:
        """The table is rebuilt beside itself and takes the old one's name, all in one transaction."""
        new = f"fresh_{self._number()}"
        keep = self.random.random() < 0.5
        statements = [
            f"CREATE TABLE {new} (LIKE {table.name})",
            f"INSERT INTO {new} SELECT * FROM {table.name} WHERE {table.columns['id']} % 5 <> 0",
            f"DROP TABLE {table.name}" if not keep else f"ALTER TABLE {table.name} RENAME TO old_{new}",
            f"ALTER TABLE {new} RENAME TO {table.name}",
        ]
        self._execute(table.source, statements, schema=True)

    def mixed(self, table: Table) -> None:
        """Data before and after a rename, in one transaction."""
        base = self.random.choice(sorted(table.present))
        old, new = table.columns[base], f"{base}_{self._number()}"
        before = self._change(table)
        table.columns[base] = new
        after = self._change(table)
        renamed = f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}"
        if self._execute(table.source, [before, renamed, after], schema=True) is None:
            table.columns[base] = old

    def restore(self, table: Table) -> None:
        """Back to what the views' files say."""
        while table.name != table.base:
            self.rename_table(table)
        for base, name in list(table.columns.items()):
            while table.columns[base] != base:
                change = f"RENAME COLUMN {name} TO {base}" if name else f"ADD COLUMN {base} {COLUMNS[base]}"
                if self._alter(table, change):
                    table.columns[base] = base
                    if name is None:
                        value = {"t": "'back ' || id"}.get(base, "id % 8")
                        self._execute(table.source, [f"UPDATE {table.name} SET {base} = {value}"])

    # --- helpers

    def note(self, text: str) -> None:
        self.journal.append(f"{time.strftime('%H:%M:%S')} {text}")
        if self.trace is not None:
            self.trace(self.journal[-1])

    def _number(self) -> int:
        self.numbers += 1
        return self.numbers

    def _alter(self, table: Table, change: str) -> bool:
        return self._execute(table.source, [f"ALTER TABLE {table.name} {change}"], schema=True) is not None

    def _execute(self, source: str, statements: list[str], schema: bool = False) -> int | None:
        """One transaction; None where a running unit kept its tables for too long: nothing happened then."""
        try:
            xid = self.town.execute(source, "SET lock_timeout = '3s'", *statements)
        except psycopg2.errors.LockNotAvailable:
            self.note(f"{source}: gave up: {'; '.join(statements)}")
            return None
        self.note(f"{source} {xid}: {'; '.join(statements)}")
        self.summary.transactions += 1
        self.summary.schema_changes += schema
        return xid

    def _change(self, table: Table) -> str:
        key = table.columns["id"]
        which = self.random.randrange(16)
        kind = self.random.randrange(4)
        if kind == 0:
            return f"DELETE FROM {table.name} WHERE {key} = {which}"
        updated = sorted(set(table.present) - {"id"})
        if kind == 1 and updated:
            base = self.random.choice(updated)
            return f"UPDATE {table.name} SET {table.columns[base]} = {self._value(base)} WHERE {key} = {which}"
        return self._insert(table, self.random.randint(1, 3))

    def _insert(self, table: Table, count: int) -> str:
        names = table.present
        rows = [f"({', '.join(self._value(base) for base in names)})" for _ in range(count)]
        return f"INSERT INTO {table.name} ({', '.join(names.values())}) VALUES {', '.join(rows)}"

    def _value(self, base: str) -> str:
        if base == "t":
            return self.random.choice(["NULL", "''", "'a'", "'ä b'", "'C'"])
        if base == "id":
            return str(self.random.randrange(16))
        return self.random.choice(["NULL", *map(str, range(8))])

    def _until(self, done: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not done() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _ask(self, query: str, *values: Any) -> Any:
        connection = psycopg2.connect(self.town.warehouse)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(query, values)
                return cursor.fetchone()[0]
        finally:
            connection.close()

    def _units(self) -> int:
        return int(self._ask("SELECT count(*) FROM dyda.unit"))

    def _idle(self, before: int) -> bool:
        """Whether something was installed and nothing that was received is left."""
        return self._units() > before and self._drained()

    def _drained(self) -> bool:
        return not self._ask("SELECT count(*) FROM dyda.message")

    def _aborts(self) -> int:
        return int(self._ask("SELECT count(*) FROM dyda.abort"))

    def _received(self, source: str, xid: int) -> bool:
        return bool(self._ask("SELECT count(*) FROM dyda.message WHERE source = %s AND xid = %s", source, xid))

    def _counted(self) -> Summary:
        self.summary.aborts = self._aborts()
        self.summary.units = self._units()
        self.summary.merged = int(self._ask("SELECT count(*) FROM dyda.unit WHERE kind = 'merged'"))
        self.summary.together = int(self._ask("SELECT count(*) FROM dyda.unit WHERE messages > 1"))
        return self.summary


def main() -> None:
    from tests.conftest import Server, _administer

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-lanes", action="store_true", help="whatever is built is built in turn, not in lanes")
    parser.add_argument("--keep", action="store_true", help="keep the project folder")
    parser.add_argument("--trace", action="store_true", help="print every step")
    chosen = parser.parse_args()
    server = Server({"fsync": "off", "wal_level": "logical"}).start()

    def database(hint: str) -> str:
        name = f"{hint}_{uuid.uuid4().hex[:12]}"
        _administer(server.url(), "CREATE DATABASE {}", name)
        return urllib.parse.urlunsplit(urllib.parse.urlsplit(server.url())._replace(path="/" + name))

    folder = Path(tempfile.mkdtemp(prefix="dyda-churn-"))
    town = Town(folder, database, None, "lanes = 0" if chosen.no_lanes else "lane_size = 1")
    try:
        churn = Churn(town, chosen.seed, lambda text: print(text, flush=True))
        churn.trace = churn.say if chosen.trace else None
        print(churn.run(chosen.rounds, None if chosen.rounds is not None else chosen.seconds))
    finally:
        town.close()
        server.remove()
        if chosen.keep:
            print(folder)


if __name__ == "__main__":
    main()
