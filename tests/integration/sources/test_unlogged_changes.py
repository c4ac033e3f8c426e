"""What comes and goes between two polls of a source without event triggers: the catalog looks as before, rows don't."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import Server
from tests.integration.sources.conftest import Ground

WATCHED = ("plain", "parted", "parent")
TABLES = (
    "CREATE TABLE plain (a int, b int)",
    "INSERT INTO plain VALUES (1, 1), (2, 2)",
    "CREATE TABLE parted (a int, b int) PARTITION BY LIST (a)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)",
    "INSERT INTO parted VALUES (1, 1)",
    "CREATE TABLE parent (a int)",
    "CREATE TABLE child () INHERITS (parent)",  # the parent's row in pg_class says already that it has one
    "INSERT INTO parent VALUES (1)",
)


@pytest.fixture(scope="module")
def polled(module_database: Callable[[str], str]) -> Iterator[Ground]:
    ground = Ground(module_database("source"))
    in_a_session(ground, *TABLES)
    ground.watch(*WATCHED)
    without_events(ground)
    yield ground
    ground.close()


def without_events(ground: Ground) -> None:
    for (name,) in ground.run("SELECT evtname FROM pg_event_trigger"):
        ground.run(f"DROP EVENT TRIGGER {name}")
    assert ground.source.state().capture == "polling"


def in_a_session(ground: Ground, *statements: str) -> None:
    """Of its own, which has ended: only then is everything reported that it did."""
    session = ground.connect()
    ground.run(*statements, connection=session)
    pid = session.info.backend_pid
    session.close()
    until(lambda: not ground.run(f"SELECT FROM pg_stat_activity WHERE pid = {pid}"))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kept(ground: Ground) -> dict[str, str | None]:
    with ground.open() as snapshot:
        return {table: snapshot.kept(ground.name(table)) for table in WATCHED}


def agreeing(ground: Ground, before: dict[str, str | None]) -> set[str]:
    with ground.open() as snapshot:
        return {table for table, recorded in before.items() if snapshot.agrees(ground.name(table), recorded)}


def lasting(ground: Ground) -> dict[str, str]:
    with ground.open() as snapshot:
        return {table: snapshot.fingerprints[ground.name(table)] for table in WATCHED}


CAME_AND_WENT = {
    "a partition that took rows over": (
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)",
        "INSERT INTO parted VALUES (2, 2)",
        "UPDATE parted SET a = 2",
        "DROP TABLE parted_2",
    ),
    "an inheritance child": (
        "CREATE TABLE other () INHERITS (parent)",
        "INSERT INTO other VALUES (7)",
        "UPDATE parent SET a = 8",
        "DROP TABLE other",
    ),
    "a parent without columns": (
        "CREATE TABLE above ()",
        "ALTER TABLE plain INHERIT above",
        "DELETE FROM above",
        "ALTER TABLE plain NO INHERIT above",
        "DROP TABLE above",
    ),
    "in a transaction that was rolled back": (
        "BEGIN",
        "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)",
        "ROLLBACK",
    ),
    "a subscription": (
        "SET allow_system_table_mods = on",
        "INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate) VALUES (1, 'plain'::regclass, 'r')",
        "DELETE FROM pg_subscription_rel WHERE srsubid = 1",
    ),
}


@pytest.mark.parametrize("statements", CAME_AND_WENT.values(), ids=CAME_AND_WENT)
def test_C5_what_came_and_went_leaves_a_trace_without_event_triggers(
    polled: Ground, statements: tuple[str, ...]
) -> None:
    before, prints = kept(polled), lasting(polled)
    assert agreeing(polled, before) == set(WATCHED)
    in_a_session(polled, *statements)
    assert lasting(polled) == prints, "the catalog looks as it did"
    until(lambda: agreeing(polled, before) == set())


def test_what_moves_no_row_unseen_is_no_doubt(polled: Ground) -> None:
    before = kept(polled)
    in_a_session(
        polled,
        "INSERT INTO plain VALUES (3, 3)",
        "INSERT INTO parted VALUES (1, 5)",
        "TRUNCATE child",
        "GRANT SELECT ON plain TO public",
        "ANALYZE",
        "VACUUM FULL plain",
        "CREATE TABLE unrelated (a int)",
        "DROP TABLE unrelated",
        "CREATE TEMPORARY TABLE mine (a int)",
    )
    assert agreeing(polled, before) == set(WATCHED)


def test_check_says_what_holds_only_with_event_triggers(polled: Ground) -> None:
    def said() -> str:
        return " ".join(f"{one.what} {one.remedy}" for one in polled.source.check([]) if one.level != "ok")

    assert "every view of this source is then rebuilt" in said()
    assert "track_counts" not in said()
    ((database,),) = polled.run("SELECT quote_ident(current_database())")
    polled.run(f"ALTER DATABASE {database} SET track_counts = off")
    polled.source.close()
    assert "track_counts is off" in said()
    polled.run(f"ALTER DATABASE {database} RESET track_counts")
    polled.source.close()


def test_event_triggers_need_no_trace(ground: Ground) -> None:
    ground.run(*TABLES)
    ground.watch(*WATCHED)
    before = kept(ground)
    assert before == lasting(ground)
    in_a_session(ground, *CAME_AND_WENT["in a transaction that was rolled back"])
    assert agreeing(ground, before) == set(WATCHED), "what happens is logged"
    without_events(ground)
    assert agreeing(ground, before) == set(), "what happened since nobody logs it is not known"


@pytest.mark.parametrize("events", [False, True], ids=["polling", "event triggers"])
def test_C3_a_table_that_was_unlogged_in_a_crash_is_doubted(new_server: Callable[..., Server], events: bool) -> None:
    """Its rows are gone, and once it is logged again it looks as before."""
    server = new_server(fsync="off")
    ground = Ground(server.url())
    in_a_session(ground, *TABLES)
    ground.watch(*WATCHED)
    if not events:
        without_events(ground)
    before, prints = kept(ground), lasting(ground)
    with ground.open() as snapshot:
        position = snapshot.position
    ground.run("ALTER TABLE plain SET UNLOGGED", "INSERT INTO plain VALUES (3, 3)")
    server.crash()
    server.start()
    again = Ground(server.url())
    again.relations = ground.relations
    assert again.run("SELECT count(*) FROM plain") == [(0,)]
    again.run("ALTER TABLE plain SET LOGGED")
    assert lasting(again) == prints
    if events:
        with again.open() as snapshot:
            moved = {name for message in snapshot.messages(position) for name in message.moved_without_rows}
        assert moved == {again.name("plain")}, "the log tells, and nothing else is doubted"
        assert agreeing(again, before) == set(WATCHED)
    else:
        assert agreeing(again, before) == set()
    ground.close()
    again.close()
