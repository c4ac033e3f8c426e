"""The rules of reading a source (CORRECTNESS.md, R): what is read is what the state has, or the unit is broken."""

from __future__ import annotations

import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg2
import pyarrow as pa
import pytest

from dyda.errors import BrokenUnit, MissingRights
from dyda.sources.fingerprints import is_uncaptured
from dyda.sources.reading.copy import ReadFailed
from tests.conformance.place import Place, counted, table_now

EMPTYING = (
    "TRUNCATE t",
    "ALTER TABLE t ALTER a TYPE bigint",
    "ALTER TABLE t SET UNLOGGED",
    "DROP TABLE t",
    "ALTER TABLE t RENAME TO gone",
    "BEGIN; ALTER TABLE t RENAME TO gone; CREATE TABLE t (a int); COMMIT",
    "ALTER TABLE t ADD b int",
    "ALTER TABLE c NO INHERIT t",
)
"""Through an older snapshot the table is empty, or another one, or only seems unchanged."""


@pytest.mark.parametrize("statement", EMPTYING)
def test_R1_what_changes_a_table_while_it_is_read_breaks_the_unit(place: Place, statement: str) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE c () INHERITS (t)", "INSERT INTO t VALUES (1)")
    place.run("INSERT INTO c VALUES (2)")
    if "DROP" in statement:
        place.run("ALTER TABLE c NO INHERIT t")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        snapshot.compare([relation.name])
        try:
            place.run(statement)
        except psycopg2.errors.ObjectNotInPrerequisiteState:
            assert place.way.name == "wal", "a table whose rows go to the log may not leave it"
            return
        with pytest.raises(BrokenUnit):
            snapshot.compare([relation.name])


def test_R2_a_change_that_was_undone_shows_within_a_unit_and_not_after_it(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        kept = snapshot.kept(relation.name)
        place.run("ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t")
        with pytest.raises(BrokenUnit):
            snapshot.compare([relation.name])
    with place.open(relation) as snapshot:
        assert snapshot.agrees(relation.name, kept) or not snapshot.state.inline_schema_changes


def test_R2_a_changed_schema_is_explained_by_the_messages_or_unexplained(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        kept, first = snapshot.kept(relation.name), snapshot.position
        assert snapshot.agrees(relation.name, kept)
    place.run("ALTER TABLE t ADD b int")
    with place.open(relation) as snapshot:
        assert not snapshot.agrees(relation.name, kept)
        assert len(snapshot.messages(first)) == 1
        assert snapshot.logged_fingerprints[relation.name] == snapshot.fingerprints[relation.name]


def test_R2_a_relation_that_is_not_captured_says_so(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    t = place.watch("t")
    u = place.source.describe([("public", "u")])[("public", "u")]
    with place.open(t, u) as snapshot:
        assert not is_uncaptured(snapshot.fingerprints[t.name])
        assert is_uncaptured(snapshot.fingerprints[u.name])
        assert snapshot.stands(t)
        assert snapshot.oid(u.name) == u.oid
        assert snapshot.fingerprint_again()[t.name] == snapshot.fingerprints[t.name]


@pytest.fixture
def reader(place: Place) -> Iterator[Callable[[], Place]]:
    """`reader()`: the same database through a role that may read table t, and nothing else."""
    role = f"reader_{uuid.uuid4().hex[:8]}"
    place.run(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'")
    made: list[Place] = []

    def make() -> Place:
        place.run(f"GRANT SELECT ON t TO {role}")
        place.run(f"GRANT USAGE ON SCHEMA dyda TO {role}", f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA dyda TO {role}")
        parts = urllib.parse.urlsplit(place.url)
        url = urllib.parse.urlunsplit(parts._replace(netloc=f"{role}:reader@{parts.netloc.rpartition('@')[2]}"))
        made.append(Place(place.way, url))
        return made[-1]

    yield make
    for one in made:
        one.close()
    place.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_R3_rows_that_a_policy_hides_are_an_error_and_never_a_subset(place: Place, reader: Callable[[], Place]) -> None:
    place.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2)")
    relation = place.watch("t")
    weak = reader()
    place.run("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "CREATE POLICY few ON t USING (a = 1)")
    with pytest.raises((MissingRights, ReadFailed)), weak.open(relation) as snapshot:
        table_now(snapshot, relation, ["a"])


def test_R4_a_lookup_finds_at_least_what_is_equal(place: Place) -> None:
    """Equal in any way that the source or Spark may see it: the rest is decided later."""
    place.run(
        "CREATE TABLE t (n numeric, c char(5), b bigint, x text)",
        "INSERT INTO t VALUES (1.50, 'a', 7, 'one'), (1.5, 'a  ', 7, 'two'), (2, 'b', 8, 'three')",
    )
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        for key, value in (("n", "1.5"), ("c", "a"), ("b", "7")):
            found = counted(snapshot.lookup(relation, ["x"], [key], pa.table({key: [value]})))
            assert found == Counter({("one",): 1, ("two",): 1}), key
        assert snapshot.queries == 3
        assert snapshot.unchecked == {relation.name}


def test_R5_a_null_equals_nothing(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (NULL, 1), (2, NULL), (2, 3)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        keys = pa.table(
            {"a": [None, "2"], "b": ["1", None]}, schema=pa.schema([("a", pa.string()), ("b", pa.string())])
        )
        assert counted(snapshot.lookup(relation, ["a", "b"], ["a", "b"], keys)) == Counter()
        one = counted(snapshot.lookup(relation, ["a", "b"], ["a"], keys.select(["a"])))
        assert one == Counter({("2", None): 1, ("2", "3"): 1})


def test_schemas_stay_as_they_are_while_they_are_locked(place: Place) -> None:
    """A unit that was broken too often finishes (paper 001, Section 5)."""
    place.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    relation = place.watch("t")
    oids = {relation.name: relation.oid or 0}
    with place.source.open(oids, lock=[relation.name], lock_limit=10.0) as snapshot:
        writer = place.connect()
        place.run("SET lock_timeout = '200ms'", "INSERT INTO t VALUES (2)", connection=writer)
        with pytest.raises(Exception, match="lock timeout"):
            place.run("ALTER TABLE t ADD b int", connection=writer)
        assert table_now(snapshot, relation, ["a"]) == Counter({("1",): 1})
        snapshot.compare([relation.name])
    place.run("ALTER TABLE t ADD b int")
