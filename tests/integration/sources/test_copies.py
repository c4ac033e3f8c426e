"""A copy of a source's database brings capture along. It rests there, and harms nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest
from psycopg2 import sql

from dyda.sources import PostgresSource, SourceSettings
from tests.integration.sources.conftest import PROJECT, Ground


@pytest.fixture
def copied(ground: Ground, grounds: Callable[..., Ground]) -> Iterator[Callable[[], Ground]]:
    """`copied()`: another database made of the ground's own, as CREATE DATABASE … TEMPLATE makes it."""
    made: list[Any] = []

    def make() -> Ground:
        name = psycopg2.extensions.parse_dsn(ground.url)["dbname"]
        ground.close()
        administrator = psycopg2.connect(ground.url.replace(f"/{name}", "/postgres"))
        administrator.autocommit = True
        made.append(administrator)
        with administrator.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            query = "CREATE DATABASE {} TEMPLATE {}"
            cursor.execute(sql.SQL(query).format(sql.Identifier(f"{name}_copy"), sql.Identifier(name)))
        copy = grounds(ground.url.replace(f"/{name}", f"/{name}_copy"))
        made.append(f"{name}_copy")
        return copy

    yield make
    if made:
        administrator, name = made
        with administrator.cursor() as cursor:
            cursor.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        administrator.close()


def test_capture_rests_in_a_copy_and_begins_anew_when_it_is_attached(
    ground: Ground, copied: Callable[[], Ground]
) -> None:
    ground.run("CREATE TABLE p (a int) PARTITION BY RANGE (a)", "CREATE TABLE t (a int)")
    ground.watch("p", "t")
    ground.run("INSERT INTO t VALUES (1)")
    copy = copied()
    kept = (
        "SELECT (SELECT last_value FROM dyda.log_sequence), (SELECT last_value FROM dyda.gap),"
        " (SELECT count(*) FROM dyda.log), (SELECT count(*) FROM dyda.member)"
    )
    before = copy.run(kept)
    older = copy.connect()
    copy.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1", connection=older)
    copy.run("INSERT INTO t SELECT generate_series(2, 600)", "UPDATE t SET a = a + 1", "TRUNCATE t")
    copy.run("CREATE TABLE p1 PARTITION OF p DEFAULT", "INSERT INTO p VALUES (1)", "ALTER TABLE t ADD COLUMN b int")
    copy.run("CREATE TEMPORARY TABLE own () INHERITS (t)", "DROP TABLE own", "ALTER TABLE t ALTER a TYPE bigint")
    assert copy.run(kept) == before
    assert not copy.source.state().attached
    # Attached, it is a source like any other, also for sessions and snapshots that knew it as a copy.
    copy.watch("p", "t")
    with copy.open() as snapshot:
        copy.source.acknowledge(snapshot.position)
    copy.run("INSERT INTO t VALUES (7)")
    copy.run("INSERT INTO p VALUES (8); COMMIT", connection=older)
    copy.run("INSERT INTO t VALUES (9)", connection=older)
    assert copy.logged("t", ["a"]) == Counter({("7",): 1, ("9",): 1})
    assert copy.logged("p", ["a"]) == Counter({("8",): 1})
    assert copy.source.state().attached
    # The original never knew.
    origin = PostgresSource(SourceSettings("crm", ground.url), PROJECT)
    assert origin.state().attached
    origin.close()
