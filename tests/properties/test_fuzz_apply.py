"""A refused `apply` leaves no trace: neither at the warehouse nor at the sources, also where other views are sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, example, given

from dyda.engine import Engine
from dyda.errors import DydaError
from tests.properties.fuzzing import answer_or_refusal, mutated, profile
from tests.recompute_oracle import printed
from tests.town import Town

SOUND = "SELECT a.k, a.t FROM one.a"
WRITTEN = [
    "SELECT a.k, b.v FROM one.a JOIN two.b ON a.k = b.k WHERE a.t = 'x' /* dispensable */",
    "SELECT a.t, count(*) AS n, sum(a.k) AS s FROM one.a GROUP BY a.t HAVING count(*) > 1",
    "WITH w AS (SELECT k FROM two.b UNION SELECT k FROM one.a) SELECT w.k, a.t FROM w LEFT JOIN one.a ON w.k = a.k",
    "SELECT DISTINCT CAST(a.t AS INT) AS i FROM one.a WHERE EXISTS (SELECT 1 FROM two.b WHERE b.k = a.k)",
    "SELECT CASE WHEN a.k > 1 THEN upper(a.t) ELSE 'none' END AS c FROM one.a EXCEPT ALL SELECT b.v FROM two.b",
]
PARTS = [
    "one.a",
    "two.b",
    "one.missing",
    "three.a",
    "kept",
    "a.nothing",
    "explode(a.t)",
    "rand()",
    "NULL",
    "1 / 0",
    "ARRAY(1)",
    "CAST('x' AS INT)",
    "a.k = b.v",
]


@pytest.fixture(scope="module")
def kept(
    module_database: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory, engine: Engine
) -> Iterator[Town]:
    town = Town(tmp_path_factory.mktemp("apply") / "town", module_database, engine)
    town.source("one", "CREATE TABLE a (k int, t text)", "INSERT INTO a VALUES (1, '1'), (2, 'x')")
    town.source("two", "CREATE TABLE b (k int, v text)", "INSERT INTO b VALUES (1, 'y')")
    town.view("kept", "SELECT a.k FROM one.a")
    town.apply()
    yield town
    town.close()


def traces(town: Town) -> dict[str, Counter[str]]:
    """All that the project has put into its warehouse, except who works on it, when a source last answered, how fresh
    views are at the moment and what has happened; and the triggers at the sources' tables. A source that was attached
    once keeps its own, empty, schema."""
    tables = (
        "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relkind IN ('r', 'v') AND n.nspname IN ('dyda', 'public')"
    )
    found = {
        table: Counter() if table in UNSTEADY else printed(town.warehouse, f"SELECT * FROM {table}")
        for table in printed(town.warehouse, tables)
    }
    triggers = (
        "SELECT t.tgrelid::regclass, t.tgname, t.tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
        " WHERE NOT t.tgisinternal AND c.relnamespace = 'public'::regnamespace"
    )
    return found | {source: printed(url, triggers) for source, url in town.sources.items()}


UNSTEADY = ("dyda.project", "dyda.source", "dyda.event", "dyda.events", "dyda.freshness")


@profile(12)
@given(text=mutated(WRITTEN, PARTS))
@example(text="SELECT a.k, 1 / 0 AS q FROM one.a")
@example(text="SELECT CAST(a.t AS INT) AS i FROM one.a")
@example(text="SELECT a.k, CAST(b.v AS INT) AS i FROM one.a JOIN two.b ON a.k = b.k")
@example(text="SELECT a.k FROM one.a WHERE " + "(" * 200 + "a.k = 1" + ")" * 200)
def test_a_refused_apply_leaves_no_trace(kept: Town, text: str) -> None:
    before = traces(kept)
    kept.view("bad", text)
    kept.view("sound", SOUND)
    try:
        found = answer_or_refusal(kept.apply)
        if isinstance(found, DydaError):
            assert traces(kept) == before
    finally:
        for name in ("bad", "sound"):
            (Path(kept.folder) / "views" / f"{name}.sql").unlink()
        kept.apply()
    assume(isinstance(found, DydaError))
