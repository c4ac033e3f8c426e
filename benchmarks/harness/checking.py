"""A fast wrong answer is a failure: extents beside what PostgreSQL computes, without moving the rows to Python."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import sqlglot

from tests.recompute_oracle import PINNED
from tests.town import Town, _two_part

__all__ = ["digest", "require_right", "require_same"]


def digest(url: str, query: str) -> tuple[object, ...]:
    """How many rows, and the sum of their hashes: the same for equal bags, in any order."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(PINNED)
        cursor.execute(f"SELECT count(*), sum(hashtextextended(v::text, 0)::numeric) FROM ({query}) AS v")
        return tuple(cursor.fetchone())


def require_same(what: str, found: tuple[object, ...], expected: tuple[object, ...]) -> None:
    if found != expected:
        raise AssertionError(f"{what} is wrong: {found[0]} rows where {expected[0]} are right, or other ones")


def require_right(town: Town, *views: str) -> None:
    """Each extent is what the view's definition, as it is now, gives over the sources as they are now."""
    town._copy_sources()
    judge = town.judge().connection.dsn
    for view in views:
        state = town.state(view)
        if state["state"] not in ("fresh", "stale"):
            raise AssertionError(f"{view} is {state['state']}: {state['reason']}")
        text = _two_part(state["definition"])
        (query,) = sqlglot.transpile(text, read="spark", write="postgres", comments=False)
        require_same(view, digest(town.warehouse, f'SELECT * FROM public."{view}"'), digest(judge, query))
