"""Reading a view beside reading a plain table with the same rows and indexes; and what its table takes on disk, in WAL
and in time to install.

    derived key      the sources' keys prove one: a unique index
    declared index   all rows differ, but nothing proves it: the indexes are those of the view's file
    true bag         every tenth row is there twice

Each turn asks the views and the tables the same questions, one after the other, and the answers must be the same.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import psycopg2
import psycopg2.extensions
import pyarrow as pa

from benchmarks.harness.measuring import Sample, Stopwatch, interleaved, progress
from benchmarks.harness.servers import servers
from benchmarks.report.report import Bar, Plot, Report
from dyda.model.layout import Layout
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.warehouse import Installation, ViewChange, ViewColumn, ViewVersion, Warehouse
from dyda.warehouse.writer import Writer
from tests.older_extents import make_older

__all__ = ["run"]

CHANGES = 1_000
AT = Position(10, 10)
COLUMNS = (("id", "bigint"), ("customer", "bigint"), ("day", "date"), ("amount", "numeric(12,2)"), ("status", "text"))


@dataclass(frozen=True)
class Scale:
    rows: int
    rounds: int


SCALES = {"tiny": Scale(2_000, 1), "quick": Scale(100_000, 15), "full": Scale(1_000_000, 9)}


@dataclass(frozen=True)
class Case:
    name: str
    layout: Layout
    indexes: tuple[str, ...]
    """Of the plain table."""
    copies: Callable[[int], int] = lambda i: 1

    @property
    def view(self) -> str:
        return self.name.replace(" ", "_")


KEYED = Layout(key=("id",), indexes=(("customer",),))
INDEXED = Layout(indexes=(("id",), ("customer",)))
CASES = (
    Case("derived key", KEYED, ("UNIQUE INDEX ON {} (id)", "INDEX ON {} (customer)")),
    Case("declared index", INDEXED, ("INDEX ON {} (id)", "INDEX ON {} (customer)")),
    Case("true bag", INDEXED, ("INDEX ON {} (id)", "INDEX ON {} (customer)"), lambda i: 2 if i % 10 == 0 else 1),
)
BEFORE = Case("counted", Layout(), ())
"""As it was stored until now: each distinct row once, with a digest of 32 bytes and a count; with the same indexes."""


def _queries(rows: int) -> dict[str, tuple[int, str]]:
    """How often each is asked in a turn, and its text; {other} is the second view or table, {i} a number of a row."""
    return {
        "point": (20, "SELECT * FROM {one} WHERE id = {i}"),
        "range": (5, f"SELECT count(*), sum(amount) FROM {{one}} WHERE id BETWEEN {{i}} AND {{i}} + {rows // 100}"),
        "count(*)": (1, "SELECT count(*) FROM {one}"),
        "GROUP BY": (1, "SELECT status, day, count(*), sum(amount) FROM {one} GROUP BY status, day ORDER BY 1, 2"),
        "join": (1, "SELECT count(*), sum(a.amount + b.amount) FROM {one} a JOIN {other} b ON a.id = b.id"),
    }


def _row(i: int, amount: int) -> tuple[str, ...]:
    day = datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 365)
    return (str(i), str(i * 7919 % 20_000), day.isoformat(), f"{amount}.00", f"status {i % 7}")


def _entries(rows: Sequence[tuple[tuple[str, ...], int]]) -> pa.Table:
    texts = [pa.array([row[place] for row, _ in rows], pa.string()) for place in range(len(COLUMNS))]
    counts = pa.array([n for _, n in rows], pa.int64())
    return pa.Table.from_arrays([*texts, counts], names=[*(f"c{i}" for i in range(1, len(COLUMNS) + 1)), "n"])


@dataclass
class Stage:
    """A warehouse with the views and the tables."""

    writer: Writer
    url: str
    connection: psycopg2.extensions.connection
    rows: int

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def build(self, case: Case) -> float:
        """The two views of the case, and the tables beside them; how long the first view took to install."""
        seconds = []
        for number in (1, 2):
            rows = [(_row(i, i % 1000 + number), case.copies(i)) for i in range(self.rows)]
            staging = self.writer.staging(len(COLUMNS))
            staging.sink()(_entries(rows).to_batches(max_chunksize=50_000))
            columns = tuple(ViewColumn(name, type_) for name, type_ in COLUMNS)
            version = ViewVersion("SELECT …", columns, (RelationName("s", "public", "t"),), layout=case.layout)
            view, at = f"{case.view}_{number}", {"s": (None, AT)}
            change = ViewChange(view, staging=staging, mode="replace", version=version, positions=at)
            with Stopwatch() as watch:
                self.writer.install(Installation((change,)))
            seconds.append(watch.seconds)
            if case.indexes:
                self.ask(f"CREATE TABLE plain_{view} AS SELECT * FROM {view} ORDER BY id")
                for index in case.indexes:
                    self.ask(f"CREATE {index.format(f'plain_{view}')}")
        return seconds[0]

    def change(self, case: Case, turn: int) -> tuple[float, int]:
        """A thousand rows of the first view get another amount, right after a checkpoint: seconds and bytes of WAL."""
        chosen = random.Random(turn).sample(range(self.rows), min(CHANGES, self.rows))
        delta = []
        for i in chosen:
            amount = self._amounts.get((case.view, i), i % 1000 + 1)
            self._amounts[case.view, i] = amount + 1_000
            delta += [(_row(i, amount), -case.copies(i)), (_row(i, amount + 1_000), case.copies(i))]
        entries = _entries(delta)
        self.ask("CHECKPOINT")
        ((before,),) = self.ask("SELECT pg_current_wal_insert_lsn() - '0/0'")
        change = ViewChange(f"{case.view}_1", delta=entries, positions={"s": (AT, AT)})
        with Stopwatch() as watch:
            self.writer.install(Installation((change,)))
        ((after,),) = self.ask("SELECT pg_current_wal_insert_lsn() - '0/0'")
        return watch.seconds, int(after - before)

    def __post_init__(self) -> None:
        self._amounts: dict[tuple[str, int], int] = {}

    def size(self, table: str) -> int:
        ((found,),) = self.ask(f"SELECT pg_total_relation_size('{table}'::regclass)")
        return int(found)

    def extent(self, view: str) -> str:
        ((number,),) = self.ask(f"SELECT extent FROM dyda.view_version WHERE view = '{view}'")
        return f"dyda.extent_{number}"


def run(profile: str) -> Report:
    scale = SCALES[profile]
    report = Report(
        "reading",
        f"reading views of {scale.rows:,} rows, milliseconds: median (middle half)",
        ["rows are", "query", "view", "plain table", "view ÷ table"],
    )
    ratios: dict[str, list[float]] = {}
    with ExitStack() as stack:
        machines = stack.enter_context(servers(["warehouse"]))
        report.ran_on["postgres"] = machines["warehouse"].version
        url = machines["warehouse"].database("reading")
        connection = stack.enter_context(closing(psycopg2.connect(url)))
        connection.autocommit = True
        warehouse = stack.enter_context(Warehouse.connect(url, "public"))
        warehouse.upgrade()
        stage = Stage(stack.enter_context(warehouse.lock()), url, connection, scale.rows)
        for case in CASES:
            progress(f"{case.name}: {scale.rows:,} rows")
            installed = stage.build(case)
            report.data[f"install {case.name}"] = installed
        stage.ask("VACUUM ANALYZE")
        for case in CASES:
            ratios[case.name] = _read(stage, case, scale, report)
            share = stage.size(stage.extent(f"{case.view}_1")) / stage.size(f"plain_{case.view}_1")
            report.rows.append([case.name, "on disk, with indexes", "", "", f"{share:.2f}"])
            report.bars.append(Bar(f"{case.name}: disk, view ÷ table", share, most=1.5))
        _write(stage, scale, report)
    report.plots = [
        Plot(
            "view ÷ plain table",
            ", ".join(f"{place} {name}" for place, name in enumerate(_queries(scale.rows), start=1)),
            "ratio of medians",
            {name: [(place, ratio) for place, ratio in enumerate(found, start=1)] for name, found in ratios.items()},
        )
    ]
    report.notes.append(
        f"WAL and install: {CHANGES:,} rows get another amount, right after a checkpoint, with all that an installation"
        " writes. Counted is the form until now, with the same indexes."
    )
    return report


def _read(stage: Stage, case: Case, scale: Scale, report: Report) -> list[float]:
    ratios = []
    names = {
        "view": (f"public.{case.view}_1", f"public.{case.view}_2"),
        "table": (f"plain_{case.view}_1", f"plain_{case.view}_2"),
    }
    chosen = random.Random(7)
    for query, (times, text) in _queries(scale.rows).items():
        numbers: list[int] = []

        def draw(times: int = times, numbers: list[int] = numbers) -> None:
            numbers[:] = [chosen.randrange(scale.rows * 9 // 10) for _ in range(times)]

        def turn(which: str, text: str = text, numbers: list[int] = numbers) -> float:
            one, other = names[which]
            with Stopwatch() as watch:
                for i in numbers:
                    stage.ask(text.format(one=one, other=other, i=i))
            return watch.seconds

        draw()
        answers = [sorted(stage.ask(text.format(one=one, other=two, i=numbers[0]))) for one, two in names.values()]
        if answers[0] != answers[1]:
            raise AssertionError(f"{case.name}, {query}: the view says {answers[0][:3]}, the table {answers[1][:3]}")
        # Short turns, and more of them: what else the machine does then hits both alike.
        rounds = scale.rounds * (5 if times > 1 else 1)
        found = interleaved({"view": lambda: turn("view"), "table": lambda: turn("table")}, rounds, draw)
        each = {which: Sample(tuple(s / times for s in sample.seconds)) for which, sample in found.items()}
        ratio = each["view"].median / each["table"].median
        ratios.append(ratio)
        report.rows.append([case.name, query, str(each["view"]), str(each["table"]), f"{ratio:.2f}"])
        report.bars.append(Bar(f"{case.name}: {query}, view ÷ table", ratio, most=1.5))
        report.data[f"{case.name} {query}"] = {which: sample.seconds for which, sample in each.items()}
    return ratios


def _write(stage: Stage, scale: Scale, report: Report) -> None:
    """What a thousand changes cost before and now."""
    progress("writing")
    stage.build(BEFORE)
    number = make_older(stage.url, f"{BEFORE.view}_1")
    for column in ("c1", "c2"):
        stage.ask(f"CREATE INDEX ON dyda.extent_{number} ({column})")
    stage.ask("VACUUM ANALYZE")
    cases = (BEFORE, *CASES)
    turns = min(scale.rounds, 5)
    found = {case.name: [stage.change(case, turn) for turn in range(turns)] for case in cases}
    medians = {name: sorted(size for _, size in sizes)[turns // 2] for name, sizes in found.items()}
    before = medians[BEFORE.name]
    for case in cases:
        took = Sample(tuple(seconds for seconds, _ in found[case.name]))
        size = medians[case.name]
        what = f"{CHANGES:,} changes: {size / 2**20:.1f} MiB of WAL"
        report.rows.append([case.name, what, str(took), "", f"before ÷ after {before / size:.2f}"])
    report.bars += [Bar(f"{case.name}: WAL, before ÷ after", before / medians[case.name], least=1.8) for case in CASES]
    report.data["wal"] = medians
