"""TPC-H: the 22 queries as views of one project, kept through refreshes, beside PostgreSQL computing them all again.

    parties ─┐                                      plain: one database with all tables,
    goods  ──┼─▶ DyDa, 22 views                            22 materialized views, each refreshed
    sales  ──┘

A refresh is what the benchmark's own refresh functions do, 0.1 % of the orders new and as many gone, and some customers
who change. The new ones are orders that were held back when the tables were filled. The rows are the real generator's.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2
import sqlglot

from benchmarks.harness.baselines import execute
from benchmarks.harness.checking import digest, require_same
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, Stopwatch, interleaved, progress, shown
from benchmarks.harness.servers import Server, servers, spark
from benchmarks.report.report import Bar, Plot, Report
from dyda.engine import Engine
from tests.integration.tpch.data import SCHEMAS
from tests.town import Town

__all__ = ["run"]

QUERIES = {path.stem: path.read_text() for path in sorted(Path("fixtures/tpch").glob("q*.sql"))}
FEW = ("q13", "q22")
"""What a tiny run takes: over the smaller tables, because the generator repeats keys below this scale. All 22 are in
tests/integration/tpch."""
INDEXES = {
    "customer": ("c_nationkey",),
    "supplier": ("s_nationkey",),
    "partsupp": ("ps_suppkey",),
    "orders": ("o_custkey",),
    "lineitem": ("l_partkey", "l_suppkey"),
}
"""On the columns that the queries join by, besides the primary keys; the same at the sources and in the plain one."""
HELD_BACK = "{} % 32 = 0"
"""The orders that are not there at the start, by their keys: one in eight."""


@dataclass(frozen=True)
class Scale:
    factors: tuple[float, ...]
    rounds: int
    alone: bool
    """Whether each view is also measured as the only one, at the first scale factor."""
    queries: Sequence[str] = tuple(QUERIES)


SCALES = {
    "tiny": Scale((0.01,), 1, alone=False, queries=FEW),
    "quick": Scale((0.05,), 5, alone=True),
    "full": Scale((0.05, 0.5), 7, alone=True),
}
LEAST = {0.05: 4.0, 0.5: 20.0}


@dataclass
class Business:
    """What changes from refresh to refresh, the same wherever it is carried out."""

    orders: Sequence[int]
    """Those that are there."""
    held_back: Sequence[int]
    customers: int
    number: int = field(default=0)

    def refresh(self) -> dict[str, list[str]]:
        """Statements by source, one transaction each."""
        size = max(1, len(self.orders) // 1000)
        first = self.number * size
        new, gone = (keys[first : first + size] for keys in (self.held_back, self.orders))
        if len(new) < size or len(gone) < size:
            raise AssertionError("no orders are left for a refresh")
        self.number += 1
        many = max(1, self.customers // 1000)
        changed = sorted({(self.number * 7919 + place * 104729) % self.customers + 1 for place in range(many)})
        segments = "(ARRAY['BUILDING', 'AUTOMOBILE', 'MACHINERY'])"
        return {
            "sales": [
                f"INSERT INTO {{sales}}.orders SELECT * FROM {{sales}}.late_orders WHERE o_orderkey IN ({_list(new)})",
                f"INSERT INTO {{sales}}.lineitem SELECT * FROM {{sales}}.late_lineitem"
                f" WHERE l_orderkey IN ({_list(new)})",
                f"DELETE FROM {{sales}}.lineitem WHERE l_orderkey IN ({_list(gone)})",
                f"DELETE FROM {{sales}}.orders WHERE o_orderkey IN ({_list(gone)})",
            ],
            "parties": [
                f"UPDATE {{parties}}.customer SET c_acctbal = c_acctbal + 1.25,"
                f" c_mktsegment = {segments}[1 + c_custkey % 3] WHERE c_custkey IN ({_list(changed)})"
            ],
        }

    @property
    def rows(self) -> int:
        """About how many rows a refresh touches: an order has four lines."""
        return max(1, len(self.orders) // 1000) * 10 + max(1, self.customers // 1000)


def _list(keys: Sequence[int]) -> str:
    return ", ".join(map(str, keys))


def generate(factor: float, folder: Path) -> None:
    """The tables as CSV files."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run([program, "csv", "--quiet", "-s", str(factor), "-o", str(folder)], check=True)


def fill(url: str, tables: Mapping[str, str], data: Path, schema: str = "public") -> None:
    """Creates and fills tables. Orders that are held back are in tables of their own, which nobody watches."""
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}; SET LOCAL search_path = {schema}")
        for table, columns in tables.items():
            cursor.execute(f"CREATE TABLE {table} ({columns})")
            with (data / f"{table}.csv").open() as rows:
                cursor.copy_expert(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)", rows)
            for column in INDEXES.get(table, ()):
                cursor.execute(f"CREATE INDEX ON {table} ({column})")
        if "orders" in tables:
            for table, key in (("lineitem", "l_orderkey"), ("orders", "o_orderkey")):
                cursor.execute(f"CREATE TABLE late_{table} (LIKE {table} INCLUDING INDEXES)")
                cursor.execute(
                    f"WITH late AS (DELETE FROM {table} WHERE {HELD_BACK.format(key)} RETURNING *)"
                    f" INSERT INTO late_{table} SELECT * FROM late"
                )
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("VACUUM ANALYZE")


class Plain:
    """One database with all tables and the views as its own materialized ones."""

    def __init__(self, url: str, data: Path, queries: Mapping[str, str]) -> None:
        self.url = url
        for source, tables in SCHEMAS.items():
            fill(url, tables, data, source)
        for name, text in queries.items():
            (query,) = sqlglot.transpile(text, read="spark", write="postgres", comments=False)
            execute(url, f"CREATE MATERIALIZED VIEW {name} AS {query}")
        execute(url, "ANALYZE")
        self.seconds: dict[str, list[float]] = {name: [] for name in queries}

    def refresh(self) -> float:
        total = 0.0
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for name in self.seconds:
                with Stopwatch() as watch:
                    cursor.execute(f"REFRESH MATERIALIZED VIEW {name}")
                self.seconds[name].append(watch.seconds)
                total += watch.seconds
        return total

    def keys(self, query: str) -> list[int]:
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return [int(key) for (key,) in cursor.fetchall()]

    def business(self) -> Business:
        (customers,) = self.keys("SELECT max(c_custkey) FROM parties.customer")
        return Business(
            self.keys("SELECT o_orderkey FROM sales.orders ORDER BY o_orderkey % 1009, o_orderkey"),
            self.keys("SELECT o_orderkey FROM sales.late_orders ORDER BY o_orderkey % 1009, o_orderkey"),
            customers,
        )


def changed(town: Town, plain: Plain | None, refresh: Mapping[str, Sequence[str]]) -> None:
    for source, statements in refresh.items():
        town.execute(source, *(text.format(**dict.fromkeys(SCHEMAS, "public")) for text in statements))
        if plain is not None:
            execute(plain.url, *(text.format(**{name: name for name in SCHEMAS}) for text in statements))


@contextmanager
def followed(
    label: str, queries: Mapping[str, str], data: Path, engine: Engine, machines: Mapping[str, Server]
) -> Iterator[Follower]:
    """Views over three sources, built, kept by a maintainer that stays up."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(folder, lambda hint: machines["warehouse"].database(f"{label}_{hint}"), engine)
        stack.callback(town.close)
        for source, tables in SCHEMAS.items():
            town.source(source, url=machines["sources"].database(f"{label}_{source}"))
            fill(town.sources[source], tables, data)
        for name, text in queries.items():
            town.view(name, text)
        town.apply()
        yield stack.enter_context(Follower(town))


def together(
    factor: float, scale: Scale, data: Path, engine: Engine, machines: Mapping[str, Server]
) -> tuple[dict[str, Sample], Follower, Plain, int]:
    """All views through the same refreshes, here and in the plain database; equal after the last."""
    label = f"sf{factor}".replace(".", "_")
    queries = {name: QUERIES[name] for name in scale.queries}
    plain = Plain(machines["plain"].database(label), data, queries)
    business = plain.business()
    with followed(label, queries, data, engine, machines) as follower:

        def prepare() -> None:
            changed(follower.town, plain, business.refresh())

        found = interleaved(
            {"DyDa": lambda: follower.follow("DyDa"), "plain": plain.refresh}, scale.rounds, prepare, warm=3
        )
        for name in queries:
            rows = digest(follower.town.warehouse, f'SELECT * FROM public."{name}"')
            require_same(name, rows, digest(plain.url, f"SELECT * FROM {name}"))
    return found, follower, plain, business.rows


def each_alone(
    data: Path, rounds: int, business: Business, engine: Engine, machines: Mapping[str, Server]
) -> dict[str, Sample]:
    """Every view as the only one of a project."""
    found = {}
    for name, text in QUERIES.items():
        progress(f"{name} alone")
        own = Business(business.orders, business.held_back, business.customers)
        with followed(f"alone_{name}", {name: text}, data, engine, machines) as follower:
            seconds = []
            for _ in range(1 + rounds):
                changed(follower.town, None, own.refresh())
                seconds.append(follower.follow())
        found[name] = Sample(tuple(seconds[1:]))
    return found


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report("tpch", "22 views of TPC-H, a refresh of 0.1 %, milliseconds: median (middle half)", [])
    report.columns = ["scale factor", "view", "DyDa", "PostgreSQL computes again"]
    samples: dict[str, dict[str, Sample]] = {}
    with ExitStack() as stack:
        machines = stack.enter_context(servers(["sources", "warehouse", "plain"]))
        engine = stack.enter_context(spark())
        report.ran_on["postgres"] = machines["warehouse"].version
        for number, factor in enumerate(scale.factors):
            data = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            progress(f"generating scale factor {factor:g}")
            generate(factor, data)
            found, follower, plain, rows = together(factor, scale, data, engine, machines)
            samples[f"{factor:g}"] = found
            report.rows.append(
                [f"{factor:g}", f"all {len(scale.queries)} together", str(found["DyDa"]), str(found["plain"])]
            )
            ratio = found["plain"].median / found["DyDa"].median
            report.bars.append(
                Bar(f"scale factor {factor:g}: computing again ÷ DyDa", ratio, least=LEAST.get(factor, 0.0))
            )
            phases = sorted(follower.phases["DyDa"].items(), key=lambda entry: -entry[1])
            told = ", ".join(f"{phase} {shown(seconds)}" for phase, seconds in phases if seconds >= 0.001)
            report.notes.append(f"Scale factor {factor:g}: about {rows:,} changed rows; ms by phase: {told}.")
            alone = {}
            if scale.alone and number == 0:
                alone = each_alone(data, 3, plain.business(), engine, machines)
            for name in scale.queries:
                own = str(alone[name]) if name in alone else ""
                report.rows.append([f"{factor:g}", f"{name} alone", own, str(Sample(tuple(plain.seconds[name][3:])))])
            samples[f"{factor:g}"] |= alone
            report.data[f"phases {factor:g}"] = follower.phases
    report.plots = [
        Plot(
            "a refresh of 0.1 %",
            "scale factor",
            "milliseconds",
            {
                name: [(float(factor), found[name].median * 1000) for factor, found in samples.items()]
                for name in ("DyDa", "plain")
            },
        )
    ]
    report.data["seconds"] = {
        factor: {name: sample.seconds for name, sample in found.items()} for factor, found in samples.items()
    }
    return report
