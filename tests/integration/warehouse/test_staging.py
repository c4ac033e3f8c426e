"""Rows from Spark tasks: the sink that executors call, and what `verify` does with staged rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from dyda.errors import UnknownView
from dyda.warehouse import Warehouse
from dyda.warehouse.extents.copy_in import StagingSink
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import START, add, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]


def test_the_sink_writes_exactly_what_it_is_given(writer: Writer, query: Query) -> None:
    texts = [None, "", "\\.", "\\N", 'q"q', "a\nb", "a\r\nb", "\r", ",", "back\\slash", "NULL", "ü🙂", "x" * 100_000]
    staging = writer.staging(2)
    rows = entries(*((text, None, number) for number, text in enumerate(texts)))
    assert staging.sink()(rows.to_batches(max_chunksize=5)) == len(texts)
    assert query(f"SELECT c1, c2, n FROM dyda.{staging.table} ORDER BY n") == [
        (text, None, number) for number, text in enumerate(texts)
    ]
    assert staging.sink()(iter([])) == 0
    assert staging.sink()([pa.RecordBatch.from_pylist([], rows.schema)]) == 0


def test_a_single_column_that_is_null_is_a_row(writer: Writer, query: Query) -> None:
    staging = writer.staging(1)
    staging.sink()(entries((None, 1), (None, 1)).to_batches())
    assert query(f"SELECT c1, n FROM dyda.{staging.table}") == [(None, 1), (None, 1)]


def test_large_strings_and_slices_are_taken_as_they_come(writer: Writer, query: Query) -> None:
    table = pa.table({"c1": pa.array(["a", None, "b"], pa.large_string()), "n": pa.array([1, 2, 3], pa.int64())})
    staging = writer.staging(1)
    staging.sink()([batch.slice(1) for batch in table.to_batches()])
    assert query(f"SELECT c1, n FROM dyda.{staging.table} ORDER BY n") == [(None, 2), ("b", 3)]


def test_the_wrong_number_of_columns_is_an_error(writer: Writer) -> None:
    with pytest.raises(ValueError, match="2 columns and a count"):
        writer.staging(2).sink()(entries(("a", 1)).to_batches())


def test_a_task_that_runs_twice_counts_once(writer: Writer, query: Query) -> None:
    sink = writer.staging(1).sink()
    batches = entries(*((str(i), 1) for i in range(1000))).to_batches()
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(lambda task: sink(batches, task), ["0/0", "0/0", "0/1", "0/0"]))
    assert written == [1000] * 4
    assert query(f"SELECT count(*) FROM dyda.{sink.table}") == [(2000,)]


def test_a_task_that_fails_halfway_leaves_nothing(writer: Writer, query: Query) -> None:
    sink = writer.staging(1).sink()

    def broken() -> Any:
        yield from entries(("a", 1)).to_batches()
        raise RuntimeError("the executor died")

    with pytest.raises(RuntimeError, match="the executor died"):
        sink(broken(), "0/0")
    assert sink(entries(("b", 1)).to_batches(), "0/0") == 1
    assert query(f"SELECT c1 FROM dyda.{sink.table}") == [("b",)]


def test_the_sink_travels_and_keeps_its_secret(writer: Writer) -> None:
    sink = writer.staging(1).sink()
    assert pickle.loads(pickle.dumps(sink)) == sink
    assert "secret" not in repr(StagingSink("postgresql://u:secret@h/d", "dyda", "staging_1", 1))


def test_compare_finds_missing_and_extra_rows(warehouse: Warehouse, writer: Writer) -> None:
    create(writer, "people", version(("x", "numeric"), ("b", "boolean")), entries(("1.0", "t", 2), ("2", None, 1)))
    with warehouse.staging(2) as staging, warehouse.frozen() as frozen:
        staging.sink()(entries(("1.0", "t", 1), ("1.00", "t", 1), ("2", None, 1)).to_batches())
        # A daemon goes on meanwhile; what is compared is the extent as it was when it was frozen.
        add(writer, "people", entries(("9", "f", 5)))
        assert frozen.positions("people") == {"crm": START}
        assert (frozen.version("people"), frozen.rows("people")) == (1, 3)
        found = frozen.compare("people", staging)
        assert (found.missing, found.extra, found.equal) == (1, 1, False)
        assert set(found.samples) == {(1, ("1.00", "t")), (-1, ("1.0", "t"))}
        assert len(frozen.compare("people", staging, samples=1).samples) == 1
        with pytest.raises(UnknownView):
            frozen.compare("nobody", staging)
    with warehouse.staging(2) as staging, warehouse.frozen() as frozen:
        staging.sink()(entries(("1.0", "t", 2), ("2", None, 1), ("9", "f", 5)).to_batches())
        found = frozen.compare("people", staging)
        assert (found.equal, found.samples) == (True, ())
