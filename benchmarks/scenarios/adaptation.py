"""Adaptation: each kind of plan, from a schema change to the adapted extent, beside building the same view again.

    round 1   rename, rebuild, drop, rebuild, …        round 2   …

Every round changes the schema of each view's own big table once, then one row of it: a plan may leave work to the first
change that comes. What became of the extent must be what the rebuild makes, each time; and at the end PostgreSQL
recomputes every view.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.checking import digest, require_right, require_same
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, Stopwatch, progress
from benchmarks.harness.servers import Server, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from dyda.commands.views import execute_resync
from dyda.engine import Engine
from tests.town import Town

__all__ = ["run"]

PLACES = 1_000
"""Rows of each small table."""


@dataclass(frozen=True)
class Scale:
    sizes: tuple[int, ...]
    rounds: int
    warm: int = 1
    """Rounds that do not count."""


SCALES = {"tiny": Scale((1_000,), 1, 0), "quick": Scale((100_000,), 5), "full": Scale((100_000, 1_000_000), 3)}


@dataclass(frozen=True)
class Case:
    """One kind of plan. The view is called after its big table, which only this case changes."""

    name: str
    kind: str
    table: str
    columns: Callable[[int], str]
    """Beside id and place, by the number of rounds: items of a SELECT over the numbers i."""
    view: Callable[[int], str]
    change: Callable[[int], str]
    """By round, from 1: what an ALTER TABLE of the big table does, or another statement at source crm."""
    at_crm: bool = False


WAYS = ("adapted", "next", "rebuilt")


def _each(rounds: int, text: str) -> str:
    return ", ".join(text.format(j=j) for j in range(1, rounds + 1))


CASES = (
    Case(
        "renamed attribute",
        "metadata",
        "renamed",
        lambda rounds: "i % 100 AS amount",
        lambda rounds: "SELECT f.id, f.amount, p.name FROM shop.renamed f JOIN crm.place p ON f.place = p.id",
        lambda j: "RENAME COLUMN amount TO price" if j % 2 else "RENAME COLUMN price TO amount",
    ),
    Case(
        "dropped attribute",
        "projection",
        "dropped",
        lambda rounds: _each(rounds, "i % (100 + {j}) AS x{j}"),
        lambda rounds: (
            f"SELECT f.id, {_each(rounds, 'f.x{j} /* dispensable */')}, p.name"
            " FROM shop.dropped f JOIN crm.place p ON f.place = p.id"
        ),
        lambda j: f"DROP COLUMN x{j}",
    ),
    Case(
        "dropped grouping key",
        "reaggregation",
        "grouped",
        # Two rows in each pair; key j is what keeps every tenth pair apart.
        lambda rounds: "i / 2 AS pair, i % 100 AS amount, " + _each(rounds, "i % 2 * (i / 2 % 10 = {j})::int AS k{j}"),
        lambda rounds: (
            f"-- dyda: extent = any\nSELECT f.pair, {_each(rounds, 'f.k{j} /* dispensable */')}, count(*) AS n,"
            f" sum(f.amount) AS amount FROM shop.grouped f GROUP BY f.pair, {_each(rounds, 'f.k{j}')}"
        ),
        lambda j: f"DROP COLUMN k{j}",
    ),
    Case(
        "replaced attribute",
        "join",
        "replaced",
        lambda rounds: _each(rounds, "i % {j} AS y{j}"),
        lambda rounds: (
            f"-- dyda: extent = any\nSELECT f.id, f.place, {_each(rounds, 'f.y{j} /* replaceable */')}"
            " FROM shop.replaced f"
        ),
        lambda j: f"DROP COLUMN y{j}",
    ),
    Case(
        "replaced relation",
        "delta",
        "moved",
        lambda rounds: "i % 100 AS amount",
        # Every tenth row of a relation is another one in the next.
        lambda rounds: (
            "-- dyda: extent = any\n"
            "SELECT f.id, f.amount, f.place, p.id AS at /* replaceable */, p.name /* replaceable */"
            " FROM shop.moved f JOIN crm.home_1 p /* replaceable */ ON f.place = p.id /* replaceable */"
        ),
        lambda j: f"DROP TABLE home_{j}",
        at_crm=True,
    ),
    Case(
        "changed type",
        "recompute",
        "retyped",
        lambda rounds: "i % 100 AS amount",
        lambda rounds: "SELECT f.id, f.amount, p.name FROM shop.retyped f JOIN crm.place p ON f.place = p.id",
        lambda j: f"ALTER COLUMN amount TYPE {'bigint' if j % 2 else 'int'}",
    ),
)


def _knowledge(rounds: int) -> str:
    """Attribute j of `replaced` is what table spare_j has; home_{j + 1} has the rows of home_j."""
    homes = [
        f'[[join]]\nbetween = ["shop.moved", "crm.home_{j + 1}"]\non = "moved.place = home_{j + 1}.id"\n\n'
        f'[[containment]]\nof = "crm.home_{j}(id, name)"\nis = "equivalent"\nin = "crm.home_{j + 1}(id, name)"\n'
        for j in range(1, rounds + 1)
    ]
    return "\n".join(homes) + "\n".join(
        f'[[join]]\nbetween = ["shop.replaced", "crm.spare_{j}"]\non = "replaced.place = spare_{j}.id"\n\n'
        f'[[function]]\nattribute = "shop.replaced.y{j}"\nequals = "crm.spare_{j}.y{j}"\n'
        for j in range(1, rounds + 1)
    )


@contextmanager
def stage(rows: int, rounds: int, engine: Engine, machines: dict[str, Server]) -> Iterator[Follower]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, lambda hint: machines["warehouse"].database(f"{hint}_{rows}"), engine)
        stack.callback(town.close)
        small = [f"CREATE TABLE place AS SELECT i AS id, 'place ' || i AS name FROM {_series(PLACES)}"]
        for j in range(1, rounds + 1):
            small.append(f"CREATE TABLE spare_{j} AS SELECT i AS id, i % {10 + j} AS y{j} FROM {_series(PLACES)}")
        for j in range(1, rounds + 2):
            name = f"CASE WHEN i % 10 = {j % 10} THEN 'new ' ELSE '' END || 'place ' || i"
            small.append(f"CREATE TABLE home_{j} AS SELECT i AS id, {name} AS name FROM {_series(PLACES)}")
        names = ["place", *(f"spare_{j}" for j in range(1, rounds + 1)), *(f"home_{j}" for j in range(1, rounds + 2))]
        small += [f"ALTER TABLE {name} ADD PRIMARY KEY (id)" for name in names]
        town.source("crm", *small, "ANALYZE", url=machines["crm"].database(f"crm_{rows}"))
        large = []
        for case in CASES:
            items = f"i AS id, i % {PLACES} AS place, {case.columns(rounds)}"
            large.append(f"CREATE TABLE {case.table} AS SELECT {items} FROM {_series(rows)}")
            large.append(f"ALTER TABLE {case.table} ADD PRIMARY KEY (id)")
            large.append(f"CREATE INDEX ON {case.table} (place)")
            town.view(case.table, case.view(rounds))
        town.source("shop", *large, "ANALYZE", url=machines["shop"].database(f"shop_{rows}"))
        (folder / "knowledge.toml").write_text(_knowledge(rounds))
        town.apply()
        yield stack.enter_context(Follower(town))


def _series(rows: int) -> str:
    return f"generate_series(0, {rows} - 1) AS i"


def measure(follower: Follower, rounds: int, warm: int) -> dict[str, dict[str, Sample]]:
    """By case, what adapting, the next change of a row and rebuilding took. The first rounds warm up."""
    found: dict[str, dict[str, list[float]]] = {case.name: {way: [] for way in WAYS} for case in CASES}
    for number in range(1, rounds + 1):
        progress(f"round {number} of {rounds}")
        for case in CASES:
            for way, seconds in zip(WAYS, _turn(follower, case, number, number > warm), strict=True):
                if number > warm:
                    found[case.name][way].append(seconds)
    require_right(follower.town, *(case.table for case in CASES))
    return {name: {way: Sample(tuple(s)) for way, s in ways.items()} for name, ways in found.items()}


def _turn(follower: Follower, case: Case, number: int, counts: bool) -> tuple[float, float, float]:
    town, maintainer = follower.town, follower.maintainer
    if case.at_crm:
        town.execute("crm", case.change(number))
    else:
        town.execute("shop", f"ALTER TABLE {case.table} {case.change(number)}")
    adapted = follower.follow(f"{case.name}/adapted" if counts else None)
    version = maintainer.opened.warehouse.versions(case.table)[-1]
    kind = version.details.get("adaptation", {}).get("kind")
    if kind != case.kind:
        raise AssertionError(f"{case.name}: the plan was {kind}, not {case.kind}: {version.details}")
    town.execute("shop", f"DELETE FROM {case.table} WHERE id = {number}")
    following = follower.follow()
    extent = f"SELECT * FROM public.{case.table}"
    before = digest(town.warehouse, extent)
    with Stopwatch() as watch:
        execute_resync(maintainer, case.table, lambda text, done, total: None)
    require_same(f"{case.name}, adapted", before, digest(town.warehouse, extent))
    return adapted, following, watch.seconds


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report(
        "adaptation",
        "adaptation, milliseconds: median (middle half)",
        ["schema change", "rows", "plan", "adapted", "the next change", "built again", "built again ÷ adapted"],
    )
    found: dict[int, dict[str, dict[str, Sample]]] = {}
    with ExitStack() as stack:
        machines = stack.enter_context(servers(["crm", "shop", "warehouse"]))
        engine = stack.enter_context(spark())
        report.ran_on["postgres"] = machines["warehouse"].version
        for rows in scale.sizes:
            with stage(rows, scale.warm + scale.rounds, engine, machines) as follower:
                found[rows] = measure(follower, scale.warm + scale.rounds, scale.warm)
                for label, spent in follower.phases.items():
                    told = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in spent.items())
                    report.notes.append(f"{label}, {rows:,} rows: {told} ms")
    for case in CASES:
        for rows, ways in ((rows, found[rows][case.name]) for rows in scale.sizes):
            adapted, rebuilt = ways["adapted"], ways["rebuilt"]
            ratio = rebuilt.median / adapted.median
            times = (str(adapted), str(ways["next"]), str(rebuilt))
            report.rows.append([case.name, f"{rows:,}", case.kind, *times, f"{ratio:.1f}"])
            if case.kind != "recompute":  # that is to build again
                report.bars.append(Bar(f"{case.name}, {rows:,} rows, built again ÷ adapted", ratio, least=1))
            if rows == 1_000_000 and case.kind in ("metadata", "projection"):
                report.bars.append(Bar(f"{case.name}, {rows:,} rows, recompute ÷ adaptation", ratio, least=20))
    report.notes.append(
        "The rebuild starts from the adapted rows: every row is found in its place and none is written. Adapting writes"
        " every row if every row differs, as with a replaced attribute."
    )
    report.plots = [_plot(rows, found[rows]) for rows in scale.sizes]
    report.data["seconds"] = {
        str(rows): {name: {way: one.seconds for way, one in ways.items()} for name, ways in cases.items()}
        for rows, cases in found.items()
    }
    return report


def _plot(rows: int, cases: dict[str, dict[str, Sample]]) -> Plot:
    lines = {}
    for way, label in (("adapted", "adapted"), ("rebuilt", "built again")):
        samples = [ways[way] for ways in cases.values()]
        lines[label] = [
            (place, one.median * 1000, one.spread[0] * 1000, one.spread[1] * 1000)
            for place, one in enumerate(samples, start=1)
        ]
    told = ", ".join(f"{place} {name}" for place, name in enumerate(cases, start=1))
    return Plot(f"adaptation, {rows:,} rows", told, "milliseconds", lines, "y")
