"""`python -m tests.walks`: how one update travels through the code, counted.

A daemon on embedded servers processes one update of a row, then the drop of a column that knowledge replaces. Every
function of the product that is called on the way is noted once, when it is first called: what somebody has to read who
follows the update. What another thread does is read where it was asked for, not where the main thread happens to be
when the other one begins: otherwise the count would change from run to run. The language that all packages share, and
the modules directly in `dyda`, are not places on the way, and an object that is only made is not visited. Of the rest a
function is a stop if it calls another package.

Printed for each walk: the stops, their modules, how often the way changes from one package to another, how often it
enters `dyda.maintenance`, and in which order it comes to the modules of maintenance's parts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures.thread import _WorkItem
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import click
import psycopg2

import dyda
from dyda.cli import main

__all__ = ["Walk"]

ROOT = Path(dyda.__file__).resolve().parent.parent
PACKAGES = ("dyda", "vs", "va", "vm", "scheduler")
SHARED = ("dyda", "model")
SECONDS = 120
VIEW = """-- dyda: extent = any
SELECT c.name, c.city /* replaceable */, o.amount
FROM example.customer c /* replaceable */ JOIN example.orders o ON o.customer_id = c.id
"""
KNOWLEDGE = """[[join]]
between = ["example.customer", "example.address"]
on = "customer.id = address.customer_id"

[[function]]
attribute = "example.customer.city"
equals = "example.address.city"
"""
TABLES = """
CREATE TABLE customer (id integer PRIMARY KEY, name text NOT NULL, city text);
CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer NOT NULL, amount numeric(10, 2) NOT NULL);
CREATE TABLE address (customer_id integer PRIMARY KEY, city text);
INSERT INTO customer SELECT n, 'name ' || n, 'city ' || n FROM generate_series(1, 9) n;
INSERT INTO orders SELECT n, n % 9 + 1, n FROM generate_series(1, 50) n;
INSERT INTO address SELECT id, city FROM customer;
"""
CHANGES = {
    # The first one fills what is kept between units.
    "": ("UPDATE orders SET amount = 1001 WHERE id = 7", "SELECT FROM orders_by_city WHERE amount = 1001"),
    "one data update": (
        "UPDATE orders SET amount = 1002 WHERE id = 8",
        "SELECT FROM orders_by_city WHERE amount = 1002",
    ),
    "a dropped column that is replaced": (
        "ALTER TABLE customer DROP COLUMN city",
        "SELECT FROM dyda.view_version WHERE version = 2",
    ),
}


@dataclass
class Walk:
    """What was called while one update was processed."""

    first: dict[CodeType, tuple[int, int]] = field(default_factory=dict)
    """Of each function: where its walk began, and its own number."""
    calls: set[tuple[CodeType, CodeType]] = field(default_factory=set)
    _began: dict[int, int] = field(default_factory=dict)
    """Where the work of a thread was asked for."""
    _submitted: dict[int, int] = field(default_factory=dict)

    def submit(self, work: object) -> None:
        """Work for another thread was asked for here: after the last function that was noted."""
        self._submitted[id(work)] = self._began.get(threading.get_ident(), len(self.first) - 1)

    def note(self, frame: FrameType) -> None:
        """A function of the product was called."""
        caller = frame.f_back
        while caller is not None and not place(caller.f_code):
            caller = caller.f_back
        thread, now = threading.get_ident(), len(self.first)
        if caller is not None:
            self.calls.add((caller.f_code, frame.f_code))
        elif thread != threading.main_thread().ident:
            self._began[thread] = self._submitted.get(_work_of(frame), now)
        self.first.setdefault(frame.f_code, (self._began.get(thread, now), now))

    @property
    def modules(self) -> list[str]:
        """The modules in the order in which the walk comes to them."""
        return list(dict.fromkeys(place(code) for code in sorted(self.first, key=self.first.__getitem__)))

    @property
    def stops(self) -> list[str]:
        """The modules of the functions that call another package, in the order of the walk."""
        leaving = {
            caller
            for caller, called in self.calls
            if package(place(caller)) != package(place(called)) and package(place(caller)) not in SHARED
        }
        return [place(code) for code in sorted(self.first, key=self.first.__getitem__) if code in leaving]


def _work_of(frame: FrameType) -> int:
    """Which work a pool's thread is doing."""
    outer: FrameType | None = frame
    while outer is not None and outer.f_code is not _WorkItem.run.__code__:
        outer = outer.f_back
    return id(outer.f_locals["self"]) if outer is not None else 0


def place(code: CodeType) -> str:
    """The module of the product that a function is in; empty if it is in none."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES:
        return ""
    if code.co_name in ("__init__", "__post_init__") or (code.co_name.startswith("<") and code.co_name != "<lambda>"):
        return ""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def package(module: str) -> str:
    """`dyda.maintenance.plan.planner` is in maintenance, `vs.view.block` in vs, `dyda.rows` in dyda."""
    first, *others = module.split(".")
    return others[0] if first == "dyda" and len(others) > 1 else first


def without_repetition(names: Sequence[str]) -> list[str]:
    return [name for name, _ in groupby(names)]


def describe(what: str, walk: Walk) -> str:
    """The figures of one walk."""
    way = without_repetition([package(module) for module in walk.stops])
    inside = [module.split(".")[2:] for module in walk.modules if package(module) == "maintenance"]
    parts = without_repetition([names[0] for names in inside if len(names) > 1])
    return (
        f"{what}: {len(walk.stops)} stops in {len(set(walk.stops))} modules, {len(way) - 1} crossings,"
        f" maintenance entered {way.count('maintenance')} times\n"
        f"  packages: {' > '.join(way)}\n  maintenance: {' > '.join(parts)}"
    )


class Observed:
    """Notes the calls inside each of Dyno's cycles, and keeps those of the cycles that did something."""

    def __init__(self) -> None:
        self.cycles: list[Walk] = []
        self._now: Walk | None = None

    @property
    def cycling(self) -> bool:
        return self._now is not None

    def __call__(self, frame: FrameType, event: str, value: object) -> None:
        if frame.f_code.co_qualname == "Maintainer.cycle" and event in ("call", "return"):
            if self._now is not None and getattr(value, "name", "") == "WORKED":
                self.cycles.append(self._now)
            self._now = Walk() if event == "call" else None
        if event != "call" or self._now is None:
            return
        if frame.f_code is _WorkItem.__init__.__code__:
            self._now.submit(frame.f_locals["self"])
        elif place(frame.f_code):
            self._now.note(frame)


@contextmanager
def project(folder: Path) -> Iterator[tuple[str, str]]:
    """A project with one view, applied: the URLs of its source and of its warehouse."""
    _dyda("init", str(folder))
    try:
        [source] = json.loads(_dyda("-C", str(folder), "--json", "sources"))
        with psycopg2.connect(source["url"]) as connection, connection.cursor() as cursor:
            cursor.execute(TABLES)
        (folder / "views" / "orders_by_city.sql").write_text(VIEW)
        (folder / "knowledge.toml").write_text(KNOWLEDGE)
        _dyda("-C", str(folder), "apply", "--yes")
        yield source["url"], f"postgresql://postgres@/postgres?host={folder / '.dyda' / 'pg' / 'warehouse'}"
    finally:
        _dyda("-C", str(folder), "stop")


def _dyda(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "dyda", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"dyda {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def _change(source: str, warehouse: str, observed: Observed, walks: dict[str, Walk]) -> None:
    """Make the changes one by one, each when the one before has arrived; then stop the daemon."""
    try:
        for what, (statement, arrived) in CHANGES.items():
            observed.cycles.clear()
            with psycopg2.connect(source) as connection, connection.cursor() as cursor:
                cursor.execute(statement)
            _wait(warehouse, arrived)
            _wait(warehouse, "SELECT WHERE NOT EXISTS (SELECT FROM dyda.message)")
            while observed.cycling or not observed.cycles:
                time.sleep(0.01)  # it is installed, and has yet to be acknowledged
            if what:
                walks[what] = observed.cycles[0]
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def _wait(warehouse: str, condition: str) -> None:
    end = time.monotonic() + SECONDS
    with psycopg2.connect(warehouse) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        while time.monotonic() < end:
            cursor.execute(condition)
            if cursor.rowcount:
                return
            time.sleep(0.05)
    raise SystemExit(f"after {SECONDS} s there is still no row of: {condition}")


def _daemon(folder: Path) -> None:
    """`dyda daemon` in this process, until it is stopped."""
    sys.argv = ["dyda", "-C", str(folder), "daemon"]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def run(folder: Path) -> dict[str, Walk]:
    """Both walks, by name."""
    walks: dict[str, Walk] = {}
    observed = Observed()
    with project(folder) as (source, warehouse):
        threading.setprofile(observed)
        sys.setprofile(observed)
        changing = threading.Thread(target=_change, args=(source, warehouse, observed, walks))
        changing.start()
        try:
            _daemon(folder)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            changing.join()
    return walks


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        for name, taken in run(Path(temporary) / "walks").items():
            click.echo(describe(name, taken))
