"""Texts that are easily misread, from the sources through Spark into the warehouse; types that a view cannot have."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest
from psycopg2 import sql

from dyda import commands
from dyda.errors import DydaError, SameDatabase, UnsupportedSql
from tests.integration.sources.test_texts import MARKED, TEXTS
from tests.town import Town


def set_default(url: str, setting: str, value: str) -> None:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        name = sql.Identifier(connection.info.dbname)
        cursor.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(name, sql.SQL(setting), sql.Literal(value)))


def fill(town: Town, source: str, table: str, texts: list[str]) -> None:
    with closing(town.connect(source)) as connection, connection, connection.cursor() as cursor:
        for number, text in enumerate(texts):
            cursor.execute(f"INSERT INTO {table} VALUES (%s, %s)", (text, number))


def test_a_join_meets_by_the_very_text_whatever_the_databases_are_set_to(town: Town) -> None:
    """U+FEFF, backslashes and quotes, in keys and groups; rows that come, rows that go, and `verify`, which agrees with
    PostgreSQL's own evaluation. One source and the warehouse read a backslash otherwise by default, and the warehouse is
    read-only for who does not say otherwise."""
    town.source("crm", "CREATE TABLE a (k text, n int)")
    town.source("shop", "CREATE TABLE b (k text, m int)")
    set_default(town.sources["crm"], "standard_conforming_strings", "off")
    set_default(town.warehouse, "standard_conforming_strings", "off")
    set_default(town.warehouse, "default_transaction_read_only", "on")
    fill(town, "crm", "a", TEXTS[::2])
    fill(town, "shop", "b", TEXTS)
    town.view("met", "SELECT a.k, a.n, b.m FROM crm.a a JOIN shop.b b ON a.k = b.k")
    town.view("counted", "SELECT k, count(*) AS c, max(m) AS most FROM shop.b GROUP BY k")
    town.apply()
    town.check()
    for text in (MARKED, "a\\", 'a"b'):  # one at a time: each is the first row of what is read for it
        fill(town, "crm", "a", [text])
        town.settle()
    fill(town, "shop", "b", TEXTS)
    town.execute("shop", "DELETE FROM b WHERE m % 3 = 0")
    town.settle()
    town.check()
    assert {answer["result"] for answer in commands.verify(town.folder, engine=town.engine)} == {"equal"}


def test_types_that_a_view_cannot_have_stop_nobody_else(town: Town) -> None:
    """Refused at creation with the remedy; a column that becomes one breaks the one view that reads it."""
    town.source(
        "crm",
        "CREATE TABLE t (id int, name text, kind regclass, page xml)",
        "INSERT INTO t VALUES (1, 'pg_class', 'pg_class')",
    )
    town.view("named", "SELECT id, name FROM crm.t")
    town.view("numbered", "SELECT id FROM crm.t")
    town.apply()
    town.view("bad", "SELECT id, CAST(kind AS STRING) AS kind FROM crm.t")
    with pytest.raises(UnsupportedSql, match=r"column kind of crm.public.t is of type regclass"):
        town.apply()
    town.view("bad", "SELECT id, page FROM crm.t")
    if not _reads_xml(town.warehouse):
        with pytest.raises(DydaError, match="the warehouse cannot hold xml") as refusal:
            town.apply()
        assert refusal.value.remedy.startswith("Cast the column to STRING")
    town.view("bad", "SELECT id, CAST(page AS STRING) AS page FROM crm.t")
    town.apply()
    town.execute("crm", "INSERT INTO t VALUES (2, 'pg_type', 'pg_type')")
    town.settle()
    town.check()
    town.execute("crm", "ALTER TABLE t ALTER COLUMN name TYPE regclass USING name::regclass")
    town.execute("crm", "INSERT INTO t VALUES (3, 'pg_type')")
    town.settle()
    assert town.state("named")["state"] == "broken"
    assert "its text is a name" in town.state("named")["reason"]
    town.check("numbered", "bad")


def test_one_database_as_two_sources_is_refused(town: Town) -> None:
    url = town.source("crm", "CREATE TABLE a (x int)", "CREATE TABLE b (x int)")
    town.source("shop", url=f"{url}&application_name=other" if "?" in url else f"{url}?application_name=other")
    town.view("first", "SELECT x FROM crm.a")
    town.apply()
    town.view("second", "SELECT x FROM shop.b")
    with pytest.raises(SameDatabase, match="sources crm and shop are one database, which is attached as crm"):
        town.apply()
    town.execute("crm", "INSERT INTO a VALUES (1)")
    town.settle()
    town.check("first")


def _reads_xml(url: str) -> bool:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SELECT ''::xml")
        except psycopg2.errors.FeatureNotSupported:
            return False
        return True
