"""What stands in the way of one relation stops the views that read it, with a reason, and nothing else.

Two sources: `seen` has event triggers; `polled` is reached as a role that may not create them.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from dyda import commands
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.observe import missing_rights
from dyda.sources import grants
from tests.conftest import Server, memory
from tests.integration.sources.conftest import as_role
from tests.recompute_oracle import printed
from tests.town import Town

pytestmark = pytest.mark.long

SOURCES = ("seen", "polled")
TABLES = (
    "CREATE TABLE r (k int, d int)",
    "CREATE TABLE s (k int)",
    "CREATE TABLE u (k int)",
    "INSERT INTO r SELECT n, n FROM generate_series(1, 4) n",
    "INSERT INTO s VALUES (1), (2), (3)",
    "INSERT INTO u VALUES (1)",
)


class Place:
    """The town, and how its superuser gets to its databases."""

    def __init__(self, town: Town, urls: dict[str, str]) -> None:
        self.town = town
        self.urls = urls

    def run(self, source: str, *statements: str) -> None:
        """As the superuser, each statement a transaction, in a session of their own."""
        with contextlib.closing(psycopg2.connect(self.urls[source])) as connection:
            connection.autocommit = True
            for statement in statements:
                connection.cursor().execute(statement)

    def is_right(self, source: str, view: str) -> bool:
        query = "SELECT r.k, r.d FROM r JOIN s ON r.k = s.k" if view == "joined" else "SELECT k FROM u"
        return self.town.extent(f"{source}_{view}") == printed(self.urls[source], query)

    def all_is_right(self) -> bool:
        states = {view["name"]: (view["state"], view["reason"]) for view in commands.views(self.town.folder)}
        fresh = all(state == ("fresh", None) for state in states.values())
        return fresh and all(self.is_right(source, view) for source in SOURCES for view in ("joined", "alone"))

    def others_go_on(self, source: str) -> None:
        """Every view moves but the one that reads r and s at `source`."""
        for place in SOURCES:
            self.run(place, "INSERT INTO u VALUES (5)")
        (other,) = set(SOURCES) - {source}
        self.run(other, "INSERT INTO r VALUES (2, 7)")
        self.town.settle(20)
        assert self.is_right(source, "alone")
        assert self.is_right(other, "alone")
        assert self.is_right(other, "joined")


@pytest.fixture(scope="module")
def machine() -> Iterator[Server]:
    found = Server({"fsync": "off", "wal_level": "logical"}, place=memory())
    try:
        yield found.start()
    finally:
        found.remove()


@pytest.fixture(scope="module")
def settled(machine: Server, tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Place]:
    urls = {name: machine.url(name) for name in ("warehouse", *SOURCES)}
    with contextlib.closing(psycopg2.connect(machine.url())) as connection:
        connection.autocommit = True
        connection.cursor().execute("CREATE ROLE keeper LOGIN PASSWORD 'x'; CREATE ROLE reader LOGIN PASSWORD 'x'")
        for name in urls:
            connection.cursor().execute(f"CREATE DATABASE {name}")
    town = Town(tmp_path_factory.mktemp("town"), lambda name: urls[name], engine)
    place = Place(town, urls)
    place.run("polled", "GRANT CREATE ON DATABASE polled TO keeper; GRANT CREATE ON SCHEMA public TO keeper")
    town.source("seen", *TABLES)
    town.source("polled", *TABLES, url=as_role(urls["polled"], "keeper", "x"))
    for source in SOURCES:
        place.run(source, "CREATE FOREIGN DATA WRAPPER w", "CREATE SERVER nowhere FOREIGN DATA WRAPPER w")
        town.view(f"{source}_joined", f"SELECT r.k, r.d FROM {source}.r JOIN {source}.s ON r.k = s.k")
        town.view(f"{source}_alone", f"SELECT u.k FROM {source}.u")
    town.apply()
    assert [entry["capture"] for entry in commands.sources(town.folder)] == ["attached", "polling"]
    place.run("seen", grants("reader", [("public", table) for table in "rsu"]))
    yield place
    town.close()


@pytest.fixture
def place(settled: Place) -> Place:
    settled.town.settle()
    assert settled.all_is_right(), "left by the test before"
    return settled


REFUSED = {
    "a foreign child": (
        ("CREATE FOREIGN TABLE f () INHERITS (r) SERVER nowhere",),
        "public.f is a foreign table",
        ("DROP FOREIGN TABLE f",),
    ),
    "a child of another table": (
        ("CREATE TABLE p (k int, d int)", "ALTER TABLE r INHERIT p", "UPDATE p SET d = d + 100"),
        "child of public.p",
        ("ALTER TABLE r NO INHERIT p", "DROP TABLE p"),
    ),
    "a partition": (
        (
            "CREATE TABLE p (k int, d int) PARTITION BY LIST (k)",
            "ALTER TABLE p ATTACH PARTITION r DEFAULT",
            "UPDATE p SET d = d + 100",
        ),
        "child of public.p",
        ("ALTER TABLE p DETACH PARTITION r", "DROP TABLE p"),
    ),
    "unlogged": (("ALTER TABLE r SET UNLOGGED",), "unlogged", ("ALTER TABLE r SET LOGGED",)),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_C3_a_relation_that_cannot_be_captured_any_more_stops_its_readers_alone(
    place: Place, case: tuple[tuple[str, ...], str, tuple[str, ...]], source: str
) -> None:
    """Its rows stay the last right ones, and are read again when the cause is gone: they may have moved meanwhile."""
    become, words, undo = case
    before = place.town.extent(f"{source}_joined")
    place.run(source, *become)
    place.others_go_on(source)
    state = place.town.state(f"{source}_joined")
    assert (state["state"], words in state["reason"]) == ("broken", True), state
    assert place.town.extent(f"{source}_joined") == before
    place.run(source, *undo)
    place.town.settle(20)
    assert place.all_is_right()


@pytest.mark.parametrize("unnoticed", [False, True], ids=["polls meanwhile", "between two polls"])
@pytest.mark.parametrize("source", SOURCES)
def test_C3_what_logical_replication_brings_is_not_missed(
    place: Place, machine: Server, source: str, unnoticed: bool
) -> None:
    publisher = f"publisher_{source}_{unnoticed}".lower()
    place.urls["publisher"] = machine.url(publisher)
    place.run("warehouse", f"CREATE DATABASE {publisher}")
    place.run(
        "publisher",
        "CREATE TABLE r (k int, d int)",
        "CREATE PUBLICATION all_of_it FOR TABLE r",
        f"SELECT pg_create_logical_replication_slot('{publisher}', 'pgoutput')",
    )
    options = f"create_slot = false, slot_name = {publisher}, copy_data = false"
    connection = machine.url(publisher).replace("'", "''")
    place.run(source, f"CREATE SUBSCRIPTION mine CONNECTION '{connection}' PUBLICATION all_of_it WITH ({options})")
    if not unnoticed:
        place.others_go_on(source)
    place.run("publisher", "INSERT INTO r VALUES (3, 1000)")
    until(lambda: bool(printed(place.urls[source], "SELECT k FROM r WHERE d = 1000")))
    if not unnoticed:
        place.others_go_on(source)
        state = place.town.state(f"{source}_joined")
        assert (state["state"], "subscription" in state["reason"]) == ("broken", True), state
    place.run(source, "DROP SUBSCRIPTION mine", "DELETE FROM r WHERE d = 0")
    until(lambda: bool(place.town.settle(20)) and place.all_is_right())
    assert place.town.extent(f"{source}_joined")["3\t1000"] == 1
    place.run(source, "DELETE FROM r WHERE d = 1000")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_C5_what_came_and_went_without_event_triggers_is_found_by_its_trace(place: Place) -> None:
    """DELETE FROM a parent without columns: nothing of r looks different afterwards, but its rows are gone."""
    place.run(
        "polled",
        "CREATE TABLE above ()",
        "ALTER TABLE r INHERIT above",
        "DELETE FROM above",
        "ALTER TABLE r NO INHERIT above",
        "DROP TABLE above",
    )
    until(lambda: bool(place.town.settle(20)) and place.all_is_right())
    assert place.town.extent("polled_joined") == Counter()
    place.run("polled", "INSERT INTO r VALUES (1, 1), (2, 2)")
    place.town.settle(20)
    assert place.all_is_right()


RIGHTS = {
    "REVOKE": ("REVOKE SELECT ON s FROM {all}", 'GRANT SELECT ON TABLE "public"."s" TO "{role}";', ""),
    "row security": (
        "ALTER TABLE s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        'ALTER ROLE "{role}" BYPASSRLS;',
        'ALTER ROLE "{role}" NOBYPASSRLS; ALTER TABLE s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY',
    ),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("case", RIGHTS.values(), ids=RIGHTS)
def test_R3_a_table_that_may_not_be_read_stops_its_readers_alone(
    place: Place, case: tuple[str, str, str], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_rights, "PAUSE", 0.2)
    role = {"seen": "reader", "polled": "keeper"}[source]
    readers = printed(
        place.urls[source],
        "SELECT rolname FROM pg_roles WHERE rolname LIKE 'dyda_reader_%' OR rolname = '" + role + "'",
    )
    take, give, undo = (text.replace("{role}", role).replace("{all}", ", ".join(readers)) for text in case)
    town = place.town
    town.source_url(source, as_role(place.urls[source], role, "x"))
    town.settle()
    before = town.extent(f"{source}_joined")
    place.run(source, take, "INSERT INTO r VALUES (1, 8)")
    said: list[str] = []
    with town.maintainer() as maintainer:
        maintainer.log = said.append

        def go_on() -> None:
            until(lambda: maintainer.cycle() is Outcome.IDLE)

        go_on()
        for other in SOURCES:
            place.run(other, "INSERT INTO u VALUES (6)")
        go_on()
        assert place.is_right("seen", "alone")
        assert place.is_right("polled", "alone")
        state = town.state(f"{source}_joined")
        assert state["state"] in ("stale", "resync"), state
        assert f"{source}.public.s" in state["reason"]
        assert give in state["reason"]
        assert town.state(f"{source}_alone")["reason"] is None
        (shown,) = [view for view in commands.status(town.folder)["views"] if view["name"] == f"{source}_joined"]
        assert shown["reason"] == state["reason"]
        assert town.extent(f"{source}_joined") == before
        assert len([line for line in said if give in line]) == 1, said
        place.run(source, give)
        until(lambda: maintainer.cycle() is Outcome.IDLE and place.all_is_right())
    for statement in filter(None, undo.split("; ")):
        place.run(source, statement)
    town.source_url(source, place.urls[source] if source == "seen" else town.sources[source])


def test_a_table_swapped_in_does_not_leave_verify_waiting_for_the_one_that_went(place: Place) -> None:
    """The drop of the old table is in the log, and concerns nobody."""
    with place.town.maintainer() as maintainer:
        for statements in (
            ("CREATE TABLE rebuilt (LIKE r); INSERT INTO rebuilt SELECT * FROM r",),
            ("BEGIN; ALTER TABLE r RENAME TO old; ALTER TABLE rebuilt RENAME TO r; COMMIT",),
            ("DROP TABLE old",),
        ):
            place.run("seen", *statements)
            until(lambda: maintainer.cycle() is Outcome.IDLE)
    assert place.all_is_right()
    answers = {answer["name"]: answer for answer in commands.verify(place.town.folder, engine=place.town.engine)}
    assert {name: answer["result"] for name, answer in answers.items()} == dict.fromkeys(answers, "equal"), answers
