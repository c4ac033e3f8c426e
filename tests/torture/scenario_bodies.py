"""The scenarios' plots: short programs, each of which makes one rule of CORRECTNESS.md matter.

`scenarios` plays them; `mutations` says which broken rule each of them must show.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial

import psycopg2

from dyda import commands
from dyda.errors import Fenced
from dyda.maintenance.catalog_state import BuildRequest
from dyda.maintenance.loop import Maintainer
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.warehouse.connection import ADVISORY_CLASS, PROJECT_LOCK
from tests.conftest import Server
from tests.torture.recording import Change, Data, Nested, Plain
from tests.torture.stage import Stage

__all__ = ["SCENARIOS", "Scenario"]

Scenario = Callable[[Stage], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__.replace("_", "-")] = play
    return play


# --- capture


@scenario
def odd_settings(stage: Stage) -> None:
    """C1: a writer whose session prints floats in another way than everybody else's."""
    stage.source("one", "CREATE TABLE r (id int, f float8)", "INSERT INTO r VALUES (1, 0.5)")
    stage.view("v", "SELECT r.id, r.f FROM one.r r")
    stage.begin()
    insert = "INSERT INTO r VALUES (2, 0.1::float8 + 0.2::float8)"
    stage.change("one", f"SET LOCAL extra_float_digits = -5; {insert}; RESET extra_float_digits", "r")
    stage.settle()


@scenario
def partitions(stage: Stage) -> None:
    """C2: rows that are written into a partition, one of them made later."""
    stage.source(
        "one",
        "CREATE TABLE p (id int, k int) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "INSERT INTO p VALUES (1, 1)",
    )
    stage.view("v", "SELECT p.id, p.k FROM one.p p")
    stage.begin()
    stage.do("one", "INSERT INTO low VALUES (2, 2)", "DELETE FROM p WHERE id = 1")
    stage.settle()
    stage.change("one", "CREATE TABLE high PARTITION OF p FOR VALUES FROM (10) TO (20)", "p")
    stage.do("one", "INSERT INTO high VALUES (11, 3)")
    stage.settle()


@scenario
def truncation(stage: Stage) -> None:
    """C4: a table is emptied, and filled with something else."""
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1), (2, 2)")
    stage.view("v", "SELECT r.id, r.k FROM one.r r")
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 5)", Change("TRUNCATE r", ("r",)), "INSERT INTO r VALUES (3, 3)")
    stage.do("one", "INSERT INTO r VALUES (4, 4)")
    stage.settle()


@scenario
def truncated_part(stage: Stage) -> None:
    """C4: one partition is emptied; the others are not."""
    stage.source(
        "one",
        "CREATE TABLE r (id int, k int) PARTITION BY LIST (k)",
        "CREATE TABLE r1 PARTITION OF r FOR VALUES IN (1)",
        "CREATE TABLE r2 PARTITION OF r FOR VALUES IN (2)",
        "INSERT INTO r VALUES (1, 1), (2, 2)",
    )
    stage.view("v", "SELECT r.id, r.k FROM one.r r")
    stage.begin()
    stage.do("one", Change("TRUNCATE r1", ("r",)), "INSERT INTO r VALUES (3, 1)")
    stage.settle()


@scenario
def disabled_triggers(stage: Stage) -> None:
    """C5: somebody turns triggers off, writes, and turns them on again; no event trigger tells."""
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1)")
    stage.view("v", "SELECT r.id, r.k FROM one.r r")
    stage.begin()
    stage.do(
        "one",
        Plain("SET LOCAL event_triggers = off"),
        Change("ALTER TABLE r DISABLE TRIGGER ALL", ("r",)),
        "INSERT INTO r VALUES (2, 2)",
        Change("ALTER TABLE r ENABLE TRIGGER ALL", ("r",)),
    )
    stage.settle()
    stage.do("one", "INSERT INTO r VALUES (3, 3)")
    stage.settle()


# --- positions


@scenario
def open_subtransaction(stage: Stage) -> None:
    """P1: a subtransaction's number is over long before its transaction commits."""
    _two_tables(stage)
    stage.begin()
    writer = stage.recorded.writer("one")
    with writer.open() as slow:
        slow.do(Data("UPDATE q SET k = 7"))
        slow.do(Nested((Data("INSERT INTO r VALUES (8, 1)"),)))
        stage.recorded.writer("one").transaction([Data("INSERT INTO r VALUES (9, 1)")])
        stage.settle()
        slow.commit()
    stage.settle()


@scenario
def lost_with_the_server(stage: Stage) -> None:
    """P2: a source that answers COMMIT before its disk has it crashes; what is lost must not have been installed."""
    _lost(stage, inside=False)


@scenario
def lost_inside_a_unit(stage: Stage) -> None:
    """P2: the same while a unit has read it; a server that is back knows nothing of it."""
    _lost(stage, inside=True)


def _lost(stage: Stage, *, inside: bool) -> None:
    server = Server(
        {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB", "autovacuum": "off"}
    ).start()

    def crash(number: int, xid: int, lost: list[bool]) -> None:
        stage.recorded.writers["one"][0].close()
        server.crash()
        server.start()
        if _ask(server.url(), f"SELECT count(*) FROM r WHERE id = {number}"):
            return
        stage.history.transactions = [t for t in stage.history.transactions if t.xid != xid]
        while stage.do("one", f"INSERT INTO r VALUES (10{number}, 2)") < xid:
            pass
        lost.append(True)

    try:
        stage.source("one", "SET synchronous_commit = on", "CREATE TABLE r (id int, k int)", url=server.url())
        stage.view("v", "SELECT r.id, r.k FROM one.r r")
        stage.begin()
        for number in range(6):
            _ask(server.url(), "CHECKPOINT")
            xid = stage.do("one", f"INSERT INTO r VALUES ({number}, 1)")
            lost: list[bool] = []
            if inside:
                with stage.at("unit.swept", partial(crash, number, xid, lost)):
                    stage.settle()
            else:
                stage.settle()
                crash(number, xid, lost)
            if lost:
                break
        stage.settle()
        stage.at_rest = False  # the log is gone with the server
    finally:
        server.remove()


@scenario
def batches(stage: Stage) -> None:
    """P3, W3: what is left for the next unit is neither claimed nor counted; rows it deleted are still joined."""
    stage.settings("batch_rows = 1")
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1)")
    stage.source("two", "CREATE TABLE s (k int, j int)", "INSERT INTO s VALUES (1, 1), (2, 5)")
    stage.source("zoo", "CREATE TABLE u (j int, id int)", "INSERT INTO u VALUES (1, 100), (5, 500)")
    stage.view("v", "SELECT r.id, s.j, u.id AS u FROM one.r r JOIN two.s s ON r.k = s.k JOIN zoo.u u ON s.j = u.j")
    stage.view("pairs", "SELECT r.id, s.j FROM one.r r JOIN two.s s ON r.k = s.k")
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 2)")
    stage.do("one", "INSERT INTO r VALUES (3, 1)")
    stage.do("two", "DELETE FROM s WHERE k = 2")
    stage.do("two", "INSERT INTO s VALUES (1, 5)")
    stage.do("zoo", "INSERT INTO u VALUES (5, 501)")
    stage.settle()


@scenario
def order_of_conflicts(stage: Stage) -> None:
    """P4: the transaction that began to write first meets a row that another one has written meanwhile. The source
    cannot tell when they committed.

    The view does not show the row that lies between the two: the warehouse itself cannot notice a wrong order."""
    stage.settings("", mode="complete")
    server = Server({"track_commit_timestamp": "off", "fsync": "off"}).start()
    try:
        made = ("CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1), (2, 2)")
        stage.source("one", *made, url=server.url())
        stage.view("high", "SELECT r.id, r.k FROM one.r r WHERE r.k > 55")
        stage.begin()
        with stage.recorded.writer("one").open() as slow:
            slow.do(Data("UPDATE r SET k = k + 10 WHERE id = 1"))
            stage.recorded.writer("one").transaction([Data("UPDATE r SET k = 50 WHERE id = 2")])
            slow.do(Data("UPDATE r SET k = 60 WHERE id = 2"))
            slow.commit()
        stage.settle()
        stage.at_rest = False  # the log goes with the server
    finally:
        stage.recorded.close()
        server.remove()


@scenario
def killed_between_units(stage: Stage) -> None:
    """P5: what one unit has is acknowledged, what the next one needs is not."""
    stage.settings("batch_rows = 1")
    _two_tables(stage)
    stage.begin()
    for number in range(3):
        stage.do("one", f"INSERT INTO r VALUES ({10 + number}, 1)")
    stage.killed_at("acknowledge.after")
    stage.settle()


@scenario
def lane(stage: Stage) -> None:
    """P5: a view is built beside the others, which move on; it is shown when it has caught up, and follows then."""
    stage.settings("lane_size = 1")
    _two_tables(stage)
    stage.begin()
    computed, go = threading.Event(), threading.Event()

    def hold() -> None:
        computed.set()
        go.wait(60)

    with stage.lanes() as maintainer, stage.at("lane.computed", hold):
        assert maintainer.lanes is not None
        request = BuildRequest("v", "", None, ToBeBuilt(BuildReason.REQUESTED))
        while not computed.is_set():
            maintainer.cycle([request])
        try:
            stage.do("one", "INSERT INTO r VALUES (3, 3)", "DELETE FROM r WHERE id = 1")
            stage.settle(maintainer)
            stage.do("one", "INSERT INTO q VALUES (4, 4)", "UPDATE r SET k = 9 WHERE id = 3")
            stage.settle(maintainer)
        finally:
            go.set()
        deadline = time.monotonic() + 60
        while maintainer.lanes.active and time.monotonic() < deadline:
            maintainer.cycle()
            maintainer.lanes.wait(0.05)
        stage.do("one", "INSERT INTO r VALUES (5, 5)", "DELETE FROM r WHERE id = 3")
        stage.settle(maintainer)
    stage.settle()


@scenario
def views_that_wait(stage: Stage) -> None:
    """P5: what a view waits for stays in the queue and in the log, whatever others have processed after it."""
    stage.settings('schema_changes = "approve"')
    stage.source(
        "one",
        "CREATE TABLE r (id int, k int, d int)",
        "CREATE TABLE q (id int, k int)",
        "INSERT INTO r VALUES (1, 1, 1)",
        "INSERT INTO q VALUES (1, 1)",
    )
    stage.view("v", "-- dyda: extent = any\nSELECT r.id, r.d /* dispensable */ FROM one.r r")
    stage.view("w", "SELECT q.id, q.k FROM one.q q")
    stage.view("x", "SELECT r.id, r.k FROM one.r r")
    stage.begin()
    stage.change("one", "ALTER TABLE r DROP COLUMN d", "r")
    for number in range(10, 13):
        stage.do("one", f"INSERT INTO r VALUES ({number}, 1)")
        stage.do("one", f"INSERT INTO q VALUES ({number}, 1)")
        stage.settle()
    for message in commands.pending(stage.town.folder):
        if message["state"] == "approval":
            commands.pending_approve(stage.town.folder, message["id"])
    stage.settle()


@scenario
def held_message(stage: Stage) -> None:
    """S1: what an operator holds is kept from the views that read it; the others go on past it."""
    _two_tables(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (3, 3)")
    stage.killed_at("unit.messages-received")
    (message,) = commands.pending(stage.town.folder)
    commands.pending_hold(stage.town.folder, message["id"])
    stage.do("one", "INSERT INTO q VALUES (3, 3)")
    stage.settle()
    commands.pending_release(stage.town.folder, message["id"])
    stage.settle()


@scenario
def key_given_up(stage: Stage) -> None:
    """S4: a source gives up the key that makes a view's rows unique; rows repeat it, later or at once."""
    stage.source(
        "one",
        "CREATE TABLE r (id int CONSTRAINT r_key PRIMARY KEY, k int)",
        "CREATE TABLE q (id int NOT NULL CONSTRAINT q_key UNIQUE, r int)",
        "INSERT INTO r VALUES (1, 1), (2, 2)",
        "INSERT INTO q VALUES (1, 1), (2, 1)",
    )
    stage.view("v", "SELECT r.id, r.k FROM one.r r")
    stage.view("w", "SELECT q.id, r.k FROM one.q q LEFT JOIN one.r r ON q.r = r.id")
    stage.history.keyed = {"v", "w"}
    stage.begin()
    (first,) = stage.history.commits
    assert all(view.unique_on for view in first.views.values()), "there is a key to give up"
    given_up = Change("ALTER TABLE r DROP CONSTRAINT r_key", ("r",))
    stage.do("one", given_up)
    stage.settle(seconds=5)
    stage.do("one", "INSERT INTO r VALUES (1, 9)")
    stage.settle(seconds=5)
    stage.do("one", "DELETE FROM r WHERE k = 9", Change("ALTER TABLE r ADD CONSTRAINT r_key PRIMARY KEY (id)", ("r",)))
    stage.settle(seconds=5)
    stage.do("one", "INSERT INTO r VALUES (3, 3)", given_up, "INSERT INTO r SELECT * FROM r")
    stage.do("one", Change("ALTER TABLE q ALTER id DROP NOT NULL", ("q",)), "INSERT INTO q VALUES (NULL, 1), (NULL, 1)")
    stage.settle(seconds=5)


# --- reading


@scenario
def truncated_while_read(stage: Stage) -> None:
    """R1, R2: through an older snapshot a truncated table reads as empty, and nothing fails."""
    _two_sources(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 1)")
    with stage.at("sweep.before-hop", lambda: stage.change("two", "TRUNCATE s", "s")):
        stage.settle()
    stage.do("two", "INSERT INTO s VALUES (7, 1)")
    stage.settle()


@scenario
def log_emptied_while_read(stage: Stage) -> None:
    """R1: our own log is a table too; who empties it makes it read as empty, and nothing fails."""
    _two_sources(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 1)")
    with stage.at("unit.messages-received", lambda: _ask(stage.town.sources["one"], "TRUNCATE dyda.log")):
        stage.settle()
    stage.do("two", "INSERT INTO s VALUES (7, 1)")
    stage.settle()


@scenario
def null_group(stage: Stage) -> None:
    """R5: the group of NULLs, whose extreme goes away; rows that only a NULL matches."""
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, NULL), (2, NULL), (3, 1)")
    stage.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (0)")
    stage.view("least", "SELECT r.k, min(r.id) AS id, count(*) AS n FROM one.r r GROUP BY r.k")
    stage.view("some", "SELECT r.id FROM one.r r WHERE EXISTS (SELECT 1 FROM two.s s WHERE s.k < r.k OR r.k IS NULL)")
    stage.begin()
    stage.do("one", "DELETE FROM r WHERE id = 1", "INSERT INTO r VALUES (5, NULL)")
    stage.settle()
    stage.do("two", "INSERT INTO s VALUES (7)")
    stage.settle()


# --- sweeps


@scenario
def self_join(stage: Stage) -> None:
    """W1: a table that stands in a join twice changes in both places."""
    _two_tables(stage)
    stage.view("pairs", "SELECT a.id AS one, b.id AS other FROM one.r a JOIN one.r b ON a.k = b.k")
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 1)")
    stage.settle()
    stage.do("one", "DELETE FROM r WHERE id = 1")
    stage.settle()


@scenario
def two_hops(stage: Stage) -> None:
    """W5: the keys of both ends lead to the same row in the middle."""
    stage.source("one", "CREATE TABLE a (id int, x int)", "INSERT INTO a VALUES (1, 2)")
    stage.source("two", "CREATE TABLE b (x int, y int)", "INSERT INTO b VALUES (1, 1), (2, 1)")
    stage.source("zoo", "CREATE TABLE c (id int, y int)", "INSERT INTO c VALUES (1, 2)")
    stage.view("v", "SELECT a.id, b.y, c.id AS c FROM one.a a JOIN two.b b ON a.x = b.x JOIN zoo.c c ON b.y = c.y")
    stage.begin()
    stage.do("one", "INSERT INTO a VALUES (2, 1)")
    stage.do("zoo", "INSERT INTO c VALUES (2, 1)")
    stage.settle()


@scenario
def run_of_transactions(stage: Stage) -> None:
    """W6, P3: transactions that are computed together are states of their own."""
    stage.settings("", mode="complete")
    _two_sources(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 3)")
    stage.do("two", "INSERT INTO s VALUES (8, 3)")
    stage.do("one", "INSERT INTO r VALUES (3, 3)", "DELETE FROM r WHERE id = 2")
    stage.do("two", "DELETE FROM s WHERE id = 8")
    stage.settle()


# --- keyed operators


@scenario
def keyed_operators(stage: Stage) -> None:
    """K1 to K4: the last match goes, an extreme goes, NULLs come into NOT IN, the last row goes, NaN goes."""
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1), (2, 2), (3, NULL)")
    stage.source(
        "two", "CREATE TABLE s (id int, k int, f float8)", "INSERT INTO s VALUES (5, 1, 0.5), (6, 1, 'NaN'), (7, 9, 2)"
    )
    stage.view("padded", "SELECT r.id, s.id AS s FROM one.r r LEFT JOIN two.s s ON r.k = s.k")
    stage.view("extremes", "SELECT s.k, min(s.id) AS first, max(s.id) AS last FROM two.s s GROUP BY s.k")
    stage.view("values", "SELECT DISTINCT s.k FROM two.s s")
    stage.view("others", "SELECT r.id FROM one.r r WHERE r.k NOT IN (SELECT s.k FROM two.s s)")
    stage.view("number", "SELECT count(*) AS n FROM one.r r")
    stage.view("floats", "SELECT s.k, sum(s.f) AS f FROM two.s s GROUP BY s.k")
    stage.begin()
    stage.do("two", "DELETE FROM s WHERE id = 6")
    stage.settle()
    stage.do("two", "DELETE FROM s WHERE id = 5", "INSERT INTO s VALUES (8, 9, 1)")
    stage.settle()
    stage.do("two", "INSERT INTO s VALUES (9, NULL, 1), (4, 2, 1)")
    stage.settle()
    stage.do("two", "DELETE FROM s WHERE id IN (9, 7)")
    stage.do("one", "DELETE FROM r")
    stage.settle()


# --- scheduling


@scenario
def cycle(stage: Stage) -> None:
    """S1: four messages that wait for each other in a circle are one unit."""
    _two_sources(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 1)")
    stage.change("one", "ALTER TABLE r RENAME COLUMN k TO kk", "r")
    stage.do("two", "INSERT INTO s VALUES (8, 1)")
    stage.change("two", "ALTER TABLE s RENAME COLUMN k TO kk", "s")
    stage.settle()


@scenario
def chain_of_a_source(stage: Stage) -> None:
    """S1: a schema change must not overtake what its source did before, to another table."""
    stage.source(
        "one",
        "CREATE TABLE r (id int, k int)",
        "CREATE TABLE q (id int, k int)",
        "INSERT INTO r VALUES (1, 1)",
        "INSERT INTO q VALUES (1, 1)",
    )
    stage.source("two", "CREATE TABLE s (id int, k int)", "INSERT INTO s VALUES (5, 1)")
    stage.view("v", "SELECT r.id, s.id AS s FROM one.r r JOIN two.s s ON r.k = s.k")
    stage.view("w", "SELECT q.id, q.k FROM one.q q")
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (2, 1)")
    stage.change("one", "ALTER TABLE q RENAME COLUMN k TO kk", "q")
    stage.change("two", "ALTER TABLE s RENAME COLUMN k TO kk", "s")
    stage.settle()


# --- installing


@scenario
def killed_at_install(stage: Stage) -> None:
    """A process that ends just before its commit has done nothing; another one does it all."""
    _two_tables(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 1)")
    stage.killed_at("install.before-commit")
    stage.settle()


@scenario
def killed_when_merged(stage: Stage) -> None:
    """Rows and positions are one transaction: a process ends between them."""
    _two_tables(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 1)")
    stage.killed_at("install.merged")
    stage.settle()


@scenario
def stale_install(stage: Stage) -> None:
    """I1: what was computed for a position is installed when the position has moved."""
    _two_tables(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 1)")
    with stage.town.opened() as opened, opened.warehouse.lock() as writer, stage.town.opened() as other:
        first, second = Maintainer(opened, writer), Maintainer(other, writer)
        with stage.at("unit.checked", lambda: stage.settle(second)):
            stage.settle(first)
    stage.do("one", "INSERT INTO r VALUES (6, 1)")
    stage.settle()


@scenario
def lost_lock(stage: Stage) -> None:
    """The fence: a process that has lost its lock without noticing wakes up, and goes on."""
    _two_tables(stage)
    stage.begin()
    stage.do("one", "INSERT INTO r VALUES (5, 1)")
    with stage.town.opened() as opened, opened.warehouse.lock() as old:
        asleep = Maintainer(opened, old)
        with old._connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (ADVISORY_CLASS, PROJECT_LOCK))
        old._connection.commit()
        with stage.maintainer() as awake:
            stage.settle(awake)
            stage.do("one", "INSERT INTO r VALUES (6, 1)")
            with contextlib.suppress(Fenced):
                stage.settle(asleep)
            stage.settle(awake)


@scenario
def older_reader(stage: Stage) -> None:
    """I2: a reader whose transaction began before a view got other columns sees no empty view."""
    _two_tables(stage)
    stage.begin()
    with stage.reading("Ann") as statement:
        statement("w")
        stage.change("one", "ALTER TABLE r ALTER COLUMN k TYPE text USING 'k' || k", "r")
        stage.settle()
        statement("v", "w")
    stage.settle()


# --- synchronization


@scenario
def joint_containment(stage: Stage) -> None:
    """V2: two containments of one column each say nothing about which values stand together."""
    stage.source("a", "CREATE TABLE r (k int, x text)", "INSERT INTO r VALUES (1, 'x'), (2, 'y')")
    stage.source("b", "CREATE TABLE s (k int, id int)", "INSERT INTO s VALUES (1, 7), (2, 8)")
    stage.source("c", "CREATE TABLE t (x text, id int)", "INSERT INTO t VALUES ('y', 7), ('x', 8)")
    (stage.town.folder / "knowledge.toml").write_text(
        '[[containment]]\nof = "a.r(k)"\nis = "equivalent"\nin = "b.s(k)"\n\n'
        '[[containment]]\nof = "a.r(x)"\nis = "equivalent"\nin = "c.t(x)"\n\n'
        '[[join]]\nbetween = ["b.s", "c.t"]\non = "s.id = t.id"\n'
    )
    replaceable = "SELECT r.k /* replaceable */, r.x /* replaceable */ FROM a.r r /* replaceable */"
    stage.view("v", f"-- dyda: extent = subset\n{replaceable}")
    stage.history.promises["v"] = "subset"
    stage.begin()
    stage.change("a", "DROP TABLE r", "r")
    stage.settle()


@scenario
def null_key(stage: Stage) -> None:
    """V3: a containment of keys does not find the row whose key is NULL."""
    stage.source("a", "CREATE TABLE r (k int, x text)", "INSERT INTO r VALUES (NULL, 'x'), (1, 'y')")
    stage.source("b", "CREATE TABLE s (k int, y text)", "INSERT INTO s VALUES (NULL, 'x'), (1, 'y')")
    (stage.town.folder / "knowledge.toml").write_text(
        '[[containment]]\nof = "a.r(k)"\nis = "equivalent"\nin = "b.s(k)"\n\n'
        '[[join]]\nbetween = ["a.r", "b.s"]\non = "r.k = s.k"\n\n'
        '[[function]]\nattribute = "a.r.x"\nequals = "b.s.y"\n'
    )
    stage.view("v", "SELECT r.k, r.x /* replaceable */ FROM a.r r")
    stage.history.promises["v"] = "equivalent"
    stage.begin()
    stage.change("a", "ALTER TABLE r DROP COLUMN x", "r")
    stage.settle()


# --- parts of them


def _two_tables(stage: Stage) -> None:
    stage.source(
        "one",
        "CREATE TABLE r (id int, k int)",
        "CREATE TABLE q (id int, k int)",
        "INSERT INTO r VALUES (1, 1), (2, 2)",
        "INSERT INTO q VALUES (1, 1)",
    )
    stage.view("v", "SELECT r.id, r.k FROM one.r r")
    stage.view("w", "SELECT q.id, q.k FROM one.q q")


def _two_sources(stage: Stage) -> None:
    stage.source("one", "CREATE TABLE r (id int, k int)", "INSERT INTO r VALUES (1, 1)")
    stage.source("two", "CREATE TABLE s (id int, k int)", "INSERT INTO s VALUES (5, 1)")
    stage.view("v", "SELECT r.id, s.id AS s FROM one.r r JOIN two.s s ON r.k = s.k")


def _ask(url: str, statement: str) -> int:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return int(cursor.fetchone()[0]) if cursor.description else 0
    finally:
        connection.close()
