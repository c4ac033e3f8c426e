"""Freshness: from a source's commit to a reader who sees it, under a steady load on four databases.

A daemon process keeps the soak's views and the marks of all transactions (`benchmarks.harness.commit_markers`), which a
reader polls. The rate is that of all sources together. A load that the machine cannot keep shows as a rate that was not
reached, a daemon that falls behind as the seconds that it needs after the load has ended.
"""

from __future__ import annotations

import itertools
import signal
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg2

from benchmarks.harness.checking import require_right
from benchmarks.harness.commit_markers import VIEW, Marked, Reader, created, freshness
from benchmarks.harness.measuring import progress
from benchmarks.harness.servers import lent_engine, servers
from benchmarks.report.report import Bar, Plot, Report
from tests.torture.daemon import Daemon
from tests.torture.load import SOURCES, SchemaChanges
from tests.torture.soak import VIEWS
from tests.town import Town

__all__ = ["Run", "Stage", "run", "stage"]


@dataclass(frozen=True)
class Scale:
    seconds: float
    """Of each load."""
    rates: tuple[int, ...] = (10, 100, 1_000)
    warm_up: float = 5.0
    """Seconds."""
    interval: float = 5.0
    """Between two schema changes, seconds."""


SCALES = {"tiny": Scale(1.0, (20,), 0.0, 0.4), "quick": Scale(15.0), "full": Scale(60.0)}
JUDGED, MOST = 100, 2.0
"""The load at which schema changes may make views so much staler, and no more."""
CATCHING_UP = 180.0
COUNTS = "SELECT (SELECT count(*) FROM dyda.unit), (SELECT count(*) FROM dyda.abort)"


@dataclass(frozen=True)
class Run:
    """One load: what was asked for, what arrived, and how fresh it was, in seconds."""

    rate: int
    schema_changes: int | None
    """None: there were to be none."""
    seconds: float
    transactions: int
    p50: float
    p95: float
    p99: float
    worst: float
    behind: float
    """From the end of the load until its last transaction had been seen."""
    units: int
    aborts: int
    readings: float
    """Per second."""
    spread: tuple[tuple[float, float], ...]
    """For a hundred shares of the transactions, the seconds within which they were seen."""

    @property
    def reached(self) -> float:
        return self.transactions / self.seconds


class Stage:
    """Four sources, a warehouse, a daemon, and loads one after the other."""

    def __init__(self, town: Town, daemon: Daemon, folder: Path, interval: float) -> None:
        self.town, self.daemon, self.folder, self.interval = town, daemon, folder, interval
        self.changes: SchemaChanges | None = None
        self.loads = 0

    def load(self, rate: int, seconds: float, *, changing: bool) -> Run:
        self.loads += 1
        before = self._units()
        reader = Reader(self.town.warehouse)
        changes = SchemaChanges(self.town.sources, self.interval, self.loads, self.changes) if changing else None
        marked = Marked(self.town.sources, rate, seconds, self.loads, self.folder / f"load{self.loads}")
        try:
            reader.start()
            if changes is not None:
                self.changes = changes
                changes.start()
            marked.finish()
            if changes is not None:
                changes.end()
            ended = time.time()
            commits = marked.commits()
            while not reader.shows(commits):
                if time.time() - ended > CATCHING_UP or not self.daemon.alive:
                    raise AssertionError(f"the views do not catch up:\n{self.daemon.text()[-4000:]}")
                time.sleep(0.02)
            caught_up = time.time()
        finally:
            if changes is not None:
                changes.stop()
            marked.stop()
            reader.end()
        found = freshness(commits, reader.seen)
        late = [one for _, one in found]
        last = max(committed for committed, _ in found)
        cuts = statistics.quantiles(late, n=100, method="inclusive")
        units, aborts = (after - old for old, after in zip(before, self._units(), strict=True))
        return Run(
            rate,
            changes.done if changes is not None else None,
            seconds,
            len(found),
            cuts[49],
            cuts[94],
            cuts[98],
            max(late),
            max(committed + one for committed, one in found) - last,
            units,
            aborts,
            reader.readings / max(caught_up - ended + seconds, 0.001),
            tuple((cut, place) for place, cut in enumerate(cuts, 1)),
        )

    def _units(self) -> tuple[int, int]:
        with closing(psycopg2.connect(self.town.warehouse)) as connection, connection.cursor() as cursor:
            cursor.execute(COUNTS)
            units, aborts = cursor.fetchone()
            return int(units), int(aborts)

    def end(self) -> None:
        """The daemon ends as it is asked to, and every view is what PostgreSQL makes of the sources."""
        self.daemon.process.send_signal(signal.SIGTERM)
        if self.daemon.process.wait(120) != 0:
            raise AssertionError(f"the daemon failed:\n{self.daemon.text()[-4000:]}")
        self.town.settle_somewhere()
        require_right(self.town, "marks", *VIEWS)


@contextmanager
def stage(
    folder: Path,
    interval: float,
    maintenance: str = "",
    more: Mapping[str, str] | None = None,
    prepared: Mapping[str, str] | None = None,
    prepare: Callable[[Town], None] = lambda town: None,
) -> Iterator[tuple[Stage, str]]:
    """A daemon that maintains, and the servers' version. `more` are further views, over what `prepared` makes of a
    source's tables; `prepare` adds to the town before its views are built."""
    with ExitStack() as stack:
        machines = stack.enter_context(servers([*SOURCES, "warehouse"]))
        town = Town(folder / "town", machines["warehouse"].database, lent_engine(), maintenance)
        stack.callback(town.close)
        for source in SOURCES:
            statements = [*created(source), *filter(None, [(prepared or {}).get(source)])]
            town.source(source, *statements, url=machines[source].database(source))
        for view, text in {**VIEWS, "marks": VIEW, **(more or {})}.items():
            town.view(view, text)
        prepare(town)
        town.apply_somewhere()
        daemon = Daemon(town.folder, folder / "daemon.log")
        stack.callback(daemon.bury)
        if not daemon.up():
            raise AssertionError(f"the daemon does not come up:\n{daemon.text()[-4000:]}")
        yield Stage(town, daemon, folder, interval), machines["warehouse"].version


def run(profile: str) -> Report:
    report = Report("freshness", "freshness, milliseconds from a source's commit to a reader who sees it", [])
    report.columns = ["transactions per second", "reached", "schema changes", "p50", "p95", "p99", "worst"]
    report.columns += ["behind at the end", "units", "aborts"]
    scale = SCALES[profile]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        one, report.ran_on["postgres"] = stack.enter_context(stage(folder, scale.interval))
        if scale.warm_up:
            one.load(100, scale.warm_up, changing=True)  # what is compiled on first use is compiled
        runs = []
        for rate, changing in itertools.product(scale.rates, (False, True)):
            progress(f"{rate:,} transactions per second{', with schema changes' if changing else ''}")
            runs.append(one.load(rate, scale.seconds, changing=changing))
        one.end()
    for found in runs:
        changes = "none" if found.schema_changes is None else f"{found.schema_changes}"
        times = (found.p50, found.p95, found.p99, found.worst, found.behind)
        told = [f"{seconds * 1000:,.0f}" for seconds in times]
        report.rows.append(
            [f"{found.rate:,}", f"{found.reached:,.1f}", changes, *told, str(found.units), str(found.aborts)]
        )
    report.plots = [_by_rate(runs, scale.interval), _by_share(runs, scale.interval)]
    report.notes = [
        f"Each load lasts {scale.seconds:.0f} s, with a schema change every {scale.interval:g} s or none, on"
        f" {len(SOURCES)} sources together; {len(VIEWS) + 1} views follow.",
        "A commit counts from when pgbench got its answer; a reader has seen it when the reader's query has returned."
        f" Reads per second: {min(found.readings for found in runs):.0f} to"
        f" {max(found.readings for found in runs):.0f}.",
        "All views were right at the end, as PostgreSQL recomputes them.",
    ]
    report.data = {"runs": [asdict(found) for found in runs]}
    if JUDGED in scale.rates:
        alone, beside = (found for found in runs if found.rate == JUDGED)
        bar = Bar(f"p99 at {JUDGED} per second, with schema changes ÷ without", beside.p99 / alone.p99, most=MOST)
        report.bars = [bar]
    return report


def _name(found: Run, interval: float) -> str:
    return "no schema changes" if found.schema_changes is None else f"one every {interval:g} s"


def _by_rate(runs: list[Run], interval: float) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {}
    for found in runs:
        for share in ("p50", "p95", "p99"):
            lines.setdefault(f"{share}, {_name(found, interval)}", []).append(
                (found.rate, getattr(found, share) * 1000)
            )
    return Plot("freshness by load", "transactions per second", "milliseconds", lines, "xy")


def _by_share(runs: list[Run], interval: float) -> Plot:
    lines: Mapping[str, list[tuple[float, ...]]] = {
        f"{found.rate:,} per second, {_name(found, interval)}": [
            (seconds * 1000, share) for seconds, share in found.spread
        ]
        for found in runs
    }
    return Plot("how much is seen within", "milliseconds", "% of the transactions", lines, "x")
