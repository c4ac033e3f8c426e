"""TRUNCATE is a change like any other where a view begins with nothing then (rule C4); else its relations are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda import commands, faults
from dyda.maintenance.cycle import Outcome
from dyda.sources.reading.snapshot import SourceSnapshot
from tests.town import Town

FIXTURE = Path(__file__).parents[3] / "fixtures" / "truncations" / "views.sql"


def cases() -> dict[str, tuple[str, dict[str, str]]]:
    """By name: the view, and what becomes of it by truncated relation."""
    found = {}
    for part in FIXTURE.read_text().split("--# ")[1:]:
        name, _, rest = part.partition("\n")
        text, _, told = rest.partition("\n--> ")
        found[name] = (text, dict(re.findall(r"(\w+): (\w+)", told)))
    return found


CASES = cases()


def named(name: str) -> str:
    return re.sub(r"\W+", "_", name)


@pytest.fixture
def build(town: Town) -> Callable[[list[str]], Town]:
    def made(names: list[str]) -> Town:
        town.source(
            "one",
            "CREATE TABLE r (id int, k int, n int)",
            "CREATE TABLE u (id int, k int, n int)",
            "INSERT INTO r VALUES (1, 1, 1), (2, 1, 2), (3, 2, 3), (3, 2, 3), (4, NULL, 4)",
        )
        town.source(
            "two", "CREATE TABLE s (k int, v int)", "INSERT INTO s VALUES (1, 10), (1, 11), (2, 12), (3, 12), (0, 9)"
        )
        for name in names:
            town.view(named(name), CASES[name][0])
        town.apply()
        town.check()
        return town

    return made


@contextmanager
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The tables that sources are asked for, each as often as that."""
    tables: Counter[str] = Counter()
    with monkeypatch.context() as patch:
        for real in (SourceSnapshot.lookup, SourceSnapshot.scan):

            def spying(snapshot: Any, relation: Any, *rest: Any, real: Any = real, **named: Any) -> Any:
                tables[relation.name.table] += 1
                return real(snapshot, relation, *rest, **named)

            patch.setattr(SourceSnapshot, real.__name__, spying)
        yield tables


def kinds(town: Town, names: list[str]) -> dict[str, str | None]:
    """How each view last followed a change."""
    history = {name: commands.views_history(town.folder, named(name))[-1] for name in names}
    return {name: (version["adaptation"] or {}).get("kind") for name, version in history.items()}


@pytest.mark.parametrize("table", ["r", "s"])
def test_C4_a_truncated_relation_is_not_read_where_nothing_is_left(
    build: Callable[[list[str]], Town], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    names = [name for name, (_, told) in CASES.items() if told.get(table) == "emptied"]
    town = build(names)
    with asked(monkeypatch) as tables:
        town.execute("one" if table == "r" else "two", f"TRUNCATE {table}")
        town.settle()
    # The one row of a group without keys is joined with what it is joined with.
    assert tables == ({"s": 1} if table == "r" else {})
    assert kinds(town, names) == dict.fromkeys(names, "emptied")
    town.check()
    # What is kept of the operators follows, too.
    town.execute("one", "INSERT INTO r VALUES (5, 1, 5), (6, 1, 5), (7, NULL, 1)")
    town.execute("two", "INSERT INTO s VALUES (1, 3), (NULL, 4)")
    town.settle()
    town.check()
    town.execute("one", "DELETE FROM r WHERE id = 5")
    town.execute("two", "DELETE FROM s WHERE v = 3")
    town.settle()
    town.check()


def test_other_views_are_read_again(build: Callable[[list[str]], Town]) -> None:
    """Rows that remain are in no state."""
    town = build(list(CASES))
    for source, table in (("two", "s"), ("one", "r")):
        town.execute(source, f"TRUNCATE {table}")
        town.settle()
        town.check()
        town.execute(source, f"INSERT INTO {table} SELECT g, g FROM generate_series(1, 3) g")
        town.settle()
        town.check()


SCHEDULES: dict[str, list[tuple[str, ...]]] = {
    "before it": [("one", "INSERT INTO r VALUES (8, 1, 8)"), ("one", "TRUNCATE r")],
    "within it": [
        (
            "one",
            "INSERT INTO r VALUES (8, 1, 8)",
            "DELETE FROM r WHERE id = 1",
            "TRUNCATE r",
            "INSERT INTO r VALUES (9, 1, 9)",
        )
    ],
    "twice within it": [
        (
            "one",
            "TRUNCATE r",
            "INSERT INTO r VALUES (8, 1, 8), (8, 2, 8)",
            "TRUNCATE r",
            "INSERT INTO r VALUES (9, 1, 9), (9, 1, 9)",
            "UPDATE r SET k = 2",
        )
    ],
    "a savepoint": [
        (
            "one",
            "SAVEPOINT a",
            "TRUNCATE r",
            "ROLLBACK TO a",
            "INSERT INTO r VALUES (9, 1, 9)",
            "TRUNCATE r",
            "SAVEPOINT b",
            "INSERT INTO r VALUES (8, 1, 8)",
            "ROLLBACK TO b",
            "INSERT INTO r VALUES (7, 2, 7)",
        )
    ],
    "after it": [
        ("one", "TRUNCATE r", "INSERT INTO r VALUES (9, 1, 9)"),
        ("one", "UPDATE r SET n = 2"),
        ("one", "INSERT INTO r VALUES (9, 2, 9), (10, NULL, 1)"),
    ],
    "of the other table": [
        ("two", "DELETE FROM s WHERE v = 10"),
        ("one", "TRUNCATE r"),
        ("two", "INSERT INTO s VALUES (1, 50), (5, 50)"),
        ("one", "INSERT INTO r VALUES (9, 1, 9), (10, 5, 1)"),
    ],
    "of both tables": [
        ("one", "TRUNCATE r", "INSERT INTO r VALUES (9, 1, 9)"),
        ("two", "TRUNCATE s", "INSERT INTO s VALUES (1, 1), (1, 100)"),
    ],
    "with another name": [
        ("one", "TRUNCATE r", "INSERT INTO r VALUES (9, 1, 9)"),
        ("one", "ALTER TABLE r RENAME TO q"),
        ("one", "INSERT INTO q VALUES (10, 2, 9)"),
        ("one", "ALTER TABLE q RENAME TO r"),
    ],
    "with a rename": [
        ("one", "TRUNCATE r", "INSERT INTO r VALUES (9, 1, 9)"),
        ("one", "ALTER TABLE r RENAME COLUMN n TO number"),
        ("one", "INSERT INTO r VALUES (10, 2, 9)"),
    ],
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_C4_rows_before_within_and_after_a_truncation(build: Callable[[list[str]], Town], schedule: str) -> None:
    """All of it pending at once, as it is after an outage."""
    names = ["self join", "left join", "anti join", "group over a join", "group without keys", "distinct"]
    town = build(names)
    for source, *statements in SCHEDULES[schedule]:
        town.execute(source, *statements)
    town.settle()
    town.check_definitions(*map(named, names))
    assert kinds(town, names) == dict.fromkeys(names, "emptied")
    town.execute("two", "INSERT INTO s VALUES (1, 77), (2, 78)")
    town.execute("one", "DELETE FROM r WHERE k = 1")
    town.settle()
    town.check_definitions(*map(named, names))


@pytest.mark.parametrize(
    ("point", "later"),
    [
        ("unit.messages-received", "TRUNCATE r"),
        ("sweep.before-hop", "TRUNCATE r"),
        ("sweep.before-hop", "DELETE FROM r"),
        ("unit.swept", "TRUNCATE r"),
        ("install.before-commit", "TRUNCATE r"),
    ],
)
def test_R1_what_happens_meanwhile_is_of_a_later_unit(
    build: Callable[[list[str]], Town], point: str, later: str
) -> None:
    """R2: a second truncation makes the table read as empty through the snapshot."""
    town = build(["inner join", "self join", "group over a join", "left join"])
    town.execute("one", "TRUNCATE r", "INSERT INTO r VALUES (9, 1, 9), (10, 2, 10)")
    done: list[int] = []

    def meanwhile() -> None:
        if not done:
            done.append(town.execute("one", later, "INSERT INTO r VALUES (12, 1, 12)"))

    with faults.on(point, meanwhile):
        town.settle()
    town.settle()
    assert done
    town.check()


def test_C4_truncating_one_partition_leaves_the_others(town: Town) -> None:
    town.source(
        "one",
        "CREATE TABLE p (a int, b int) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        "INSERT INTO p VALUES (1, 1), (2, 2)",
    )
    town.view("v", "SELECT p.a, sum(p.b) AS b FROM one.p p GROUP BY p.a")
    town.apply()
    town.execute("one", "TRUNCATE p1")
    town.settle()
    assert town.extent("v") == Counter(["2\t2"])
    town.execute("one", "TRUNCATE p", "INSERT INTO p1 VALUES (1, 7)")
    town.settle()
    assert town.extent("v") == Counter(["1\t7"])
    assert kinds(town, ["v"]) == {"v": "emptied"}


def test_C4_truncate_cascade_empties_several_relations(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    town.source(
        "one",
        "CREATE TABLE p (a int PRIMARY KEY)",
        "CREATE TABLE c (a int REFERENCES p, b int)",
        "INSERT INTO p VALUES (1), (2)",
        "INSERT INTO c VALUES (1, 1), (2, 2)",
    )
    town.view("v", "SELECT p.a, c.b FROM one.p p JOIN one.c c ON p.a = c.a")
    town.view("either", "SELECT p.a FROM one.p p UNION SELECT c.b FROM one.c c")
    town.apply()
    with asked(monkeypatch) as tables:
        town.execute("one", "TRUNCATE p CASCADE")
        town.settle()
    assert not tables
    assert kinds(town, ["v", "either"]) == {"v": "emptied", "either": "emptied"}
    town.check()


@pytest.mark.parametrize("later", [(), ("INSERT INTO r VALUES (3, 1, 3)",)])
def test_C4_views_of_one_unit_read_other_columns_of_the_truncated_relation(town: Town, later: tuple[str, ...]) -> None:
    """Rows of another table let one of them read images, with the columns that it needs itself."""
    town.source(
        "one",
        "CREATE TABLE r (id int, k int, n int)",
        "CREATE TABLE u (k int, n int)",
        "INSERT INTO r VALUES (1, 1, 1), (2, 1, 2)",
        "INSERT INTO u VALUES (1, 5)",
    )
    views = {
        "before": "SELECT r.n FROM one.r r",
        "joined": "SELECT r.id, u.n FROM one.r r JOIN one.u u ON r.k = u.k",
        "later": "SELECT r.n, max(r.k) AS k FROM one.r r GROUP BY r.n",
    }
    for name, text in views.items():
        town.view(name, text)
    town.apply()
    town.execute("one", "UPDATE u SET n = 6", "TRUNCATE r", *later)
    town.settle()
    assert kinds(town, list(views)) == dict.fromkeys(views, "emptied")
    town.check()


def test_a_table_that_is_loaded_again_is_read(town: Town) -> None:
    """Most of what it had is there again: then only what differs is written."""
    fill = "INSERT INTO r SELECT g, g FROM generate_series(1, 10001) g"
    town.source("one", "CREATE TABLE r (a int, b int)", fill)
    town.view("v", "SELECT r.a, r.b FROM one.r r")
    town.apply()
    town.execute("one", "TRUNCATE r", fill, "UPDATE r SET b = 0 WHERE a = 1")
    town.settle()
    assert kinds(town, ["v"]) == {"v": None}
    town.check()


def test_I2_a_large_extent_is_emptied_by_a_new_table(town: Town) -> None:
    town.source("one", "CREATE TABLE r (a int, b int)", "INSERT INTO r SELECT g, g FROM generate_series(1, 10001) g")
    town.view("v", "SELECT r.a, r.b FROM one.r r")
    town.view("grouped", "SELECT r.b, count(*) AS c FROM one.r r GROUP BY r.b")
    town.apply()
    reader = psycopg2.connect(town.warehouse)
    reader.set_session(isolation_level="REPEATABLE READ")
    with reader, reader.cursor() as cursor:
        cursor.execute("SELECT 1")
        town.execute("one", "TRUNCATE r", "INSERT INTO r VALUES (1, 1), (1, 1)")
        town.settle()
        with pytest.raises(psycopg2.errors.SerializationFailure):
            cursor.execute("SELECT count(*) FROM v")
    reader.close()
    assert town.extent("v") == Counter({"1\t1": 2})
    assert kinds(town, ["v", "grouped"]) == {"v": "emptied", "grouped": "emptied"}
    town.execute("one", "DELETE FROM r WHERE ctid = (SELECT min(ctid) FROM r)")
    town.settle()
    town.check()


def test_it_is_told_before_it_happens(build: Callable[[list[str]], Town]) -> None:
    town = build(["inner join", "union all"])
    told = {view["name"]: view for view in commands.impact(town.folder, "TRUNCATE one.r", engine=town.engine)["views"]}
    assert told["inner_join"]["effect"] == told["union_all"]["effect"] == "adapted"
    assert told["inner_join"]["plan"] == "adapt"
    assert told["inner_join"]["reason"] == "one.public.r was truncated; what came since is added"
    assert told["union_all"]["plan"] == "rebuild"


def test_outcomes_are_what_they_were(build: Callable[[list[str]], Town]) -> None:
    """One unit empties every view that it can."""
    town = build(["inner join", "group"])
    town.execute("one", "TRUNCATE r")
    assert town.settle() == [Outcome.WORKED, Outcome.IDLE]
