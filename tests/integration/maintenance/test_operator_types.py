"""Types of every kind under keyed operators: as group keys, in sets, as keys of states, under extremes and sums."""

from __future__ import annotations

import pytest

from tests.town import Town

pytestmark = pytest.mark.long

COLUMNS = {
    "i": ("int", ["1", "2", "NULL"]),
    "b": ("bigint", ["10000000000", "-1", "NULL"]),
    "d": ("numeric(12,3)", ["1.500", "-0.001", "NULL"]),
    "f": ("double precision", ["1e10", "-0", "0", "'NaN'", "'Infinity'", "NULL"]),
    "e": ("real", ["0.1", "0.2", "NULL"]),
    "x": ("text", ["''", "'a'", "'A'", "'ä'", "repeat('long', 2000)", "NULL"]),
    "c": ("char(4)", ["'ab'", "'ab  '", "NULL"]),
    "u": ("uuid", ["'00000000-0000-0000-0000-000000000001'", "NULL"]),
    "t": ("date", ["'2024-02-29'", "'0001-01-01'", "NULL"]),
    "s": ("timestamp", ["'2024-01-01 00:00:00.5'", "'2024-01-01 00:00:00'", "NULL"]),
    "z": ("timestamptz", ["'2024-01-01 00:00:00.120+02'", "NULL"]),
    "o": ("boolean", ["true", "false", "NULL"]),
    "y": ("bytea", ["'\\x00ff'", "''", "NULL"]),
}
EXTREMES = [
    name for name in COLUMNS if name not in ("f", "u", "o", "c", "x", "y")
]  # others PostgreSQL has no max() of, or a collation of its own


def insert(number: int) -> str:
    values = ", ".join(values[number % len(values)] for _, values in COLUMNS.values())
    return f"INSERT INTO %s VALUES ({number}, {values})"


@pytest.fixture
def typed(town: Town) -> Town:
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    town.source("one", f"CREATE TABLE r (id int, {declared})", *(insert(n) % "r" for n in range(6)))
    town.source("two", f"CREATE TABLE s (id int, {declared})", *(insert(n) % "s" for n in range(0, 6, 2)))
    return town


def test_every_type_in_sets_groups_and_semi_joins(typed: Town) -> None:
    names = list(COLUMNS)
    typed.view("every", f"SELECT DISTINCT {', '.join(f'r.{name}' for name in names)} FROM one.r r")
    typed.view("both", f"SELECT {', '.join(names)} FROM one.r INTERSECT SELECT {', '.join(names)} FROM two.s")
    for name in names:
        typed.view(f"by_{name}", f"SELECT r.{name}, count(*) AS times FROM one.r r GROUP BY r.{name}")
        typed.view(f"semi_{name}", f"SELECT r.id FROM one.r r WHERE r.{name} IN (SELECT s.{name} FROM two.s s)")
    typed.view("highest", f"SELECT r.o, {', '.join(f'max(r.{n}) AS {n}_' for n in EXTREMES)} FROM one.r r GROUP BY r.o")
    typed.view(
        "added", "SELECT r.o, sum(r.i) AS i, sum(r.b) AS b, sum(r.d) AS d, sum(r.f) AS f FROM one.r r GROUP BY r.o"
    )
    typed.view("padded", "SELECT r.id, s.x, s.d, s.y, s.z FROM one.r r LEFT JOIN two.s s ON r.z = s.z AND r.t = s.t")
    typed.apply()
    typed.check()
    for statements in (
        ("one", *(insert(n) % "r" for n in range(6, 14))),
        ("two", *(insert(n) % "s" for n in range(5, 9)), "DELETE FROM s WHERE id = 0"),
        ("one", "DELETE FROM r WHERE id IN (1, 3, 12)", "UPDATE r SET d = d + 1 WHERE id = 2"),
        ("two", "DELETE FROM s"),
        ("one", "DELETE FROM r"),
    ):
        typed.execute(*statements)
        typed.settle()
        typed.check()
