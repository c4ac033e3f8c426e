"""Views: the time that one same handful of changed rows takes with one view, and with dozens of every kind.

mixed         joins, groups, DISTINCT, outer joins, EXISTS, NOT EXISTS, set operations, extremes, in turn; no two alike
outer joins   each with two outer joins and a condition of its own

    people (customer, region)        trade (purchase, line)
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.checking import require_right
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, interleaved, progress, shown
from benchmarks.harness.servers import Server, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from dyda.engine import Engine
from tests.town import Town

__all__ = ["run"]

ROWS = 2_000
"""Customers, and purchases; each purchase has two lines."""

JOINED = "people.customer c JOIN trade.purchase p ON p.customer = c.id"
KINDS = (
    "SELECT c.id, c.name, p.id AS purchase, p.amount + {0} AS more FROM {1} WHERE p.amount > {0}",
    "SELECT c.region, count(*) AS purchases, sum(p.amount) AS total FROM {1} WHERE p.amount <> {0} GROUP BY c.region",
    "SELECT DISTINCT c.region, p.day, {0} AS kind FROM {1}",
    "SELECT c.id, c.name, p.id AS purchase FROM people.customer c"
    " LEFT JOIN trade.purchase p ON p.customer = c.id AND p.amount > {0}",
    "SELECT c.id, c.name FROM people.customer c WHERE c.id <> {0} AND EXISTS (SELECT * FROM trade.purchase p"
    " WHERE p.customer = c.id AND p.amount > {0})",
    "SELECT c.id FROM people.customer c WHERE NOT EXISTS (SELECT * FROM trade.purchase p WHERE p.customer = c.id"
    " AND p.amount < {0})",
    "SELECT c.id FROM people.customer c WHERE c.id > {0} UNION SELECT p.customer AS id FROM trade.purchase p",
    "SELECT p.customer, max(l.price) AS dearest, min(p.day) AS earliest FROM trade.purchase p JOIN trade.line l"
    " ON l.purchase = p.id WHERE l.price <> {0} GROUP BY p.customer",
    "SELECT r.name, count(p.id) AS purchases FROM people.region r JOIN people.customer c ON c.region = r.id"
    " LEFT JOIN trade.purchase p ON p.customer = c.id WHERE c.id <> {0} GROUP BY r.name HAVING count(p.id) > 1",
)
OUTER = (
    "SELECT c.id, c.name, p.id AS purchase, l.price FROM people.customer c LEFT JOIN trade.purchase p"
    " ON p.customer = c.id AND p.amount <> {0} LEFT JOIN trade.line l ON l.purchase = p.id"
)


def mixed(number: int) -> dict[str, str]:
    return {f"view{one}": KINDS[one % len(KINDS)].format(one, JOINED) for one in range(number)}


def outer(number: int) -> dict[str, str]:
    return {f"view{one}": OUTER.format(one) for one in range(number)}


@dataclass(frozen=True)
class Scale:
    rounds: int
    mixed: tuple[int, ...]
    outer: tuple[int, ...]


SCALES = {
    "tiny": Scale(1, (2,), (1,)),
    "quick": Scale(5, (1, 9, 45), (1, 22)),
    "full": Scale(7, (1, 9, 27, 54, 100), (1, 22)),
}
TABLES = {
    "people": [
        "CREATE TABLE region (id int PRIMARY KEY, name text)",
        "INSERT INTO region SELECT i, 'region ' || i FROM generate_series(0, 9) AS i",
        "CREATE TABLE customer (id int PRIMARY KEY, name text, region int)",
        f"INSERT INTO customer SELECT i, 'customer ' || i, i % 10 FROM generate_series(1, {ROWS}) AS i",
        "CREATE INDEX ON customer (region)",
        "ANALYZE",
    ],
    "trade": [
        "CREATE TABLE purchase (id int PRIMARY KEY, customer int, amount int, day date)",
        "INSERT INTO purchase SELECT i, 1 + (i * 7919::bigint) % 2000, i % 300, DATE '2024-01-01' + i % 50"
        f" FROM generate_series(1, {ROWS}) AS i",
        "CREATE INDEX ON purchase (customer)",
        "CREATE TABLE line (id int PRIMARY KEY, purchase int, price numeric(10,2))",
        f"INSERT INTO line SELECT i, 1 + i / 2, i % 700 + 0.25 FROM generate_series(1, {2 * ROWS}) AS i",
        "CREATE INDEX ON line (purchase)",
        "ANALYZE",
    ],
}


def changes(number: int) -> dict[str, list[str]]:
    """Ten rows, others each time: new purchases with their lines, some that change, one that is gone, a customer."""
    new = ROWS + 10 + number * 2
    gone = 10 + number * 3
    return {
        "people": [f"UPDATE customer SET name = name || '!' WHERE id = {1 + number % ROWS}"],
        "trade": [
            f"INSERT INTO purchase VALUES ({new}, {5 + number}, 150, '2024-02-01'), ({new + 1}, {ROWS + 1}, 1, NULL)",
            f"INSERT INTO line VALUES ({10 * new}, {new}, 3.50), ({10 * new + 1}, {new}, 4)",
            f"UPDATE purchase SET amount = amount + 1 WHERE id IN ({gone + 1}, {gone + 2})",
            f"DELETE FROM line WHERE purchase = {gone}",
            f"DELETE FROM purchase WHERE id = {gone}",
        ],
    }


@contextmanager
def followed(
    label: str, views: Mapping[str, str], engine: Engine, machines: Mapping[str, Server]
) -> Iterator[Follower]:
    """Views that are kept by a maintainer that stays up; right at the end, or it fails."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, lambda hint: machines["warehouse"].database(f"{label}_{hint}"), engine)
        stack.callback(town.close)
        for name, statements in TABLES.items():
            town.source(name, *statements, url=machines["sources"].database(f"{label}_{name}"))
        for name, text in views.items():
            town.view(name, text)
        town.apply()
        yield stack.enter_context(Follower(town))
        require_right(town, *views)


def measured(
    name: str, views: Mapping[int, Mapping[str, str]], rounds: int, engine: Engine, machines: Mapping[str, Server]
) -> tuple[dict[int, Sample], dict[str, dict[str, float]]]:
    """The same changes for so many views, in turn; and where the time went."""
    with ExitStack() as stack:
        followers = {}
        for number, those in views.items():
            progress(f"{name}: building {number} views")
            followers[number] = stack.enter_context(followed(f"{name}_{number}", those, engine, machines))
        turns = {str(number): _turn(follower, f"{name} {number}") for number, follower in followers.items()}
        found = interleaved(turns, rounds, warm=3)
        phases = {label: spent for follower in followers.values() for label, spent in follower.phases.items()}
    return {int(number): sample for number, sample in found.items()}, phases


def _turn(follower: Follower, label: str) -> Callable[[], float]:
    made = iter(range(10_000))

    def turn() -> float:
        for source, statements in changes(next(made)).items():
            follower.town.execute(source, *statements)
        return follower.follow(label)

    return turn


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report("views", "ten changed rows and more and more views, milliseconds: median (middle half)", [])
    report.columns = ["kind", "views", "DyDa", "÷ the first"]
    sets = {
        "mixed": {number: mixed(number) for number in scale.mixed},
        "outer joins": {number: outer(number) for number in scale.outer},
    }
    found: dict[str, dict[int, Sample]] = {}
    phases: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        machines = stack.enter_context(servers(["sources", "warehouse"]))
        engine = stack.enter_context(spark())
        report.ran_on["postgres"] = machines["warehouse"].version
        for name, views in sets.items():
            found[name], spent = measured(name.replace(" ", "_"), views, scale.rounds, engine, machines)
            phases |= spent
    for name, samples in found.items():
        first = next(iter(samples.values()))
        for number, sample in samples.items():
            report.rows.append([name, f"{number}", str(sample), f"{sample.median / first.median:.2f}"])
    outers = found["outer joins"]
    if {1, 22} <= set(outers):
        ratio = outers[22].median / outers[1].median
        report.bars = [Bar("22 views with outer joins ÷ one of them, 10 changed rows", ratio, most=4)]
    for label, seconds in phases.items():
        told = sorted(seconds.items(), key=lambda entry: -entry[1])
        report.notes.append(
            f"{label} views: {', '.join(f'{phase} {shown(one)}' for phase, one in told if one >= 0.001)} ms"
        )
    report.plots = [
        Plot(
            "ten changed rows",
            "views",
            "milliseconds",
            {
                name: [(number, one.median * 1000, *(s * 1000 for s in one.spread)) for number, one in samples.items()]
                for name, samples in found.items()
            },
        )
    ]
    report.data = {
        "seconds": {name: {str(n): one.seconds for n, one in samples.items()} for name, samples in found.items()},
        "phases": phases,
    }
    return report
