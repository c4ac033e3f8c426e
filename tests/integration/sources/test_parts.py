"""Parts of a watched relation whose rows cannot be captured: foreign tables and other sessions' temporary ones (C3)."""

from __future__ import annotations

from collections.abc import Callable

import psycopg2
import pytest

from dyda.errors import RelationRefused
from tests.integration.sources.conftest import Ground

TRIGGERS = (
    "SELECT c.relname::text, array_agg(t.tgname::text ORDER BY t.tgname) FROM pg_trigger t"
    " JOIN pg_class c ON c.oid = t.tgrelid WHERE t.tgname LIKE 'dyda%' GROUP BY c.relname ORDER BY 1"
)
ALL = ["dyda_delete", "dyda_insert", "dyda_truncate", "dyda_update"]


def test_C3_a_temporary_child_is_a_gap_and_refused_while_it_lives(ground: Ground) -> None:
    """Its end fires no event trigger, and its rows are in its parent's transition tables."""
    ground.run("CREATE TABLE p (a int)", "CREATE TABLE q (a int)")
    (relation, _) = ground.watch("p", "q")
    gap = ground.gap()
    other = ground.connect()
    ground.run("CREATE TEMPORARY TABLE mine () INHERITS (p)", connection=other)
    assert ground.gap() > gap
    assert ground.run(TRIGGERS) == [("p", ALL), ("q", ALL)]
    with pytest.raises(RelationRefused, match=r"mine is a temporary table.*\n?.*") as refused:
        ground.source.describe([("public", "p")])
    assert "once that session ends or drops the temporary table" in refused.value.remedy
    with ground.open() as snapshot:
        assert snapshot.fingerprints[relation.name].startswith("uncaptured"), "nothing read from it may be installed"
    ground.run("INSERT INTO mine VALUES (1)", "UPDATE p SET a = 2", connection=other)
    other.close()
    ground.run("CREATE TABLE later (a int)")
    while ground.run("SELECT FROM pg_inherits WHERE inhparent = 'p'::regclass"):
        pass
    assert ground.source.describe([("public", "p")])
    with ground.open() as snapshot:
        assert not snapshot.fingerprints[relation.name].startswith("uncaptured")
    # Gone with the transaction that made it, or made a child later.
    for statements in (
        "BEGIN; CREATE TEMPORARY TABLE mine () INHERITS (p) ON COMMIT DROP; COMMIT",
        "CREATE TEMPORARY TABLE mine (a int); ALTER TABLE mine INHERIT p; DROP TABLE mine",
    ):
        gap = ground.gap()
        ground.run(statements)
        assert ground.gap() > gap
    gap = ground.gap()
    ground.run("CREATE TEMPORARY TABLE mine (a int)", "INSERT INTO p VALUES (3)", "DROP TABLE mine")
    assert ground.gap() == gap


@pytest.fixture
def elsewhere(ground: Ground) -> Callable[[str], str]:
    """`elsewhere("… PARTITION OF p …")`: the statement that makes such a foreign table."""
    if ground.run("SELECT FROM pg_available_extensions WHERE name = 'postgres_fdw'"):
        ((database,),) = ground.run("SELECT quote_literal(current_database())")
        ((folder, port),) = ground.run("SELECT current_setting('unix_socket_directories'), current_setting('port')")
        ground.run(
            "CREATE EXTENSION postgres_fdw",
            "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw"
            f" OPTIONS (host '{folder.split(',')[0]}', port '{port}', dbname {database})",
            "CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (password_required 'false')",
            "CREATE TABLE held (a int)",
        )
        return lambda what: f"CREATE FOREIGN TABLE {what} SERVER far OPTIONS (table_name 'held')"
    ground.run("CREATE FOREIGN DATA WRAPPER nothing", "CREATE SERVER far FOREIGN DATA WRAPPER nothing")
    return lambda what: f"CREATE FOREIGN TABLE {what} SERVER far"


def write(ground: Ground, *statements: str) -> None:
    """Where no wrapper works, it says so itself; what must not be heard is that rows cannot be collected."""
    for statement in statements:
        said = ""
        try:
            ground.run(statement)
        except psycopg2.Error as error:
            said = str(error)
        assert not said or "has no handler" in said


def test_a_foreign_part_makes_nobodys_statements_fail(ground: Ground, elsewhere: Callable[[str], str]) -> None:
    ground.run(
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (100) PARTITION BY RANGE (a)",
        "CREATE TABLE tens PARTITION OF high FOR VALUES FROM (10) TO (20)",
    )
    (relation,) = ground.watch("p")
    gap = ground.gap()
    ground.run(elsewhere("far_part PARTITION OF high FOR VALUES FROM (20) TO (30)"))
    assert ground.gap() > gap
    rests = ["dyda_truncate"]
    assert ground.run(TRIGGERS) == [("high", rests), ("low", ALL), ("p", rests), ("tens", ALL)]
    write(ground, "INSERT INTO p VALUES (1), (11)", "INSERT INTO p VALUES (21)", "INSERT INTO high VALUES (12)")
    write(ground, "UPDATE p SET a = a + 1 WHERE a < 20", "DELETE FROM p")
    with pytest.raises(RelationRefused, match=r"far_part is a foreign table") as refused:
        ground.source.describe([("public", "p")])
    assert "Detach or drop public.far_part" in refused.value.remedy
    # Nothing puts capture back while the foreign table is there.
    ground.source.attach([relation])
    ground.run("ALTER TABLE p ADD COLUMN b int")
    assert ground.run(TRIGGERS) == [("high", rests), ("low", ALL), ("p", rests), ("tens", ALL)]
    for end in ("ALTER TABLE high DETACH PARTITION far_part", "DROP FOREIGN TABLE far_part"):
        with ground.open() as snapshot:
            ground.source.acknowledge(snapshot.position)
        ground.run(end)
        assert ground.run(TRIGGERS) == [(table, ALL) for table in ("high", "low", "p", "tens")]
        with ground.open() as snapshot:
            assert snapshot.messages(None), "rows may have moved meanwhile, and the log says so"
            assert snapshot.logged_fingerprints[relation.name] == snapshot.fingerprints[relation.name]
        if end.startswith("ALTER"):
            ground.run("ALTER TABLE high ATTACH PARTITION far_part FOR VALUES FROM (20) TO (30)")
            assert ground.run(TRIGGERS) == [("high", rests), ("low", ALL), ("p", rests), ("tens", ALL)]
    assert ground.source.describe([("public", "p")])


def test_without_event_triggers_a_foreign_part_is_noticed_by_the_next_look(
    ground: Ground, elsewhere: Callable[[str], str]
) -> None:
    ground.run("CREATE TABLE p (a int)", "CREATE TABLE c () INHERITS (p)")
    (relation,) = ground.watch("p")
    gap = ground.gap()
    ground.run_unseen(elsewhere("far_part () INHERITS (p)"))
    assert ground.run(TRIGGERS) == [("c", ALL), ("p", ALL)]
    ground.source.stand_back("public", "p")
    assert ground.run(TRIGGERS) == [("c", ALL), ("p", ["dyda_truncate"])]
    assert ground.gap() > gap
    write(ground, "UPDATE p SET a = 1")
    ground.run_unseen("DROP FOREIGN TABLE far_part")
    ground.source.attach([relation])
    assert ground.run(TRIGGERS) == [("c", ALL), ("p", ALL)]
