"""One database is one source of a project, however its url is spelt (rule C7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import psycopg2
import pytest

from dyda.errors import SameDatabase
from dyda.sources import PostgresSource, SourceSettings
from tests.conftest import Server
from tests.integration.sources.conftest import PROJECT, Ground

Named = Callable[..., PostgresSource]


@pytest.fixture
def named() -> Iterator[Named]:
    """A source of the project that has `crm` and `shop`."""
    with ExitStack() as stack:

        def make(name: str, url: str, others: tuple[str, ...] = ("crm", "shop")) -> PostgresSource:
            source = PostgresSource(SourceSettings(name, url), PROJECT, others)
            stack.callback(source.close)
            return source

        yield make


def respelt(url: str) -> str:
    """The same place as libpq's keywords."""
    parts = psycopg2.extensions.parse_dsn(url)
    return " ".join(f"{name}='{value}'" for name, value in {**parts, "application_name": "respelt"}.items())


@pytest.mark.parametrize("spell", [str, respelt], ids=["same", "respelt"])
def test_C7_a_second_source_of_the_project_is_refused(
    ground: Ground, named: Named, spell: Callable[[str], str]
) -> None:
    """Otherwise each acknowledges rows away that the other has not seen."""
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    first, second = named("crm", ground.url), named("shop", spell(ground.url))
    relations = ground.watch("t")
    first.attach(relations)
    ground.run("INSERT INTO t VALUES (1)")
    others = second.describe([("public", "u")])
    for attempt in (
        lambda: second.attach(others.values()),
        lambda: second.open(ground.names()),
        second.detach,
    ):
        with pytest.raises(SameDatabase, match="sources crm and shop are one database, which is attached as crm"):
            attempt()
    assert any("sources crm and shop are one database" in finding.what for finding in second.check([]))
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    with first.open(ground.names()) as snapshot:
        assert first.acknowledge(snapshot.position) == 1


def test_C7_a_source_that_is_called_otherwise_now_is_not_refused_and_starts_afresh(
    ground: Ground, named: Named
) -> None:
    """Nobody reads the log under its former name any more; what that one acknowledged is gone."""
    ground.run("CREATE TABLE t (a int)")
    relations = ground.watch("t")
    gap = ground.gap()
    renamed = named("sales", ground.url, ("sales", "shop"))
    renamed.attach(relations)
    assert ground.gap() > gap
    gap = ground.gap()
    renamed.attach(relations)
    assert ground.gap() == gap
    with renamed.open([relations[0].name]) as snapshot:
        renamed.acknowledge(snapshot.position)


def test_C7_what_an_older_version_attached_is_the_first_ones_who_attaches(ground: Ground, named: Named) -> None:
    """It has the project alone, and goes on as it is until then."""
    ground.run("CREATE TABLE t (a int)")
    relations = ground.watch("t")
    ground.run(f"UPDATE dyda.consumer SET project = '{PROJECT}'", "INSERT INTO t VALUES (1)")
    first, second = named("crm", ground.url), named("shop", ground.url)
    gap = ground.gap()
    with first.open(ground.names()) as snapshot:
        assert first.acknowledge(snapshot.position) == 1
    first.attach(relations)
    assert ground.gap() == gap
    with first.open(ground.names()) as snapshot:
        first.acknowledge(snapshot.position)
    with pytest.raises(SameDatabase):
        second.open(ground.names())


def test_C7_a_standby_is_the_database_that_it_stands_by(
    new_server: Callable[..., Server], grounds: Callable[..., Ground], named: Named
) -> None:
    server = new_server()
    ground = grounds(server.url())
    ground.run("CREATE TABLE t (a int)")
    relations = ground.watch("t")
    server.stop()
    (server.folder / "data" / "standby.signal").touch()
    server.start()
    with pytest.raises(SameDatabase, match="crm and shop"):
        named("shop", server.url()).attach(relations)
