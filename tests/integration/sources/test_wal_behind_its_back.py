"""What happens behind capture's back must not make a row silently wrong when it is read from the write-ahead log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from dyda.errors import BrokenUnit, CaptureBlocked
from dyda.model.position import Position
from dyda.model.relation import Relation
from dyda.sources.fingerprints import is_uncaptured
from tests.conformance.place import WAYS, Place, Rows, images, plus, table_now

(WAL,) = (way for way in WAYS if way.name == "wal")
HIDDEN = {
    "switched off": ("SET event_triggers = off", "RESET event_triggers"),
    "disabled": (
        "ALTER EVENT TRIGGER dyda_command_ended DISABLE; ALTER EVENT TRIGGER dyda_object_dropped DISABLE",
        "ALTER EVENT TRIGGER dyda_command_ended ENABLE ALWAYS; ALTER EVENT TRIGGER dyda_object_dropped ENABLE ALWAYS",
    ),
}
EXCHANGE = "BEGIN; ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b; COMMIT"


class Reader:
    """One that has a table, and follows it as maintenance does: built again after a gap, a repair of capture, a schema
    change, or whatever the fingerprint shows, and otherwise from the rows' images alone."""

    def __init__(self, place: Place, relation: Relation) -> None:
        self.place, self.relation = place, relation
        self.rows: Rows = Counter()
        self.position: Position | None = None
        self.gap: int | None = None
        self.kept: str | None = None
        self.builds = 0
        self.catch_up()

    def catch_up(self) -> None:
        for _ in range(6):
            try:
                if self._poll():
                    return
            except BrokenUnit:
                continue
        raise AssertionError("it never comes to an end")

    def _poll(self) -> bool:
        name, source = self.relation.name, self.place.source
        with self.place.open(self.relation) as snapshot:
            if not snapshot.state.attached or is_uncaptured(snapshot.fingerprints[name]):
                snapshot.close()
                source.attach([self.relation])
                self.gap = None
                return False
            found = snapshot.messages(self.position)
            if snapshot.state.unsettled:
                return False
            moved = any(name in one.moved_without_rows or one.schema_changes for one in found)
            if self.gap != snapshot.gap or not snapshot.agrees(name, self.kept) or moved:
                self.relation = source.find([self.relation.oid or 0])[self.relation.oid or 0] or self.relation
                self.rows = table_now(snapshot, self.relation, ["a", "b"])
                self.builds += 1
            else:
                changed = images(snapshot, self.relation, ["a", "b"], self.position)
                self.rows = plus(self.rows, changed)
            snapshot.compare([name])
            self.gap, self.kept, self.position = snapshot.gap, snapshot.kept(name), snapshot.position
        source.acknowledge(self.position)
        return True

    def check(self) -> None:
        self.catch_up()
        assert self.rows == self.place.rows("t", ["a", "b"])


@pytest.fixture
def place(database: Callable[[str], str]) -> Iterator[Place]:
    found = Place(WAL, database("crm"), attach_timeout=1.0)
    yield found
    found.close()


@pytest.fixture
def reader(place: Place) -> Reader:
    place.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 2), (3, 4)")
    return Reader(place, place.watch("t"))


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_names_that_are_exchanged_unseen(place: Place, reader: Reader, hidden: tuple[str, str]) -> None:
    place.run("INSERT INTO t VALUES (5, 6)")
    place.run(hidden[0], *EXCHANGE.split("; "), hidden[1], "INSERT INTO t VALUES (7, 8)")
    reader.check()
    place.run("INSERT INTO t VALUES (9, 10)", "UPDATE t SET a = a + 100 WHERE b = 10")
    builds = reader.builds
    reader.check()
    assert reader.builds == builds, "the stream is right again"


def test_names_that_are_exchanged_unseen_before_a_change_that_is_seen(place: Place, reader: Reader) -> None:
    place.run(HIDDEN["switched off"][0], *EXCHANGE.split("; "), HIDDEN["switched off"][1])
    place.run("INSERT INTO t VALUES (7, 8)", "ALTER TABLE t ADD c int", "INSERT INTO t VALUES (9, 10, 11)")
    reader.check()
    place.run("INSERT INTO t VALUES (12, 13, 14)")
    reader.check()


def test_names_that_are_exchanged_while_capture_is_attached_again(place: Place, reader: Reader) -> None:
    """Attach keeps what the table is like now: the reader of another process must hear of it too."""
    place.run(HIDDEN["switched off"][0], *EXCHANGE.split("; "), HIDDEN["switched off"][1])
    place.adapter().attach([reader.relation])
    place.run("INSERT INTO t VALUES (7, 8)")
    reader.check()
    place.run("INSERT INTO t VALUES (9, 10)")
    reader.check()


def test_a_partition_that_is_detached_unseen_is_no_part_any_more(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b int) PARTITION BY LIST (a)", "CREATE TABLE p PARTITION OF t FOR VALUES IN (1)")
    reader = Reader(place, place.watch("t"))
    place.run("SET event_triggers = off", "ALTER TABLE t DETACH PARTITION p", "RESET event_triggers")
    place.run("INSERT INTO p VALUES (1, 1)")
    reader.check()
    place.run("INSERT INTO p VALUES (1, 2)")
    reader.check()


def test_a_slot_that_is_created_again_by_hand_is_not_ours(place: Place, reader: Reader) -> None:
    for _ in range(2):
        ((name,),) = place.run(
            "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database() AND NOT temporary"
        )
        place.run(f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{name}'")
        while place.run(f"SELECT FROM pg_replication_slots WHERE slot_name = '{name}' AND active"):
            pass
        place.run("INSERT INTO t VALUES (5, 6)", f"SELECT pg_drop_replication_slot('{name}')")
        place.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
        place.run("INSERT INTO t VALUES (7, 8)")
        reader.check()
        place.source.close()


def test_C6_capture_that_is_repaired_waits_for_those_who_write(place: Place, reader: Reader) -> None:
    """Their rows were written while the table was not published: only a later snapshot has them."""
    place.run("ALTER PUBLICATION dyda_capture DROP TABLE t")
    writer = psycopg2.connect(place.url)
    with writer, writer.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES (5, 6)")
        with pytest.raises(CaptureBlocked):
            place.source.attach([reader.relation])
    writer.close()
    reader.check()


def test_rows_that_somebody_filters_out(place: Place, reader: Reader) -> None:
    place.run("ALTER PUBLICATION dyda_capture SET TABLE t WHERE (a > 0)", "INSERT INTO t VALUES (-1, 1)")
    reader.check()
    place.run("INSERT INTO t VALUES (-2, 2)")
    reader.check()


def test_only_capture_can_say_something_in_the_stream(place: Place, reader: Reader) -> None:
    told = {"op": "R", "root": reader.relation.oid, "relid": reader.relation.oid}
    place.run("INSERT INTO t VALUES (5, 6)")
    place.run(f"SELECT pg_logical_emit_message(true, 'dyda', '{json.dumps(told)}')", "INSERT INTO t VALUES (7, 8)")
    builds = reader.builds
    reader.check()
    assert reader.builds == builds


def test_old_rows_that_were_not_logged_are_missed_once(place: Place) -> None:
    place.run("CREATE TABLE t (a int PRIMARY KEY, b int)", "INSERT INTO t VALUES (1, 1)")
    reader = Reader(place, place.watch("t"))
    place.run("BEGIN", "SELECT dyda.be_quiet()", "ALTER TABLE t REPLICA IDENTITY DEFAULT", "COMMIT")
    place.run("UPDATE t SET b = 2")
    place.run("BEGIN", "SELECT dyda.be_quiet()", "ALTER TABLE t REPLICA IDENTITY FULL", "COMMIT")
    reader.check()
    place.run("UPDATE t SET b = 3")
    reader.check()
