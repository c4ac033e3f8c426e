"""Growth: the time that one same batch takes, while one thing around it grows and everything else stays as it is.

relation size   the view shows the same thousand rows of relations that grow
view size       the view shows more and more of relations that stay
views           more and more views over four relations, no two alike
relations       the view joins more and more relations; the first two of them change
queue           not a batch but transactions of one row each, that have all been waiting
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.checking import require_right
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, interleaved, progress, shown
from benchmarks.harness.servers import Server, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.chains import BLOCK, Chain, created, view, views
from dyda.engine import Engine
from tests.town import Town

__all__ = ["run"]

BATCH = 100
ITEMS = ("r1.id AS i1", "r1.c AS c1", "r2.b AS b2", "r2.c AS c2")


@dataclass(frozen=True)
class Scale:
    rounds: int
    rows: tuple[int, ...]
    extents: tuple[int, ...]
    views: tuple[int, ...]
    relations: tuple[int, ...]
    queue: tuple[int, ...]


SCALES = {
    "tiny": Scale(1, (1_000,), (1_000,), (2,), (2,), (10,)),
    "quick": Scale(
        3, (1_000, 10_000, 100_000), (1_000, 10_000, 100_000), (1, 10, 50), (2, 4, 8, 12), (100, 1_000, 10_000)
    ),
    "full": Scale(
        5,
        (1_000, 10_000, 100_000, 1_000_000),
        (1_000, 10_000, 100_000, 1_000_000),
        (1, 2, 5, 10, 20, 50),
        (2, 3, 4, 6, 8, 10, 12),
        (100, 1_000, 10_000, 100_000),
    ),
}


@dataclass(frozen=True)
class Case:
    """One point of a curve: relations, and the views over them."""

    chain: Chain
    views: Mapping[str, str]


@dataclass(frozen=True)
class Curve:
    """What grows, and the cases by how much there is of it."""

    name: str
    axis: str
    cases: Mapping[int, Case]


def curves(scale: Scale) -> list[Curve]:
    largest = max(scale.extents)
    first = f"r1.id < {BLOCK}"
    return [
        Curve(
            "relation size",
            "rows in each of four relations",
            {rows: Case(Chain(4, rows, 4), {"grown": view(4, ITEMS, first)}) for rows in scale.rows},
        ),
        Curve(
            "view size",
            "rows in the view",
            {rows: Case(Chain(4, largest, 4), {"grown": view(4, ITEMS, f"r1.id < {rows}")}) for rows in scale.extents},
        ),
        Curve(
            "views",
            "views over four relations",
            {number: Case(Chain(4, 10 * BLOCK, 4), views(number)) for number in scale.views},
        ),
        Curve(
            "relations",
            "relations in the view",
            {
                number: Case(Chain(number, 10 * BLOCK, 2), {"grown": view(number, ITEMS, f"r{number}.b >= 0")})
                for number in scale.relations
            },
        ),
    ]


@contextmanager
def followed(label: str, case: Case, engine: Engine, machines: Mapping[str, Server]) -> Iterator[Follower]:
    """A town with the case's relations and views, kept by a maintainer that stays up; right at the end, or it fails."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, lambda hint: machines["warehouse"].database(f"{label}_{hint}"), engine)
        stack.callback(town.close)
        for name, tables in case.chain.sources.items():
            statements = [text for table in tables for text in created(table, case.chain.rows)]
            town.source(name, *statements, url=machines["sources"].database(f"{label}_{name}"))
        for name, text in case.views.items():
            town.view(name, text)
        town.apply()
        yield stack.enter_context(Follower(town))
        require_right(town, *case.views)


def measured(
    curve: Curve, rounds: int, engine: Engine, machines: Mapping[str, Server]
) -> tuple[dict[int, Sample], dict[str, dict[str, float]]]:
    """The same batches for every case of the curve, in turn; and where the time went."""
    with ExitStack() as stack:
        turns: dict[str, Callable[[], float]] = {}
        followers = []
        for size, case in curve.cases.items():
            label = f"{curve.name}_{size}".replace(" ", "_")
            follower = stack.enter_context(followed(label, case, engine, machines))
            turns[str(size)] = _turn(follower, case, f"{curve.name} {size:,}")
            followers.append(follower)
        found = interleaved(turns, rounds)
        phases = {label: spent for follower in followers for label, spent in follower.phases.items()}
    return {int(size): sample for size, sample in found.items()}, phases


def _turn(follower: Follower, case: Case, label: str) -> Callable[[], float]:
    changes = case.chain.changes()

    def turn() -> float:
        for source, statements in changes.batch(BATCH).items():
            follower.town.execute(source, *statements)
        return follower.follow(label)

    return turn


def drained(
    lengths: tuple[int, ...], rounds: int, engine: Engine, machines: Mapping[str, Server]
) -> tuple[dict[int, Sample], dict[str, dict[str, float]]]:
    """Queues of each length, in turn, from full to empty."""
    rows = max(lengths)
    case = Case(Chain(2, rows, 2), {"grown": view(2, ITEMS, "r2.b >= 0")})
    with followed("queue", case, engine, machines) as follower:

        def queue(length: int) -> Callable[[], float]:
            def turn() -> float:
                _wait_in_line(follower.town, length)
                return follower.follow(f"queue {length:,}")

            return turn

        found = interleaved({str(length): queue(length) for length in lengths}, rounds)
        phases = follower.phases
    return {int(length): sample for length, sample in found.items()}, phases


def _wait_in_line(town: Town, length: int) -> None:
    """So many transactions of one row each, at two sources."""
    for name, table in (("north", "r1"), ("east", "r2")):
        with closing(town.connect(name)) as connection, connection.cursor() as cursor:
            connection.autocommit = True  # a block that commits cannot run inside a transaction
            cursor.execute("SET synchronous_commit = off")
            cursor.execute(
                f"DO $$ BEGIN FOR i IN 0 .. {length // 2 - 1} LOOP"
                f" UPDATE {table} SET b = b + 1, c = 'w' || i WHERE id = i; COMMIT; END LOOP; END $$"
            )


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report("growth", f"growth, milliseconds per batch of {BATCH} changes: median (middle half)", [])
    report.columns = ["what grows", "to", "DyDa", "÷ the first"]
    found: dict[str, dict[int, Sample]] = {}
    phases: dict[str, dict[str, float]] = {}
    axes = {"queue": "transactions that wait"}
    with ExitStack() as stack:
        machines = stack.enter_context(servers(["sources", "warehouse"]))
        engine = stack.enter_context(spark())
        report.ran_on["postgres"] = machines["warehouse"].version
        for curve in curves(scale):
            progress(f"{curve.name}: {', '.join(f'{size:,}' for size in curve.cases)}")
            axes[curve.name] = curve.axis
            found[curve.name], spent = measured(curve, scale.rounds, engine, machines)
            phases |= spent
        found["queue"], spent = drained(scale.queue, scale.rounds, engine, machines)
        phases |= spent
    for name, samples in found.items():
        first = next(iter(samples.values()))
        for size, sample in samples.items():
            report.rows.append([name, f"{size:,}", str(sample), f"{sample.median / first.median:.2f}"])
    many = found["views"]
    if {1, 50} <= set(many):
        report.bars = [Bar("50 views sharing four relations ÷ one view", many[50].median / many[1].median, most=3)]
    report.plots = [_plot(name, axes[name], samples) for name, samples in found.items()]
    report.notes += _told(found["queue"], phases)
    report.data = {
        "seconds": {name: {str(n): one.seconds for n, one in samples.items()} for name, samples in found.items()},
        "phases": phases,
    }
    return report


def _told(queue: Mapping[int, Sample], phases: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What a message in the queue costs, and where the time of each case went."""
    each = [f"{sample.median / length * 1000:.3f} of {length:,}" for length, sample in queue.items()]
    notes = [f"Milliseconds per waiting transaction: {', '.join(each)}."]
    for label, spent in phases.items():
        largest = sorted(spent.items(), key=lambda entry: -entry[1])[:8]
        notes.append(f"{label}: " + ", ".join(f"{name} {shown(seconds)}" for name, seconds in largest) + " ms")
    return notes


def _plot(name: str, axis: str, samples: Mapping[int, Sample]) -> Plot:
    points = [(n, s.median * 1000, s.spread[0] * 1000, s.spread[1] * 1000) for n, s in samples.items()]
    straight = name in ("views", "relations")
    return Plot(f"growth: {name}", axis, "milliseconds", {"DyDa": points}, "" if straight else "xy")
