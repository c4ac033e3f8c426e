"""What we cost a source: pgbench beside itself on captured tables, and the longest that ALTER TABLE waited for us.

Both databases are on one server and take turns. Nobody follows while pgbench runs: a source has a machine of its own,
and what a maintainer computes on this one would be counted against it. What it captured is followed between the turns.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.checking import require_right
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, shown
from benchmarks.harness.pgbench import Throughput, throughput
from benchmarks.harness.servers import Server, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.altering import altering
from tests.town import Town

__all__ = ["run"]

RUNS = {
    "tpcb-like": ("tpcb-like", "simple"),
    "simple-update": ("simple-update", "simple"),
    "tpcb-like, prepared": ("tpcb-like", "prepared"),
    "simple-update, prepared": ("simple-update", "prepared"),
}
"""pgbench's script and protocol. The bar is for pgbench as it comes; where the server need not even parse, what capture
adds is a larger part of what is left."""

VIEWS = {
    "tellers": "SELECT b.bid, b.bbalance, t.tid, t.tbalance FROM bank.pgbench_branches b"
    " JOIN bank.pgbench_tellers t ON t.bid = b.bid",
    "accounts": "SELECT a.bid, count(*) AS accounts, sum(a.abalance) AS balance FROM bank.pgbench_accounts a"
    " GROUP BY a.bid",
    "movements": "SELECT h.tid, count(*) AS movements, sum(h.delta) AS moved FROM bank.pgbench_history h"
    " GROUP BY h.tid",
}
"""Every table that pgbench writes is read by a view, so all are captured."""


@dataclass(frozen=True)
class Scale:
    size: int
    """pgbench's own scale: 100,000 accounts each."""
    rounds: int
    seconds: float
    clients: int
    altering: float
    """Seconds of schema changes, with each kind of company and pause."""
    runs: tuple[str, ...] = tuple(RUNS)
    warm: int = 1
    """Rounds that do not count."""
    pauses: tuple[float, ...] = (0.5, 0.05)
    """Before each schema change, seconds: units have time to end between two, or have not."""


SCALES = {
    "tiny": Scale(1, rounds=1, seconds=1, clients=2, altering=0.2, runs=("simple-update",), warm=0, pauses=(0.05,)),
    "quick": Scale(size=10, rounds=5, seconds=3, clients=4, altering=5),
    "full": Scale(size=50, rounds=5, seconds=10, clients=4, altering=30),
}


@dataclass
class Side:
    """One database's runs of one script."""

    runs: list[Throughput] = field(default_factory=list)

    @property
    def per_second(self) -> Sample:
        return Sample(tuple(run.per_second for run in self.runs))

    def latency(self, part: float) -> Sample:
        """This quantile of the latencies, run by run."""
        return Sample(tuple(sorted(run.latencies)[int(part * (len(run.latencies) - 1))] for run in self.runs))

    @property
    def mean(self) -> Sample:
        return Sample(tuple(statistics.fmean(run.latencies) for run in self.runs))


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report("capture", "cost at the source: median (middle half)", ["", "without", "with", "with ÷ without"])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        machines = stack.enter_context(servers(["source", "warehouse"]))
        report.ran_on["postgres"] = machines["source"].version
        report.ran_on["pgbench"] = f"scale {scale.size}, {scale.clients} clients, {scale.seconds:g} s a turn"
        found = _pgbench(machines, folder, scale)
        waits = altering(machines, folder, scale.altering, scale.pauses)
    for name, sides in found.items():
        _tell(report, name, sides["without"], sides["with"])
    for company, altered in waits.items():
        report.notes.append(
            f"ALTER TABLE, {company}: waited {altered.waits} ms, at the longest {shown(max(altered.waits.seconds))};"
            f" then took {altered.altering} ms" + (f"; {altered.units} units meanwhile" if altered.units else "")
        )
    report.plots = [_plot(found)]
    report.data["altering"] = {
        company: {"waits": altered.waits.seconds, "altering": altered.altering.seconds, "units": altered.units}
        for company, altered in waits.items()
    }
    return report


def _pgbench(machines: dict[str, Server], folder: Path, scale: Scale) -> dict[str, dict[str, Side]]:
    """By run, both sides."""
    source = machines["source"]
    urls = {name: source.database(f"bank_{name}") for name in ("without", "with")}
    for url in urls.values():
        made = [str(source.binaries / "pgbench"), "--initialize", "--quiet", f"--scale={scale.size}", url]
        subprocess.run(made, check=True, capture_output=True)
    found = {run: {name: Side() for name in urls} for run in scale.runs}
    with ExitStack() as stack:
        engine = stack.enter_context(spark())
        town = Town(folder / "bank", machines["warehouse"].database, engine)
        stack.callback(town.close)
        town.source("bank", url=urls["with"])
        for name, text in VIEWS.items():
            town.view(name, text)
        town.apply()
        follower = stack.enter_context(Follower(town))
        for number in range(scale.warm + scale.rounds):
            for run, (script, protocol) in ((run, RUNS[run]) for run in scale.runs):
                # Who goes first has the emptier disk cache; so it is each of them in turn.
                for name in sorted(urls, reverse=number % 2 == 0):
                    done = throughput(
                        source.binaries, urls[name], script, scale.seconds, scale.clients, folder, protocol
                    )
                    if number >= scale.warm:
                        found[run][name].runs.append(done)
                follower.follow()
        require_right(town, *VIEWS)
    return found


def _tell(report: Report, run: str, without: Side, with_: Side) -> None:
    ratio = with_.per_second.median / without.per_second.median
    report.rows.append([f"{run}, per second", _rate(without), _rate(with_), f"{ratio:.2f}"])
    latencies = {"mean": (without.mean, with_.mean)}
    latencies |= {f"p{part * 100:g}": (without.latency(part), with_.latency(part)) for part in (0.5, 0.95, 0.99)}
    for name, (one, other) in latencies.items():
        report.rows.append([f"  latency, {name}, ms", str(one), str(other), f"{other.median / one.median:.2f}"])
    if RUNS[run][1] == "simple":
        report.bars.append(Bar(f"pgbench {run}, per second, with capture ÷ without", ratio, least=0.75))
    report.data[run] = {
        side: {
            "per_second": one.per_second.seconds,
            "mean": one.mean.seconds,
            **{f"p{part * 100:g}": one.latency(part).seconds for part in (0.5, 0.95, 0.99)},
        }
        for side, one in (("without", without), ("with", with_))
    }


def _rate(side: Side) -> str:
    low, high = side.per_second.spread
    return f"{side.per_second.median:,.0f} ({low:,.0f}–{high:,.0f})"


def _plot(found: dict[str, dict[str, Side]]) -> Plot:
    lines = {
        f"{run}, {name} capture": [(number, tps) for number, tps in enumerate(side.per_second.seconds, start=1)]
        for run, sides in found.items()
        for name, side in sides.items()
    }
    return Plot("pgbench with and without capture", "round", "transactions per second", lines)
