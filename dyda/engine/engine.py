"""The engine: analyse a view, evaluate a unit in one job, build an extent without collecting it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dyda.engine.analysis import OutputType, analyse_blocks, refuse_untyped
from dyda.engine.background import Background
from dyda.engine.frames import Reader
from dyda.engine.local_join import combinations, one_of_nulls
from dyda.engine.prepared import Prepared, Question
from dyda.engine.session import Sessions, SparkSettingsLike
from dyda.engine.task_errors import raise_again, short_message
from dyda.engine.temporary_views import TemporaryViews
from dyda.engine.writing import Progress, Sink, watched, write_task
from dyda.errors import DydaError, EngineFailed, EvaluationFailed
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.bag import COUNT, Bag
from vm.careful import helps, render_sum
from vm.compile import compile_view
from vm.evaluation import Evaluation, build_evaluation, in_parts, render, render_combined
from vm.join_block import JoinBlock, flatten
from vm.program import Program
from vm.unsatisfiable import is_unsatisfiable

__all__ = ["Engine", "Rest"]

Rest = Callable[[float], None]
"""rest(seconds): called when a part is computed that took so long; it may pause, and raises if the rest is given up."""

Phase = Callable[[str], None]
"""phase(name): this part of the work is done now."""

_Question = tuple[Evaluation, pa.Table | None]
"""An evaluation, and its combinations; None: Spark computes them itself."""

SMALL_ENTRIES = 20_000
"""Up to so many combinations a unit runs in one partition of the small-job session."""

REMEMBERED = 1000
"""Blocks whose types are remembered: a view that follows schema changes has a different block each time."""


class Engine:
    """Spark behind three verbs. Starts on first use."""

    def __init__(
        self,
        settings: SparkSettingsLike,
        log: Path | None = None,
        archives: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """`archives`: where Java may find Spark's classes; `say` is told of Spark's start, which takes seconds."""
        self._settings = settings
        self._sessions = Sessions(settings, log, archives, say)
        self.prepared = Prepared(say)
        self._outputs: dict[tuple[JoinBlock, ...], list[OutputType]] = {}
        self._numbers = itertools.count()
        self._remembering = threading.Lock()
        self._careful: set[Hashable] = set()
        """Sums that failed on rows which their terms cancel out: they would fail again."""
        self.asked = 0
        """How often units, builds and checks have asked for rows."""
        self.jobs = 0

    def start(self) -> None:
        """Start Spark now; otherwise the first use does."""
        _ = self._sessions.small

    def stop(self) -> None:
        self._sessions.stop()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bulk_session(self) -> SparkSession:
        """The session for whole relations, for callers with a query of their own."""
        return self._sessions.bulk

    @property
    def numeric(self) -> str:
        """The Spark type in which numeric without precision computes."""
        return self._settings.numeric

    def block(self, view: ViewDefinition) -> JoinBlock:
        """The view's block with this engine's numeric setting."""
        return flatten(view, self._settings.numeric)

    def analyse(self, view: ViewDefinition) -> list[OutputType]:
        """The types of the view's columns; UnsupportedSql if Spark or the warehouse cannot take it."""
        return self.outputs(view, self.program(view))

    def program(self, view: ViewDefinition) -> Program:
        """The view's steps, with the types that Spark gives what they compute."""

        def types_of(_: int, block: JoinBlock) -> list[str]:
            return [output.warehouse_type for output in self.types(block)]

        return compile_view(view, types_of, self.numeric)

    def outputs(self, view: ViewDefinition, program: Program) -> list[OutputType]:
        """The columns that readers of the view see."""
        found = self.types(program.last.terms[0].block)
        outputs = [replace(output, name=name) for output, name in zip(found, view.names, strict=True)]
        refuse_untyped(view.name, outputs)
        return outputs

    def types(self, *blocks: JoinBlock) -> list[OutputType]:
        """The types of a block's items; of several blocks, those of UNION ALL of them.

        An item that is NULL in all of them has Spark's type `void`, which the warehouse holds as text.
        """
        with self._remembering:
            found = self._outputs.pop(blocks, None)
        if found is None:
            with self._asking():
                found = analyse_blocks(self._sessions.small, blocks)
        with self._remembering:
            self._outputs[blocks] = found  # last: the most recently used
            while len(self._outputs) > REMEMBERED:
                del self._outputs[next(iter(self._outputs))]
        return found

    def beside(self, name: str) -> None:
        """What this thread computes from now on shares Spark fairly with the units; `cancel(name)` ends it."""
        with self._asking():
            context = self._sessions.context
            context.setLocalProperty("spark.scheduler.pool", name)
            context.setJobGroup(name, name, interruptOnCancel=True)

    def cancel(self, name: str) -> None:
        """Ends what a thread computes beside the units, if Spark runs."""
        if self._sessions.alive:
            with contextlib.suppress(Py4JError, OSError, EOFError):
                self._sessions.context.cancelJobGroup(name)

    def evaluate(
        self, evaluations: Sequence[Evaluation], reader: Reader | None = None, phase: Phase = lambda name: None
    ) -> list[pa.Table]:
        """For each evaluation its consolidated rows (c1 … cn text, n bigint not zero), all in one Spark job.

        Tagged ones have their rows per transaction, which is a last column `t` (int). Consolidated, ΔV is minimal: no
        row is both deleted and inserted (paper 002), and none is there that does not change.

        `reader` is needed where an evaluation scans. A unit in which no combination can differ costs no job.

        What fails is evaluated again, sum by sum. If a sum's terms cancel out rows, it may have failed on those: it is
        then added up first, and the whole result is in the place of its first term.
        """
        return self._answers(evaluations, _questions(evaluations), reader, phase)

    def rehearse(self, block: JoinBlock) -> None:
        """Asks Spark what a unit of a few rows of this block asks, over one combination of NULLs: what is loaded and
        planned for the first time takes seconds."""
        evaluation = build_evaluation(block, {one.alias: Bag.empty(list(one.columns)) for one in block.occurrences})
        with contextlib.suppress(DydaError, PySparkException, Py4JError, OSError, EOFError, pa.ArrowException):
            question = (evaluation, one_of_nulls(evaluation))
            if not self._at_once({0: question}):
                self._collect([question], None, lambda name: None)

    def _answers(
        self, evaluations: Sequence[Evaluation], asked: Mapping[int, _Question], reader: Reader | None, phase: Phase
    ) -> list[pa.Table]:
        results = [_no_rows(evaluation) for evaluation in evaluations]
        sums: dict[Hashable, dict[int, _Question]] = {}
        for place, question in asked.items():
            name = question[0].sum
            sums.setdefault(("alone", place) if name is None else name, {})[place] = question
        careful = {name for name in sums if name in self._careful}
        plain = [name for name in sums if name not in careful]
        together = {place: question for name in plain for place, question in sums[name].items()}
        try:
            if together:
                self._answer(dict(sorted(together.items())), results, reader, phase)
        except EvaluationFailed:
            # One query for all views does not show which view's row it was.
            for name in plain:
                try:
                    if len(plain) == 1:
                        raise
                    self._answer(sums[name], results, reader, phase)
                except EvaluationFailed:
                    if not helps([evaluation for evaluation, _ in sums[name].values()]):
                        raise
                    careful.add(name)
        for name in careful:
            self._answer_sum(sums[name], results, reader, phase)
            self._careful.add(name)
        return results

    def _answer(
        self, asked: Mapping[int, _Question], results: list[pa.Table], reader: Reader | None, phase: Phase
    ) -> None:
        """Evaluates the questions and puts the results into their places."""
        first = next(iter(asked.values()))[0]
        with self._counted_jobs(first.view):
            found = self._at_once(asked)
            phase("execute")
            left = {place: question for place, question in asked.items() if place not in found}
            if left:
                together = self._collect(list(left.values()), reader, phase)
                numbers = together.column("w")
                found |= {place: together.filter(pc.equal(numbers, number)) for number, place in enumerate(left)}
        for place, (evaluation, _) in asked.items():
            results[place] = _consolidated(evaluation, found[place])
        phase("to arrow")

    def _at_once(self, asked: Mapping[int, _Question]) -> dict[int, pa.Table]:
        """What needs no job: few rows, evaluated by a plan that is kept."""
        questions = {
            place: Question(evaluation, self._spark_types(evaluation), table)
            for place, (evaluation, table) in asked.items()
            if table is not None
        }
        found = self.prepared.answers(self._sessions.prepared, questions) if questions else {}
        return {place: _nullable(rows) for place, rows in found.items()}

    def _answer_sum(
        self, asked: Mapping[int, _Question], results: list[pa.Table], reader: Reader | None, phase: Phase
    ) -> None:
        """Evaluates the sum of the questions and puts it into the place of the first."""
        evaluations = [evaluation for evaluation, _ in asked.values()]
        scanned, entries = any(one.scanned for one in evaluations), sum(one.entries for one in evaluations)
        session = self._sessions.careful(small=not scanned and entries <= SMALL_ENTRIES)
        with self._counted_jobs(evaluations[0].view), TemporaryViews(session, next(self._numbers)) as views:
            rows = session.sql(self._sum(views, evaluations, reader))
            phase("spark plan")
            found = _nullable(rows.toArrow())
            phase("execute")
        first, *others = asked
        for place in others:
            results[place] = _no_rows(evaluations[0])
        results[first] = _consolidated(evaluations[0], found)
        phase("to arrow")

    def _sum(self, views: TemporaryViews, evaluations: Sequence[Evaluation], reader: Reader | None) -> str:
        sources = [views.each(evaluation.frames, self._shipped(reader)) for evaluation in evaluations]
        types = [self._spark_types(evaluation) for evaluation in evaluations]
        return render_sum(evaluations, sources, types, large=any(evaluation.is_large for evaluation in evaluations))

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """Spark is asked for something that is not about rows: if it does not answer, its Java process has ended."""
        try:
            yield
        except (Py4JError, OSError, EOFError) as error:
            self._require_spark(error)
            raise EngineFailed(short_message(error)) from None

    @contextlib.contextmanager
    def _counted_jobs(self, view: str) -> Iterator[None]:
        """Counts Spark's jobs and translates its errors; `view` is the one to blame if a row is."""
        self.asked += 1
        before = self._sessions.jobs_so_far()
        try:
            yield
        except (PySparkException, Py4JError, OSError, EOFError, pa.ArrowException) as error:
            self._require_spark(error)
            raise_again(error, view)
        finally:
            self.jobs += max(0, self._sessions.jobs_so_far() - before)

    def _collect(self, asked: Sequence[_Question], reader: Reader | None, phase: Phase) -> pa.Table:
        """Rows (w, c1 …, n, maybe t) of all questions; w is the place of the one that a row answers."""
        ready = {place: (one, table) for place, (one, table) in enumerate(asked) if table is not None}
        small = len(ready) == len(asked) and sum(table.num_rows for _, table in ready.values()) <= SMALL_ENTRIES
        large = any(evaluation.is_large for evaluation, _ in asked)
        session = self._sessions.small if small else self._sessions.large if large else self._sessions.bulk
        width = max(len(evaluation.block.items) for evaluation, _ in asked)
        tagged = any(evaluation.tagged for evaluation, _ in asked)
        with TemporaryViews(session, next(self._numbers)) as views:
            queries = []
            for numbers, source in views.pool(ready):
                together = {number: (asked[number][0], self._spark_types(asked[number][0])) for number in numbers}
                queries.append(render_combined(together, source, width, tagged=tagged))
            for index, (evaluation, _) in enumerate(asked):
                if index in ready:
                    continue
                sources = views.each(evaluation.frames, self._shipped(reader))
                query = render(evaluation, sources, self._spark_types(evaluation), evaluation.few if large else ())
                padding = range(len(evaluation.block.items) + 1, width + 1)
                columns = [f"c{i + 1}" for i in range(len(evaluation.block.items))]
                columns += [f"CAST(NULL AS STRING) AS c{i}" for i in padding]
                columns += ["n"] + (["t" if evaluation.tagged else "1 AS t"] if tagged else [])
                queries.append(f"SELECT {index} AS w, {', '.join(columns)} FROM ({query})")
            phase("to spark")
            union = " UNION ALL ".join(queries)
            rows = session.sql(f"SELECT /*+ COALESCE(1) */ * FROM ({union})" if small else union)
            rows._jdf.queryExecution().executedPlan()  # kept by the frame, which runs it next
            phase("spark plan")
            found = _nullable(rows.toArrow())
            phase("execute")
            return found

    def build(
        self,
        evaluations: Sequence[Evaluation],
        sink: Sink,
        reader: Reader | None = None,
        progress: Progress | None = None,
        rest: Rest | None = None,
    ) -> int:
        """Evaluate on Spark and hand the rows to `sink`. Returns about how many rows were written.

        Spark's tasks do that, unless all rows are at hand and few: then it is one small job, as for a unit. A row may
        come in several entries, with counts that may be negative where pending changes were taken out again. Spark may
        run a task twice, so a sink must store a partition's rows once only.

        `rest`, for what is computed beside something that must not wait: it is then computed in parts, where possible,
        that leave half of Spark's tasks to others, at a low priority.
        """
        asked = _questions(evaluations)
        little = {place: question for place, question in asked.items() if question[1] is not None}
        written = 0
        if little:
            tables = self._answers(evaluations, little, None, lambda name: None)
            rows = [_with_side(evaluations[place], tables[place]) for place in little]
            sink(batch for table in rows for batch in table.to_batches())
            written += sum(int(pc.sum(pc.abs(table.column("n"))).as_py() or 0) for table in rows)
        for evaluation, table in asked.values():
            if table is None:
                written += self._build_parts(evaluation, sink, reader, progress, rest)
        return written

    def _build_parts(
        self,
        evaluation: Evaluation,
        sink: Sink,
        reader: Reader | None,
        progress: Progress | None,
        rest: Rest | None,
    ) -> int:
        if rest is None:
            return self._build(evaluation, sink, reader, progress)
        sink = Background(self._shipped(sink))
        reader = None if reader is None else Background(self._shipped(reader))
        with self._asking():
            slots = self._sessions.context.defaultParallelism
        parts = in_parts(evaluation, max(1, slots // 2))
        written = 0
        for done, part in enumerate(parts, 1):
            began = time.monotonic()
            written += self._build(part, sink, reader, progress if len(parts) == 1 else None)
            if progress is not None and len(parts) > 1:
                progress(done, len(parts))
            if done < len(parts):
                rest(time.monotonic() - began)
        return written

    def _build(self, evaluation: Evaluation, sink: Sink, reader: Reader | None, progress: Progress | None) -> int:
        large = evaluation.is_large
        session = self._sessions.large if large else self._sessions.bulk
        with self._counted_jobs(evaluation.view), TemporaryViews(session, next(self._numbers)) as views:
            sources = views.each(evaluation.frames, self._shipped(reader))
            handed = evaluation.few if large else ()
            query = render(evaluation, sources, self._spark_types(evaluation), handed)
            return self._write(session, query, sink, progress)

    def build_sum(
        self,
        evaluations: Sequence[Evaluation],
        sink: Sink,
        reader: Reader | None = None,
        progress: Progress | None = None,
    ) -> int:
        """The same for the terms of one sum of which a single term would fail: they are added up first."""
        evaluations = [one for one in evaluations if not one.is_empty and not is_unsatisfiable(one.block)]
        if not evaluations:
            return 0
        session = self._sessions.careful(small=False)
        with self._counted_jobs(evaluations[0].view), TemporaryViews(session, next(self._numbers)) as views:
            return self._write(session, self._sum(views, evaluations, reader), sink, progress)

    def _write(self, session: SparkSession, query: str, sink: Sink, progress: Progress | None) -> int:
        with watched(session, progress):
            written = session.sql(query).mapInArrow(write_task(self._shipped(sink)), "rows bigint").toArrow()
        return int(pc.sum(written.column(0)).as_py() or 0)

    def _spark_types(self, evaluation: Evaluation) -> Sequence[str]:
        if evaluation.types is not None:
            return evaluation.types
        return [output.spark_type for output in self.types(evaluation.block)]

    def _require_spark(self, error: Exception) -> None:
        """After a failure: clears away a dead JVM, so that the next use starts a new one."""
        if not self._sessions.alive:
            self._sessions.stop()
            raise EngineFailed("its Java process ended") from error

    @staticmethod
    def _shipped(function: Any) -> Any:
        """Mark our own modules, and the function's, to travel to executors by value: they need not be installed."""
        owner = function
        while isinstance(owner, functools.partial):
            owner = owner.func
        names = {"dyda", "vm", getattr(owner, "__module__", None) or type(owner).__module__}
        for name in names:
            module = sys.modules.get(name)
            if module is not None and name not in ("builtins", "__main__"):
                cloudpickle.register_pickle_by_value(module)
        return function


def _questions(evaluations: Sequence[Evaluation]) -> dict[int, _Question]:
    """By their places, the evaluations that may have rows."""
    asked: dict[int, _Question] = {}
    for place, evaluation in enumerate(evaluations):
        if evaluation.is_empty or is_unsatisfiable(evaluation.block):
            continue
        table = combinations(evaluation)
        if table is None or table.num_rows:
            asked[place] = (evaluation, table)
    return asked


def _with_side(evaluation: Evaluation, rows: pa.Table) -> pa.Table:
    """As `vm.evaluation.render` writes it."""
    if evaluation.side is None:
        return rows
    width = len(evaluation.block.items)
    return rows.add_column(width, f"c{width + 1}", pa.repeat(pa.scalar(str(evaluation.side)), rows.num_rows))


def _no_rows(evaluation: Evaluation) -> pa.Table:
    names = [f"c{i + 1}" for i in range(len(evaluation.block.items))]
    rows = Bag.empty(names).table.rename_columns([*names, "n"])
    return rows.append_column("t", pa.array([], pa.int32())) if evaluation.tagged else rows


def _consolidated(evaluation: Evaluation, found: pa.Table) -> pa.Table:
    names = [f"c{i + 1}" for i in range(len(evaluation.block.items))]
    tags = ["t"] if evaluation.tagged else []
    mine = found.select([*names, *tags, "n"])
    rows = Bag(mine.rename_columns([*names, *tags, COUNT])).consolidate().table
    return rows.rename_columns([*names, *tags, "n"]).select([*names, "n", *tags])


def _nullable(found: pa.Table) -> pa.Table:
    """Spark marks columns that cannot be NULL, which depends on the query; tables of entries are all alike."""
    return found.cast(pa.schema([field.with_nullable(True) for field in found.schema]))
