"""Texts and names that are easily misread arrive as they are, whatever the source's own settings and encoding say."""

from __future__ import annotations

import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql

from dyda import handshake
from dyda.errors import SourceUnreadable, UnknownRelation
from dyda.sources.reading import queries
from dyda.sources.reading.copy import read_partition
from dyda.sources.reading.session import connect
from tests.conftest import Server
from tests.integration.sources.conftest import Ground, bag

MARKED = "\ufeffann"
TEXTS = [MARKED, "ann", "\\", "a\\", 'a"b', "a'b", "\\'", '\\"', "a\\nb", "{}", "NULL", "", " ", "%s", "$1", "a\nb"]

HOSTILE = {
    "standard_conforming_strings": "off",
    "backslash_quote": "on",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
    "TimeZone": "Asia/Kathmandu",
    "client_encoding": "LATIN1",
    "search_path": "trap",
    "row_security": "on",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
}
"""What an administrator may have made the default of a database or of a role."""


def make_hostile(ground: Ground, settings: dict[str, str] = HOSTILE) -> None:
    """The database's defaults; sessions that begin from now on have them."""
    (name,) = ground.run("SELECT current_database()")[0]
    for setting, value in settings.items():
        change = sql.SQL("ALTER DATABASE {} SET {} = {}")
        value_text = sql.Identifier(value) if setting == "search_path" else sql.Literal(value)
        ground.run(change.format(sql.Identifier(name), sql.SQL(setting), value_text))


def keys(texts: list[str]) -> pa.Table:
    return pa.table({"k": pa.array(texts, pa.string())})


@pytest.mark.parametrize("hostile", [False, True], ids=["defaults", "hostile"])
def test_texts_and_names_are_understood_as_they_are_meant(ground: Ground, hostile: bool) -> None:
    """C1, R4: by lookup, scan and row image. A U+FEFF is a character like any other, also at the very beginning."""
    odd = "o\\d\"d's \\"
    if hostile:
        make_hostile(ground)
    application = ground.connect()
    application.set_client_encoding("UTF8")
    table = sql.Identifier("public", odd)
    ground.run(
        "SET default_transaction_read_only = off; SET default_transaction_isolation = 'read committed'",
        sql.SQL("CREATE TABLE {} ({} text, n int)").format(table, sql.Identifier(odd)),
        connection=application,
    )
    (relation,) = ground.watch(odd)
    with application.cursor() as cursor:
        for number, text in enumerate(TEXTS):
            cursor.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s)").format(table), (text, number))
    wanted = Counter((text, str(number)) for number, text in enumerate(TEXTS))
    with ground.open() as snapshot:
        for text in TEXTS:
            found = snapshot.lookup(relation, [odd, "n"], [odd], pa.table({odd: pa.array([text], pa.string())}))
            assert bag(found.table) == {row: 1 for row in wanted if row[0] == text}
        assert bag(snapshot.lookup(relation, [odd, "n"], [odd], pa.table({odd: TEXTS})).table) == wanted
        (partition,) = snapshot.scan(relation, [odd, "n"])
        assert (
            Counter(zip(*(column.to_pylist() for column in read_partition(partition).columns), strict=True)) == wanted
        )
    assert ground.logged(odd, [odd, "n"]) == wanted
    ground.run(sql.SQL("ALTER TABLE {} ADD COLUMN more text").format(table), connection=application)
    with ground.open() as snapshot:  # what the log says of it explains all that is there (C5)
        assert snapshot.logged_fingerprints[relation.name] == snapshot.fingerprints[relation.name]
    assert "nonstandard use of" not in "".join(application.notices)


@pytest.mark.parametrize("given", ["", "-c search_path=elsewhere -c work_mem=8MB", "-c\\ x=y"])
def test_a_session_begins_with_our_settings_and_keeps_the_urls_own_options(ground: Ground, given: str) -> None:
    """Startup options win over ALTER DATABASE; ours come after those of the url, whose others stay."""
    make_hostile(ground)
    separator = "&" if "?" in ground.url else "?"
    url = ground.url + (f"{separator}options={urllib.parse.quote(given)}" if given else "")
    if given.startswith("-c\\"):
        with pytest.raises(psycopg2.OperationalError):  # what the url asks for is still the server's to refuse
            connect(url, 1.0, 1.0)
        return
    connection = connect(url, 1.0, 1.0)
    assert connection.get_parameter_status("standard_conforming_strings") == "on"
    with connection.cursor() as cursor:
        for name, value in {**handshake.UNDERSTANDING, **handshake.PRINTING}.items():
            cursor.execute(
                "SELECT current_setting(%s), boot.reset_val FROM pg_settings boot WHERE lower(name) = %s",
                (name, name.lower()),
            )
            now, at_start = cursor.fetchone()
            assert (now, at_start) == (value, value)
        cursor.execute("SELECT current_setting('work_mem'), %s, %s", ("a\\", "\\'"))
        assert cursor.fetchone() == ("8MB" if given else "4MB", "a\\", "\\'")
    connection.close()


def test_a_session_whose_start_was_not_heeded_is_not_used(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pooler may drop startup options. Where the server's defaults are ours all the same, that is no harm."""
    monkeypatch.setattr(handshake, "startup_options", lambda settings: "")
    connect(ground.url, 1.0, 1.0).close()
    make_hostile(ground, {"standard_conforming_strings": "off"})
    with pytest.raises(psycopg2.OperationalError, match="a connection pooler drops startup options"):
        connect(ground.url, 1.0, 1.0)


def test_a_pooler_that_refuses_startup_options_is_asked_without(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = psycopg2.connect

    def pooler(*arguments: Any, **parameters: Any) -> Any:
        if "options" in parameters:
            raise psycopg2.OperationalError("FATAL: unsupported startup parameter: options")
        return begin(*arguments, **parameters)

    monkeypatch.setattr(psycopg2, "connect", pooler)
    connection = connect(ground.url, 1.0, 1.0)
    with connection.cursor() as cursor:
        cursor.execute("SHOW extra_float_digits")
        assert cursor.fetchone() == ("1",)
    connection.close()


def test_the_options_of_a_service_are_kept(ground: Ground, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    given = psycopg2.extensions.parse_dsn(ground.url)
    lines = [f"{name}={value}" for name, value in given.items()]
    (tmp_path / "services").write_text("\n".join(["[crm]", *lines, "options=-c work_mem=9MB"]) + "\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    connection = connect("service=crm", 1.0, 1.0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('work_mem'), current_setting('bytea_output')")
        assert cursor.fetchone() == ("9MB", "hex")
    connection.close()


@pytest.fixture
def encoded(server: Server, grounds: Callable[..., Ground]) -> Iterator[Callable[[str], Ground]]:
    """A source in a database of another encoding."""
    made: list[str] = []
    administration = psycopg2.connect(server.url())
    administration.autocommit = True

    def make(encoding: str) -> Ground:
        made.append(f"encoded_{uuid.uuid4().hex}")
        provider = " LOCALE_PROVIDER libc" if administration.server_version >= 150000 else ""
        with administration.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {made[-1]} ENCODING '{encoding}' LOCALE 'C'{provider} TEMPLATE template0")
        return grounds(server.url(made[-1]))

    yield make
    with administration.cursor() as cursor:
        for name in made:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    administration.close()


@pytest.mark.parametrize(
    ("encoding", "there", "lacking"), [("LATIN1", "caf\xe9", "\u0107evap"), ("EUC_JP", "\u6771\u4eac", "caf\u0e01")]
)
def test_a_source_of_another_encoding_is_read_exactly(
    encoded: Callable[[str], Ground], encoding: str, there: str, lacking: str
) -> None:
    """R4: a key that its encoding lacks equals nothing there, and keeps no other key from being asked for."""
    ground = encoded(encoding)
    ground.run(f'CREATE TABLE "{there}" (k text, n int)', f"INSERT INTO \"{there}\" VALUES ('{there}', 1), ('b', 2)")
    (relation,) = ground.watch(there)
    ground.run(f"INSERT INTO \"{there}\" VALUES ('{there}', 3)", f'ALTER TABLE "{there}" ADD COLUMN m int')
    assert ground.logged(there, ["k", "n"]) == {(there, "3"): 1}
    rows = Counter({(there, "1"): 1, ("b", "2"): 1, (there, "3"): 1})
    with ground.open() as snapshot:
        asked = keys([lacking, there, f"{there}{lacking}", "b", *(chr(code) for code in range(0x4E00, 0x4E40))])
        assert bag(snapshot.lookup(relation, ["k", "n"], ["k"], asked).table) == rows
        before = snapshot.queries
        assert snapshot.lookup(relation, ["k", "n"], ["k"], keys([lacking, "\U0001f600"])).table.num_rows == 0
        assert snapshot.queries == before
        (partition,) = snapshot.scan(relation, ["k", "n"])
        assert Counter(zip(*(c.to_pylist() for c in read_partition(partition).columns), strict=True)) == rows
        assert snapshot.fingerprint_again() == snapshot.fingerprints
    with pytest.raises(UnknownRelation, match="has no table"):
        ground.source.describe([("public", lacking)])


def test_a_text_that_its_own_encoding_does_not_know_is_named(encoded: Callable[[str], Ground]) -> None:
    """A byte of no meaning: the source answers, so nothing is said about reaching it."""
    ground = encoded("WIN1252")
    ground.run("CREATE TABLE t (k text)")
    (relation,) = ground.watch("t")
    latin = ground.connect()
    latin.set_client_encoding("WIN1252")
    ground.run("INSERT INTO t VALUES (chr(129))", connection=latin)
    with ground.open() as snapshot, pytest.raises(SourceUnreadable, match="has a text that cannot be read: character"):
        snapshot.changes({relation.name: ["k"]}, None)


def test_a_lookup_of_many_long_keys_is_several(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """W5: distinct keys are parted, so no row is found twice. No statement comes near PostgreSQL's limit of 1 GB."""
    monkeypatch.setattr(queries, "QUESTION", 100)
    ground.run(
        "CREATE TABLE t (a text, b int)", "INSERT INTO t SELECT repeat('x', i), i % 2 FROM generate_series(1, 60) i"
    )
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        texts = ["x" * length for length in range(200)] * 2
        found = bag(snapshot.lookup(relation, ["a", "b"], ["a"], pa.table({"a": texts})).table)
        assert found == ground.rows("t", ["a", "b"])
        assert 100 < snapshot.queries < 200  # 19,900 bytes; each longer key alone
        assert snapshot.lookup(relation, [], ["a"], pa.table({"a": texts})).to_dict() == {(): 60}
        before = snapshot.queries
        pairs = pa.table({"b": ["0", "1", None] * 60, "a": ["x" * (number // 3) for number in range(180)]})
        found = bag(snapshot.lookup(relation, ["a", "b"], ["b", "a"], pairs).table)
        assert found == Counter({row: n for row, n in ground.rows("t", ["a", "b"]).items() if len(row[0] or "") < 60})
        assert snapshot.queries > before + 10
