"""An upgrade of DyDa finds rows and operator states that the version before it has computed.

The catalog keeps a fingerprint of the steps with each view (vm/fingerprint.py). What this version computes in other
steps is read again by itself; what it computes in the same ones is not.
"""

from __future__ import annotations

import pytest

from dyda import commands
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.project import Project
from tests.older_extents import make_older
from tests.recompute_oracle import printed
from tests.town import Town

OTHER = "the fingerprint of other steps"


def programs(town: Town) -> dict[str, str]:
    rows = printed(
        town.warehouse,
        "SELECT view, coalesce(program, 'none') FROM dyda.view_version JOIN dyda.view v"
        " ON v.name = view AND v.version = view_version.version",
    )
    return dict(row.split("\t") for row in rows)


def test_what_is_compiled_otherwise_is_read_again_and_nothing_else(town: Town) -> None:
    town.source("one", "CREATE TABLE r (k int, v int)", "INSERT INTO r VALUES (1, 1), (1, 2), (2, 3)")
    town.view("sums", "SELECT r.k, sum(r.v) AS s FROM one.r GROUP BY r.k")
    town.view("keys", "SELECT DISTINCT r.k FROM one.r")
    town.view("old", "SELECT * FROM one.r")
    town.view(
        "asked",
        "SELECT x.k FROM one.r x JOIN one.r y ON x.k = y.v WHERE EXISTS (SELECT 1 FROM one.r z WHERE z.v > 10 / x.v)",
    )
    town.apply()
    town.settle()
    built = programs(town)
    assert len(set(built.values())) == 4
    assert all(len(program) == 32 for program in built.values())

    # As another version would have left them: states of the same form that mean something else.
    (state,) = printed(town.warehouse, "SELECT (states->0->>'extent') FROM dyda.view_version WHERE view = 'sums'")
    town.in_warehouse(
        f"UPDATE dyda.extent_{state} SET c4 = '100'",
        f"UPDATE dyda.view_version SET program = '{OTHER}' WHERE view = 'sums'",
        # And two from before there were fingerprints: one that is compiled as ever, one that is not.
        "UPDATE dyda.view_version SET program = NULL WHERE view IN ('old', 'asked')",
    )
    town.execute("one", "INSERT INTO r VALUES (2, 4)")
    with town.maintainer() as maintainer:
        outdated = {name: view.outdated for name, view in maintainer.known.views.items() if view.outdated}
        assert set(outdated) == {"sums", "asked"}
        assert set(outdated.values()) == {ToBeBuilt(BuildReason.OUTDATED)}
        assert set(maintainer.known.views) == {"sums", "asked", "keys", "old"}
    town.settle()
    town.check()
    assert programs(town) == built, "by the same compiler, all are what they were"
    versions = {view["name"]: view["version"] for view in commands.views(town.folder)}
    assert versions == {"sums": 2, "keys": 1, "old": 1, "asked": 2}
    causes = [entry["cause"] for entry in commands.views_history(town.folder, "sums")]
    assert "computes it in other steps" in causes[-1]
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}

    # A rename is followed with the rows and states as they are.
    town.execute("one", "ALTER TABLE r RENAME COLUMN v TO w", "INSERT INTO r VALUES (3, 5)")
    town.settle()
    assert programs(town) == built
    town.check_definitions()


def made_by_another_version(town: Town, view: str) -> None:
    town.in_warehouse(f"UPDATE dyda.view_version SET program = '{OTHER}' WHERE view = '{view}'")


def test_what_is_read_again_follows_renames_that_happened_meanwhile(town: Town) -> None:
    """Its text was written for the relations as the catalog knows them, not for what has their names now."""
    town.source("one", "CREATE TABLE r (k int, a int, b int)", "INSERT INTO r VALUES (1, 10, 100), (2, 20, 200)")
    town.view("a", "SELECT r.k, r.a FROM one.r")
    town.view("k", "SELECT r.k FROM one.r")
    town.apply()
    made_by_another_version(town, "a")
    town.execute(
        "one",
        "ALTER TABLE r RENAME a TO c",
        "ALTER TABLE r RENAME b TO a",
        "ALTER TABLE r RENAME c TO b",
        "INSERT INTO r VALUES (3, 30, 300)",
    )
    town.settle()
    assert town.state("a")["state"] == "fresh"
    assert town.extent("a") == {"1\t10": 1, "2\t20": 1, "3\t30": 1}
    town.check_definitions("a", "k")

    made_by_another_version(town, "a")
    town.execute("one", "ALTER TABLE r RENAME b TO d", "ALTER TABLE r RENAME TO renamed")
    town.settle()
    assert town.state("a")["state"] == "fresh"
    assert town.extent("a") == {"1\t10": 1, "2\t20": 1, "3\t30": 1}


def test_what_cannot_be_read_again_yet_is_not_fresh_and_follows_renames(town: Town) -> None:
    """A source is away while the other one goes on, and changes."""
    away = town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1), (2)")
    town.source("one", "CREATE TABLE r (k int, a int, b int)", "INSERT INTO r VALUES (1, 10, 100)")
    town.view("joined", "SELECT r.k, r.a FROM one.r JOIN two.s ON r.k = s.k")
    town.view("a", "SELECT r.k, r.a FROM one.r")
    town.apply()
    made_by_another_version(town, "joined")
    town.source_url("two", away.replace("dbname=", "dbname=no_") if "dbname=" in away else away + "_is_away")
    with town.maintainer() as maintainer:
        for statements in (
            ("INSERT INTO r VALUES (2, 20, 200)",),
            ("ALTER TABLE r RENAME a TO c", "ALTER TABLE r RENAME b TO a", "ALTER TABLE r RENAME c TO b"),
        ):
            town.execute("one", *statements)
            for _ in range(4):
                maintainer.cycle()
    assert town.extent("a") == {"1\t10": 1, "2\t20": 1}
    state = town.state("joined")
    assert (state["state"], "computes it in other steps" in state["reason"]) == ("resync", True), state
    assert town.extent("joined") == {"1\t10": 1}
    town.source_url("two", away)
    town.settle()
    assert town.state("joined")["state"] == "fresh"
    assert town.extent("joined") == {"1\t10": 1, "2\t20": 1}
    town.check_definitions("joined", "a")


def compute_with(town: Town, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
    """What another dyda.toml and a daemon that was started again make of it."""
    lines = "".join(f'{name} = "{value}"\n' for name, value in settings.items())
    file = town.folder / "dyda.toml"
    file.write_text(file.read_text().replace("[spark]\n", f"[spark]\n{lines}"))
    assert town.engine is not None
    monkeypatch.setattr(town.engine, "_settings", Project.load(town.folder).settings.spark)


def test_sums_of_quotients_with_other_digits_are_not_mixed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """`[spark] numeric` is another one: what was computed with the one before is read again."""
    town.source("one", "CREATE TABLE r (k int, x numeric)", "INSERT INTO r VALUES (1, 1), (1, 1), (2, 1)")
    town.view("thirds", "SELECT r.k, sum(r.x / 3) AS s FROM one.r GROUP BY r.k")
    town.view("passed", "SELECT r.k, r.x FROM one.r")
    town.apply()
    assert town.extent("thirds") == {"1\t0.666666666666666666": 1, "2\t0.333333333333333333": 1}
    compute_with(town, monkeypatch, numeric="decimal(38,4)")
    town.execute("one", "DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r)")
    town.settle()
    assert town.extent("thirds") == {"1\t0.3333": 1, "2\t0.3333": 1}
    assert {view["name"]: view["version"] for view in commands.views(town.folder)} == {"passed": 1, "thirds": 2}


def test_days_of_another_time_zone_are_not_mixed(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """`[spark] timezone` is another one. The Spark of the tests stays where it is: that it is read again is enough."""
    town.source("one", "CREATE TABLE r (t timestamptz)", "INSERT INTO r VALUES ('2026-01-01 23:30+00')")
    town.view("days", "SELECT CAST(r.t AS DATE) AS day, count(*) AS n FROM one.r GROUP BY CAST(r.t AS DATE)")
    town.apply()
    town.settle()
    assert town.state("days")["version"] == 1
    compute_with(town, monkeypatch, timezone="Europe/Berlin")
    town.settle()
    assert town.state("days")["version"] == 2
    assert "with its present settings" in commands.views_history(town.folder, "days")[-1]["cause"]
    town.settle()
    assert town.state("days")["version"] == 2


def test_views_of_an_older_version_move_to_new_tables_while_nothing_else_is_to_do(town: Town) -> None:
    """Nothing is read again: their rows are right, only the tables are of an older form."""
    town.source("one", "CREATE TABLE r (k int, v int)", "INSERT INTO r VALUES (1, 1), (1, 1), (2, 3)")
    town.view("bag", "SELECT r.k, r.v FROM one.r")
    town.view("sums", "SELECT r.k, sum(r.v) AS s FROM one.r GROUP BY r.k")
    town.apply()
    for view in ("bag", "sums"):
        make_older(town.warehouse, view)
    town.execute("one", "INSERT INTO r VALUES (1, 1)", "DELETE FROM r WHERE k = 2")
    forms = "SELECT coalesce(form, 'counted') FROM dyda.view_version w LEFT JOIN dyda.form f ON f.extent = w.extent"
    with town.maintainer() as maintainer:
        maintainer.cycle()
        town.check()
        assert set(printed(town.warehouse, forms)) == {"counted"}, "rows come first"
        for _ in range(6):
            maintainer.cycle()
        assert "counted" not in set(printed(town.warehouse, forms))
        town.check()
        town.execute("one", "DELETE FROM r WHERE v = 1")
        maintainer.cycle()
    town.check()
    assert {view["version"] for view in commands.views(town.folder)} == {1}
