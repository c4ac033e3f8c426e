"""Values: what goes in as canonical text comes out as the same text; rows are the same only if their texts are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from dyda.errors import NotInstallable
from dyda.warehouse import Warehouse
from dyda.warehouse.connection import connect
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, positions, version

Query = Callable[..., list[tuple[Any, ...]]]

# Pairs of texts that PostgreSQL's own equality, or a careless encoder, might take for the same; and odd single values.
VALUES = {
    "numeric": ["1.0", "1.00", "0", "NaN", "Infinity", "-12345678901234567890.1234567890"],
    "double precision": ["0", "-0", "NaN", "Infinity", "0.1", "1e+300", "0.30000000000000004"],
    "real": ["0.1", "-0", "3.4e+38"],
    "text": [
        "",
        "NULL",
        "\\N",
        "\\.",
        "a\nb",
        "a\r\nb",
        'q"q',
        '""',
        "back\\slash",
        " blanks ",
        "ü 漢 🙂",
        "a,b",
        "\t",
    ],
    "character(4)": ["ab  ", "    ", "abcd"],
    "character varying(3)": ["ab ", "ab"],
    "boolean": ["t", "f"],
    "bytea": ["\\x", "\\x00ff5c"],
    "date": ["infinity", "0044-03-15 BC", "2024-02-29"],
    "timestamp without time zone": ["2024-02-29 12:00:00.000001", "-infinity"],
    "timestamp with time zone": ["2024-02-29 12:00:00+00", "1900-01-01 00:00:00+00"],
    "interval": ["1 mon", "30 days", "-1 days +02:03:00", "1 year 2 mons"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a":1}', '{"a": 1}', '{"a":1,"a":2}', "null"],
    "jsonb": ['{"a": 1}', "null", "1.0", "1.00"],
    "integer[]": ["{}", "{1,NULL}", "[2:3]={1,2}", "{{1,2},{3,4}}"],
    "text[]": ['{""}', "{NULL}", '{"NULL"}', '{"a,b","c\\"d\\\\e"}'],
    "int4range": ["[1,5)", "empty", "(,)"],
    "money": ["$1,000.00"],
    "bit varying(8)": ["101"],
    "point": ["(1,-0)", "(1,0)"],
    "inet": ["10.0.0.1/8"],
    "tsvector": ["'a':1 'b':2"],
}


@pytest.fixture(params=["plain", "odd"])
def settled(request: pytest.FixtureRequest, url: str) -> str:
    """The warehouse's database as it comes, or with defaults that print everything differently."""
    if request.param == "odd":
        with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute("SELECT current_database()")
            name = cursor.fetchone()[0]
            for setting in (
                "extra_float_digits = -5",
                "DateStyle = 'German, DMY'",
                "IntervalStyle = sql_standard",
                "TimeZone = 'Asia/Kathmandu'",
                "bytea_output = escape",
                "synchronous_commit = off",
                "search_path = public",
                "default_transaction_isolation = 'serializable'",
                "statement_timeout = '5s'",
            ):
                cursor.execute(f'ALTER DATABASE "{name}" SET {setting}')
    return url


@pytest.fixture
def pinned(settled: str) -> Iterator[Query]:
    """Queries under the settings in which canonical texts are defined."""
    with closing(connect(settled, "test")) as connection:

        def run(statement: str) -> list[tuple[Any, ...]]:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        yield run


def test_values_come_back_as_the_same_text(settled: str, writer: Writer, pinned: Query) -> None:
    for type_, values in VALUES.items():
        texts = [*values, None]
        create(writer, type_, version(("x", type_)), entries(*((text, i + 1) for i, text in enumerate(texts))))
        shown = (
            f"""SELECT CASE WHEN x IS NOT NULL THEN format('%s', x) END, count(*) FROM public."{type_}" GROUP BY 1"""
        )
        assert dict(pinned(shown)) == {text: i + 1 for i, text in enumerate(texts)}, type_
        # Deleting by text finds exactly the row; one that only looks alike stays.
        add(writer, type_, entries(*((text, -1) for text in texts)))
        assert dict(pinned(shown)) == {text: i for i, text in enumerate(texts) if i}, type_
        add(writer, type_, entries((texts[0], 7)), NEXT, START)
        assert (texts[0], 7) in pinned(shown), type_


def test_texts_that_mean_one_value_are_one_row(writer: Writer, query: Query) -> None:
    """Computed columns arrive in Spark's spelling; the identity is the warehouse's canonical text."""
    create(writer, "v", version(("x", "double precision"), ("b", "boolean")), entries(("1.0E10", "true", 1)))
    add(writer, "v", entries(("1e+10", "t", 1), ("10000000000", "T", -2)))
    assert query("SELECT * FROM v") == []


def test_a_value_that_the_warehouse_cannot_hold_is_said_so(warehouse: Warehouse, writer: Writer) -> None:
    create(writer, "v", version(("x", "smallint")))
    with pytest.raises(NotInstallable, match=r"view v: .*out of range"):
        add(writer, "v", entries(("40000", 1)))
    assert positions(warehouse) == {"v": {"crm": START}}


def test_installed_is_durable_whatever_the_database_says(settled: str, warehouse: Warehouse, writer: Writer) -> None:
    with writer._connection.cursor() as cursor:
        cursor.execute("SHOW synchronous_commit")
        assert cursor.fetchone() == ("on",)
    writer._connection.rollback()
