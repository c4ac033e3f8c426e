"""Soak: a steady load on four databases with a schema change every five seconds, and what it costs to keep up.

    python -m tests.torture.soak --seconds 1200 --rate 500 --seed 1

Every ten seconds one line: the rate that arrived, how far the views are behind, memory, log tables. After the load the
views must catch up, the queue and the logs must be empty, and PostgreSQL recomputes every view. One table at the end
says what was asked for and what was reached; the exit code is 1 if a bound was broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dyda import commands
from tests.conftest import Server, _administer
from tests.torture.daemon import Daemon
from tests.torture.load import SOURCES, Load, schema
from tests.torture.watching import Processes, Sample, Watch
from tests.town import Town

__all__ = ["Bounds", "Report", "Soak", "main"]

MEGABYTE = 2**20

VIEWS = {
    "purchases": "SELECT o.id, o.amount, o.note, c.note AS customer, t.title AS city FROM shop.orders o"
    " JOIN crm.customer c ON o.other = c.id JOIN crm.city t ON c.quantity = t.id",
    "deliveries": "SELECT s.id, s.note, o.id AS purchase, p.title AS place FROM depot.shipment s"
    " JOIN shop.orders o ON s.other = o.id JOIN depot.place p ON s.quantity = p.id",
    "balances": "SELECT p.other AS customer, sum(p.amount) AS total, count(*) AS payments FROM pay.payment p"
    " GROUP BY p.other",
    "chain": "SELECT p.id AS payment, c.id AS customer, o.id AS purchase, s.note FROM pay.payment p"
    " JOIN crm.customer c ON p.other = c.id JOIN shop.orders o ON o.other = c.id"
    " JOIN depot.shipment s ON s.other = o.id WHERE p.amount > 500",
    "products": "SELECT p.title, count(*) AS purchases, sum(o.amount) AS amount FROM shop.orders o"
    " JOIN shop.product p ON o.quantity = p.id GROUP BY p.title",
}


@dataclass(frozen=True)
class Bounds:
    """What must hold. The lag is bounded while the load lasts and must be zero some time after it."""

    rate: float = 0.98
    """The part of the transactions asked for that must have arrived."""
    lag: float = 60.0
    catching_up: float = 120.0
    daemon: int = 600 * MEGABYTE
    jvm: int = 2000 * MEGABYTE
    growth: float = 1.15
    """Memory in the last quarter of the load, by that in the second one."""
    log: int = 128 * MEGABYTE


@dataclass
class Report:
    """Asked and reached, line by line."""

    lines: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def add(self, what: str, asked: str, reached: str, holds: bool) -> None:
        self.lines.append((what, asked, reached, holds))

    @property
    def holds(self) -> bool:
        return all(holds for *_, holds in self.lines)

    def __str__(self) -> str:
        width = max(len(what) for what, *_ in self.lines)
        lines = [f"{'':<{width}}  {'asked':>16}  {'reached':>24}"]
        lines += [
            f"{what:<{width}}  {asked:>16}  {reached:>24}  {'' if holds else 'BROKEN'}".rstrip()
            for what, asked, reached, holds in self.lines
        ]
        return "\n".join([*lines, "the soak holds" if self.holds else "the soak does NOT hold"])


class Soak:
    """One run in a folder of its own: five servers, a project, a daemon, the load."""

    def __init__(
        self,
        folder: Path,
        database: Callable[[str], str],
        servers: dict[str, int],
        seed: int,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder, self.seed, self.say = folder, seed, say
        self.servers = servers
        self.town = Town(folder / "town", database, None)
        self.samples: list[Sample] = []
        self.late = 0.0
        self.daemon: Daemon | None = None

    def prepare(self) -> None:
        for source in SOURCES:
            self.town.source(source, *schema(source))
        for view, text in VIEWS.items():
            self.town.view(view, text)
        self.town.run("apply", "--yes", timeout=600)

    def run(self, seconds: float, rate: float, interval: float, bounds: Bounds, every: float = 10.0) -> Report:
        self.prepare()
        self.daemon = Daemon(self.town.folder, self.folder / "daemon.log")
        try:
            if not self.daemon.up():
                raise AssertionError(f"the daemon does not come up:\n{self.daemon.text()[-4000:]}")
            watch = Watch(self.town.sources, self.town.warehouse, Processes(self.daemon.process.pid, self.servers))
            try:
                return self._watched(watch, seconds, rate, interval, bounds, every)
            finally:
                watch.close()
        finally:
            if self.daemon.alive:
                self.daemon.kill(children=True)
            self.daemon.bury()

    def _watched(
        self, watch: Watch, seconds: float, rate: float, interval: float, bounds: Bounds, every: float
    ) -> Report:
        before = watch.processes.seconds()
        begun = time.monotonic()
        self.say(HEADER)
        with Load(self.town.sources, rate, interval, seconds, self.seed, self.folder) as load:
            while load.running:
                time.sleep(0.1)
                if time.monotonic() - begun >= every * (len(self.samples) + 1):
                    self._look(watch, begun, load.transactions, load.changes.done)
                    self.late = max(self.late, load.late)
            lasted = time.monotonic() - begun
            load.finish()
            transactions, changes, kinds = load.transactions, load.changes.done, load.changes.kinds
        under_load = list(self.samples)
        ended = time.monotonic()
        while (behind := watch.behind())[1] and time.monotonic() - ended < bounds.catching_up:
            time.sleep(0.2)
            if time.monotonic() - begun >= every * (len(self.samples) + 1):
                self._look(watch, begun, transactions, changes)
        caught_up = time.monotonic() - ended
        self._look(watch, begun, transactions, changes)
        spent = {part: value - before.get(part, 0.0) for part, value in watch.processes.seconds().items()}
        self._tell_costs(watch, spent, time.monotonic() - begun, kinds)
        self._end_daemon()
        report = Report()
        self._judge_load(report, under_load, seconds, rate, interval, lasted, transactions, changes, bounds)
        self._judge_end(report, behind, caught_up, bounds)
        return report

    def _look(self, watch: Watch, begun: float, transactions: int, changes: int) -> None:
        daemon = self.daemon
        if daemon is None or not daemon.alive:
            raise AssertionError(f"the daemon has ended:\n{daemon.text()[-6000:] if daemon else ''}")
        last = self.samples[-1] if self.samples else None
        found = watch.sample(time.monotonic() - begun, transactions, changes)
        self.samples.append(found)
        rate = (found.transactions - (last.transactions if last else 0)) / max(
            found.at - (last.at if last else 0), 0.001
        )
        memory = {part: value / MEGABYTE for part, value in found.memory.items()}
        logs = " ".join(f"{value / MEGABYTE:.1f}" for value in found.logs.values())
        self.say(
            f"{found.at:7.0f} {rate:8.0f} {found.schema_changes:8} {found.lag:7.1f} {found.pending:8} {found.queue:7}"
            f" {found.units:6} {found.aborts:7} {memory['daemon']:9.0f} {memory['jvm']:7.0f} {memory['workers']:8.0f}"
            f"   {logs}"
        )

    def _tell_costs(self, watch: Watch, spent: dict[str, float], seconds: float, kinds: dict[str, int]) -> None:
        shares = ", ".join(
            f"{part} {value / seconds:.0%}" for part, value in sorted(spent.items(), key=lambda e: -e[1])
        )
        self.say(f"processor, of one core: {shares}; together {sum(spent.values()) / seconds:.0%}")
        self.say(f"schema changes: {', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))}")
        for kind, units, messages, total, phases in watch.phases():
            told = ", ".join(
                f"{phase} {1000 * s / units:.0f}" for phase, s in sorted(phases.items(), key=lambda e: -e[1])
            )
            self.say(f"{kind}: {units} units, {messages} messages, {1000 * total / units:.0f} ms each: {told}")

        for reason, count in watch.aborts()[:8]:
            self.say(f"void {count} times: {reason}")

    def _end_daemon(self) -> None:
        """Ask it to stop: an orderly end is part of the test."""
        assert self.daemon is not None
        self.daemon.process.send_signal(signal.SIGTERM)
        code = self.daemon.process.wait(120)
        text = self.daemon.text()
        if code != 0 or "Traceback (most recent call last)" in text:
            raise AssertionError(f"the daemon ended with {code}:\n{text[-6000:]}")

    def _judge_load(
        self,
        report: Report,
        samples: list[Sample],
        seconds: float,
        rate: float,
        interval: float,
        lasted: float,
        transactions: int,
        changes: int,
        bounds: Bounds,
    ) -> None:
        report.add("seconds of load", f"{seconds:.0f}", f"{lasted:.0f}", lasted >= seconds - 1)
        reached = transactions / seconds
        report.add(
            "transactions per second", f"{rate:.0f}", f"{reached:.0f} ({transactions})", reached >= bounds.rate * rate
        )
        wanted = int(seconds / interval)
        report.add("schema changes", f"{wanted}", f"{changes}", changes >= bounds.rate * wanted - 1)
        worst = max(sample.lag for sample in samples)
        report.add("largest lag under load, s", f"≤ {bounds.lag:.0f}", f"{worst:.1f}", worst <= bounds.lag)
        for part, most in (("daemon", bounds.daemon), ("jvm", bounds.jvm)):
            largest = max(sample.memory[part] for sample in samples)
            report.add(
                f"memory of the {part}, MB", f"≤ {most // MEGABYTE}", f"{largest / MEGABYTE:.0f}", largest <= most
            )
            grown = _growth([sample.memory[part] for sample in samples])
            report.add(
                "… its growth, last by second quarter", f"≤ {bounds.growth}", f"{grown:.2f}", grown <= bounds.growth
            )
        for source in SOURCES:
            largest = max(sample.logs[source] for sample in self.samples)
            report.add(
                f"log of {source}, MB",
                f"≤ {bounds.log // MEGABYTE}",
                f"{largest / MEGABYTE:.1f}",
                largest <= bounds.log,
            )

    def _judge_end(self, report: Report, behind: tuple[float, int], caught_up: float, bounds: Bounds) -> None:
        lag, pending = behind
        zero = not pending
        report.add(
            "lag zero after the load, s",
            f"≤ {bounds.catching_up:.0f}",
            f"{caught_up:.1f}" if zero else f"no: {pending} pending, {lag:.0f} s",
            zero,
        )
        if not zero:
            return
        self.town.run("daemon", "--until-idle", timeout=600)
        states = {view["name"]: view["state"] for view in commands.views(self.town.folder)}
        odd = sorted(name for name, state in states.items() if state not in ("fresh", "stale"))
        report.add("views maintained", str(len(VIEWS)), str(len(VIEWS) - len(odd)), not odd)
        wrong, rows = [], 0
        for view in states:
            rows += sum(self.town.extent(view).values())
            try:
                self.town.check_definitions(view)
            except AssertionError as error:
                wrong.append(view)
                self.say(str(error)[:2000])
        report.add("views with wrong rows", "0", f"{len(wrong)} ({rows} rows)", not wrong)


HEADER = (
    f"{'seconds':>7} {'tx/s':>8} {'schema':>8} {'lag s':>7} {'pending':>8} {'queue':>7} {'units':>6} {'aborts':>7}"
    f" {'daemon MB':>9} {'JVM MB':>7} {'workers':>8}   log MB of {', '.join(SOURCES)}"
)


def _growth(values: list[int]) -> float:
    """The mean of the last quarter by that of the second one; 1 where there is too little to tell: the JVM takes its
    memory in the first minutes."""
    quarter = len(values) // 4
    if quarter < 10:
        return 1.0
    second, last = values[quarter : 2 * quarter], values[-quarter:]
    return (sum(last) / len(last)) / (sum(second) / len(second))


def servers_for(names: Iterable[str], settings: dict[str, str]) -> dict[str, Server]:
    return {name: Server(settings).start() for name in names}


def database_url(server: Server, name: str) -> str:
    _administer(server.url(), "CREATE DATABASE {}", name)
    return urllib.parse.urlunsplit(urllib.parse.urlsplit(server.url())._replace(path="/" + name))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--rate", type=float, default=500, help="source transactions per second, over all sources")
    parser.add_argument("--interval", type=float, default=5.0, help="seconds between two schema changes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the folder with the daemon's log")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and load are cleared away
    folder = Path(tempfile.mkdtemp(prefix="dyda-soak-"))
    os.chmod(folder, 0o755)
    servers = servers_for([*SOURCES, "warehouse", "judge"], {"wal_level": "logical"})
    try:
        pids = {name: server.process.pid for name, server in servers.items() if server.process is not None}
        soak = Soak(
            folder,
            lambda hint: database_url(servers[hint], hint),
            pids,
            chosen.seed,
            lambda text: print(text, flush=True),
        )
        try:
            report = soak.run(chosen.seconds, chosen.rate, chosen.interval, Bounds())
        finally:
            soak.town.close()
        print(report)
        return 0 if report.holds else 1
    finally:
        for server in servers.values():
            server.remove()
        if chosen.keep:
            print(folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
