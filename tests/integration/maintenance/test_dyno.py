"""Dyno at work: breaks are survived, starvation ends, decisions hold, and detection costs nothing in peace."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg2
import pytest

from dyda import commands, faults
from dyda.maintenance.catalog_state import BuildRequest, load
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.observe.poll import poll
from dyda.model.cause import Text
from dyda.model.position import Position
from dyda.model.view_state import ViewState
from tests.recompute_oracle import printed
from tests.town import Town

VIEW = "SELECT c.name, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name"


def joined(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text, city text)", "INSERT INTO customer VALUES ('Ann', 'Rome')")
    town.source(
        "booking", "CREATE TABLE flight (name text, no int)", "INSERT INTO flight VALUES ('Ann', 1), ('Bob', 2)"
    )
    town.view("joined", VIEW)
    town.apply()
    return town


def rewrite(town: Town, done: list[bool]) -> Callable[[], None]:
    """A schema change that commits in the middle of every attempt, unless something holds the table still."""

    def alter() -> None:
        try:
            town.execute(
                "booking",
                "SET lock_timeout = '200ms'",
                "ALTER TABLE flight ALTER COLUMN no TYPE int USING no + 1",
            )
            done.append(True)
        except psycopg2.errors.LockNotAvailable:
            done.append(False)

    return alter


@contextmanager
def at_the_last_moment(hook: Callable[[], None]) -> Iterator[None]:
    """When all has been read: by the driver, and by Spark's tasks."""
    with faults.on("unit.swept", hook), faults.on("unit.evaluated", hook):
        yield


def test_R2_what_happens_to_a_schema_after_the_last_read_is_harmless(town: Town) -> None:
    """Spark computes, a table that was read is rewritten meanwhile: the unit is as right as it was."""
    joined(town)
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    done: list[bool] = []
    alter = rewrite(town, done)
    with town.maintainer() as maintainer:
        with faults.on("unit.evaluated", lambda: None if done else alter()):
            assert maintainer.cycle() is Outcome.WORKED
        assert done == [True]
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    town.check()
    assert commands.status(town.folder)["aborts"]["units"] == 0


def test_R2_a_schema_that_a_unit_does_not_read_may_change_under_it(town: Town) -> None:
    joined(town)
    town.source("tours", "CREATE TABLE tour (id int)")
    town.view("tours", "SELECT t.id FROM tours.tour t")
    town.apply()
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    done: list[int] = []

    def alter() -> None:
        if not done:
            done.append(town.execute("tours", "ALTER TABLE tour ALTER COLUMN id TYPE bigint USING id + 1"))

    with town.maintainer() as maintainer:
        with at_the_last_moment(alter):
            assert maintainer.cycle() is Outcome.WORKED
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    assert done
    town.check()
    assert commands.status(town.folder)["aborts"]["units"] == 0


def test_termination_locks_end_starvation(new_town: Callable[..., Town]) -> None:
    town = joined(new_town("max_aborts = 3"))
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    done: list[bool] = []
    with town.maintainer() as maintainer:
        with at_the_last_moment(rewrite(town, done)):
            outcomes = [maintainer.cycle()]
            while outcomes[-1] is not Outcome.WORKED and len(outcomes) < 20:
                outcomes.append(maintainer.cycle())
        assert outcomes[-1] is Outcome.WORKED
        broken = outcomes.count(Outcome.BROKEN)
        assert 3 <= broken <= 6, "the schema changes that broke it join the unit, and then it is another one"
        assert done[:broken] == [True] * broken
        assert not any(done[broken:]), "the last attempt held the table still"
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    town.check()
    assert commands.status(town.folder)["aborts"]["units"] == broken


def test_termination_locks_end_the_starvation_of_a_build(new_town: Callable[..., Town]) -> None:
    town = joined(new_town("max_aborts = 3"))
    done: list[bool] = []
    with town.opened() as opened, town.maintainer() as maintainer:
        record = opened.warehouse.view("joined")
        target = BuildRequest("joined", record.sql or "", None, Text("somebody asked for it"), anew=True)
        with faults.on("unit.evaluated", rewrite(town, done)):
            outcomes = [maintainer.cycle([target])]
            while outcomes[-1] is Outcome.BROKEN and len(outcomes) < 10:
                outcomes.append(maintainer.cycle([target]))
        assert outcomes == [Outcome.BROKEN] * 3 + [Outcome.WORKED]
        assert done[:4] == [True, True, True, False], "the last attempt held the table still"
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    town.check()


@pytest.mark.parametrize("built", [False, True])
def test_termination_although_the_schema_changes_wait_in_line(new_town: Callable[..., Town], built: bool) -> None:
    """They give up only when they have the table; what we read then must not stand in line behind them."""
    town = joined(new_town("max_aborts = 2"))
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    waited: list[bool] = []
    with closing(psycopg2.connect(town.sources["booking"])) as connection, ExitStack() as altering:
        connection.autocommit = True

        def alter() -> None:
            statement = "ALTER TABLE flight ALTER COLUMN no TYPE int USING no + 1"
            thread = threading.Thread(target=town.execute, args=("booking", statement))
            thread.start()
            altering.callback(thread.join)
            with connection.cursor() as cursor:
                while thread.is_alive():
                    cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND relation = 'flight'::regclass")
                    if cursor.rowcount:
                        break
            waited.append(thread.is_alive())

        with town.opened() as opened, town.maintainer() as maintainer:
            sql = opened.warehouse.view("joined").sql or ""
            targets = [BuildRequest("joined", sql, None, Text("somebody asked for it"), anew=True)] if built else []
            with faults.on("unit.snapshots-open", alter):
                outcomes = [maintainer.cycle(targets)]
                while outcomes[-1] is Outcome.BROKEN and len(outcomes) < 10:
                    outcomes.append(maintainer.cycle(targets))
            assert outcomes[-1] is Outcome.WORKED, (outcomes, maintainer.obstacle)
            assert len(outcomes) > 2
            assert waited[-1], "the last attempt held the table still"
            altering.close()
            while maintainer.cycle() is not Outcome.IDLE:
                pass
    town.check()


def test_without_the_locks_it_starves(new_town: Callable[..., Town]) -> None:
    town = joined(new_town("max_aborts = 1000"))
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    done: list[bool] = []
    with town.maintainer() as maintainer:
        with at_the_last_moment(rewrite(town, done)):
            assert [maintainer.cycle() for _ in range(8)] == [Outcome.BROKEN] * 8
        assert all(done)
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    town.check()


def test_S3_after_a_break_the_same_unit_does_not_break_again(town: Town) -> None:
    """The schema change that broke a unit is received by the next poll and goes first."""
    joined(town)
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    done: list[bool] = []
    alter = rewrite(town, done)
    with faults.on("sweep.before-hop", lambda: None if done else alter()), town.maintainer() as maintainer:
        outcomes = [maintainer.cycle()]
        while outcomes[-1] is not Outcome.IDLE:
            outcomes.append(maintainer.cycle())
            assert len(outcomes) < 10, outcomes
    assert outcomes.count(Outcome.BROKEN) == 1
    town.check()


def test_S3_what_aborts_have_shown_survives_a_restart(new_town: Callable[..., Town]) -> None:
    """A daemon that is restarted between the aborts takes the locks as soon as one that was not, or one abort later."""
    attempts = []
    for restarted in (False, True):
        town = joined(new_town("max_aborts = 3"))
        town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
        done: list[bool] = []
        with at_the_last_moment(rewrite(town, done)):
            if restarted:
                with town.maintainer() as maintainer:
                    assert [maintainer.cycle() for _ in range(2)] == [Outcome.BROKEN] * 2
            with town.maintainer() as maintainer:
                while len(done) < 20 and maintainer.cycle() is not Outcome.WORKED:
                    pass
        assert not done[-1], "the last attempt held the table still"
        attempts.append(len(done))
        town.settle()
        town.check()
    assert attempts[1] <= attempts[0] + 1


def test_an_operators_view_of_the_plan_is_the_daemons_where_a_message_is_quarantined(town: Town) -> None:
    """The views that need it are held; others over the same source go on, and `pending plan` says so."""
    joined(town)
    town.source("tours", "CREATE TABLE tour (name text)")
    town.view("fine", "SELECT c.city FROM crm.customer c")
    town.view("bad", "SELECT cast(c.city AS int) AS n FROM crm.customer c WHERE c.name = 'Bad'")
    town.apply()
    town.execute("crm", "INSERT INTO customer VALUES ('Bad', 'no number')")
    town.settle()
    assert town.state("bad")["state"] == "held"
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    with town.opened() as opened, opened.warehouse.lock() as writer, poll(opened, writer, load(opened)):
        pass
    quarantined, later = (message["id"] for message in commands.pending(town.folder))
    plan = commands.pending_plan(town.folder)
    assert [unit["messages"] for unit in plan["units"]] == [[later]]
    assert [(waiting["id"], waiting["state"]) for waiting in plan["waiting"]] == [(quarantined, "quarantined")]
    town.settle()
    town.check("fine", "joined")


def test_the_kind_of_every_unit_is_recorded_and_a_void_build_is_an_abort(town: Town) -> None:
    joined(town)
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    town.settle()
    town.execute("booking", "ALTER TABLE flight ALTER COLUMN no TYPE int USING no + 1")
    town.settle()
    town.execute("crm", "ALTER TABLE customer ALTER COLUMN name TYPE text USING name || ''")
    town.execute("booking", "ALTER TABLE flight ALTER COLUMN no TYPE int USING no + 1")
    town.settle()
    with town.opened() as opened:
        assert [unit.kind for unit in reversed(opened.warehouse.units())] == ["build", "data", "schema", "merged"]
        phases = {"capture", "plan", "check", "install", "acknowledge"}
        assert all(phases <= set(unit.phases) for unit in opened.warehouse.units()[:3])
    with town.opened() as opened, opened.warehouse.lock() as writer:
        writer.set_state("joined", ViewState.RESYNC, Text("a test asks for it"))
    done: list[bool] = []
    alter = rewrite(town, done)
    with faults.on("unit.evaluated", lambda: None if done else alter()):
        outcomes = town.settle()
    assert outcomes[0] is Outcome.BROKEN
    assert commands.status(town.folder)["aborts"]["units"] == 1
    town.check()


def test_P3_a_held_message_holds_what_depends_on_it_and_nothing_else(town: Town) -> None:
    joined(town)
    town.source("tours", "CREATE TABLE tour (id int)")
    town.view("tours", "SELECT t.id FROM tours.tour t")
    town.apply()
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    # The message is received without being processed, as if the daemon had just polled.
    with town.opened() as opened, opened.warehouse.lock() as writer, poll(opened, writer, load(opened)) as polled:
        (held,) = polled.queue
    commands.pending_hold(town.folder, held.number)
    later = town.execute("crm", "INSERT INTO customer VALUES ('Ann', 'Bonn')")
    town.execute("tours", "INSERT INTO tour VALUES (1)")
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 3)")
    town.settle()
    assert town.extent("tours") == Counter({"1": 1})
    assert town.extent("joined") == Counter({"Ann\t1": 1, "Ann\t3": 1}), "booking goes on, crm waits behind its message"
    position = town.state("joined")["positions"]["crm"]
    assert str(held.message.xid) in position or not _includes(position, held.message.xid)
    assert not _includes(position, later)
    commands.pending_release(town.folder, held.number)
    town.settle()
    town.check()


def test_P3_a_position_does_not_list_all_that_waits_behind_it(town: Town) -> None:
    """A unit in the middle of a long queue would otherwise write the rest of the queue down, again and again."""
    joined(town)
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    before = town.execute("crm", "INSERT INTO customer VALUES ('Eve', 'Rome')")
    waiting = [town.execute("crm", f"INSERT INTO customer VALUES ('Ann{n}', 'Bonn')") for n in range(20)]
    with town.opened() as opened, opened.warehouse.lock() as writer, poll(opened, writer, load(opened)) as polled:
        (held,) = [queued.number for queued in polled.queue if queued.message.xid == waiting[0]]
    commands.pending_hold(town.folder, held)
    town.settle()
    position = Position.parse(town.state("joined")["positions"]["crm"])
    assert position.includes(before)
    assert not any(map(position.includes, waiting))
    assert not position.in_progress
    commands.pending_release(town.folder, held)
    town.settle()
    town.check()


def _includes(position: str, xid: int) -> bool:
    return Position.parse(position).includes(xid)


def test_detection_costs_nothing_while_no_schema_change_is_pending(new_town: Callable[..., Town]) -> None:
    """The same source queries and Spark jobs, whether schema changes are looked for before or only after a break."""
    costs = []
    for detection in ("pessimistic", "optimistic"):
        town = joined(new_town(f'detection = "{detection}"'))
        town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
        with town.opened() as opened, opened.warehouse.lock() as writer:
            from dyda.maintenance.loop import Maintainer

            maintainer = Maintainer(opened, writer)
            while maintainer.cycle() is not Outcome.IDLE:
                pass
            unit = opened.warehouse.units(1)[0]
            costs.append((unit.queries, unit.jobs))
    assert costs[0] == costs[1]


def test_a_message_for_no_view_is_acknowledged_without_work(town: Town) -> None:
    joined(town)
    town.view("other", "SELECT c.city FROM crm.customer c")
    town.apply()
    (town.folder / "views" / "other.sql").unlink()
    (town.folder / "views" / "joined.sql").unlink()
    town.view("flights", "SELECT f.no FROM booking.flight f")
    town.apply()
    town.execute("crm", "INSERT INTO customer VALUES ('Zoe', 'Bern')")
    town.settle()
    assert not commands.pending(town.folder)


@pytest.mark.parametrize("detection", ["pessimistic", "optimistic"])
def test_two_sides_of_a_join_are_renamed_at_the_same_moment(new_town: Callable[..., Town], detection: str) -> None:
    town = joined(new_town(f'detection = "{detection}"'))
    town.execute("crm", "ALTER TABLE customer RENAME COLUMN name TO full_name")
    town.execute("booking", "ALTER TABLE flight RENAME COLUMN name TO passenger")
    town.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    town.settle()
    assert [column["name"] for column in town.state("joined")["columns"]] == ["name", "no"]
    town.check_definitions("joined")
    assert town.extent("joined") == Counter({"Ann\t1": 1, "Bob\t2": 1})


def test_a_rename_that_no_event_told_is_found_by_comparison(town: Town) -> None:
    """Where event triggers are not permitted or were dropped, columns are compared by number on every poll."""
    joined(town)
    triggers = printed(town.sources["booking"], "SELECT evtname FROM pg_event_trigger")
    town.execute(
        "booking",
        *(f'DROP EVENT TRIGGER "{name}"' for name in triggers),
        "ALTER TABLE flight RENAME COLUMN no TO number",
        "INSERT INTO flight VALUES ('Ann', 7)",
    )
    town.settle()
    assert [column["name"] for column in town.state("joined")["columns"]] == ["name", "no"]
    assert town.extent("joined") == Counter({"Ann\t1": 1, "Ann\t7": 1})
    town.execute("booking", "ALTER TABLE flight RENAME TO trip")
    town.execute("booking", "INSERT INTO trip VALUES ('Ann', 8)")
    town.settle()
    assert town.extent("joined") == Counter({"Ann\t1": 1, "Ann\t7": 1, "Ann\t8": 1})


def test_a_swap_and_a_row_of_the_new_table_wait_behind_data_of_the_old_one(town: Town) -> None:
    """Three units under one poll: images of two tables that bore one name, one after the other, are told apart."""
    joined(town)
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 5)")
    town.execute(
        "booking",
        "ALTER TABLE flight RENAME TO old_flight",
        "CREATE TABLE flight (name text, no int)",
        "INSERT INTO flight VALUES ('Ann', 100)",
    )
    town.execute("booking", "INSERT INTO flight VALUES ('Ann', 48)")
    town.settle()
    assert town.extent("joined") == Counter({"Ann\t100": 1, "Ann\t48": 1})


def test_columns_that_exchange_their_names_wait_behind_data_and_before_more(town: Town) -> None:
    """Images are kept for the columns as a view knows them, not by what these are called."""
    town.source("one", "CREATE TABLE r (k int, a int, b int)", "INSERT INTO r VALUES (1, 10, 20)")
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1)")
    town.view("both", "SELECT r.a, r.b FROM one.r r JOIN two.s s ON s.k = r.k")
    town.apply()
    town.execute("one", "INSERT INTO r VALUES (1, 11, 21)")
    town.execute(
        "one",
        "ALTER TABLE r RENAME COLUMN a TO c",
        "ALTER TABLE r RENAME COLUMN b TO a",
        "ALTER TABLE r RENAME COLUMN c TO b",
        "INSERT INTO r (k, a, b) VALUES (1, 22, 12)",
    )
    town.execute("two", "INSERT INTO s VALUES (1)")
    town.execute("one", "INSERT INTO r (k, a, b) VALUES (1, 23, 13)")
    town.settle()
    assert town.extent("both") == Counter({"10\t20": 2, "11\t21": 2, "12\t22": 2, "13\t23": 2})


def test_a_merged_unit_with_rows_of_a_table_that_it_renames_knows_the_table_by_its_new_name_alone(town: Town) -> None:
    """Named back, the table would otherwise be told under the other name, and rows that wait would reach no view."""
    town.source("crm", "CREATE TABLE customer (name text, n int)", "INSERT INTO customer VALUES ('Ann', 1)")
    town.source("booking", "CREATE TABLE flight (name text, no int PRIMARY KEY)")
    town.view("joined", "SELECT c.name, c.n, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    town.apply()
    for number, (old, new, kind) in enumerate((("flight", "trip", "bigint"), ("trip", "flight", "int"))):
        town.execute("booking", f"INSERT INTO {old} VALUES ('Ann', 1{number})")
        town.execute("booking", f"ALTER TABLE {old} ALTER COLUMN no TYPE {kind}")
        town.execute("booking", f"ALTER TABLE {old} RENAME TO {new}")
        town.execute("crm", f"ALTER TABLE customer ALTER COLUMN n TYPE {kind}")
        town.execute("booking", f"INSERT INTO {new} VALUES ('Ann', 2{number})")
        town.settle()
        with town.opened() as opened:
            assert [unit.kind for unit in reversed(opened.warehouse.units(2))] == ["merged", "data"]
            known = {record.relation.name.table for record in opened.warehouse.relations()}
        assert known == {"customer", new}
        town.check_definitions("joined")
