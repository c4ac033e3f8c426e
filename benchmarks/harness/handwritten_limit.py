"""The limit: the same view kept by hand in one database that holds every relation. No system in between.

Triggers collect the deltas (not counted, as capture is not). A batch is one statement: the telescoping sum over the
relations, each term driven by one delta along the indexes, merged into a counted table.

    term i    r1 new ⋈ … ⋈ Δri ⋈ r(i+1) old ⋈ …          old = new − Δ
"""

from __future__ import annotations

from contextlib import closing

import psycopg2

from benchmarks.harness.measuring import Stopwatch
from benchmarks.scenarios.relations import TABLES, view_over

__all__ = ["Limit"]

_OUT = ("r1.id", "r1.b", "r2.c", "r3.c", "r4.b", "r5.b", "r6.c")
_NAMES = ("i1", "b1", "c2", "c3", "b4", "b5", "c6")

_CAPTURE = """
CREATE UNLOGGED TABLE d_{table} (LIKE {table}, n int) WITH (autovacuum_analyze_threshold = 2000000000);
CREATE FUNCTION took_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF TG_OP <> 'INSERT' THEN INSERT INTO d_{table} SELECT *, -1 FROM gone; END IF;
  IF TG_OP <> 'DELETE' THEN INSERT INTO d_{table} SELECT *, 1 FROM came; END IF;
  RETURN NULL; END $$;
CREATE TRIGGER took_i AFTER INSERT ON {table} REFERENCING NEW TABLE AS came
  FOR EACH STATEMENT EXECUTE FUNCTION took_{table}();
CREATE TRIGGER took_d AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone
  FOR EACH STATEMENT EXECUTE FUNCTION took_{table}();
CREATE TRIGGER took_u AFTER UPDATE ON {table} REFERENCING OLD TABLE AS gone NEW TABLE AS came
  FOR EACH STATEMENT EXECUTE FUNCTION took_{table}();
"""


def _term(place: int) -> str:
    """ΔV by the changes of one relation: later relations as they were, earlier ones as they are."""
    delta = TABLES[place]
    joined = f"d_{delta} AS {delta}"
    for left, right in zip(TABLES[place:], TABLES[place + 1 :], strict=False):
        joined += (
            f" CROSS JOIN LATERAL (SELECT id, a, b, c, 1 AS n FROM {right} WHERE id = {left}.a"
            f" UNION ALL SELECT id, a, b, c, -n FROM d_{right} WHERE id = {left}.a) AS {right}"
        )
    for left, right in zip(reversed(TABLES[:place]), reversed(TABLES[1 : place + 1]), strict=True):
        joined += f" CROSS JOIN LATERAL (SELECT id, a, b, c FROM {left} WHERE a = {right}.id) AS {left}"
    numbers = " * ".join(f"{table}.n" for table in TABLES[place:])
    items = ", ".join(f"{item} AS {name}" for item, name in zip(_OUT, _NAMES, strict=True))
    return f"SELECT {items}, {numbers} AS n FROM {joined}"


def _merge() -> str:
    names = ", ".join(_NAMES)
    same = " AND ".join(f"m.{name} IS NOT DISTINCT FROM d.{name}" for name in _NAMES[1:])
    terms = " UNION ALL ".join(f"({_term(place)})" for place in range(len(TABLES)))
    return (
        f"MERGE INTO kept AS m USING (SELECT {names}, sum(n) AS n FROM ({terms}) AS t GROUP BY {names}"
        f" HAVING sum(n) <> 0) AS d ON m.i1 = d.i1 AND {same}"
        " WHEN MATCHED AND m.count + d.n = 0 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET count = m.count + d.n"
        f" WHEN NOT MATCHED THEN INSERT ({names}, count) VALUES ({', '.join('d.' + n for n in _NAMES)}, d.n)"
    )


class Limit:
    """Keeps the view in table `kept` of the database at `url`, which has the relations."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg2.connect(url)
        with self._connection, self._connection.cursor() as cursor:
            for table in TABLES:
                cursor.execute(_CAPTURE.format(table=table))
                cursor.execute(f"CREATE INDEX ON d_{table} (id)")
            text = view_over({table: table for table in TABLES})
            cursor.execute(f"CREATE TABLE kept AS SELECT *, count(*) FROM ({text}) AS v GROUP BY {', '.join(_NAMES)}")
            cursor.execute("CREATE INDEX ON kept (i1)")
            cursor.execute("ANALYZE kept")
            # The shape of the plan is known: from the delta along the indexes. Small estimates mislead nothing then.
            cursor.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off")

    def follow(self) -> float:
        """Brings the pending changes in."""
        with self._connection.cursor() as cursor, Stopwatch() as watch:
            cursor.execute(_merge() + "; " + "; ".join(f"DELETE FROM d_{table}" for table in TABLES))
            self._connection.commit()
        return watch.seconds

    def right(self) -> bool:
        """Whether the kept rows are what the view asks for."""
        text = view_over({table: table for table in TABLES})
        names = ", ".join(_NAMES)
        kept = f"SELECT {names}, count FROM kept"
        asked = f"SELECT {names}, count(*) FROM ({text}) AS v GROUP BY {names}"
        with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT NOT EXISTS (({kept} EXCEPT {asked}) UNION ALL ({asked} EXCEPT {kept}))")
            return bool(cursor.fetchone()[0])
