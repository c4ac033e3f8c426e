"""A row that cannot be computed is set aside and shown; it holds back the views that need it, and nobody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner

from dyda import commands
from dyda.cli.main import cli
from dyda.engine.typed_columns import LARGEST_VALUE
from dyda.errors import ValueTooLarge
from dyda.maintenance.cycle import Due, Outcome
from dyda.maintenance.observe.poll import Poll
from tests.town import Town


@dataclass(frozen=True)
class Poison:
    """A table `name` with rows that are sound, a view over it, a row that is not, and one of the ways out.

    The row is corrected and the message tried again; or (`skipped`) the row is corrected and the message is skipped; or
    the view becomes one that tolerates the row (`tolerant`).
    """

    name: str
    columns: str
    sound: str
    view: str
    poison: str
    said: tuple[str, ...]
    corrected: str = ""
    skipped: bool = False
    tolerant: str = ""


POISONS = (
    Poison(
        "casting",
        "k int, t text",
        "(1, '1')",
        "SELECT p.k, CAST(p.t AS INT) AS n FROM one.casting p",
        "(2, 'two')",
        ("'two'", "INT"),
        "t = '2'",
        skipped=True,
    ),
    Poison(
        "zero",
        "k int, d int",
        "(1, 1)",
        "SELECT p.k, 10 / p.d AS q FROM one.zero p",
        "(2, 0)",
        ("ivi", "d = 0"),
        "d = 5",
    ),
    Poison(
        "overflow",
        "k int, v int",
        "(1, 1)",
        "SELECT p.k, p.v + p.v AS w FROM one.overflow p",
        "(2, 2147483647)",
        ("overflow", "v = 2147483647"),
        tolerant="SELECT p.k, CAST(p.v AS BIGINT) + p.v AS w FROM one.overflow p",
    ),
    Poison(
        "digits",
        "k int, v numeric",
        "(1, 1.5)",
        "SELECT p.k, CAST(p.v + 1 AS DOUBLE) AS w FROM one.digits p",
        "(2, 1.1234567890123456789)",
        ("one.public.digits.v", "1.1234567890123456789", "DECIMAL(38,18)"),
        "v = 2.5",
    ),
    Poison(
        "nan",
        "k int, v numeric",
        "(1, 1.5)",
        "SELECT p.k, CAST(p.v + 1 AS DOUBLE) AS w FROM one.nan p",
        "(2, 'NaN')",
        ("one.public.nan.v", "NaN"),
        "v = 2.5",
    ),
    Poison(
        "endless",
        "k int, d date",
        "(1, '2024-01-01')",
        "SELECT p.k, year(p.d) AS y FROM one.endless p",
        "(2, 'infinity')",
        ("one.public.endless.d", "infinity"),
        "d = '2025-01-01'",
    ),
    Poison(
        "ancient",
        "k int, d date",
        "(1, '2024-01-01')",
        "SELECT p.k, year(p.d) AS y FROM one.ancient p",
        "(2, '0044-03-15 BC')",
        ("one.public.ancient.d", "BC"),
        "d = '2025-01-01'",
    ),
    Poison(
        "distant",
        "k int, at timestamp",
        "(1, '2024-01-01')",
        "SELECT p.k, year(p.at) AS y FROM one.distant p",
        "(2, '294276-12-31 23:59:59')",
        ("one.public.distant.at", "294276"),
        "at = '2025-01-01'",
    ),
    Poison(
        "grouped",
        "k int, t text",
        "(1, '1')",
        "SELECT p.k, sum(CAST(p.t AS INT)) AS n FROM one.grouped p GROUP BY p.k",
        r"(2, E'2.5\x1b[2J\nall is well')",
        ("'2.5\x1b[2J", "t = 2.5\x1b[2J\nall is well"),
        "t = '2'",
    ),
    Poison(
        "joined",
        "k int, t text",
        "(1, '1')",
        "SELECT p.k, b.k AS other FROM one.joined p JOIN two.b ON CAST(p.t AS INT) = b.k",
        "(2, '')",
        ("''",),
        "t = '2'",
    ),
    Poison(
        "condition",
        "k int, t text",
        "(1, '2021-01-01')",
        "SELECT p.k FROM one.condition p WHERE CAST(p.t AS DATE) > DATE '2020-01-01'",
        "(2, '2024-02-30')",
        ("2024-02-30",),
        "t = '2024-02-28'",
    ),
)


ODD_TEXT = r"""E'\x01\x7f\t\n' || U&'\+10FFFF \2028 \202E e\0301 \FEFF' || '"\, ''(a,b)'"""
"""Odd, but a text: nothing is wrong with it."""

INNOCENT = ("a", "b", "both", "zero_k", "odd")


@pytest.fixture
def poisoned(town: Town) -> Town:
    town.source("one", "CREATE TABLE a (k int)", *(f"CREATE TABLE {p.name} ({p.columns})" for p in POISONS))
    town.execute("one", "INSERT INTO a VALUES (1)", *(f"INSERT INTO {p.name} VALUES {p.sound}" for p in POISONS))
    town.source("two", "CREATE TABLE b (k int)", "CREATE TABLE odd (t text)", "INSERT INTO b VALUES (1), (2)")
    for poison in POISONS:
        town.view(poison.name, poison.view)
    town.view("zero_k", "SELECT p.k FROM one.zero p")
    town.view("a", "SELECT a.k FROM one.a")
    town.view("b", "SELECT b.k FROM two.b")
    town.view("both", "SELECT a.k FROM one.a JOIN two.b ON a.k = b.k")
    town.view("odd", "SELECT o.t, upper(o.t) = o.t AS same FROM two.odd o")
    town.apply()
    return town


def quarantined(town: Town) -> dict[str, dict[str, Any]]:
    """By the name of its relation's table, each message that is set aside, as `pending show` tells it."""
    listed = [message["id"] for message in commands.pending(town.folder) if message["state"] == "quarantined"]
    shown = [commands.pending_show(town.folder, number) for number in listed]
    return {message["relations"][-1].rpartition(".")[2]: message for message in shown}


def test_every_poison_is_set_aside_shown_and_overcome(poisoned: Town) -> None:
    town = poisoned
    for poison in POISONS:
        town.execute("one", f"INSERT INTO {poison.name} VALUES {poison.poison}")
    town.execute("one", "INSERT INTO a VALUES (2)", "INSERT INTO zero VALUES (7, 7)")
    town.execute("two", "INSERT INTO b VALUES (3)", f"INSERT INTO odd VALUES ({ODD_TEXT})")
    town.settle()

    # Everybody else goes on: other views of that relation, of that source, of other sources, with later messages too.
    town.check(*INNOCENT)
    states = {view["name"]: view for view in commands.status(town.folder)["views"]}
    assert {states[name]["state"] for name in INNOCENT} == {"fresh"}
    messages = quarantined(town)
    for poison in POISONS:
        view, message = states[poison.name], messages[poison.name]
        assert view["state"] == "held"
        for words in (*poison.said, f"row of one.public.{poison.name}: ", "k = 2"):
            assert words in view["reason"], (words, view["reason"])
            assert words in message["reason"]
        assert view["reason"].startswith(f"message {message['id']} is quarantined: ")
        assert [row["values"]["k"] for row in message["samples"]] == ["2"]
        assert sum(town.extent(poison.name).values()) == 1, "its last correct rows are served"

    # To the operator's terminal it is a text, whatever it says.
    for command in (["status"], ["views"], ["pending"], ["pending", "show", str(messages["grouped"]["id"])]):
        said = CliRunner().invoke(cli, ["-C", str(town.folder), *command], catch_exceptions=False).output
        assert r"t = 2.5\x1b[2J\nall is well" in said
        assert "\x1b" not in said
        assert not [line for line in said.splitlines() if line.startswith("all is well")]

    # Three ways out: correct the row and retry; skip, and the view is rebuilt; a view that tolerates the row.
    for poison in POISONS:
        if poison.corrected:
            town.execute("one", f"UPDATE {poison.name} SET {poison.corrected} WHERE k = 2")
    for poison in POISONS:
        number = messages[poison.name]["id"]
        if poison.tolerant:
            town.view(poison.name, poison.tolerant)
        elif poison.skipped:
            commands.pending_skip(town.folder, number, "the row was a mistake")
        else:
            commands.pending_retry(town.folder, number)
    town.apply()
    town.settle()
    town.check()
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}
    assert not [message for message in commands.pending(town.folder) if message["state"] != "waiting"]


def test_a_row_that_is_skipped_and_still_there_is_named_and_overcome_by_itself(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The view cannot be rebuilt over it. It says so, goes on saying so, and is rebuilt when its rows allow it."""
    town.source("one", "CREATE TABLE p (k int, t text)", "INSERT INTO p VALUES (1, '1')", "CREATE TABLE a (k int)")
    town.view("casting", "SELECT p.k, CAST(p.t AS INT) AS n FROM one.p")
    town.view("a", "SELECT a.k FROM one.a")
    town.apply()
    town.execute("one", "INSERT INTO p VALUES (2, 'two')")
    town.settle()
    (message,) = quarantined(town).values()
    commands.pending_skip(town.folder, message["id"], "a row of a test")
    town.settle()
    state = town.state("casting")
    assert state["state"] == "broken"
    said = state["reason"]
    for words in (
        f"message {message['id']} was skipped: a row of a test (row of one.public.p: k = 2, t = two)",
        "it cannot be built from the rows that its sources have now: ",
        "'two'",
        "correct or delete the row at the source, and DyDa builds it",
    ):
        assert words in said, said
    assert "is back" not in said
    assert sum(town.extent("casting").values()) == 1, "its last correct rows are served"

    with town.maintainer() as maintainer:
        built: list[list[str]] = []
        build = maintainer.units.build

        def counted(polled: Poll, due: Due, *more: Any) -> Outcome:
            built.append([*due.builds])
            return build(polled, due, *more)

        monkeypatch.setattr(maintainer.units, "build", counted)

        def cycles() -> list[list[str]]:
            built.clear()
            for _ in range(5):
                maintainer.cycle()
            return [*built]

        assert cycles() == [["casting"]], "once by a new process"
        town.execute("one", "INSERT INTO a VALUES (7)")
        assert cycles() == [], "its rows are what they were"
        town.execute("one", "INSERT INTO p VALUES (3, '3')")
        assert cycles() == [["casting"]]
        assert town.state("casting")["reason"] == said, "nothing is added each time"
        town.execute("one", "UPDATE p SET t = '2' WHERE k = 2")
        assert cycles() == [["casting"]]
    town.check()
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}


def test_one_row_of_thousands_is_named(town: Town) -> None:
    """And a row of as many columns as PostgreSQL has."""
    numbers = ", ".join(f"c{number} int" for number in range(1, 1599))
    town.source("one", f"CREATE TABLE wide (k int, d int, {numbers})", "CREATE TABLE other (k int)")
    town.view("wide", "SELECT w.k, w.c1598, 10 / w.d AS q FROM one.wide w")
    town.view("other", "SELECT o.k FROM one.other o")
    town.apply()
    town.execute(
        "one",
        "INSERT INTO wide (k, d, c1598) SELECT i, (i <> 1234)::int, i FROM generate_series(1, 2000) i",
        "INSERT INTO other VALUES (1)",
    )
    town.settle()
    town.check("other")
    assert "[row of one.public.wide: " in town.state("wide")["reason"]
    assert "k = 1234" in town.state("wide")["reason"]
    (message,) = quarantined(town).values()
    assert (message["rows"], message["truncated"], len(message["samples"])) == (2001, True, 100)
    town.execute("one", "DELETE FROM wide WHERE d = 0")
    commands.pending_retry(town.folder, message["id"])
    town.settle()
    town.check()


def test_a_huge_value_holds_only_the_views_that_read_it(town: Town) -> None:
    town.source("one", "CREATE TABLE big (k int, t text)", "INSERT INTO big VALUES (1, 'x')")
    town.view("big", "SELECT b.k, b.t FROM one.big b")
    town.view("numbers", "SELECT b.k FROM one.big b")
    town.apply()
    size = LARGEST_VALUE + 1
    town.execute("one", f"INSERT INTO big VALUES (2, repeat('y', {size}))")
    town.settle()
    town.check("numbers")
    reason = town.state("big")["reason"]
    assert f"one.public.big.t: a value of {size} bytes is larger than {LARGEST_VALUE}" in reason
    assert "k = 2" in reason
    assert len(reason) < 1000
    (message,) = quarantined(town).values()
    assert message["samples"][0]["values"]["t"].endswith(f"({size} characters)")
    assert len(message["samples"][0]["values"]["t"]) < 2000
    town.view("late", "SELECT b.t FROM one.big b")
    with pytest.raises(ValueTooLarge, match="Shorten it at the source"):
        town.apply()
    (town.folder / "views" / "late.sql").unlink()
    town.execute("one", "UPDATE big SET t = 'short' WHERE k = 2")
    commands.pending_retry(town.folder, message["id"])
    town.settle()
    town.check()
