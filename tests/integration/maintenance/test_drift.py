"""Drift: what somebody does to capture, to the log, to a source or to an extent behind DyDa's back.

Each is noticed and said in words, the old rows are served whole until the new ones are complete, and then they are
right again. PostgreSQL recomputes every view at the end.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg2
import pytest

from dyda import commands, embedded, faults
from dyda.engine import Engine
from dyda.errors import DydaError
from dyda.maintenance.cycle import Outcome
from tests.conftest import Server
from tests.recompute_oracle import printed
from tests.town import Town

pytestmark = pytest.mark.long

VIEWS = ("plain", "sums", "other")
HIT = ("plain", "sums")
"""The views that read the source to which something is done."""


class Shared:
    """One town for all tests of this file that leave it right: most of a test's time would go into making one."""

    def __init__(self, create: Callable[[], Town]) -> None:
        self.create = create
        self.town: Town | None = None

    def take(self) -> Town:
        """Given back by a test that passed."""
        town, self.town = self.town, None
        return town or self.create()


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, module_database: Callable[[str], str], engine: Engine
) -> Iterator[Shared]:
    towns: list[Town] = []

    def create() -> Town:
        towns.append(Town(tmp_path_factory.mktemp("town"), module_database, engine))
        return settled(towns[-1])

    yield Shared(create)
    for town in towns:
        town.close()


def settled(town: Town, url: str | None = None) -> Town:
    """Two sources; `plain` and `sums`, which keeps a state, read the first, `other` the second."""
    town.source(
        "one",
        "CREATE TABLE r (k int, d int)",
        "INSERT INTO r SELECT n, n % 3 FROM generate_series(1, 9) n",
        url=url,
    )
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1)")
    town.view("plain", "SELECT r.k, r.d FROM one.r")
    town.view("sums", "SELECT r.d, count(*) AS times, max(r.k) AS most FROM one.r GROUP BY r.d")
    town.view("other", "SELECT s.k FROM two.s")
    town.apply()
    town.execute("one", "INSERT INTO r VALUES (10, 1)")
    town.settle()
    return town


@pytest.fixture
def two(shared: Shared, request: pytest.FixtureRequest) -> Iterator[Town]:
    town = shared.take()
    failed = request.session.testsfailed
    yield town
    if request.session.testsfailed == failed:
        shared.town = town


def run(town: Town, source: str, transactions: Sequence[str]) -> None:
    for statement in transactions:
        town.execute(source, statement)


def extent_table(town: Town, view: str) -> str:
    (number,) = printed(town.warehouse, f"SELECT extent FROM dyda.view_version WHERE view = '{view}'")
    return f"dyda.extent_{number}"


def is_noticed_and_repaired(town: Town, words: str, hit: Sequence[str] = HIT) -> None:
    """While the views concerned are built, they say why, and readers see the rows from before, all of them."""
    before = {view: town.extent(view) for view in VIEWS}
    looks: list[tuple[dict[str, Counter[str]], dict[str, Any]]] = []

    def look() -> None:
        states = {view: (state["state"], state["reason"]) for view in VIEWS for state in [town.state(view)]}
        looks.append(({view: town.extent(view) for view in VIEWS}, states))

    with faults.on("unit.evaluated", look):
        town.settle()
    known = [at for at, (_, states) in enumerate(looks) if all(states[view][0] == "resync" for view in hit)]
    assert known, looks
    assert all(rows == before for rows, _ in looks[: known[0] + 1]), "readers see the old rows until the new are there"
    states = looks[known[0]][1]
    for view in hit:
        assert words in states[view][1], states
    for view in set(VIEWS) - set(hit):
        assert states[view][0] in ("fresh", "stale"), states
    is_right(town)


def is_right(town: Town) -> None:
    """All views are what PostgreSQL makes of their definitions, and go on by themselves."""
    town.check()
    assert {view: town.state(view)["state"] for view in VIEWS} == dict.fromkeys(VIEWS, "fresh")
    assert {a["name"]: a["result"] for a in commands.verify(town.folder, engine=town.engine)} == dict.fromkeys(
        VIEWS, "equal"
    )
    units = built(town)
    town.execute("one", "INSERT INTO r VALUES (1000, 1)")
    town.execute("one", "UPDATE r SET d = d + 1 WHERE k = 1000")
    town.settle()
    town.check()
    assert built(town) == units, "what is captured again needs no further build"
    assert commands.pending(town.folder) == []


def built(town: Town) -> int:
    with town.opened() as opened:
        return sum(unit.kind == "build" for unit in opened.warehouse.units(1000))


class Interrupted(Exception):
    """A cycle that ends at a fault point."""


def interrupt() -> None:
    raise Interrupted


WITHOUT_EVENTS = "SET event_triggers = off; "

CAPTURE_LOST = [
    pytest.param(
        [WITHOUT_EVENTS + "DROP TRIGGER dyda_insert ON r", "INSERT INTO r VALUES (20, 2)"], id="a trigger dropped"
    ),
    pytest.param(
        [WITHOUT_EVENTS + "ALTER TABLE r DISABLE TRIGGER ALL", "INSERT INTO r VALUES (20, 2)"], id="triggers disabled"
    ),
    pytest.param(
        [
            WITHOUT_EVENTS + "ALTER TABLE r DISABLE TRIGGER ALL",
            "INSERT INTO r VALUES (20, 2)",
            WITHOUT_EVENTS + "ALTER TABLE r ENABLE TRIGGER ALL",
        ],
        id="triggers disabled and enabled in another mode",
    ),
    pytest.param(
        [
            WITHOUT_EVENTS + "ALTER TABLE r DISABLE TRIGGER ALL",
            "INSERT INTO r VALUES (20, 2)",
            WITHOUT_EVENTS
            + "; ".join(
                f"ALTER TABLE r ENABLE ALWAYS TRIGGER dyda_{event}"
                for event in ("insert", "update", "delete", "truncate")
            ),
        ],
        id="triggers disabled and enabled as they were",
    ),
]


@pytest.mark.parametrize("transactions", CAPTURE_LOST)
def test_C5_capture_taken_off_a_table_is_noticed(two: Town, transactions: list[str]) -> None:
    run(two, "one", transactions)
    is_noticed_and_repaired(two, "one.public.r")


@pytest.mark.parametrize(
    "statement",
    ["DROP TRIGGER dyda_delete ON r", "ALTER TABLE r DISABLE TRIGGER ALL", "ALTER TABLE r DISABLE TRIGGER dyda_insert"],
)
def test_C5_capture_puts_itself_back_where_event_triggers_see_it(two: Town, statement: str) -> None:
    """In the same transaction, so that nothing goes uncaptured; the table is read again all the same."""
    two.execute("one", statement)
    two.execute("one", "INSERT INTO r VALUES (20, 2)")
    two.execute("one", "DELETE FROM r WHERE k = 1")
    two.settle()
    is_right(two)


def test_C5_triggers_disabled_unseen_and_enabled_in_sight_are_no_explanation(two: Town) -> None:
    """The log tells of the second command alone; that rows went by before it is told with it."""
    two.execute("one", WITHOUT_EVENTS + "ALTER TABLE r DISABLE TRIGGER ALL")
    two.execute("one", "INSERT INTO r VALUES (20, 2)")
    two.execute("one", "ALTER TABLE r ENABLE ALWAYS TRIGGER dyda_insert")
    two.settle()
    is_right(two)


def test_C5_writes_that_fire_no_ordinary_trigger_are_captured(two: Town) -> None:
    builds = built(two)
    two.execute(
        "one", "SET session_replication_role = replica", "INSERT INTO r VALUES (30, 0)", "DELETE FROM r WHERE k = 2"
    )
    two.settle()
    assert built(two) == builds
    is_right(two)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP EVENT TRIGGER dyda_command_ended",
        "DROP EVENT TRIGGER dyda_command_ended; DROP EVENT TRIGGER dyda_object_dropped;"
        " DROP EVENT TRIGGER dyda_table_rewritten",
        "ALTER EVENT TRIGGER dyda_command_ended DISABLE",
        "ALTER EVENT TRIGGER dyda_table_rewritten ENABLE",
    ],
)
def test_event_triggers_lost_are_put_back_and_what_they_missed_is_noticed(two: Town, statement: str) -> None:
    two.execute("one", statement)
    two.settle()
    assert commands.sources(two.folder)[0]["capture"] == "attached", "put back at the next poll"
    is_right(two)
    two.execute("one", statement)
    two.execute("one", WITHOUT_EVENTS + "ALTER TABLE r ALTER COLUMN k TYPE int USING k + 100")
    is_noticed_and_repaired(two, "one.public.r")


LOG_LOST = [
    pytest.param("TRUNCATE dyda.log", "log", id="log truncated"),
    pytest.param("DELETE FROM dyda.log", "log", id="log rows deleted"),
    pytest.param("UPDATE dyda.log SET root = 0", "log", id="log rows changed"),
    pytest.param(
        "ALTER TABLE dyda.log DISABLE TRIGGER ALL; DELETE FROM dyda.log; ALTER TABLE dyda.log ENABLE TRIGGER ALL",
        "one",
        id="log rows deleted past the guard",
    ),
    pytest.param(
        "SET session_replication_role = replica; DELETE FROM dyda.log", "log", id="log rows deleted as replica"
    ),
    pytest.param("DROP TABLE dyda.log", "one", id="log dropped"),
    pytest.param("DROP SCHEMA dyda CASCADE", "one", id="everything of DyDa's dropped"),
]


@pytest.mark.parametrize(("statement", "words"), LOG_LOST)
def test_a_log_changed_by_hand_is_noticed(two: Town, statement: str, words: str) -> None:
    two.execute("one", "INSERT INTO r VALUES (40, 1)")
    two.execute("one", "DELETE FROM r WHERE k = 3")
    two.execute("one", statement)
    two.execute("one", "INSERT INTO r VALUES (41, 1)")
    is_noticed_and_repaired(two, words)


def test_messages_that_were_received_before_the_log_was_truncated_are_not_waited_for(two: Town) -> None:
    """The queue knows them, their rows are gone: the build has them, and they leave the queue."""
    two.execute("one", "INSERT INTO r VALUES (40, 1)")

    with faults.on("unit.messages-received", interrupt), two.maintainer() as maintainer, pytest.raises(Interrupted):
        maintainer.cycle()
    assert len(commands.pending(two.folder)) == 1
    two.execute("one", "TRUNCATE dyda.log")
    is_noticed_and_repaired(two, "log")


def test_acknowledging_and_shrinking_are_no_tampering(two: Town) -> None:
    builds = built(two)
    for number in range(3):
        two.execute("one", f"INSERT INTO r VALUES ({number}, 2)")
        two.settle()
    two.execute("one", "SELECT dyda.shrink(-1)")
    two.settle()
    assert built(two) == builds
    is_right(two)


# --- sources that are put back to an older state


class Copies:
    """A source on a server of its own, whose files are copied while it is stopped, and put back later."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.data = server.folder / "data"
        self.kept = server.folder / "kept"

    def keep(self) -> None:
        self.server.stop()
        subprocess.run(["cp", "-a", str(self.data), str(self.kept)], check=True)
        self.server.start()

    def put_back(self, *, promote: bool = False) -> None:
        self.server.stop()
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", str(self.kept), str(self.data)], check=True)
        if promote:
            signal_file = self.data / "standby.signal"
            signal_file.touch()
            shutil.chown(signal_file, self.data.owner(), self.data.group())
        self.server.start()
        if promote:
            with contextlib.closing(psycopg2.connect(self.server.url())) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT pg_promote()")


@pytest.fixture
def copied(town: Town, new_server: Callable[..., Server]) -> tuple[Town, Copies]:
    server = new_server(fsync="off", hot_standby="on")
    return settled(town, server.url()), Copies(server)


def transactions(town: Town, number: int, statement: str = "SELECT pg_current_xact_id()") -> None:
    with contextlib.closing(town.connect("one")) as connection:
        connection.autocommit = True
        for _ in range(number):
            connection.cursor().execute(statement)


def newest(town: Town) -> int:
    """The first transaction id that the extents know nothing of."""
    return int(town.state("plain")["positions"]["one"].split(":")[1])


LOST = "has lost transactions that are installed here"


def test_P2_a_copy_put_back_is_noticed_though_its_transaction_ids_were_given_again(copied: tuple[Town, Copies]) -> None:
    """Same system, same timeline, same oids, same gap; and when DyDa looks again, no position lies in the future."""
    town, copies = copied
    copies.keep()
    for number in range(5):
        town.execute("one", f"INSERT INTO r VALUES ({50 + number}, 0)")
    town.settle()
    position = newest(town)
    copies.put_back()
    transactions(town, 3)  # other transactions now have the ids of those that were lost
    town.execute("one", "INSERT INTO r VALUES (60, 2)")
    town.execute("one", "DELETE FROM r WHERE k = 9")
    transactions(town, position)
    assert town.execute("one") > position
    is_noticed_and_repaired(town, LOST)


def test_P2_a_copy_put_back_is_noticed_while_positions_lie_in_the_future(copied: tuple[Town, Copies]) -> None:
    town, copies = copied
    copies.keep()
    transactions(town, 200)
    town.execute("one", "INSERT INTO r VALUES (50, 0)")
    town.settle()
    with town.maintainer() as maintainer:  # a message of what will never have happened
        town.execute("one", "INSERT INTO r VALUES (51, 0)")
        with faults.on("unit.messages-received", interrupt), pytest.raises(Interrupted):
            maintainer.cycle()
    assert len(commands.pending(town.folder)) == 1
    copies.put_back()
    town.execute("one", "UPDATE r SET d = 5 WHERE k = 4")
    assert town.execute("one") < newest(town)
    is_noticed_and_repaired(town, LOST)


def test_a_copy_that_has_everything_that_is_installed_needs_no_build(copied: tuple[Town, Copies]) -> None:
    """What came after the copy was never installed: nothing that readers saw is undone."""
    town, copies = copied
    town.execute("one", "INSERT INTO r VALUES (50, 0)")
    town.settle()
    town.execute("one", "INSERT INTO r VALUES (51, 0)")
    copies.keep()
    town.execute("one", "INSERT INTO r VALUES (52, 0)")
    copies.put_back()
    builds = built(town)
    town.settle()
    assert built(town) == builds
    is_right(town)


def test_P2_a_promoted_copy_is_noticed(copied: tuple[Town, Copies]) -> None:
    town, copies = copied
    copies.keep()
    town.execute("one", "INSERT INTO r VALUES (50, 0)")
    town.settle()
    copies.put_back(promote=True)
    town.execute("one", "INSERT INTO r VALUES (70, 1)")
    is_noticed_and_repaired(town, "is not the same server as before")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["the same server", "another server"])
def test_a_dump_restored_under_the_same_url_is_noticed(
    town: Town, new_server: Callable[..., Server], elsewhere: bool
) -> None:
    """A dump has our tables too, with entries of transactions and oids that mean nothing where it is restored."""
    server = new_server(fsync="off")
    administer(server.url(), "CREATE DATABASE crm")
    settled(town, server.url("crm"))
    town.execute("one", "INSERT INTO r VALUES (50, 0)")  # in the dump's log, and not installed
    tools = embedded.binaries(server.version)
    dump = subprocess.run(
        [str(tools / "pg_dump"), "--no-owner", "--no-privileges", server.url("crm")], capture_output=True, check=True
    ).stdout
    town.execute("one", "INSERT INTO r VALUES (51, 0)")
    town.settle()
    if elsewhere:
        server = new_server(fsync="off")
        administer(server.url(), "CREATE DATABASE crm")
        town.source_url("one", server.url("crm"))
    else:
        administer(server.url(), "DROP DATABASE crm WITH (FORCE)")
        administer(server.url(), "CREATE DATABASE crm")
    restored = subprocess.run(
        [str(tools / "psql"), "-v", "ON_ERROR_STOP=1", "-q", server.url("crm")],
        input=dump,
        capture_output=True,
        check=False,
    )
    assert restored.returncode == 0, restored.stderr
    town.execute("one", "INSERT INTO r VALUES (71, 1)")
    is_noticed_and_repaired(town, "one")


def administer(url: str, statement: str) -> None:
    with contextlib.closing(psycopg2.connect(url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(statement)


# --- views that cannot be built at once


@pytest.mark.parametrize("log", ["truncated", "whole"])
def test_a_held_view_owes_a_build_too(two: Town, log: str) -> None:
    """It stands still while rows go uncaptured; when it is let go, it does not go on from where it stood."""
    two.view("ratio", "SELECT r.k / (r.k - 5000) AS q FROM one.r")
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (5000, 0)")
    two.settle()
    assert two.state("ratio")["state"] == "held"
    two.execute("one", WITHOUT_EVENTS + "ALTER TABLE r DISABLE TRIGGER ALL", "INSERT INTO r VALUES (80, 0)")
    if log == "truncated":
        two.execute("one", "TRUNCATE dyda.log")
    two.settle()
    two.execute("one", "DELETE FROM r WHERE k = 5000")
    quarantined = [entry for entry in commands.pending(two.folder) if entry["state"] == "quarantined"]
    if quarantined:
        commands.pending_retry(two.folder, quarantined[0]["id"])
    else:
        commands.views_resync(two.folder, "ratio", engine=two.engine)
    two.settle()
    two.check("ratio")
    (two.folder / "views" / "ratio.sql").unlink()
    two.apply()
    is_right(two)


def test_a_view_whose_other_source_is_away_does_not_make_the_others_be_built_again_and_again(two: Town) -> None:
    two.view("both", "SELECT r.k FROM one.r JOIN two.s ON r.d = s.k")
    two.apply()
    before = two.extent("both")
    url = two.sources["two"]
    two.source_url("two", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    two.execute("one", "TRUNCATE dyda.log")
    two.execute("one", "INSERT INTO r VALUES (81, 1)")
    builds = built(two)
    with two.maintainer() as maintainer:
        for _ in range(5):
            maintainer.cycle()
    assert built(two) == builds + 1
    assert {view: two.state(view)["state"] for view in (*HIT, "both")} == {
        "plain": "fresh",
        "sums": "fresh",
        "both": "resync",
    }
    assert two.extent("both") == before
    two.source_url("two", url)
    two.settle()
    two.check()
    (two.folder / "views" / "both.sql").unlink()
    two.apply()
    is_right(two)


# --- the warehouse


EDITS = [
    pytest.param("DELETE FROM {extent} WHERE k = 4", id="a row deleted"),
    pytest.param("UPDATE {extent} SET k = 4711 WHERE k = 4", id="a row changed"),
    pytest.param("INSERT INTO {extent} SELECT * FROM {extent} WHERE k = 4", id="a row repeated"),
    pytest.param("INSERT INTO {extent} (dyda_row, k, d) VALUES (0, 4711, 0)", id="a row inserted"),
    pytest.param("UPDATE {extent} SET dyda_row = 0 WHERE k = 4", id="a digest changed"),
    pytest.param("TRUNCATE {extent}", id="truncated"),
    pytest.param("UPDATE {extent} SET k = 9 - k, d = 1 - d WHERE (k, d) IN ((4, 1), (5, 0))", id="two rows exchanged"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_extent_edited_by_hand_is_found_by_verify_and_repaired_by_resync(two: Town, edit: str) -> None:
    two.execute("one", "DELETE FROM r WHERE k IN (4, 5)", "INSERT INTO r VALUES (4, 1), (5, 0)")
    two.settle()
    two.in_warehouse(edit.format(extent=extent_table(two, "plain")))
    (answer,) = commands.verify(two.folder, ["plain"], engine=two.engine)
    assert answer["result"] == "different", answer
    edited = two.extent("plain")
    seen: list[Counter[str]] = []
    with faults.on("unit.evaluated", lambda: seen.append(two.extent("plain"))):
        commands.views_resync(two.folder, "plain", engine=two.engine)
    assert seen == [edited], "served as it is until the right rows are complete"
    assert two.state("plain")["rows"] == sum(two.extent("plain").values())
    is_right(two)


def test_an_extent_edited_by_hand_is_noticed_when_a_change_touches_it(two: Town) -> None:
    """The change would take away what is not there: nothing of it is installed, and the view is built again."""
    two.execute("one", "INSERT INTO r VALUES (90, 0)")
    two.settle()
    two.in_warehouse(f"DELETE FROM {extent_table(two, 'plain')} WHERE k = 90")
    two.execute("one", "DELETE FROM r WHERE k = 90")
    is_noticed_and_repaired(two, "this change would give 1 row(s) a negative count", ["plain"])


@pytest.mark.parametrize("edit", ["DELETE FROM {state}", "UPDATE {state} SET c3 = c3 + 1"])
def test_what_operators_keep_edited_by_hand_is_found_by_verify_and_repaired_by_resync(two: Town, edit: str) -> None:
    (number,) = printed(
        two.warehouse,
        "SELECT s ->> 'extent' FROM dyda.view_version, jsonb_array_elements(states) s WHERE view = 'sums'",
    )
    two.in_warehouse(edit.format(state=f"dyda.extent_{number}"))
    (answer,) = commands.verify(two.folder, ["sums"], engine=two.engine)
    assert answer["result"] == "different"
    assert "the stored state of step 1 is wrong: " in answer["reason"]
    commands.views_resync(two.folder, "sums", engine=two.engine)
    is_right(two)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("DROP VIEW public.plain", "public.plain was dropped"),
        ("CREATE OR REPLACE VIEW public.plain AS SELECT k, d FROM (VALUES (1, 2)) AS mine (k, d)", "was replaced"),
        ("CREATE OR REPLACE VIEW public.plain AS SELECT k, d FROM {extent} WHERE k < 5", None),
    ],
)
def test_what_readers_query_replaced_by_hand_is_noticed(two: Town, edit: str, words: str | None) -> None:
    two.in_warehouse(edit.format(extent=extent_table(two, "plain")))
    (answer,) = commands.verify(two.folder, ["plain"], engine=two.engine)
    assert answer["result"] == "different"
    assert "public.plain, which readers query, is not what DyDa created" in answer["reason"]
    state = two.state("plain")
    if words is not None:
        assert state["state"] == "broken"
        assert words in state["reason"]
        assert "dyda views resync plain" in state["reason"]
    if words == "was replaced":
        with pytest.raises(DydaError, match="not DyDa's"):
            commands.views_resync(two.folder, "plain", engine=two.engine)
        two.in_warehouse("DROP VIEW public.plain")
    commands.views_resync(two.folder, "plain", engine=two.engine)
    is_right(two)


@pytest.mark.parametrize("point", ["unit.messages-received", "unit.swept", "unit.evaluated"])
def test_R1_a_log_that_is_emptied_while_a_unit_reads_it_voids_the_unit(two: Town, point: str) -> None:
    """To a snapshot that is older the log is empty from then on: the unit would move on without its rows."""
    xid = two.execute("one", "INSERT INTO r VALUES (30, 1)")
    emptied: list[int] = []

    def empty() -> None:
        if not emptied:
            emptied.append(two.execute("one", "TRUNCATE dyda.log"))

    with two.maintainer() as maintainer:
        with faults.on(point, empty):
            outcome = maintainer.cycle()
        assert emptied
        has_it = maintainer.known.views["plain"].has("one", xid)
        assert (outcome, has_it) == (Outcome.BROKEN, False) if point != "unit.evaluated" else has_it
    two.settle()
    is_right(two)


def test_P2_a_source_that_crashes_inside_a_unit_takes_back_what_it_had_shown(
    town: Town, new_server: Callable[..., Server]
) -> None:
    """A commit that the disk does not have yet is seen, the server crashes and comes back without it, and another
    transaction gets its id: nobody may claim to have that one."""
    server = new_server(
        synchronous_commit="off", wal_writer_delay="10s", wal_writer_flush_after="1GB", autovacuum="off"
    )
    town.source("one", "SET synchronous_commit = on", "CREATE TABLE r (k int)", url=server.url())
    town.view("plain", "SELECT r.k FROM one.r")
    town.apply()

    def crash() -> None:
        if not again:
            server.crash()
            server.start()
            again.extend(town.execute("one", f"INSERT INTO r VALUES ({100 + n})") for n in range(3))

    for number in range(10):
        again: list[int] = []
        with contextlib.closing(psycopg2.connect(server.url())) as connection:
            connection.autocommit = True
            connection.cursor().execute("CHECKPOINT")  # all that there is so far survives
        xid = town.execute("one", f"INSERT INTO r VALUES ({number})")
        with town.maintainer() as maintainer:
            with faults.on("unit.swept", crash):
                assert maintainer.cycle() is Outcome.BLOCKED
            assert not maintainer.known.views["plain"].has("one", xid)
        town.settle()
        town.check()
        if xid in again:
            return
    pytest.fail("the server never lost what it had shown")
