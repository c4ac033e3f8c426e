"""Lanes (rule P5): what takes long is built beside the units, catches up, and only then is shown."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from dyda import commands, faults
from dyda.commands.requests import Requests
from dyda.maintenance.catalog_state import BuildRequest
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from dyda.model.cause import BuildReason, ToBeBuilt
from tests.recompute_oracle import printed
from tests.torture.daemon import Daemon
from tests.town import Town

PATIENCE = 120.0
LANES = "lane_size = 1"


class Held:
    """A lane that is held at a fault point until `go`; units run meanwhile."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.there = threading.Event()
        self._go = threading.Event()

    def __call__(self) -> None:
        self.there.set()
        assert self._go.wait(PATIENCE)

    def go(self) -> None:
        self._go.set()


@contextmanager
def held(point: str) -> Iterator[Held]:
    hook = Held(point)
    with faults.on(point, hook):
        try:
            yield hook
        finally:
            hook.go()


@contextmanager
def running(town: Town) -> Iterator[Maintainer]:
    """A loop with lanes, as the daemon has it."""
    lines: list[str] = []
    with town.opened() as opened, opened.warehouse.lock(role="daemon") as writer:
        maintainer = Maintainer(opened, writer, lines.append, lambda: False)
        maintainer.lines = lines  # type: ignore[attr-defined]
        try:
            yield maintainer
        finally:
            maintainer.close()


def cycles(maintainer: Maintainer, until: Callable[[], bool], *requests: BuildRequest) -> list[Outcome]:
    deadline = time.monotonic() + PATIENCE
    outcomes: list[Outcome] = []
    while not until():
        assert time.monotonic() < deadline, (outcomes[-5:], maintainer.lines)  # type: ignore[attr-defined]
        outcomes.append(maintainer.cycle(requests))
    return outcomes


def settle(maintainer: Maintainer) -> None:
    """Until nothing runs and nothing waits."""
    assert maintainer.lanes is not None
    deadline = time.monotonic() + PATIENCE
    while maintainer.cycle() is not Outcome.IDLE or maintainer.lanes.active:
        assert time.monotonic() < deadline, maintainer.lines  # type: ignore[attr-defined]
        maintainer.lanes.wait(0.05)


@pytest.fixture
def shop(new_town: Callable[..., Town]) -> Town:
    """Two views over one table, one with states; the third over another source too."""
    return _shop(new_town(LANES))


def _shop(town: Town) -> Town:
    town.source(
        "shop",
        "CREATE TABLE orders (id int PRIMARY KEY, customer text, amount int)",
        "INSERT INTO orders SELECT i, 'c' || i % 7, i FROM generate_series(1, 500) i",
    )
    town.source("crm", "CREATE TABLE customer (name text, city text)", "INSERT INTO customer VALUES ('c1', 'Rome')")
    town.view("small", "SELECT o.id, o.amount FROM shop.orders o WHERE o.id < 10")
    town.view("big", "SELECT o.id, o.customer, c.city FROM shop.orders o JOIN crm.customer c ON c.name = o.customer")
    town.view("sums", "SELECT o.customer, sum(o.amount) AS total, max(o.id) AS last FROM shop.orders o GROUP BY 1")
    town.apply()
    town.check()
    return town


def resync(name: str) -> BuildRequest:
    return BuildRequest(name, "", None, ToBeBuilt(BuildReason.REQUESTED))


def miss_a_change(town: Town) -> None:
    """A row that capture has not seen (C5)."""
    town.execute("crm", "SET event_triggers = off", "ALTER TABLE customer DISABLE TRIGGER ALL")
    town.execute("crm", "INSERT INTO customer VALUES ('c3', 'Bergen')")


def logged(town: Town, source: str) -> int:
    """Entries of the source's log that are not acknowledged."""
    return int(next(iter(printed(town.sources[source], "SELECT count(*) FROM dyda.log WHERE op IN ('I', 'D')"))))


@pytest.mark.parametrize("view", ["big", "sums"])
def test_others_are_fresh_while_a_lane_is_stopped_and_it_joins_when_it_has_caught_up(shop: Town, view: str) -> None:
    with running(shop) as maintainer, held("lane.computed") as lane:
        assert maintainer.lanes is not None
        before = shop.extent(view)
        cycles(maintainer, lane.there.is_set, resync(view))
        shop.execute("shop", "INSERT INTO orders VALUES (3001, 'c1', 5)", "DELETE FROM orders WHERE id = 2")
        assert cycles(maintainer, lambda: "2\t2" not in shop.extent("small"))[-1] is Outcome.WORKED
        shop.check("small")
        (beside,) = commands.status(shop.folder)["lanes"]
        assert (beside["view"], beside["reason"]) == (view, "resync requested")
        assert beside["since"]
        assert logged(shop, "shop") == 2, "P5: nothing is acknowledged that the lane does not have"
        assert shop.extent(view) != before, "what is maintained goes on, while it is built again"
        shop.execute("shop", "UPDATE orders SET amount = amount + 1, customer = 'c1' WHERE id = 5")
        shop.execute("crm", "INSERT INTO customer VALUES ('c2', 'Oslo')")
        cycles(maintainer, lambda: "5\t6" in shop.extent("small"))
        lane.go()
        settle(maintainer)
        assert logged(shop, "shop") == 0
        assert commands.status(shop.folder)["lanes"] == []
        shop.check()
        assert {entry["name"] for entry in commands.views(shop.folder)} == {"small", "big", "sums"}
    assert {one["result"] for one in commands.verify(shop.folder, engine=shop.engine)} == {"equal"}


def test_a_lane_without_catching_up_is_not_shown(shop: Town) -> None:
    """Adopted at its snapshot, the view is older than the others: until a unit has taken it along, readers see the old
    rows."""
    with running(shop) as maintainer, held("lane.computed") as lane:
        assert maintainer.lanes is not None
        cycles(maintainer, lane.there.is_set, resync("big"))
        shop.execute("shop", "INSERT INTO orders VALUES (3001, 'c1', 5)")
        cycles(maintainer, lambda: "3001\tc1\tRome" in shop.extent("big"))
        seen: list[Counter[str]] = []
        with (
            faults.on("lane.adopted", lambda: seen.append(shop.extent("big"))),
            faults.on("install.committed", lambda: seen.append(shop.extent("big"))),
        ):
            lane.go()
            settle(maintainer)
        assert len(seen) >= 3
        assert all("3001\tc1\tRome" in rows for rows in seen), "a view never goes back"
        shop.check()


def test_a_new_view_is_built_beside_the_others_and_shown_whole(shop: Town) -> None:
    shop.view("late", "SELECT DISTINCT o.customer FROM shop.orders o")
    with running(shop) as maintainer, held("lane.prepared") as lane:
        done = threading.Event()

        def apply() -> None:
            from dyda.commands.apply import execute_apply
            from dyda.project import Project

            execute_apply(maintainer, Project.load(shop.folder), lambda text, done, total: None)
            done.set()

        thread = threading.Thread(target=apply)
        thread.start()
        assert lane.there.wait(PATIENCE)
        shop.execute(
            "shop",
            "INSERT INTO orders VALUES (3002, 'new', 5), (4, 'c9', 1) ON CONFLICT (id) DO UPDATE SET amount = 99",
        )
        deadline = time.monotonic() + PATIENCE
        while "4\t99" not in shop.extent("small"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert shop.state("late")["state"] == "building"
        with pytest.raises(psycopg2.errors.UndefinedTable):
            shop.extent("late")
        lane.go()
        thread.join(PATIENCE)
        assert done.is_set()
        settle(maintainer)
        shop.check()


def test_a_schema_change_while_a_lane_reads_or_waits_voids_it_and_it_begins_again(shop: Town) -> None:
    for point in ("lane.opened", "lane.prepared"):
        with running(shop) as maintainer, held(point) as lane:
            cycles(maintainer, lane.there.is_set, resync("big"))
            shop.execute("shop", f"ALTER TABLE orders ADD COLUMN {point.replace('.', '_')} int")
            shop.execute("shop", "INSERT INTO orders (id, customer, amount) VALUES (9, 'c1', 1) ON CONFLICT DO NOTHING")
            cycles(maintainer, lambda: maintainer.cycle() is Outcome.IDLE)
            lane.go()
            settle(maintainer)
            shop.check()
        assert shop.state("big")["state"] == "fresh"


def test_a_renamed_column_is_followed_while_the_result_catches_up(shop: Town) -> None:
    with running(shop) as maintainer, held("lane.prepared") as lane:
        cycles(maintainer, lane.there.is_set, resync("sums"))
        shop.execute("shop", "INSERT INTO orders VALUES (3003, 'c1', 7)")
        lane.go()
        assert maintainer.lanes is not None
        cycles(maintainer, lambda: bool(maintainer.lanes and maintainer.lanes.hidden), resync("sums"))
        shop.execute("shop", "ALTER TABLE orders RENAME COLUMN amount TO price")
        shop.execute("shop", "INSERT INTO orders VALUES (3004, 'c1', 9)")
        settle(maintainer)
        shop.check_definitions("small", "big", "sums")


def test_a_gap_rebuilds_each_view_in_a_lane(shop: Town) -> None:
    """Without a request: what was missed is read again beside the units."""
    with running(shop) as maintainer:
        settle(maintainer)
        miss_a_change(shop)
        with held("lane.computed") as lane:
            cycles(maintainer, lane.there.is_set)
            shop.execute("shop", "INSERT INTO orders VALUES (0, 'c3', 5)")
            cycles(maintainer, lambda: "0\t5" in shop.extent("small"))
            assert shop.state("big")["state"] == "resync"
        settle(maintainer)
        shop.check()
        assert shop.state("big")["state"] == "fresh"


def test_two_lanes_run_at_once_and_a_third_view_waits_for_one(shop: Town) -> None:
    inside: list[str] = []
    two, go = threading.Event(), threading.Event()

    def hook() -> None:
        inside.append(threading.current_thread().name)
        if len(inside) == 2:
            two.set()
        assert go.wait(PATIENCE)

    with running(shop) as maintainer, faults.on("lane.computed", hook):
        requests = [resync(name) for name in ("big", "small", "sums")]
        try:
            cycles(maintainer, two.is_set, *requests)
            shop.execute("shop", "INSERT INTO orders VALUES (0, 'c1', 5)")
            cycles(maintainer, lambda: "0\t5" in shop.extent("small"), *requests)
            assert len(inside) == 2
        finally:
            go.set()
        maintainer.built.clear()
        cycles(maintainer, lambda: maintainer.built >= {"big", "small"}, *requests)
        cycles(maintainer, lambda: "sums" in maintainer.built, requests[-1])
        settle(maintainer)
        assert sorted(set(inside)) == ["dyda lane big", "dyda lane small", "dyda lane sums"]
        shop.check()


def test_two_commands_that_ask_for_builds_have_a_lane_each(shop: Town) -> None:
    """Each lane ends only when the other one runs, too; each command is answered when its own view is shown."""
    both, inside = threading.Event(), list[str]()

    def hook() -> None:
        inside.append(threading.current_thread().name)
        if len(inside) == 2:
            both.set()
        assert both.wait(PATIENCE)

    with running(shop) as maintainer, faults.on("lane.computed", hook):
        settle(maintainer)
        requests, warehouse = Requests(shop.folder, maintainer, lambda text: None), maintainer.opened.warehouse
        numbers = [warehouse.submit("resync", {"name": name}) for name in ("big", "sums")]
        deadline = time.monotonic() + PATIENCE
        while {warehouse.request(number).state for number in numbers} != {"done"}:
            assert time.monotonic() < deadline
            requests.serve()
        settle(maintainer)
        assert inside == ["dyda lane big", "dyda lane sums"]
        shop.check()


def test_each_transaction_is_a_state_of_its_own_while_a_lane_runs(new_town: Callable[..., Town]) -> None:
    """`complete`: for the views that are live already."""
    town = _shop(new_town(f'{LANES}\nconsistency = "complete"'))
    with running(town) as maintainer, held("lane.computed") as lane:
        cycles(maintainer, lane.there.is_set, resync("sums"))
        states: list[int] = []

        def note() -> None:
            states.append(sum(1 for row in town.extent("small") if int(row.split("\t")[0]) < 0))

        for number in range(1, 5):
            town.execute("shop", f"INSERT INTO orders VALUES (-{number}, 'c1', 5)")
        with faults.on("install.committed", note):
            cycles(maintainer, lambda: "-4\t5" in town.extent("small"))
            lane.go()
            settle(maintainer)
        assert [state for place, state in enumerate(states) if state not in states[:place]] == [1, 2, 3, 4]
        town.check()


@pytest.mark.parametrize("point", faults.LANE_POINTS)
def test_a_process_that_ends_loses_the_work_of_its_lane_and_nothing_else(shop: Town, point: str) -> None:
    """kill -9 at every point of a lane."""
    miss_a_change(shop)
    shop.execute("shop", "INSERT INTO orders VALUES (0, 'c3', 5)")
    killed = shop.run("daemon", "--until-idle", fault=f"{point}=kill", check=False)
    assert killed.returncode == -9, killed.stderr
    shop.execute("shop", "INSERT INTO orders VALUES (-1, 'c3', 6)")
    shop.run("daemon", "--until-idle")
    shop.check()
    left = printed(
        shop.warehouse,
        "SELECT relname FROM pg_class WHERE relnamespace = 'dyda'::regnamespace"
        " AND relname ~ '^(staging|prepared)_[0-9]+$'",
    )
    assert not left
    assert {entry["state"] for entry in commands.views(shop.folder)} == {"fresh"}


def test_a_view_that_a_schema_change_rebuilds_is_left_to_a_lane(shop: Town) -> None:
    """The unit installs everything else: another view follows a later change while the lane is held. `impact` foretells
    it, and the log says so before the lane begins."""
    shop.source("other", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    shop.view("beside", "SELECT t.a FROM other.t t")
    shop.apply()
    with running(shop) as maintainer:
        settle(maintainer)
        with held("lane.opened") as lane:
            retype = "ALTER TABLE orders ALTER COLUMN amount TYPE bigint USING amount * 2"
            found = commands.impact(shop.folder, retype, "shop", engine=shop.engine)["views"]
            foretold = {one["name"]: one for one in found}
            assert {foretold[name]["plan"] for name in ("small", "big", "sums")} == {"leave_behind"}
            assert foretold["sums"]["reason"].endswith("; its rows are rebuilt beside the other views")
            assert foretold["sums"]["effect"] == "adapted"
            shop.execute("shop", retype)
            shop.execute("shop", "INSERT INTO orders VALUES (7001, 'c1', 5)")
            cycles(maintainer, lane.there.is_set)
            state = shop.state("sums")
            assert state["state"] == "resync"
            assert state["reason"]
            lines = maintainer.lines  # type: ignore[attr-defined]
            left = next(place for place, line in enumerate(lines) if "view sums has followed a schema change" in line)
            begun = next(place for place, line in enumerate(lines) if "is being built beside the others" in line)
            assert left < begun, lines
            shop.execute("other", "ALTER TABLE t RENAME COLUMN a TO b", "INSERT INTO t VALUES (2)")
            cycles(maintainer, lambda: shop.extent("beside") == Counter({"1": 1, "2": 1}))
            shop.execute("shop", "INSERT INTO orders VALUES (7002, 'c1', 5)")
        settle(maintainer)
        shop.check_definitions("small", "big", "sums", "beside")
        assert {entry["state"] for entry in commands.views(shop.folder)} == {"fresh"}


KNOWLEDGE = """
[[join]]
between = ["shop.sale", "crm.spare"]
on = "sale.place = spare.id"

[[join]]
between = ["shop.sale", "crm.other"]
on = "sale.place = other.id"

[[function]]
attribute = "shop.sale.price"
equals = "crm.spare.price"

[[containment]]
of = "crm.home(id, name)"
is = "equivalent"
in = "crm.other(id, name)"
"""

ADAPTED = {
    "join": (
        "-- dyda: extent = any\nSELECT s.id, s.place, s.price /* replaceable */ FROM shop.sale s",
        ("shop", "ALTER TABLE sale DROP COLUMN price"),
    ),
    "delta": (
        "-- dyda: extent = any\nSELECT s.id, h.id AS at /* replaceable */, h.name /* replaceable */"
        " FROM shop.sale s JOIN crm.home h /* replaceable */ ON s.place = h.id /* replaceable */",
        ("crm", "DROP TABLE home"),
    ),
}
"""By the kind of adaptation, a view and what happens to it."""


def sales(town: Town, kind: str) -> Town:
    town.source(
        "shop",
        "CREATE TABLE sale (id int PRIMARY KEY, place int, price int)",
        "INSERT INTO sale SELECT i, i % 10, i % 7 FROM generate_series(1, 300) i",
    )
    town.source(
        "crm",
        "CREATE TABLE spare (id int PRIMARY KEY, price int)",
        "INSERT INTO spare SELECT i, i * 2 FROM generate_series(0, 8) i",
        "CREATE TABLE home AS SELECT i AS id, 'home ' || i AS name FROM generate_series(0, 9) i",
        "CREATE TABLE other AS SELECT id, CASE WHEN id < 2 THEN 'x' ELSE name END AS name FROM home",
        "ALTER TABLE home ADD PRIMARY KEY (id)",
        "ALTER TABLE other ADD PRIMARY KEY (id)",
    )
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.view("v", ADAPTED[kind][0])
    town.view("beside", "SELECT s.id, s.place FROM shop.sale s WHERE s.id < 10")
    town.apply()
    return town


def _how(town: Town) -> str:
    with town.opened() as opened:
        return str(opened.warehouse.versions("v")[-1].details["adaptation"]["kind"])


@pytest.mark.parametrize("kind", ADAPTED)
def test_an_adaptation_that_takes_long_is_made_in_a_lane(new_town: Callable[..., Town], kind: str) -> None:
    """From the extent as it is, under the snapshots of the unit that left it; other views get rows meanwhile."""
    town = sales(new_town(LANES), kind)
    source, ddl = ADAPTED[kind][1]
    with running(town) as maintainer:
        settle(maintainer)
        (foretold,) = [
            one for one in commands.impact(town.folder, ddl, source, engine=town.engine)["views"] if one["name"] == "v"
        ]
        assert foretold["plan"] == "leave_behind"
        before = town.extent("v")
        with held("lane.opened") as lane:
            # Rows before and after the schema change, some in the unit and some beyond it.
            town.execute("shop", "INSERT INTO sale (id, place) VALUES (-1, 1)", "DELETE FROM sale WHERE id IN (7, 8)")
            town.execute("crm", "UPDATE spare SET price = 99 WHERE id = 3", "DELETE FROM other WHERE id = 5")
            town.execute(source, ddl)
            town.execute("shop", "INSERT INTO sale (id, place) VALUES (0, 4)")
            cycles(maintainer, lane.there.is_set)
            assert town.state("v")["state"] == "resync"
            town.execute("shop", "INSERT INTO sale (id, place) VALUES (-2, 2)", "DELETE FROM sale WHERE id = 9")
            town.execute("crm", "UPDATE spare SET price = 77 WHERE id = 4", "DELETE FROM other WHERE id = 6")
            cycles(maintainer, lambda: "-2\t2" in town.extent("beside"))
            assert len(before) - 5 < len(town.extent("v")) < len(before) + 5, "its rows wait, and are readable"
        settle(maintainer)
        town.check_definitions("v", "beside")
        assert town.state("v")["state"] == "fresh"
        assert any("view v is being adapted beside the others" in line for line in maintainer.lines)  # type: ignore[attr-defined]
    assert _how(town) == kind
    assert {one["result"] for one in commands.verify(town.folder, engine=town.engine)} == {"equal"}


@pytest.mark.parametrize(
    ("kind", "before", "file"),
    [
        (
            "join",
            "SELECT s.id, s.place FROM shop.sale s",
            "SELECT s.id, s.place, p.price FROM shop.sale s JOIN crm.spare p ON p.id = s.place",
        ),
        (
            "complement",
            "SELECT s.id, s.place FROM shop.sale s WHERE s.place <> 3",
            "SELECT s.id, s.place FROM shop.sale s",
        ),
    ],
)
def test_a_changed_file_is_adapted_in_a_lane_while_the_view_waits(
    new_town: Callable[..., Town], kind: str, before: str, file: str
) -> None:
    town = sales(new_town(LANES), "join")
    town.view("v", before)
    town.apply()
    request = BuildRequest("v", file, file, ToBeBuilt(BuildReason.REQUESTED))
    with running(town) as maintainer, held("lane.opened") as lane:
        settle(maintainer)
        cycles(maintainer, lane.there.is_set, request)
        rows = town.extent("v")
        town.execute("shop", "INSERT INTO sale VALUES (0, 4, 1), (-3, 3, 1)", "DELETE FROM sale WHERE id IN (3, 9)")
        town.execute("crm", "UPDATE spare SET price = 77 WHERE id = 4")
        cycles(maintainer, lambda: "0\t4" in town.extent("beside"), request)
        assert town.extent("v") == rows
        lane.go()
        maintainer.built.clear()
        cycles(maintainer, lambda: "v" in maintainer.built, request)
        settle(maintainer)
        town.check_definitions("v", "beside")
    assert _how(town) == kind


@pytest.mark.parametrize("point", faults.LANE_POINTS)
def test_a_process_that_ends_during_an_adaptation_loses_nothing(new_town: Callable[..., Town], point: str) -> None:
    town = sales(new_town(LANES), "join")
    town.execute("shop", "INSERT INTO sale VALUES (-1, 1, 1)")
    town.execute("shop", "ALTER TABLE sale DROP COLUMN price")
    killed = town.run("daemon", "--until-idle", fault=f"{point}=kill", check=False)
    assert killed.returncode == -9, killed.stderr
    town.execute("shop", "INSERT INTO sale VALUES (0, 4)")
    town.run("daemon", "--until-idle")
    town.check_definitions("v", "beside")
    assert {entry["state"] for entry in commands.views(town.folder)} <= {"fresh", "stale"}


def test_a_narrowed_extent_is_rewritten_beside_the_units(shop: Town) -> None:
    """The first rows after a dropped column do not rewrite the table in everybody's way."""
    shop.view("wide", "-- dyda: extent = any\nSELECT o.customer, o.note /* dispensable */ FROM shop.orders o")
    shop.execute("shop", "ALTER TABLE orders ADD COLUMN note text DEFAULT 'x'")
    with running(shop) as maintainer:
        settle(maintainer)
    shop.apply()
    with running(shop) as maintainer, held("lane.rewritten") as lane:
        settle(maintainer)
        shop.execute("shop", "ALTER TABLE orders DROP COLUMN note")
        cycles(maintainer, lane.there.is_set)
        before = shop.extent("wide")
        narrowed = (
            "SELECT count(*) FROM dyda.view_version w JOIN dyda.form f ON f.extent = w.extent"
            " WHERE w.view = 'wide' AND f.form = 'loose'"
        )
        assert printed(shop.warehouse, narrowed) == Counter({"1": 1})
        shop.execute("shop", "INSERT INTO orders VALUES (0, 'c1', 5)")
        cycles(maintainer, lambda: "0\t5" in shop.extent("small"))
        assert shop.extent("wide") == before
        lane.go()
        settle(maintainer)
        assert printed(shop.warehouse, narrowed) == Counter({"0": 1})
        shop.check_definitions("small", "big", "sums", "wide")
        assert shop.state("wide")["state"] == "fresh"
    assert {one["result"] for one in commands.verify(shop.folder, engine=shop.engine)} == {"equal"}


def test_the_daemon_builds_beside_its_units_what_commands_ask_for(shop: Town, tmp_path: Path) -> None:
    daemon = Daemon(shop.folder, tmp_path / "daemon.log")
    try:
        assert daemon.up(), daemon.text()
        shop.view("late", "SELECT DISTINCT o.customer, c.city FROM shop.orders o JOIN crm.customer c ON TRUE")
        shop.view("sums", "SELECT o.customer, min(o.amount) AS least FROM shop.orders o GROUP BY 1")
        answer = json.loads(shop.run("apply", "--yes", "--json").stdout)
        assert [one["name"] for one in answer["created"]] == ["late"]
        assert [one["name"] for one in answer["changed"]] == ["sums"]
        shop.execute("shop", "INSERT INTO orders VALUES (0, 'c9', -5)")
        assert json.loads(shop.run("views", "resync", "big", "--json").stdout)["name"] == "big"
        for view in ("late", "sums", "big"):
            assert f"view {view} has caught up with the others" in daemon.text()
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(PATIENCE) == 0, daemon.text()
    finally:
        if daemon.alive:
            daemon.kill(children=True)
        daemon.bury()
    shop.settle()
    shop.check()
    assert [one["version"] for one in commands.views_history(shop.folder, "sums")][-1] == 2


def test_a_reader_who_keeps_a_view_locked_delays_that_view_alone(shop: Town) -> None:
    with running(shop) as maintainer, closing(psycopg2.connect(shop.warehouse)) as reader:
        assert maintainer.lanes is not None
        with reader.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM public.big")
        cycles(maintainer, lambda: any("read" in line for line in maintainer.lines[1:]), resync("big"))  # type: ignore[attr-defined]
        shop.execute("shop", "INSERT INTO orders VALUES (0, 'c1', 5)")
        outcomes = cycles(maintainer, lambda: "0\t5" in shop.extent("small"))
        assert Outcome.BLOCKED not in outcomes
        assert maintainer.lanes.hidden == ["big"]
        reader.rollback()
        settle(maintainer)
        shop.check()


def test_what_a_view_lacked_until_its_lane_was_done_is_acknowledged(shop: Town) -> None:
    """It is shown at the lane's position, and no unit of its own has taken what lies between."""
    with running(shop) as maintainer:
        shop.execute("shop", "INSERT INTO orders VALUES (3001, 'c1', 5)")
        shop.execute("shop", "ALTER TABLE orders ALTER amount TYPE bigint")
        settle(maintainer)
        assert any("has caught up with the others" in line for line in maintainer.lines)  # type: ignore[attr-defined]
        assert not commands.pending(shop.folder)
        assert next(iter(printed(shop.sources["shop"], "SELECT count(*) FROM dyda.log"))) == "0"
        shop.check()


def test_P2_a_lane_that_ends_under_a_poll_is_judged_by_the_next_one(shop: Town) -> None:
    """The mark that says that its source has lost nothing is younger than what the poll knows of the source."""
    with running(shop) as maintainer, held("lane.opened") as lane:
        assert maintainer.lanes is not None
        cycles(maintainer, lane.there.is_set, resync("big"))
        under_way = maintainer.lanes.running("big")
        assert under_way is not None

        def end() -> None:
            lane.go()
            under_way.wait(PATIENCE)

        with faults.on("unit.messages-received", end):
            maintainer.cycle()
        assert under_way.ended
        settle(maintainer)
        assert not [line for line in maintainer.lines if "is built again" in line]  # type: ignore[attr-defined]
        shop.check()
