"""Sales (paper 004, Section 5.2): totals per customer with their country, followed by DyDa and by a refresh.

The refresh recomputes everything whatever has changed, so it runs once a round. It is also the judge: what it has is
PostgreSQL's own answer over the sources as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.baselines import Refresh, execute
from benchmarks.harness.checking import digest, require_same
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, progress
from benchmarks.harness.servers import Server, fdw_binaries, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.shop import ACTIONS, SOURCES, VIEW, Changes, Sizes, created
from tests.town import Town

__all__ = ["run"]

CHANGED = {"sales": "shop", "customers": "crm"}
"""The tables that change, and where they are."""

PAPER = {
    (1, "sales"): (29, 55, 75),
    (1, "customers"): (28, 47, 71),
    (10, "sales"): (40, 66, 89),
    (10, "customers"): (28, 54, 77),
    (1, "combined"): (108,),
    (10, "combined"): (117,),
}
"""Table 1, asynchronous, milliseconds: insert, delete, update of 1 and 10 records."""


@dataclass(frozen=True)
class Scale:
    rounds: int
    batches: tuple[int, ...]
    records: tuple[int, ...] = (1, 10)
    sizes: Sizes = field(default_factory=Sizes)


SCALES = {
    "tiny": Scale(rounds=1, batches=(1, 2), records=(1,), sizes=Sizes(3, 50, 200, 100)),
    "quick": Scale(rounds=5, batches=(1, 10, 1_000)),
    "full": Scale(rounds=7, batches=(1, 10, 1_000, 10_000)),
}


@dataclass
class Stage:
    town: Town
    follower: Follower
    refresh: Refresh
    changes: Changes
    copied: bool
    """Without postgres_fdw the refresh reads copies, which must change as the sources do."""

    def execute(self, table: str, statements: list[str], apart: bool = False) -> None:
        """In one transaction, or in one each."""
        for part in [[one] for one in statements] if apart else [statements]:
            self.town.execute(CHANGED[table], *part)
            if self.copied:
                execute(self.refresh.url, *part)

    def require_right(self) -> None:
        """After a refresh: our rows are those that PostgreSQL has computed."""
        expected = digest(self.refresh.url, "SELECT * FROM refreshed")
        require_same("total", digest(self.town.warehouse, "SELECT * FROM public.total"), expected)


@contextmanager
def stage(scale: Scale, machines: dict[str, Server]) -> Iterator[Stage]:
    with ExitStack() as stack:
        engine = stack.enter_context(spark())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, machines["warehouse"].database, engine)
        for name in SOURCES:
            town.source(name, *created(name, scale.sizes), url=machines[name].database(name))
        town.view("total", VIEW)
        town.apply()
        url = machines["warehouse"].database("refresh")
        over_fdw = fdw_binaries() is not None
        if not over_fdw:
            for name, tables in SOURCES.items():
                execute(url, *created(name, scale.sizes), f"CREATE SCHEMA {name}")
                execute(url, *(f"CREATE VIEW {name}.{table} AS TABLE public.{table}" for table in tables))
        sources = {name: (town.sources[name], tables) for name, tables in SOURCES.items()} if over_fdw else {}
        refresh = Refresh(url, VIEW, "cust_id", sources)
        follower = stack.enter_context(Follower(town))
        yield Stage(town, follower, refresh, Changes(scale.sizes), not over_fdw)


def measure(stage: Stage, scale: Scale) -> dict[str, Sample]:
    """Batches, the paper's Table 1, and the refreshes, in turn. The first round warms up."""
    found: dict[str, list[float]] = {}
    for number in range(scale.rounds + 1):
        progress(f"round {number + 1} of {scale.rounds + 1}")
        turns: list[tuple[str, float]] = []
        for table in CHANGED:
            for k in scale.batches:
                stage.execute(table, stage.changes.batch(table, k))
                turns.append((f"{k} {table}", stage.follower.follow(f"{table}/{k}" if number else None)))
        for k in scale.records:
            turns += _table(stage, k)
        turns.append(("refresh, concurrently", stage.refresh.concurrently()))
        turns.append(("refresh, plain", stage.refresh.plainly()))
        stage.require_right()
        if number:
            for name, seconds in turns:
                found.setdefault(name, []).append(seconds)
    return {name: Sample(tuple(seconds)) for name, seconds in found.items()}


def _table(stage: Stage, k: int) -> list[tuple[str, float]]:
    """One action at a time, and all of them on both tables together. Deletes come before the inserts that undo them."""
    turns = []
    order = ("delete", "update", "insert")
    for table in CHANGED:
        for kind in order:
            stage.execute(table, stage.changes.action(table, kind, k), apart=True)
            turns.append((f"table 1: {k} {table} {kind}", stage.follower.follow()))
    for table in CHANGED:
        for kind in order:
            stage.execute(table, stage.changes.action(table, kind, k), apart=True)
    turns.append((f"table 1: {k} combined", stage.follower.follow()))
    return turns


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report(
        "sales",
        "sales, milliseconds: median (middle half)",
        ["changes", "DyDa", "refresh ÷ DyDa", "paper 004, Table 1"],
    )
    with servers([*SOURCES, "warehouse"]) as machines:
        report.ran_on["postgres"] = machines["warehouse"].version
        with stage(scale, machines) as one:
            found = measure(one, scale)
            phases = one.follower.phases
    if fdw_binaries() is None:
        report.notes.append("postgres_fdw is missing here: refreshes read copies inside one database.")
    refresh = found["refresh, concurrently"]
    for name, sample in found.items():
        if not name.startswith("refresh"):
            shown = name.removeprefix("table 1: ")
            paper = _paper(shown) if shown != name else ""
            report.rows.append([shown, str(sample), f"{refresh.median / sample.median:.1f}", paper])
    report.rows += [[name, str(sample), "", ""] for name, sample in found.items() if name.startswith("refresh")]
    report.bars = [
        Bar(f"refresh ÷ DyDa, 1,000 changes to {table}", refresh.median / found[f"1000 {table}"].median, least=8)
        for table in CHANGED
        if f"1000 {table}" in found
    ]
    report.plots = [_plot(scale, found)]
    report.data = {"seconds": {name: one.seconds for name, one in found.items()}, "phases": phases}
    for key, spent in phases.items():
        table, k = key.split("/")
        told = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in spent.items())
        report.notes.append(f"{int(k):,} changes to {table}: {told} ms")
    return report


def _paper(name: str) -> str:
    """What the paper has for a row of its Table 1."""
    k, what, *kind = name.split()
    times = PAPER.get((int(k), what))
    return "" if times is None else str(times[ACTIONS.index(kind[0]) if kind else 0])


def _plot(scale: Scale, found: dict[str, Sample]) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {}
    for table in CHANGED:
        points = [(k, found[f"{k} {table}"]) for k in scale.batches]
        lines[f"DyDa, changes to {table}"] = [
            (k, one.median * 1000, one.spread[0] * 1000, one.spread[1] * 1000) for k, one in points
        ]
    for name in ("refresh, concurrently", "refresh, plain"):
        lines[name] = [(k, found[name].median * 1000) for k in (scale.batches[0], scale.batches[-1])]
    return Plot("totals per customer", "changes in a batch", "milliseconds", lines, "xy")
