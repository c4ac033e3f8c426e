"""A seeded schedule: traffic at the sources, readers at the warehouse, and one fault after the other; then the judge.

During each fault `dyda status` must say what is wrong, and the views that do not need what is lost must go on; after
it everything must catch up by itself. Every now and then all comes to rest and the history so far is judged; what
follows is a history of its own, which begins where that one ended, so that a run of hours needs no more memory than
one of minutes.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from dyda import commands
from dyda.errors import DydaError
from tests.torture.checking import Violation, examine
from tests.torture.daemon import TortureFailed
from tests.torture.decisions import Operator
from tests.torture.fault import ALL, Fault, World, until
from tests.torture.faults import KINDS
from tests.torture.history import History
from tests.torture.places import Places, session
from tests.torture.readers import Reader
from tests.torture.recording import Data, Observer, Writer, begin, rest
from tests.torture.traffic import PAIRS, SOURCES, Pace, Traffic, all_views, beacon_view, fixed_tables, settled
from tests.torture.workload import KEYED_VIEWS, Workload

__all__ = ["Summary", "Torture"]

CHECK_AFTER = 300.0
"""Seconds of history that are judged at once."""

CATCH_UP = 300.0
OLD = "people"
"""The source whose transaction counter is about to wrap when the run begins."""
ANCIENT = "tours"
"""The source where a transaction is open that began before everything."""


@dataclass
class Summary:
    """What a run has done and found."""

    seed: int
    seconds: float = 0.0
    transactions: int = 0
    refused: int = 0
    schema_changes: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    impossible: dict[str, str] = field(default_factory=dict)
    commits: int = 0
    states: int = 0
    reads: int = 0
    violations: list[Violation] = field(default_factory=list)

    def add(self, history: History, compared: int, violations: Sequence[Violation]) -> None:
        counted = history.count()
        self.transactions += counted["transactions"]
        self.schema_changes += counted["schema changes"]
        self.commits += counted["commits"]
        self.reads += counted["reads"]
        self.states += compared
        self.violations += violations


class Torture:
    """One run: `run()` returns its summary, or raises TortureFailed where DyDa did not do what it must."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str] = (),
        say: Callable[[str], None] = lambda text: None,
        pause: float = 0.6,
        schema_changes: float = 0.04,
        consistency: str = "strong",
        command: str = "",
        views: Sequence[str] = (),
        lanes: bool = True,
        decisions: bool = True,
    ) -> None:
        self.seed, self.say, self.pause, self.schema_changes = seed, say, pause, schema_changes
        self.consistency = consistency
        self.lanes = lanes
        self.decisions = decisions
        self.command = command
        self.views = all_views(views)
        self.kinds = [] if list(kinds) == ["none"] else list(kinds or KINDS)
        self.random = random.Random(f"{seed} schedule")
        self.summary = Summary(seed)
        self.number = 0
        self._never = threading.Event()
        self.begun = time.monotonic()

    def run(self, seconds: float) -> Summary:
        """Every kind of fault once, then more of them until `seconds` have passed."""
        self.begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            stack.callback(self._stop_clock)
            self._prepare(stack)
            bag = self._shuffled()
            first = True
            while bag or time.monotonic() - self.begun < seconds:
                if not bag:
                    bag, first = self._shuffled(), False
                if bag:
                    self.suffer(KINDS[bag.pop()](self.world))
                else:
                    self.look_on()
                if self.world.spared and len(bag) <= len(self.kinds) // 2:
                    self._end_ancient()
                if not first and time.monotonic() - self.begun >= seconds:
                    break
                if time.monotonic() - self.checked > CHECK_AFTER:
                    self.judge()
            self.judge(last=True)
            self.summary.refused = sum(thread.writer.refused for thread in self.traffic)
        return self.summary

    def _stop_clock(self) -> None:
        self.summary.seconds = time.monotonic() - self.begun

    def _shuffled(self) -> list[str]:
        return self.random.sample(self.kinds, len(self.kinds))

    # --- before the first fault

    def _prepare(self, stack: contextlib.ExitStack) -> None:
        self.note("servers are started")
        settings = f'consistency = "{self.consistency}"\nstatement_timeout = 20'
        settings += "\nlane_size = 1" if self.lanes else "\nlanes = 0"
        self.places = Places(list(SOURCES), self.seed, settings, old=[OLD])
        stack.callback(self.places.close)
        if self.decisions:
            self.places.schema_changes = ("approve", "auto")
        self.history = History(self.seed, self.command, self.consistency)
        self.history.keyed = set(KEYED_VIEWS)
        self.world = World(self.places, self.history, self.seed, OLD)
        self.world.spared = {ANCIENT}
        workload = Workload(self.seed)
        for name, place in self.places.sources.items():
            with session(place.url) as cursor:
                for statement in [*workload.setup(name), *fixed_tables()]:
                    cursor.execute(statement)
        with session(self.places.warehouse.server.url()) as cursor:
            cursor.execute("CREATE DATABASE judge TABLESPACE pg_default")
        self.beacons = {name: Writer(self.history, name, place.url) for name, place in self.places.sources.items()}
        ancient = self.places.sources[ANCIENT]
        self.ancient = Writer(self.history, ANCIENT, ancient.url)
        self._ancient = contextlib.ExitStack()
        stack.callback(self._ancient.close)
        under_way = self._ancient.enter_context(self.ancient.open())
        under_way.do(Data("INSERT INTO unwatched VALUES (0)"))
        self._ancient_transaction = under_way
        for name, place in self.places.sources.items():
            begin(self.history, name, place.url)
        for name, text in self.views.items():
            self.places.view(name, text)
        self.note("views are built")
        self.places.run("apply", "--yes", timeout=900)
        self.observer = Observer(self.history, self.places.warehouse.url)
        self.observer.watch()
        self.pace = Pace(self.places.warehouse.url)
        self.pace.start()
        stack.callback(self.pace.end)
        self.traffic = [
            Traffic(self.history, place, workload, self.pace, self.pause, self.schema_changes)
            for place in self.places.sources.values()
        ]
        self.readers: list[Reader] = []
        self.operator = Operator(self.places, self.seed)
        stack.callback(self._end_threads)
        self.places.start_daemon().up()
        for thread in self.traffic:
            thread.start()
        if self.decisions:
            self.operator.start()
        self._start_readers()
        self.checked = time.monotonic()
        self.note("traffic flows")

    def _start_readers(self) -> None:
        kinds = (("one", "READ COMMITTED", 1), ("two", "REPEATABLE READ", 3), ("three", "SERIALIZABLE", 2))
        url = self.places.warehouse.url
        self.readers = [
            Reader(self.history, name, url, list(self.views), isolation, statements, pause=0.3, seed=self.seed)
            for name, isolation, statements in kinds
        ]
        for reader in self.readers:
            reader.start()

    def _end_threads(self) -> None:
        self.operator.end()
        if self.operator.is_alive():
            self.operator.join(120)
        for thread in self.traffic:
            thread._ending.set()
            thread._flowing.set()
        for reader in self.readers:
            reader._stop_wanted.set()

    # --- one fault

    def suffer(self, fault: Fault) -> None:
        """Strike, look, heal, look again."""
        if fault.why_not:
            self.note(f"{fault}: not possible here ({fault.why_not})")
            self.summary.impossible[fault.kind] = fault.why_not
            return
        self.note(f"{fault}")
        struck = time.monotonic()
        fault.strike()
        try:
            said = self.require_words(fault) if fault.words else ""
            healthy = [] if fault.lost == ALL else sorted(set(self.places.sources) - fault.lost)
            self.require_progress(healthy, f"while “{fault}” lasts")
            time.sleep(max(0.0, struck + fault.seconds - time.monotonic()))
        finally:
            fault.heal()
        healed = time.monotonic()
        self.require_progress(list(self.places.sources), f"after “{fault}”")
        self.places.require_daemon()
        self._check_threads()
        self.summary.faults[fault.kind] += 1
        lasted, caught_up = healed - struck, time.monotonic() - healed
        self.note(f"    lasted {lasted:.0f} s, caught up after {caught_up:.1f} s{': ' if said else ''}{said}")

    def look_on(self) -> None:
        """Nothing strikes: only traffic, and an operator who takes his time."""
        time.sleep(2.0)
        self.require_progress(list(self.places.sources), "without a fault")
        self.places.require_daemon()
        self._check_threads()

    def require_words(self, fault: Fault) -> str:
        """`dyda status` says in words what is wrong."""
        found: list[str] = []

        def told() -> bool:
            text = self.status()
            match = re.search(fault.words, text)
            found[:] = [match[0]] if match else []
            return bool(found)

        until(told, f"{fault}: status does not say {fault.words!r}", CATCH_UP)
        return found[0]

    def status(self) -> str:
        """The answer of `dyda status --json`, or the message that it fails with."""
        try:
            return json.dumps(commands.status(self.places.folder), ensure_ascii=False)
        except DydaError as error:
            return str(error)

    def require_progress(self, sources: Sequence[str], when: str) -> None:
        """A change at each of these sources reaches the readers, alone and joined with another of them."""
        numbers = {source: self._light(source) for source in sources}
        wanted: dict[str, tuple[int, ...]] = {beacon_view(source): (number,) for source, number in numbers.items()}
        for pair in PAIRS:
            if set(pair) <= set(numbers):
                wanted[beacon_view(*pair)] = tuple(numbers[source] for source in pair)
        deadline = time.monotonic() + CATCH_UP
        while wanted:
            wanted = {view: shown for view, shown in wanted.items() if self._seen(view) != shown}
            if wanted and time.monotonic() > deadline:
                raise TortureFailed(f"{when}: {', '.join(wanted)} do not go on\n{self.status()}\n{self._log()[-3000:]}")
            time.sleep(0.1)

    def _light(self, source: str) -> int:
        self.number += 1
        writer = self.beacons[source]

        def lit() -> bool:
            if writer.transaction([Data(f"UPDATE beacon SET number = {self.number}")]) is not None:
                return True
            settled(writer, self._never)  # it may have committed without an answer: then that belongs to the history
            return False

        until(lit, f"nobody can write at {source}")
        return self.number

    def _seen(self, view: str) -> tuple[int, ...] | None:
        try:
            with session(self.places.warehouse.url) as cursor:
                cursor.execute(f"SELECT * FROM public.{view}")
                return tuple(cursor.fetchone())
        except psycopg2.OperationalError:
            return None

    # --- the judge

    def judge(self, *, last: bool = False) -> None:
        """Everything comes to rest; the history so far is judged, and another one begins, with all views unless it is
        the last: those that broke would be looked at no more."""
        self.note("at rest")
        for thread in self.traffic:
            thread.rest()
        self.operator.clear()
        self._require_rest()
        for reader in self.readers:
            reader.stop()
        self.observer.commits()
        self.note(f"judging {self.history.count()}")
        judge_url = self.places.warehouse.server.url("judge")
        with session(judge_url) as cursor:
            _clear(cursor)
        begun = time.monotonic()
        self.summary.decisions = Counter(self.operator.decisions)
        report = examine(self.history, judge_url, self.consistency)
        self.summary.add(self.history, report.compared, report.violations)
        for violation in report.violations:
            self.say(str(violation))
        if report.violations:
            kept = Path(tempfile.mkdtemp(prefix="dyda-violation-", dir="/tmp"))
            self.history.save(kept / "history.json")
            (kept / "daemon.log").write_text(self._log())
            self.say(f"the history is in {kept}")
        self.note(
            f"judged in {time.monotonic() - begun:.0f} s: {report.compared} states, {len(report.violations)} violations"
        )
        if not last:
            self._recover()
        self._next_history()

    def _require_rest(self) -> None:
        self.require_progress(list(self.places.sources), "at rest")
        logs = {name: place.url for name, place in self.places.sources.items()}
        deadline = time.monotonic() + CATCH_UP
        while not _empty(left := rest(self.history, self.places.warehouse.url, logs)):
            self._check_threads()
            if time.monotonic() > deadline:
                queue = json.dumps(commands.pending(self.places.folder), ensure_ascii=False, default=str)
                raise TortureFailed(f"not empty: {left}, after {self.operator.told}\n{queue}\n{self._log()[-3000:]}")
            time.sleep(0.1)

    def _recover(self) -> None:
        """Views that broke are maintained again: what they lack is put back, and their files are applied."""
        views = max(self.history.commits, key=lambda commit: commit.number).views
        broken = sorted(name for name, view in views.items() if view.state == "broken")
        if not broken:
            return
        self.note(f"broken views are recovered: {', '.join(broken)}")
        for thread in self.traffic:
            with session(thread.place.url) as cursor:
                for statement in thread.workload.tables[thread.place.name].restore():
                    cursor.execute(statement)
        self._require_rest()  # what is put back may wait for the operator, and `apply` refuses to go past that
        self.places.run("apply", "--yes", timeout=900)
        self._require_rest()
        self.observer.commits()

    def _next_history(self) -> None:
        before, history = self.history, History(self.seed, self.command, self.consistency)
        history.keyed = before.keyed
        for name, place in self.places.sources.items():
            begin(history, name, place.url)
        last = max(before.commits, key=lambda commit: commit.number)
        history.add(last)
        history.carried = True
        history.bags = {view.rows: before.bags[view.rows] for view in last.views.values()}
        with session(self.places.warehouse.url) as cursor:
            cursor.execute("DELETE FROM observed.commit WHERE number <= %s; DELETE FROM observed.bag", (last.number,))
        seen = self.observer._seen
        self.observer = Observer(history, self.places.warehouse.url)
        self.observer._seen = seen
        self.history = self.world.history = self.ancient.history = history
        for writer in self.beacons.values():
            writer.history = history
        for thread in self.traffic:
            thread.go_on(history)
        self.operator.go_on()
        self._start_readers()
        self.checked = time.monotonic()

    def _end_ancient(self) -> None:
        """The transaction that began before everything writes and commits at last."""
        self._ancient_transaction.do(Data("UPDATE account SET amount = amount + 1000 WHERE id = 2"))
        if self._ancient_transaction.commit() is None:
            raise TortureFailed("the transaction from before everything cannot commit")
        self._ancient.close()
        self.ancient.close()
        self.world.spared = set()
        self.summary.faults["transaction from before everything"] += 1
        self.require_progress([ANCIENT], "after the transaction from before everything")

    # --- helpers

    def _check_threads(self) -> None:
        for thread in self.traffic:
            thread.check()
        for reader in self.readers:
            if reader.failure is not None:
                raise reader.failure
        if self.operator.failure is not None:
            raise self.operator.failure

    def _log(self) -> str:
        return self.places.daemon.text() if self.places.daemon is not None else ""

    def note(self, text: str) -> None:
        self.say(f"{time.monotonic() - self.begun:6.0f} s  {text}")


def _empty(left: Any) -> bool:
    return left.queue == 0 and not any(left.logs.values())


def _clear(cursor: Any) -> None:
    cursor.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    )
    for (name,) in cursor.fetchall():
        cursor.execute(f'DROP SCHEMA "{name}" CASCADE')
