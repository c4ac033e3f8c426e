"""What is particular to capture from the write-ahead log: identities, columns, slots. See tests/conformance too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from dyda.errors import BrokenUnit, MissingRights, SourceBusy
from dyda.sources.fingerprints import is_uncaptured
from tests.conformance.place import WAYS, Place, images, plus, table_now
from tests.conftest import Server

(WAL,) = (way for way in WAYS if way.name == "wal")


@pytest.fixture
def place(database: Callable[[str], str]) -> Iterator[Place]:
    found = Place(WAL, database("crm"))
    yield found
    found.close()


@pytest.fixture
def places() -> Iterator[Callable[..., Place]]:
    made: list[Place] = []

    def make(url: str, **settings: object) -> Place:
        made.append(Place(WAL, url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_table_that_loses_its_identity_gets_it_back_before_a_writer_can_fail(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run(
        "BEGIN; INSERT INTO t VALUES (1, 1); ALTER TABLE t REPLICA IDENTITY NOTHING; UPDATE t SET b = 2;"
        " DELETE FROM t; INSERT INTO t VALUES (3, 3); COMMIT"
    )
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a", "b"], first) == Counter({("3", "3"): 1})
        assert snapshot.messages(first)[0].moved_without_rows == {relation.name}, "it is read again"


def test_a_table_that_loses_its_identity_unseen_is_uncaptured(place: Place) -> None:
    place.run("CREATE TABLE t (a int PRIMARY KEY, b int)")
    relation = place.watch("t")
    place.run("BEGIN; SELECT dyda.be_quiet(); ALTER TABLE t REPLICA IDENTITY DEFAULT; COMMIT")
    with place.open(relation) as snapshot:
        assert is_uncaptured(snapshot.fingerprints[relation.name])
    place.watch("t")
    with place.open(relation) as snapshot:
        assert not is_uncaptured(snapshot.fingerprints[relation.name])


def test_C5_old_rows_that_were_not_logged_are_a_gap(place: Place) -> None:
    """The identity was gone for a moment, so that fingerprints agree."""
    place.run("CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 1)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        gap, kept = snapshot.gap, snapshot.kept(relation.name)
    place.run("BEGIN; SELECT dyda.be_quiet(); ALTER TABLE t REPLICA IDENTITY DEFAULT; COMMIT")
    place.run("UPDATE t SET b = 2")
    place.run("BEGIN; SELECT dyda.be_quiet(); ALTER TABLE t REPLICA IDENTITY FULL; COMMIT")
    with place.open(relation) as snapshot:
        assert snapshot.agrees(relation.name, kept)
        with pytest.raises(BrokenUnit):
            snapshot.messages(None)
    with place.open(relation) as snapshot:
        assert snapshot.gap > gap


@pytest.mark.parametrize("identity", ["NOTHING", "USING INDEX u", "FULL", "DEFAULT"])
def test_identities_are_restored(place: Place, identity: str) -> None:
    place.run("CREATE TABLE t (a int PRIMARY KEY, b int NOT NULL)", "CREATE UNIQUE INDEX u ON t (b)")
    place.run(f"ALTER TABLE t REPLICA IDENTITY {identity}")
    question = (
        "SELECT c.relreplident, (SELECT i.indexrelid::regclass::text FROM pg_index i"
        " WHERE i.indrelid = c.oid AND i.indisreplident) FROM pg_class c WHERE c.relname = 't'"
    )
    before = place.run(question)
    place.watch("t")
    place.source.detach()
    assert place.run(question) == before


def test_what_the_log_does_not_have_is_refused_and_writers_go_on(place: Place) -> None:
    place.run("CREATE TABLE t (a int, twice int GENERATED ALWAYS AS (a * 2) VIRTUAL)", "CREATE TABLE u (a int)")
    with pytest.raises(MissingRights, match="twice"):
        place.watch("t")
    place.run("INSERT INTO t VALUES (1)", "UPDATE t SET a = 2", "DELETE FROM t")
    relation = place.watch("u")
    with place.open(relation) as snapshot:
        gap = snapshot.gap
    place.run("ALTER TABLE u ADD twice int GENERATED ALWAYS AS (a * 2) VIRTUAL")
    place.run("INSERT INTO u VALUES (1)", "UPDATE u SET a = 2")
    with place.open(relation) as snapshot:
        assert snapshot.gap > gap
        assert is_uncaptured(snapshot.fingerprints[relation.name])


def test_stored_columns_are_published(place: Place) -> None:
    place.run("CREATE TABLE t (a int, twice int GENERATED ALWAYS AS (a * 2) STORED)")
    relation = place.watch("t")
    place.run("INSERT INTO t VALUES (1)", "UPDATE t SET a = 2")
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a", "twice"]) == Counter({("2", "4"): 1})


def test_a_server_that_logs_no_rows_is_refused(new_server: Callable[..., Server], places: Callable[..., Place]) -> None:
    place = places(new_server(fsync="off").url())
    place.run("CREATE TABLE t (a int)")
    with pytest.raises(MissingRights, match="wal_level"):
        place.watch("t")


def test_the_server_may_drop_what_takes_too_much(
    new_server: Callable[..., Server], places: Callable[..., Place]
) -> None:
    """max_slot_wal_keep_size bounds what a consumer that is away costs; what it missed is a gap."""
    server = new_server(
        fsync="off", wal_level="logical", max_slot_wal_keep_size="1MB", max_wal_size="32MB", min_wal_size="32MB"
    )
    place = places(server.url())
    place.run("CREATE TABLE t (a int, b text)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        gap = snapshot.gap
        snapshot.messages(None)
    place.source.close()
    for _ in range(4):
        place.run("INSERT INTO t VALUES (1, 'missed')")
        place.run("SELECT pg_logical_emit_message(false, 'much', repeat('x', 17000000))", "SELECT pg_switch_wal()")
        place.run("CHECKPOINT")
    assert place.source.state().capture == "detached"
    place.source.attach([relation])
    with place.open(relation) as snapshot:
        assert snapshot.gap > gap
        built, first = table_now(snapshot, relation, ["a"]), snapshot.position
    place.run("INSERT INTO t VALUES (-1, 'after')")
    with place.open(relation) as snapshot:
        assert plus(built, images(snapshot, relation, ["a"], first)) == place.rows("t", ["a"])


def test_beyond_wal_limit_the_slot_is_dropped(place: Place, places: Callable[..., Place]) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    relation = place.watch("t")
    few = places(place.url, wal_limit=2**20)
    place.run("INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 10000) i")
    with pytest.raises(SourceBusy, match="slot"), few.open(relation):
        pass
    assert place.source.state().capture == "detached"
    assert place.run("SELECT FROM pg_replication_slots WHERE database = current_database()") == []


def test_an_idle_source_is_left_alone(place: Place) -> None:
    """A poll writes nothing if nothing was written since the last one."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    place.run("INSERT INTO t VALUES (1)")
    with place.open(relation) as snapshot:
        first = snapshot.messages(None)
    ((before,),) = place.run("SELECT pg_current_xact_id()::text::bigint")
    with place.open(relation) as snapshot:
        assert snapshot.messages(None) == first
    for _ in range(5):
        with place.open(relation) as snapshot:
            assert snapshot.messages(None) == first
    ((after,),) = place.run("SELECT pg_current_xact_id()::text::bigint")
    assert after - before <= 2, "one for the question before, which writes, and one for this one"


def test_a_writers_error_is_its_own(place: Place) -> None:
    """Nothing of ours runs when rows are written: not even a trigger that could be disabled."""
    place.run("CREATE TABLE t (a int UNIQUE)")
    relation = place.watch("t")
    place.run("SET session_replication_role = replica; INSERT INTO t VALUES (1)", "RESET session_replication_role")
    with pytest.raises(psycopg2.errors.UniqueViolation):
        place.run("INSERT INTO t VALUES (1)")
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a"]) == Counter({("1",): 1})


def test_without_event_triggers_nothing_is_read(place: Place) -> None:
    """The stream names columns, and names may be exchanged: without their numbers, values would be taken for others."""
    place.run("CREATE TABLE t (a int, b int)")
    relation = place.watch("t")
    place.run("DROP EVENT TRIGGER dyda_command_ended")
    assert place.source.state().capture == "detached"
    place.source.attach([relation])
    assert place.source.state().capture == "attached"
