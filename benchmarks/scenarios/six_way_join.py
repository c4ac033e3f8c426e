"""Six relations (paper 001, Section 7.1): batches of k changes over all of them, followed by DyDa and by the others.

The others but the limit recompute everything: k does not matter to them, so each of them runs once a round.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg2

from benchmarks.harness.baselines import InProcess, OnSpark, Refresh, execute, has_duckdb
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.handwritten_limit import Limit
from benchmarks.harness.measuring import Sample, progress
from benchmarks.harness.servers import Server, fdw_binaries, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.relations import SOURCES, TABLES, VIEW, Changes, created, view_over
from dyda.engine import Engine
from tests.town import Town

__all__ = ["run"]


@dataclass(frozen=True)
class Scale:
    sizes: tuple[int, ...]
    batches: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    rounds: int = 7
    warm_up: int = 30
    """Batches of each of some sizes before anything counts: a daemon is up for days, and Java compiles what it runs
    often. Spark's recompute runs in the same Java and gains by it too."""


SCALES = {
    "tiny": Scale((100,), (1, 10), 1, 0),
    "quick": Scale((100_000,)),
    "full": Scale((100_000, 1_000_000, 10_000_000)),
}
LARGE = 10_000_000
"""From so many rows on there are fewer rounds, and who recomputes everything takes part in the last one only: each of
them takes minutes."""
ROUNDS_OF_LARGE = 3


@dataclass
class Stage:
    """One size of relations: the sources, the warehouse, a copy of everything in one database, and the contenders."""

    rows: int
    town: Town
    follower: Follower
    limit: Limit
    others: dict[str, Callable[[], float]]
    machines: dict[str, Server]
    changes: Changes = field(init=False)

    def __post_init__(self) -> None:
        self.changes = Changes(self.rows)

    def change(self, k: int) -> None:
        """The same batch at the sources and in the copy."""
        for source, statements in self.changes.batch(k).items():
            self.town.execute(source, *statements)
            execute(self.limit.url, *statements)

    def rested(self, contender: Callable[[], float]) -> float:
        """What a contender takes on servers that do not still clean up after the one before."""
        for machine in self.machines.values():
            machine.rest()
        return contender()

    def require_right(self) -> None:
        """A fast wrong answer is a failure: every contender's rows are those of the view over the copy."""
        if not self.limit.right():
            raise AssertionError("the limit's rows are wrong")
        with closing(psycopg2.connect(self.limit.url)) as connection, connection.cursor() as cursor:
            expected = _digest(cursor, "SELECT i1, b1, c2, c3, b4, b5, c6 FROM kept, generate_series(1, count)")
        with closing(psycopg2.connect(self.town.warehouse)) as connection, connection.cursor() as cursor:
            if _digest(cursor, "SELECT i1, b1, c2, c3, b4, b5, c6 FROM public.six") != expected:
                raise AssertionError("DyDa's rows are wrong")


def _digest(cursor: psycopg2.extensions.cursor, query: str) -> tuple[object, ...]:
    cursor.execute(f"SELECT count(*), sum(hashtextextended(v::text, 0)::numeric) FROM ({query}) AS v")
    return tuple(cursor.fetchone())


@contextmanager
def stage(rows: int, engine: Engine, machines: dict[str, Server]) -> Iterator[Stage]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, lambda hint: machines["warehouse"].database(f"{hint}_{rows}"), engine)
        for name, tables in SOURCES.items():
            statements = [text for table in tables for text in created(table, rows)]
            town.source(name, *statements, url=machines[name].database(f"{name}_{rows}"))
        town.view("six", VIEW)
        town.apply()
        copy = machines["warehouse"].database(f"copy_{rows}")
        execute(copy, *[text for tables in SOURCES.values() for table in tables for text in created(table, rows)])
        limit = Limit(copy)
        refresh = _refresh(town, copy, lambda: machines["warehouse"].database(f"refresh_{rows}"))
        on_spark = OnSpark(engine.bulk_session, town.database("spark"), town.sources, rows)
        others = {
            "refresh, concurrently": refresh.concurrently,
            "refresh, plain": refresh.plainly,
            "recompute on Spark": on_spark.recompute,
        }
        if has_duckdb():
            others["recompute in process"] = InProcess(town.database("in_process"), town.sources).recompute
        follower = stack.enter_context(Follower(town))
        yield Stage(rows, town, follower, limit, others, machines)


def _refresh(town: Town, copy: str, database: Callable[[], str]) -> Refresh:
    """Over postgres_fdw where it is; else of the copy."""
    if fdw_binaries() is None:
        return Refresh(copy, view_over({table: table for table in TABLES}), "i1", {})
    sources = {name: (town.sources[name], tables) for name, tables in SOURCES.items()}
    return Refresh(database(), VIEW, "i1", sources)


def warm_up(stage: Stage, times: int) -> None:
    progress(f"{stage.rows:,} rows: warming up")
    for number in range(times):
        for k in (1, min(100, stage.rows // 10), min(1_000, stage.rows // 10)):
            stage.change(k)
            stage.follower.follow()
            stage.limit.follow()
        if number % 10 == 0:
            for contender in stage.others.values():
                contender()


def measure(stage: Stage, batches: Sequence[int], rounds: int) -> dict[str, Sample]:
    """DyDa and the limit for each k, and the others, in turn. The first round warms up."""
    found: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        progress(f"{stage.rows:,} rows: round {number + 1} of {rounds + 1}")
        turns: list[tuple[str, float]] = []
        for k in batches:
            stage.change(k)
            label = f"{stage.rows}/{k}" if number else None
            turns.append((f"DyDa {k}", stage.rested(partial(stage.follower.follow, label))))
            turns.append((f"limit {k}", stage.rested(stage.limit.follow)))
        if stage.rows < LARGE or number == rounds:
            turns += [(name, stage.rested(contender)) for name, contender in stage.others.items()]
            stage.require_right()
        if number:
            for name, seconds in turns:
                found.setdefault(name, []).append(seconds)
    return {name: Sample(tuple(seconds)) for name, seconds in found.items()}


def run(profile: str) -> Report:
    scale = SCALES[profile]
    sizes = scale.sizes
    found: dict[int, dict[str, Sample]] = {}
    phases: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        machines = stack.enter_context(servers([*SOURCES, "warehouse"]))
        engine = stack.enter_context(spark())
        for rows in sizes:
            with stage(rows, engine, machines) as one:
                if rows == sizes[0]:
                    warm_up(one, scale.warm_up)
                found[rows] = measure(one, scale.batches, scale.rounds if rows < LARGE else ROUNDS_OF_LARGE)
                phases |= one.follower.phases
        version = machines["warehouse"].version
    report = report_on(scale, found, phases)
    report.ran_on["postgres"] = version
    return report


def report_on(scale: Scale, found: dict[int, dict[str, Sample]], phases: dict[str, dict[str, float]]) -> Report:
    sizes = list(found)
    report = Report("six", "six relations, milliseconds per batch: median (middle half)", [])
    report.columns = ["contender", *(f"{rows:,} rows" for rows in sizes)]
    batches, recomputations = 3 * scale.warm_up, (scale.warm_up + 9) // 10
    report.notes.append(f"Before the first round: {batches} batches and {recomputations} recomputations to warm up.")
    if sizes[-1] >= LARGE:
        report.notes.append(
            f"At {sizes[-1]:,} rows refresh and recompute are measured once,"
            f" DyDa and the limit {ROUNDS_OF_LARGE} times."
        )
    if fdw_binaries() is None:
        report.notes.append("postgres_fdw is missing here: refreshes read copies inside one database.")
    if not has_duckdb():
        report.notes.append("duckdb is missing here: recomputing in process was not measured.")
    names = list(found[sizes[0]])
    report.rows = [[name, *(str(found[rows][name]) for rows in sizes)] for name in names]
    report.bars = _bars(found)
    report.plots = [_plot(rows, found[rows], scale.batches) for rows in sizes]
    report.data = {
        "seconds": {str(rows): {name: one.seconds for name, one in samples.items()} for rows, samples in found.items()},
        "phases": phases,
    }
    for key, spent in phases.items():
        rows_, k = key.split("/")
        told = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in spent.items())
        report.notes.append(f"{int(rows_):,} rows, k = {k}: {told} ms")
    return report


def _bars(found: dict[int, dict[str, Sample]]) -> list[Bar]:
    """Of several k, the one that stands worst."""

    def ratio(rows: int, name: str, batches: Sequence[int]) -> float:
        samples = found[rows]
        return min(samples[name].median / samples[f"DyDa {k}"].median for k in batches)

    small, large = 100_000, 1_000_000
    upto = (1, 10, 100, 1_000)
    in_process = "recompute in process"
    bars = []
    if small in found:
        bars += [
            Bar("refresh ÷ DyDa, 100,000 rows, k ≤ 100", ratio(small, "refresh, concurrently", upto[:3]), least=6),
            Bar("Spark recompute ÷ DyDa, 100,000 rows, k ≤ 1,000", ratio(small, "recompute on Spark", upto), least=8),
            Bar(
                "DyDa ÷ the limit, k = 10,000",
                found[small]["DyDa 10000"].median / found[small]["limit 10000"].median,
                most=2,
            ),
        ]
    if in_process in found.get(small, {}):
        bars.append(Bar("in-process recompute ÷ DyDa, 100,000 rows", ratio(small, in_process, upto), least=1.5))
    if in_process in found.get(large, {}):
        bars.append(Bar("in-process recompute ÷ DyDa, 1,000,000 rows", ratio(large, in_process, upto), least=12))
    if large in found:
        bars += [
            Bar("refresh ÷ DyDa, 1,000,000 rows, k ≤ 1,000", ratio(large, "refresh, concurrently", upto), least=40),
            Bar(
                "DyDa at 1,000,000 ÷ at 100,000, k = 1,000",
                found[large]["DyDa 1000"].median / found[small]["DyDa 1000"].median,
                most=1.2,
            ),
        ]
    return bars


def _plot(rows: int, samples: dict[str, Sample], batches: Sequence[int]) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {}
    for label in ("DyDa", "limit"):
        points = [(k, samples[f"{label} {k}"]) for k in batches]
        lines[label] = [(k, s.median * 1000, s.spread[0] * 1000, s.spread[1] * 1000) for k, s in points]
    for name, sample in samples.items():
        if not name.startswith(("DyDa", "limit")):
            lines[name] = [(k, sample.median * 1000) for k in (batches[0], batches[-1])]
    return Plot(f"six relations × {rows:,}", "changes in a batch", "milliseconds", lines, "xy")
