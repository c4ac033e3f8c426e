"""Builds: relations read by Spark's tasks, rows written by them, nothing collected; a few rows at hand are not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from dyda.engine import Engine
from dyda.errors import BrokenUnit, EngineFailed, ValueDoesNotFit
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.bag import COUNT, Bag
from tests.integration.engine.tasks import Files, Part, parts, read_part
from tests.unit.vm.builders import Memory, Rows, projected, relation, view
from vm import build_evaluation


def definition(rows: int = 100) -> ViewDefinition:
    r = relation("s.r", {"id": "integer", "at": "timestamp with time zone", "price": "numeric(10,2)"}, rows=rows)
    s = relation("t.s", {"id": "bigint", "raw": "bytea"}, rows=rows)
    items = {"id": "r.id", "at": "r.at", "twice": "r.price * 2", "raw": "s.raw", "size": "length(s.raw)"}
    return view("v", {"r": r, "s": s}, ["r.id = s.id", "r.at > TIMESTAMP '2000-01-01 00:00:00'"], items)


READ: dict[str, Rows] = {
    "r": {(str(i), f"2024-01-{1 + i % 28:02} 00:00:00+00", f"{i}.50"): 1 + i % 2 for i in range(100)},
    "s": {(str(i), f"\\x{i:02x}"): 1 for i in range(0, 200, 2)},
}


def test_a_build_reads_and_writes_in_tasks_and_takes_pending_changes_out(engine: Engine, tmp_path: Path) -> None:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    pending = {
        "r": projected(block.by_alias["r"], {("4", "2024-01-05 00:00:00+00", "4.50"): 1}),
        "s": projected(block.by_alias["s"], {("5", "\\x05"): -1}),
    }
    evaluation = build_evaluation(block, {one.alias: parts(memory.text(one), 3) for one in block.occurrences}, pending)
    sink = Files(str(tmp_path))
    seen: list[tuple[int, int]] = []
    written = engine.build([evaluation], sink, read_part, lambda done, total: seen.append((done, total)))
    assert written >= 50
    expected = {
        (str(i), f"2024-01-{1 + i % 28:02} 00:00:00+00", f"{2 * i + 1}.00", f"\\x{i:02x}", "1"): 1 + i % 2
        for i in [*range(0, 100, 2), 5]
        if i != 4
    }
    assert sink.rows() == expected
    assert all(0 <= done <= total for done, total in seen)


class Alone:
    """A sink that fails if another task writes at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.files = Files(self.folder)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> int:
        (Path(self.folder) / f"priority {os.getpriority(os.PRIO_PROCESS, 0)}").touch()
        lock = os.path.join(self.folder, "writing")
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
        try:
            return self.files(batches)
        finally:
            os.remove(lock)


def test_what_is_built_beside_others_takes_half_of_the_tasks_at_once(engine: Engine, tmp_path: Path) -> None:
    """In parts, with a rest between two of them; the rows are the same, and what is not scanned counts once."""
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    pending = {"r": projected(block.by_alias["r"], {("4", "2024-01-05 00:00:00+00", "4.50"): 1})}
    r, s = (block.by_alias[alias] for alias in "rs")
    evaluation = build_evaluation(block, {"r": parts(memory.text(r), 5), "s": counted(memory.text(s))}, pending)
    sink, jobs = Alone(tmp_path), engine.jobs
    seen: list[tuple[int, int]] = []
    rests: list[float] = []
    engine.build([evaluation], sink, read_part, lambda done, total: seen.append((done, total)), rests.append)
    expected = {
        (str(i), f"2024-01-{1 + i % 28:02} 00:00:00+00", f"{2 * i + 1}.00", f"\\x{i:02x}", "1"): 1 + i % 2
        for i in range(0, 100, 2)
        if i != 4
    }
    assert sink.files.rows() == expected
    assert [int(file.name.split()[1]) for file in tmp_path.glob("priority *")] == [15]
    assert seen == [(done, 5) for done in range(1, 6)]
    assert len(rests) == 4
    assert all(seconds > 0 for seconds in rests)
    assert engine.jobs >= jobs + 5


def test_a_relation_is_not_read_again_for_each_part_of_another(engine: Engine, tmp_path: Path) -> None:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    evaluation = build_evaluation(block, {one.alias: parts(memory.text(one), 3) for one in block.occurrences})
    sink = Files(str(tmp_path))
    rests: list[float] = []
    engine.build([evaluation], sink, read_part, None, rests.append)
    assert len(sink.rows()) == 50
    assert not rests


def test_a_build_that_is_given_up_while_it_rests_ends(engine: Engine, tmp_path: Path) -> None:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    rows = {one.alias: counted(memory.text(one)) for one in block.occurrences}
    evaluation = build_evaluation(block, {**rows, "r": parts(memory.text(block.by_alias["r"]), 5)})

    def give_up(seconds: float) -> None:
        raise BrokenUnit("s", frozenset(), "given up")

    sink = Files(str(tmp_path))
    with pytest.raises(BrokenUnit):
        engine.build([evaluation], sink, read_part, None, give_up)
    assert 0 < len(sink.rows()) < 50


@pytest.mark.parametrize(
    ("pieces", "rows", "joined"),
    [
        ((1, 1), 100, "BroadcastHashJoin"),
        ((3, 3), 100, "SortMergeJoin"),
        ((1, 1), 600_000, "SortMergeJoin"),
        ((3, 1), 100, "BroadcastHashJoin"),
    ],
    ids=["small", "large", "large by what the source says", "a large and a small one"],
)
def test_no_task_is_given_a_large_relation_as_a_whole(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pieces: tuple[int, int],
    rows: int,
    joined: str,
) -> None:
    """Spark takes what tasks read for next to nothing, whatever it is: left alone, it would broadcast all of it."""
    plans: list[str] = []

    def sql(session: SparkSession, text: str) -> DataFrame:
        frame = ask(session, text)
        plans.append(frame._jdf.queryExecution().sparkPlan().toString())
        return frame

    ask = SparkSession.sql
    monkeypatch.setattr(SparkSession, "sql", sql)
    block = engine.block(definition(rows))
    memory = Memory(block.by_alias, READ)
    number = dict(zip(("r", "s"), pieces, strict=True))
    evaluation = build_evaluation(block, {o.alias: parts(memory.text(o), number[o.alias]) for o in block.occurrences})
    sink = Files(str(tmp_path))
    engine.build([evaluation], sink, read_part)
    assert len(sink.rows()) == 50
    (plan,) = [plan for plan in plans if "Join" in plan]
    assert set(re.findall(r"\w+Join", plan)) == {joined}


def test_an_empty_relation_builds_an_empty_view_without_a_job(engine: Engine, tmp_path: Path) -> None:
    block = engine.block(definition())
    jobs = engine.jobs
    assert (
        engine.build([build_evaluation(block, dict.fromkeys(block.by_alias, ()))], Files(str(tmp_path)), read_part) == 0
    )
    assert engine.jobs == jobs


@dataclass(frozen=True)
class Noting:
    """A sink that notes which process was given how many rows."""

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> int:
        (Path(self.folder) / str(os.getpid())).touch()
        return int(sum(batch.num_rows for batch in batches))


@pytest.mark.parametrize("side", [None, 1])
def test_a_few_rows_that_are_at_hand_take_one_small_job(
    engine: Engine, tmp_path: Path, side: int | None, small_jobs: int
) -> None:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    pending = {"r": projected(block.by_alias["r"], {("4", "2024-01-05 00:00:00+00", "4.50"): 1})}
    rows = {one.alias: counted(memory.text(one)) for one in block.occurrences}
    sink = Files(str(tmp_path))
    jobs = engine.jobs
    assert engine.build([build_evaluation(block, rows, pending, side=side)], sink) == 49
    expected = {
        (str(i), f"2024-01-{1 + i % 28:02} 00:00:00+00", f"{2 * i + 1}.00", f"\\x{i:02x}", "1"): 1
        for i in range(0, 100, 2)
        if i != 4
    }
    assert sink.rows() == {(*row, *([] if side is None else ["1"])): n for row, n in expected.items()}
    assert engine.jobs == jobs + small_jobs


@pytest.mark.parametrize(("number", "here"), [(20, True), (600, False)])
def test_many_combinations_are_written_by_tasks(engine: Engine, tmp_path: Path, number: int, here: bool) -> None:
    """Nothing large is collected here, however few rows there are to begin with."""
    r = relation("s.r", {"id": "integer"}, rows=number)
    block = engine.block(view("v", {"a": r, "b": r}, [], {"one": "a.id", "other": "b.id"}))
    rows = counted(pa.table({"id": [str(i) for i in range(number)]}))
    evaluation = build_evaluation(block, {one.alias: rows for one in block.occurrences})
    assert engine.build([evaluation], Noting(str(tmp_path))) == number**2
    assert (tmp_path / str(os.getpid())).exists() is here


def test_large_combinations_are_written_by_tasks(engine: Engine, tmp_path: Path) -> None:
    """A few long texts that meet many rows are not copied here, in Spark's driver and back."""
    r = relation("s.r", {"id": "integer", "doc": "integer"}, rows=4000)
    d = relation("s.d", {"id": "integer", "body": "text"}, rows=2)
    block = engine.block(view("v", {"r": r, "d": d}, ["r.doc = d.id"], {"id": "r.id", "body": "d.body"}))
    read = {
        "r": counted(pa.table({"id": [str(i) for i in range(4000)], "doc": [str(i % 2) for i in range(4000)]})),
        "d": counted(pa.table({"id": ["0", "1"], "body": ["lorem ipsum " * 1000, "dolor sit " * 1000]})),
    }
    evaluation = build_evaluation(block, {one.alias: read[one.alias] for one in block.occurrences})
    assert engine.build([evaluation], Noting(str(tmp_path))) == 4000
    assert not (tmp_path / str(os.getpid())).exists()


def counted(rows: pa.Table) -> Bag:
    return Bag(rows.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)))


def failing(engine: Engine, tmp_path: Path, part: Part) -> None:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    others = {one.alias: parts(memory.text(one), 1) for one in block.occurrences if one.alias != "r"}
    evaluation = build_evaluation(block, {"r": [part], **others})
    engine.build([evaluation], Files(str(tmp_path)), read_part)


def test_a_value_that_does_not_fit_comes_home_from_a_task_by_name(engine: Engine, tmp_path: Path) -> None:
    rows = pa.table({"id": ["1"], "at": ["infinity"], "price": ["1.00"]})
    with pytest.raises(ValueDoesNotFit, match="'infinity'") as caught:
        failing(engine, tmp_path, Part(rows))
    assert (caught.value.relation, caught.value.column) == ("s.public.r", "at")


def test_errors_of_a_reader_come_home_as_what_they_are(engine: Engine, tmp_path: Path) -> None:
    rows = pa.table({"id": ["1"], "at": [None], "price": ["1.00"]}).cast(
        pa.schema([("id", pa.string()), ("at", pa.string()), ("price", pa.string())])
    )
    with pytest.raises(BrokenUnit, match="the table went away") as caught:
        failing(engine, tmp_path, Part(rows, partial(BrokenUnit, "s", frozenset({"s.r"}), "the table went away")))
    assert caught.value.relations == frozenset({"s.r"})
    with pytest.raises(EngineFailed, match="OSError: disk full"):
        failing(engine, tmp_path, Part(rows, partial(OSError, "disk full")))
