"""Lanes: how fresh the other views are while a large one is rebuilt beside them, compared with the same load alone.

The load and the marks are those of `freshness`. While it runs, `views resync` rebuilds a view of many rows, again and
again until the load ends.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.checking import require_right
from benchmarks.harness.measuring import progress
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.freshness import Run, Stage, stage
from dyda import commands
from tests.town import Town

__all__ = ["run"]

VIEW = "archived"
MOST = 2.0
"""How much less fresh the others may be at the 99th percentile."""


@dataclass(frozen=True)
class Scale:
    rows: int
    seconds: float
    rate: int
    warm_up: float = 5.0


SCALES = {"tiny": Scale(500, 1.0, 20, 0.0), "quick": Scale(300_000, 20.0, 40), "full": Scale(1_000_000, 60.0, 100)}


class Rebuilding(threading.Thread):
    """Rebuilds the large view until it is told to end."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder = folder
        self.seconds: list[float] = []
        self.error: Exception | None = None
        self._end = threading.Event()

    def run(self) -> None:
        try:
            while not self._end.is_set() or not self.seconds:
                began = time.monotonic()
                commands.views_resync(self.folder, VIEW)
                self.seconds.append(time.monotonic() - began)
        except Exception as error:
            self.error = error

    def end(self) -> None:
        self._end.set()
        self.join(600)
        if self.error is not None:
            raise self.error


@contextmanager
def rebuilding(folder: Path) -> Iterator[Rebuilding]:
    thread = Rebuilding(folder)
    thread.start()
    yield thread
    thread.end()


def run(profile: str) -> Report:
    report = Report("lanes", "freshness of the other views while a large one is rebuilt, milliseconds", [])
    report.columns = ["", "reached per second", "p50", "p95", "p99", "worst", "rebuilds", "seconds each"]
    scale = SCALES[profile]

    def prepare(town: Town) -> None:
        town.execute(
            "shop",
            "CREATE TABLE archive (id int PRIMARY KEY, note text, amount numeric(12, 2))",
            f"INSERT INTO archive SELECT i, md5(i::text), i / 7.0 FROM generate_series(1, {scale.rows}) i",
            "ANALYZE archive",
        )
        town.view(VIEW, "SELECT a.id, a.note, a.amount FROM shop.archive a")

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        one, report.ran_on["postgres"] = stack.enter_context(stage(folder, 1.0, "lane_size = 1", prepare=prepare))
        if scale.warm_up:
            one.load(scale.rate, scale.warm_up, changing=False)
        progress("the load alone")
        alone = one.load(scale.rate, scale.seconds, changing=False)
        progress(f"while {scale.rows:,} rows are rebuilt")
        beside, times = _beside(one, scale)
        one.end()
        require_right(one.town, VIEW)
    for name, found, built in (("alone", alone, []), ("beside a rebuild", beside, times)):
        told = [f"{seconds * 1000:,.0f}" for seconds in (found.p50, found.p95, found.p99, found.worst)]
        each = f"{sum(built) / len(built):.1f}" if built else ""
        report.rows.append([name, f"{found.reached:,.1f}", *told, str(len(built)), each])
    report.bars = [Bar("p99 beside a rebuild ÷ alone", beside.p99 / alone.p99, most=MOST)]
    report.plots = [
        Plot(
            "how much is seen within",
            "milliseconds",
            "% of the transactions",
            {
                name: [(seconds * 1000, share) for seconds, share in found.spread]
                for name, found in (("alone", alone), ("beside a rebuild", beside))
            },
            "x",
        )
    ]
    report.notes = [
        f"The rebuilt view has {scale.rows:,} rows; the load is {scale.rate} transactions per second on all sources"
        f" together, for {scale.seconds:.0f} s.",
        "All views were right at the end, as PostgreSQL recomputes them.",
    ]
    report.data = {"alone": asdict(alone), "beside": asdict(beside), "rebuilds": times}
    return report


def _beside(one: Stage, scale: Scale) -> tuple[Run, list[float]]:
    with rebuilding(one.town.folder) as thread:
        found = one.load(scale.rate, scale.seconds, changing=False)
    return found, thread.seconds
