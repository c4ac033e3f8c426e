"""Texts that are easily misread, from the sources through Spark into the warehouse; types that a view cannot have."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest
from psycopg2 import sql

from dyda import commands
from dyda.errors import DydaError, SameDatabase, SourceInUse, UnsupportedSql
from dyda.maintenance.observe.poll import poll
from dyda.model.relation import RelationName
from dyda.warehouse import RelationState
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


def respelt(url: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}application_name=respelt"


def test_a_join_meets_by_the_very_text_whatever_the_databases_are_set_to(town: Town) -> None:
    """U+FEFF, backslashes and quotes, in keys and groups; rows that come, rows that go, and `verify`, which agrees with
    PostgreSQL's own evaluation. One source and the warehouse read backslashes otherwise by default, and the warehouse
    is read-only by default."""
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
    fill(town, "crm", "a", [MARKED])  # alone: it is the first row of all that is read for it
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
    town.source("shop", url=respelt(url))
    town.view("first", "SELECT x FROM crm.a")
    town.apply()
    town.view("second", "SELECT x FROM shop.b")
    with pytest.raises(SameDatabase, match="sources crm and shop are one database, which is attached as crm"):
        town.apply()
    town.execute("crm", "INSERT INTO a VALUES (1)")
    town.settle()
    town.check("first")
    town.source_url("shop", respelt(town.warehouse))
    town.in_warehouse("CREATE TABLE b (x int)")
    with pytest.raises(SourceInUse, match="source shop: its database is a DyDa warehouse"):
        town.apply()


def test_one_database_that_an_older_version_attached_as_two_sources_is_found(town: Town) -> None:
    """Neither acknowledges any more what the other has not seen."""
    url = town.source("crm", "CREATE TABLE a (x int)")
    town.source("shop", url=respelt(url))
    town.view("first", "SELECT x FROM crm.a")
    town.apply()
    town.execute("crm", "UPDATE dyda.consumer SET project = split_part(project, '/', 1)")
    with town.maintainer() as maintainer:
        copied = maintainer.known.relations
        writer = maintainer.writer
        for name, record in copied.items():
            twin = replace(record.relation, name=RelationName("shop", name.schema, name.table))
            writer.save_relations([RelationState(twin)])
    town.execute("crm", "INSERT INTO a VALUES (1)")
    with town.maintainer() as maintainer, poll(maintainer.opened, maintainer.writer, maintainer.known) as polled:
        assert not polled.snapshots
        assert polled.unreachable == dict.fromkeys(
            ("crm", "shop"), "sources crm and shop are one database, which is attached as both"
        )


def _reads_xml(url: str) -> bool:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute("SELECT ''::xml")
        except psycopg2.errors.FeatureNotSupported:
            return False
        return True
