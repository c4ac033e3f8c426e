"""One bad row, view or source stops nobody else; whoever is concerned says why, and comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import psycopg2
import pytest

from dyda import commands
from dyda.commands.daemon import _note_obstacle
from dyda.errors import DydaError
from dyda.maintenance.cycle import Outcome
from tests.recompute_oracle import printed
from tests.town import Town


@pytest.fixture
def two(town: Town) -> Town:
    town.source("one", "CREATE TABLE r (k int, d int)", "INSERT INTO r VALUES (1, 1)", "CREATE TABLE t (k int)")
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1)")
    town.view("plain", "SELECT r.k FROM one.r")
    town.view("other", "SELECT s.k FROM two.s")
    return town


def test_a_users_view_that_depends_on_ours_holds_only_that_view(two: Town) -> None:
    two.apply()
    two.in_warehouse("CREATE VIEW public.mine AS SELECT k FROM public.plain")
    two.execute("one", "ALTER TABLE r ALTER COLUMN k TYPE bigint")
    two.execute("two", "INSERT INTO s VALUES (2)")
    two.settle()
    two.check("other")
    state = two.state("plain")
    assert state["state"] == "held"
    assert "public.mine depends on public.plain" in state["reason"]
    two.execute("one", "INSERT INTO r VALUES (2, 2)")
    two.settle()
    assert two.state("plain")["state"] == "held"
    assert two.extent("plain") == Counter({"1": 1})
    two.in_warehouse("DROP VIEW public.mine")
    two.settle()
    assert two.state("plain")["state"] == "fresh"
    two.check()


def test_a_value_that_the_warehouse_cannot_hold_holds_only_its_view(two: Town) -> None:
    two.view("odd", "SELECT char(r.k) AS c FROM one.r")
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (256, 1)")  # a NUL: PostgreSQL has no such text
    two.execute("two", "INSERT INTO s VALUES (2)")
    two.settle()
    two.check("plain", "other")
    assert two.state("odd")["state"] == "held"


def test_an_extent_edited_by_hand_is_noticed_and_built_again(two: Town) -> None:
    two.apply()
    extent = printed(two.warehouse, "SELECT extent FROM dyda.view_version WHERE view = 'plain'")
    two.in_warehouse(f"DELETE FROM dyda.extent_{next(iter(extent))}")
    assert [answer["result"] for answer in commands.verify(two.folder, ["plain"], engine=two.engine)] == ["different"]
    two.execute("one", "DELETE FROM r WHERE k = 1")
    two.execute("two", "INSERT INTO s VALUES (2)")
    two.settle()
    two.check()


def test_a_source_that_is_away_does_not_stop_the_others(two: Town) -> None:
    two.view("both", "SELECT r.k FROM one.r JOIN two.s ON r.k = s.k")
    two.apply()
    url = two.sources["two"]
    two.source_url("two", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    two.execute("one", "TRUNCATE r", "INSERT INTO r VALUES (3, 3)")
    with two.maintainer() as maintainer:
        said: list[str] = []
        maintainer.log = said.append
        for _ in range(5):
            outcome = maintainer.cycle()
        assert len([line for line in said if "cannot be reached" in line]) == 1, "once"
        for result in (outcome, Outcome.WORKED, outcome):  # units of the others say nothing about it
            _note_obstacle(maintainer, result, said.append)
        # Who waits is said, and that somebody goes on.
        who = "waiting for this: both, other; 1 other view goes on"
        assert [f"({who})." in line for line in said if "cannot go on" in line] == [True]
        assert commands.status(two.folder)["daemon"]["error"].endswith(f"({who})")
    assert two.extent("plain") == Counter({"3": 1})
    assert commands.status(two.folder)["sources"][1]["error"]
    two.source_url("two", url)
    two.settle()
    two.check()


def test_a_view_that_waits_follows_a_retyped_column_into_its_groups(two: Town) -> None:
    """The others follow at once; what the waiting view keeps per group is of the old type until its turn comes."""
    two.view("groups", "SELECT r.k, count(*) AS n FROM one.r JOIN two.s ON r.k = s.k GROUP BY r.k")
    two.apply()
    url = two.sources["two"]
    two.execute("one", "ALTER TABLE r ALTER COLUMN k TYPE bigint")
    two.execute("two", "INSERT INTO s VALUES (1)")
    two.source_url("two", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    with two.maintainer() as maintainer:
        for _ in range(3):
            maintainer.cycle()
    assert [column["type"] for column in two.state("plain")["columns"]] == ["bigint"]
    two.source_url("two", url)
    two.settle()
    two.check()


def test_a_locked_table_stops_only_the_views_that_read_it(two: Town) -> None:
    two.view("joined", "SELECT r.k FROM one.r JOIN one.t ON r.k = t.k")
    two.apply()
    locker = two.connect("one")
    locker.cursor().execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
    two.execute("one", "INSERT INTO r VALUES (5, 5)")
    two.execute("two", "INSERT INTO s VALUES (5)")
    with two.maintainer() as maintainer:
        for _ in range(6):
            maintainer.cycle()
    assert two.extent("other") == Counter({"1": 1, "5": 1})
    locker.rollback()
    locker.close()
    two.settle()
    two.check()


def test_a_reader_that_stays_stops_only_the_sources_of_the_view_it_reads(two: Town) -> None:
    two.apply()
    reader = psycopg2.connect(two.warehouse)
    reader.cursor().execute("SELECT count(*) FROM public.plain")
    two.execute("one", "ALTER TABLE r ALTER COLUMN k TYPE bigint")
    with two.maintainer() as maintainer:
        maintainer.writer.patience = 0.2
        assert maintainer.cycle() is Outcome.BLOCKED
        two.execute("two", "INSERT INTO s VALUES (5)")
        maintainer.cycle()
        assert two.extent("other") == Counter({"1": 1, "5": 1})
        assert "public.plain is being read in an open transaction" in commands.status(two.folder)["sources"][0]["error"]
        reader.close()
    two.settle()
    two.check()


def test_a_dropped_column_under_a_view_that_waits_stops_nobody(two: Town) -> None:
    two.view("waits", "SELECT r.d, s.k FROM one.r JOIN two.s ON r.k = s.k")
    two.apply()
    locker, writer = two.connect("two"), two.connect("two")
    locker.cursor().execute("LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE")
    writer.cursor().execute("INSERT INTO s VALUES (7)")  # not captured, and not committed: its gap cannot settle
    locker.rollback()
    two.execute("one", "ALTER TABLE r DROP COLUMN d")
    two.execute("one", "INSERT INTO r VALUES (8)")
    two.settle()
    two.check("plain")
    writer.commit()
    two.settle()
    two.check("plain", "other")
    assert two.state("waits")["state"] == "broken"
    for connection in (locker, writer):
        connection.close()


def test_poison_and_a_build_at_once_end(two: Town) -> None:
    two.view("ratio", "SELECT r.k / r.d AS q FROM one.r")
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (4, 2)")
    two.execute("one", "INSERT INTO r VALUES (5, 0)")
    two.execute("two", "TRUNCATE s")
    two.settle()
    two.check("plain", "other")
    assert two.state("ratio")["state"] == "held"


def test_a_new_view_can_be_applied_while_a_message_is_poisoned(two: Town) -> None:
    two.view("ratio", "SELECT r.k / r.d AS q FROM one.r")
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (5, 0)")
    two.view("late", "SELECT s.k FROM two.s")
    assert two.apply()["created"] == [{"name": "late", "rows": 1}]
    two.settle()
    assert two.state("ratio")["state"] == "held"


def test_the_innocent_message_is_not_blamed(new_town: Callable[..., Town]) -> None:
    """In `complete` mode a lookup sees the poison of a later message; it is in neither world and is not computed."""
    town = new_town('consistency = "complete"')
    town.source("one", "CREATE TABLE a (k int)")
    town.source("two", "CREATE TABLE b (k int, d int)", "INSERT INTO b VALUES (1, 1)")
    town.view("v", "SELECT a.k / b.d AS q FROM one.a JOIN two.b ON a.k = b.k")
    town.apply()
    town.execute("one", "INSERT INTO a VALUES (1)")
    town.execute("two", "INSERT INTO b VALUES (1, 0)")
    town.settle()
    assert town.extent("v") == Counter({"1": 1}), "the first message is installed"
    assert "message 2" in town.state("v")["reason"]


def test_a_changed_file_that_cannot_be_built_leaves_the_old_view_alive(two: Town) -> None:
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (2, 0)")
    two.settle()
    two.view("plain", "SELECT r.k / r.d AS k FROM one.r")
    with pytest.raises(DydaError, match=r"(?i)division|divide"):
        two.apply()
    assert two.state("plain")["state"] == "fresh"
    two.execute("one", "INSERT INTO r VALUES (3, 3)")
    two.settle()
    assert two.extent("plain") == Counter({"1": 1, "2": 1, "3": 1})


def test_resync_puts_lost_triggers_back_first(two: Town) -> None:
    two.apply()
    two.execute("one", "DROP TRIGGER dyda_insert ON r", "INSERT INTO r VALUES (9, 9)")
    commands.views_resync(two.folder, "plain", engine=two.engine)
    two.check("plain")
    two.execute("one", "INSERT INTO r VALUES (10, 10)")
    two.settle()
    two.check("plain")


def test_resync_of_a_view_that_stays_broken_says_so(two: Town) -> None:
    two.apply()
    two.execute("one", "ALTER TABLE r DROP COLUMN k")
    two.settle()
    with pytest.raises(DydaError, match="stays broken"):
        commands.views_resync(two.folder, "plain", engine=two.engine)


def test_the_queue_is_empty_when_nobody_waits(two: Town) -> None:
    two.apply()
    two.execute("one", "ALTER TABLE r DROP COLUMN k")
    two.settle()
    two.execute("one", "INSERT INTO r VALUES (1)")
    two.settle()
    assert not commands.pending(two.folder)


def test_verify_answers_for_every_view(two: Town) -> None:
    two.execute("one", "CREATE TABLE w (n numeric)")
    two.view("ratio", "SELECT r.k / r.d AS q FROM one.r")
    two.view("wide", "SELECT w.n + 1 AS n FROM one.w")
    two.apply()
    two.execute("one", "INSERT INTO r VALUES (5, 0)", "ALTER TABLE w ALTER COLUMN n TYPE text")
    answers = {answer["name"]: answer for answer in commands.verify(two.folder, engine=two.engine)}
    assert answers["plain"]["result"] == answers["other"]["result"] == "equal"
    assert answers["ratio"]["result"] == "equal", "a row that is not installed yet is not divided"
    assert answers["wide"]["result"] == "unverifiable"


def test_capture_ends_with_its_last_view(two: Town) -> None:
    two.apply()
    (two.folder / "views" / "other.sql").unlink()
    two.apply()
    of_users = "tgrelid NOT IN (SELECT oid FROM pg_class WHERE relnamespace = 'dyda'::regnamespace)"
    assert not printed(two.sources["two"], f"SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND {of_users}")


def test_a_source_removed_from_the_settings_takes_its_views_along(two: Town) -> None:
    two.apply()
    (two.folder / "views" / "other.sql").unlink()
    del two.sources["two"]
    two.view("late", "SELECT r.d FROM one.r")
    two.source("three")
    answer = two.apply()
    assert answer["dropped"] == ["other"]
    two.settle()
    two.check("late", "plain")
