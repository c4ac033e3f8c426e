"""One process works on a project: the lock, the fence, and what a dead holder leaves behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from dyda import faults
from dyda.errors import Fenced, ProjectBusy, WarehouseUnreachable
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState
from dyda.warehouse import Installation, SourceState, ViewChange, Warehouse
from dyda.warehouse.connection import ADVISORY_CLASS, PROJECT_LOCK, connect
from dyda.warehouse.writer import Writer
from tests.conftest import Server
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, positions, version

Query = Callable[..., list[tuple[Any, ...]]]


def lose_lock(writer: Writer) -> None:
    """The session's lock goes without the writer's knowledge, as through a pooler that resets sessions."""
    with writer._connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (ADVISORY_CLASS, PROJECT_LOCK))
        assert cursor.fetchone() == (True,)
    writer._connection.commit()


def test_a_second_process_is_refused_and_told_who_works(warehouse: Warehouse) -> None:
    assert not warehouse.holder().running
    with warehouse.lock(role="daemon"):
        with pytest.raises(ProjectBusy, match=rf"(?s)the daemon \(pid {os.getpid()} on .*dyda stop"):
            warehouse.lock()
        holder = warehouse.holder()
        assert (holder.running, holder.role, holder.pid) == (True, "daemon", os.getpid())
    assert not warehouse.holder().running
    with warehouse.lock(role="apply"), pytest.raises(ProjectBusy, match=r"dyda apply \(pid"):
        warehouse.lock()


def test_whoever_works_says_what_stands_in_the_way(warehouse: Warehouse) -> None:
    with warehouse.lock(role="daemon") as writer:
        writer.note_obstacle("the disk is full")
        assert warehouse.status().daemon.obstacle == "the disk is full"
        writer.note_obstacle(None)
        assert warehouse.status().daemon.obstacle is None
        writer.note_obstacle("Spark failed")
    with warehouse.lock(role="daemon"):
        assert warehouse.holder().obstacle is None, "it was the last one's"


def test_the_lock_may_be_waited_for(warehouse: Warehouse) -> None:
    first = warehouse.lock()
    threading.Timer(0.3, first.close).start()
    with warehouse.lock(wait=20) as second:
        assert second.fence == first.fence + 1


def test_a_holder_without_the_lock_is_fenced_out_of_every_write(warehouse: Warehouse, query: Query) -> None:
    old = warehouse.lock()
    create(old, "people", version(("name", "text")), entries(("Ann", 1)))
    request = warehouse.submit("apply", {})
    assert old.take_request() is not None
    staging = old.staging(1)
    waiting = warehouse.submit("apply", {})
    lose_lock(old)
    with warehouse.lock() as new:
        before = query("SELECT t::text FROM dyda.view t")
        for write in (
            lambda: old.install(Installation((ViewChange("people", delta=entries(("Bob", 1))),))),
            lambda: old.set_state("people", ViewState.BROKEN),
            lambda: old.note_source("crm", reachable=True),
            lambda: old.save_sources([SourceState("crm")]),
            lambda: old.drop_view("people"),
            lambda: old.create_view("more"),
            lambda: old.staging(1),
            lambda: old.mark_messages([1], MessageState.HELD),
            lambda: old.finish(request, "done"),
            old.take_request,
        ):
            with pytest.raises(Fenced):
                write()
        assert query("SELECT t::text FROM dyda.view t") == before
        assert query("SELECT * FROM people") == [("Ann",)]
        assert warehouse.request(waiting).state == "waiting"
        add(new, "people", entries(("Bob", 1)))
    assert staging.number == 2
    old.close()


def test_a_new_process_waits_for_an_installation_in_flight(warehouse: Warehouse, query: Query) -> None:
    """The old backend may still commit after its process was killed: the new holder sees all of it, or nothing."""
    old = warehouse.lock()
    create(old, "people", version(("name", "text")))
    taken: list[Writer] = []
    takeover = threading.Thread(target=lambda: taken.append(warehouse.lock(wait=20)))

    def interfere() -> None:
        # Within the installation's own transaction: session locks are given back at once.
        with old._connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (ADVISORY_CLASS, PROJECT_LOCK))
        takeover.start()
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%take_over%'"
        while takeover.is_alive() and query(waiting) == [(0,)]:
            pass
        assert taken == []

    with faults.on("install.before-commit", interfere):
        add(old, "people", entries(("Ann", 1)))
    takeover.join()
    with taken[0] as new:
        assert query("SELECT * FROM people") == [("Ann",)]
        assert positions(warehouse) == {"people": {"crm": NEXT}}
        with pytest.raises(Fenced):
            add(old, "people", entries(("Bob", 1)), NEXT, START)
        assert new.fence == old.fence + 1
    old.close()


def test_what_a_dead_holder_had_begun_is_put_in_order(warehouse: Warehouse, query: Query) -> None:
    dead = warehouse.lock()
    staging = dead.staging(3)
    asked = warehouse.submit("resync", {"name": "people"})
    waits = warehouse.submit("apply", {})
    assert dead.take_request() is not None
    query(
        "INSERT INTO dyda.message (source, xid, last_sequence, kind, changes, relations, state, unit)"
        " VALUES ('crm', 1, 1, 'data', '[]', '{}', 'running', 7), ('crm', 2, 2, 'data', '[]', '{}', 'held', NULL)"
    )
    query("SELECT pg_terminate_backend(backend) FROM dyda.daemon")
    with pytest.raises(WarehouseUnreachable):
        dead.set_state("people", ViewState.BROKEN)
    with warehouse.lock(wait=10):
        assert [(m.state, m.unit) for m in warehouse.messages()] == [("waiting", None), ("held", None)]
        assert warehouse.request(asked).state == "failed"
        assert warehouse.request(waits).state == "waiting"
        assert query("SELECT to_regclass(%s) IS NULL", (f"dyda.{staging.table}",)) == [(True,)]


def test_staging_tables_in_use_are_not_collected(warehouse: Warehouse, query: Query) -> None:
    with warehouse.staging(2) as used, warehouse.lock():
        assert query("SELECT to_regclass(%s) IS NULL", (f"dyda.{used.table}",)) == [(False,)]
    assert query("SELECT to_regclass(%s) IS NULL", (f"dyda.{used.table}",)) == [(True,)]


def test_a_straggling_task_delays_neither_installation_nor_the_next_process(
    url: str, warehouse: Warehouse, query: Query
) -> None:
    with closing(psycopg2.connect(url)) as straggler, straggler.cursor() as cursor:
        with warehouse.lock() as writer:
            staging = writer.staging(1)
            staging.sink()(entries(("Ann", 1)).to_batches())
            cursor.execute(f"INSERT INTO dyda.{staging.table} VALUES ('late', 1)")
            change = ViewChange(
                "people",
                staging=staging,
                mode="replace",
                version=version(("name", "text")),
                positions={"crm": (None, START)},
            )
            writer.install(Installation((change,)))
        with warehouse.lock():
            assert query("SELECT * FROM people") == [("Ann",)]
            assert query("SELECT to_regclass(%s) IS NULL", (f"dyda.{staging.table}",)) == [(False,)]
        straggler.rollback()
    with warehouse.lock():
        assert query("SELECT count(*) FROM pg_class WHERE relname LIKE 'staging\\_%' AND relkind = 'r'") == [(0,)]


def test_abandoned_units_leave_no_staging_tables(writer: Writer, query: Query) -> None:
    for _ in range(3):
        writer.staging(1)
    writer.discard_stagings()
    assert query("SELECT count(*) FROM pg_class WHERE relname LIKE 'staging\\_%' AND relkind = 'r'") == [(0,)]


def test_who_waits_is_known_as_long_as_its_session_lives(warehouse: Warehouse, query: Query) -> None:
    assert warehouse.waiting() == []
    with warehouse.lock(role="daemon"), warehouse.turn() as turn, warehouse.turn():
        holder = turn.holder()
        assert (holder.running, holder.role, holder.pid) == (True, "daemon", os.getpid())
        assert [(record.pid, record.host) for record in warehouse.waiting()] == [(os.getpid(), holder.host)] * 2
        assert len(warehouse.status().waiting) == 2
        query("SELECT pg_terminate_backend(min(backend)) FROM dyda.waiting")
        while len(warehouse.waiting()) == 2:
            pass
        query("SELECT pg_terminate_backend(backend) FROM dyda.waiting")
        with pytest.raises(WarehouseUnreachable):
            turn.holder()
    with warehouse.turn() as turn:
        assert not turn.holder().running
        assert query("SELECT count(*) FROM dyda.waiting") == [(1,)], "who is gone is forgotten"


def test_a_command_waits_for_the_daemon_that_is_about_to_take_over(warehouse: Warehouse) -> None:
    request = warehouse.submit("apply", {})
    with warehouse.turn():
        takeover = threading.Timer(0.5, lambda: _do(warehouse, request))
        takeover.start()
        assert warehouse.wait(request) == "done"
        takeover.join()


def _do(warehouse: Warehouse, request: int) -> None:
    with warehouse.lock(wait=20) as writer:
        assert writer.take_request() is not None
        writer.finish(request, "done")


def answers(address: str) -> bool:
    try:
        psycopg2.connect(host=address, user="postgres", dbname="postgres").close()
        return True
    except psycopg2.OperationalError:
        return False  # the server has yet to read its rules again


def test_the_lock_of_a_machine_that_is_gone_is_free_within_seconds(new_server: Callable[..., Server]) -> None:
    """The server itself asks whether our machine is still there, also in the middle of a statement."""
    number = os.getpid()
    address = f"127.{number // 65536 % 100 + 1}.{number // 256 % 256}.{number % 256}"  # nobody else's port there
    server = new_server(listen_addresses=address, fsync="off")
    with open(server.folder / "data" / "pg_hba.conf", "a") as rules:
        rules.write("host all all 127.0.0.0/8 trust\n")
    with closing(psycopg2.connect(server.url())) as own:
        own.cursor().execute("SELECT pg_reload_conf()")
    until = time.monotonic() + 30
    while not (there := answers(address)) and time.monotonic() < until:
        pass
    assert there
    with closing(connect(f"postgresql://postgres@{address}:5432/postgres", "dyda")) as connection:
        cursor = connection.cursor()
        names = ("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout")
        found = []
        for name in (*names, "client_connection_check_interval"):
            cursor.execute("SELECT current_setting(%s)", (name,))
            found.append(cursor.fetchone()[0])
        assert found == ["5", "2", "3", "15000", "5s"]
        assert connection.info.dsn_parameters["keepalives_idle"] == "5"
