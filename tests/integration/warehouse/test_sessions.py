"""Sessions at the warehouse: what its own settings, encoding and build must not change, and what is said otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql
from pyspark import cloudpickle

import dyda
from dyda.errors import ConfigurationError, DydaError, NotInstallable
from dyda.model.operator_state import Kept
from dyda.warehouse import Warehouse
from dyda.warehouse.connection import connect
from dyda.warehouse.extents.copy_in import StagingSink
from dyda.warehouse.writer import Writer
from tests.conftest import Server
from tests.integration.sources.test_texts import HOSTILE, TEXTS
from tests.integration.warehouse.conftest import add, create, entries, version
from tests.integration.warehouse.state_entries import VIEW, build

Query = Callable[..., list[tuple[Any, ...]]]


def make_hostile(url: str) -> None:
    """What an administrator may have made the database's defaults, for readers perhaps."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for setting, value in HOSTILE.items():
            chosen = sql.Identifier(value) if setting == "search_path" else sql.Literal(value)
            change = sql.SQL("ALTER DATABASE {} SET {} = {}")
            cursor.execute(change.format(sql.Identifier(connection.info.dbname), sql.SQL(setting), chosen))


def test_whatever_the_database_is_set_to_texts_and_names_stay_as_they_are(url: str) -> None:
    """Views, columns and values with backslashes, quotes and a U+FEFF; installed, looked up, and read again."""
    make_hostile(url)
    odd = "o\\d\"d's \\"
    with Warehouse.connect(url, "public") as warehouse:
        warehouse.upgrade()
        with warehouse.lock() as writer:
            create(writer, odd, version((odd, "text"), sql="SELECT '\\' AS x"), entries(*((text, 1) for text in TEXTS)))
            add(writer, odd, entries((TEXTS[0], 1), ("more \\", 1)))
            assert warehouse.view(odd).sql == "SELECT '\\' AS x"
            state = Kept(("text",))
            build(writer, state, entries(*((text, 1) for text in TEXTS)), indexed=("c1",))
            for text in TEXTS:
                found = writer.state_rows(VIEW, 0, state, ["c1"], ["c1"], pa.table({"c1": [text]})).table
                assert found.column("c1").to_pylist() == [text]
    with closing(connect(url, "test")) as connection, connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT {} FROM public.{}").format(sql.Identifier(odd), sql.Identifier(odd)))
        assert sorted(text for (text,) in cursor.fetchall()) == sorted([*TEXTS, TEXTS[0], "more \\"])


def test_a_reader_of_the_first_row_gets_a_mark_of_the_encoding_as_text(writer: Writer) -> None:
    state = Kept(("text",))
    build(writer, state, entries(("\ufeffann", 1)))
    found = writer.state_rows(VIEW, 0, state, ["c1"], [], pa.table({})).table
    assert found.column("c1").to_pylist() == ["\ufeffann"]


def test_a_sink_needs_no_dyda_where_it_runs(writer: Writer, query: Query, tmp_path: Any) -> None:
    """It travels by value, with all that it calls."""
    sink = writer.staging(1).sink()
    cloudpickle.register_pickle_by_value(dyda)
    try:
        (tmp_path / "sink").write_bytes(cloudpickle.dumps(sink))
    finally:
        cloudpickle.unregister_pickle_by_value(dyda)
    code = (
        "import sys, pickle, pyarrow\n"
        "sys.modules['dyda'] = None\n"  # any import of it fails
        f"sink = pickle.load(open({str(tmp_path / 'sink')!r}, 'rb'))\n"
        "rows = pyarrow.table({'c1': ['a'], 'n': pyarrow.array([1], pyarrow.int64())})\n"
        "assert sink(rows.to_batches(), '0/0') == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")
    assert query(f"SELECT c1 FROM dyda.{sink.table}") == [("a",)]


def test_a_warehouse_of_another_encoding_is_refused_with_what_to_do(server: Server) -> None:
    administration = psycopg2.connect(server.url())
    administration.autocommit = True
    provider = " LOCALE_PROVIDER libc" if administration.server_version >= 150000 else ""
    with closing(administration), administration.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C'{provider} TEMPLATE template0")
        try:
            with pytest.raises(ConfigurationError, match="latin has the encoding LATIN1") as refusal:
                Warehouse.connect(server.url("latin"))
            assert "ENCODING 'UTF8' TEMPLATE template0" in refusal.value.remedy
        finally:
            cursor.execute("DROP DATABASE latin WITH (FORCE)")


def test_a_standby_says_that_it_can_only_be_read(new_server: Callable[..., Server]) -> None:
    server = new_server()
    with Warehouse.connect(server.url()) as warehouse:
        warehouse.upgrade()
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.start()
    with Warehouse.connect(server.url()) as warehouse:
        for attempt in (warehouse.upgrade, warehouse.lock):
            with pytest.raises(DydaError, match="the warehouse is read-only") as refusal:
                attempt()
            assert "target_session_attrs=read-write" in refusal.value.remedy


def test_what_this_server_cannot_do_is_one_views_fault(writer: Writer) -> None:
    """Errors of class 0A: a cross-database name in a regclass, or an xml value without libxml."""
    create(writer, "names", version(("name", "regclass")))
    with pytest.raises(NotInstallable, match="cross-database references are not implemented"):
        add(writer, "names", entries(("a.b.c", 1)))


def test_a_type_that_the_warehouse_cannot_use_is_refused_before_anything_is_built(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    try:
        query("SELECT ''::xml")
    except psycopg2.errors.FeatureNotSupported:
        for type_ in ("xml", "xml[]"):
            with pytest.raises(DydaError, match="view v: the warehouse cannot hold xml") as refusal:
                warehouse.check_types("v", ["text", type_])
            assert refusal.value.remedy.startswith("Cast the column to STRING")
            with pytest.raises(NotInstallable, match="cannot hold xml"):
                create(writer, "v", version(("x", type_)))
    else:
        warehouse.check_types("v", ["text", "xml"])
    with pytest.raises(DydaError, match="has no type"):
        warehouse.check_types("v", ["mood"])
    assert warehouse.views() == []


def test_sinks_begin_as_every_session_does(url: str, warehouse: Warehouse) -> None:
    """A database that is read-only by default is not read-only for Spark's tasks."""
    make_hostile(url)
    with warehouse.lock() as writer:
        sink = writer.staging(1).sink()
        assert isinstance(sink, StagingSink)
        assert sink(entries(("a\\", 1)).to_batches(), "0/0") == 1
