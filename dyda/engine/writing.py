"""Rows that Spark's tasks hand to a sink, and how far they are."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from dyda.engine.task_errors import MARK, encoded

__all__ = ["Progress", "Sink", "watched", "write_task"]

Sink = Callable[[Iterator[pa.RecordBatch]], int]
"""sink(batches): stores rows (c1 … cn text, n bigint) and returns how many; runs inside Spark tasks, maybe twice."""

Progress = Callable[[int, int], None]
"""progress(done, total): tasks finished and tasks known so far."""


def write_task(sink: Sink) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    mark = MARK

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return  # an empty partition opens no connection
        try:
            count = sink(itertools.chain([first], filled))
        except Exception as error:
            raise encoded(error, mark) from None
        yield pa.RecordBatch.from_arrays([pa.array([count], pa.int64())], names=["rows"])

    return write


@contextlib.contextmanager
def watched(session: SparkSession, progress: Progress | None, interval: float = 0.25) -> Iterator[None]:
    """Reports to `progress` how many tasks are done while this thread waits for Spark."""
    done = threading.Event()

    def report(progress: Progress) -> None:
        while not done.wait(interval):
            try:
                tracker = session.sparkContext.statusTracker()
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except (Py4JError, OSError, EOFError):
                return  # Java has ended: the thread that waits for it raises the error
            known = [stage for stage in stages if stage is not None]
            if known:
                progress(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    if progress is None:
        yield
        return
    thread = threading.Thread(target=report, args=(progress,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
