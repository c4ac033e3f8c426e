"""A seeded workload: four sources, eight views of every kind, writers that conflict, and schema changes.

    workload = Workload(seed)
    workload.setup("crm")                  CREATE TABLE and the first rows; VIEWS reads them
    drawn = workload.child("one").data()   the next transaction of a writer: writer.transaction(drawn.steps, …)
    with workload.tables["crm"].turn:      schema changes of a source one after the other
        drawn = workload.schema("crm")
        if writer.transaction(drawn.steps): workload.tables["crm"].done(drawn)

What a child draws depends on the seed and on the schema changes that were done; the rest is the machine's doing.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.torture.recording import Change, Data, Nested, Plain, Step

__all__ = ["SOURCES", "VIEWS", "Drawn", "Tables", "Workload"]

COLUMNS = {"id": "int", "k": "int", "t": "text", "n": "numeric(8,2)", "spare": "int"}
SOURCES = {
    "crm": ("customer", "city"),
    "booking": ("flight", "seat"),
    "tours": ("tour", "guide"),
    "people": ("person",),
}
VIEWS = {
    "passengers": "SELECT c.id, c.t AS name, f.n AS price FROM crm.customer c JOIN booking.flight f ON c.k = f.k",
    "journeys": "SELECT c.id, f.id AS flight, t.n FROM crm.customer c JOIN booking.flight f ON c.id = f.id"
    " JOIN tours.tour t ON t.k = c.k WHERE f.k > 1",
    "totals": "SELECT c.k, count(*) AS trips, sum(f.n) AS price, min(f.id) AS first, max(f.t) AS last"
    " FROM crm.customer c JOIN booking.flight f ON c.k = f.k GROUP BY c.k",
    "seats": "SELECT s.id, s.k, c.t AS city FROM booking.seat s LEFT JOIN crm.city c ON s.k = c.k",
    "guides": "SELECT DISTINCT g.k, g.t FROM tours.guide g WHERE g.k > 1",
    "idle": "SELECT p.k, p.t FROM people.person p EXCEPT SELECT g.k, g.t FROM tours.guide g",
    "pairs": "SELECT a.id AS one, b.id AS other FROM tours.guide a JOIN tours.guide b ON a.k = b.k",
    "alone": "SELECT p.id, p.n FROM people.person p WHERE NOT EXISTS"
    " (SELECT 1 FROM crm.customer c WHERE c.id = p.id) AND p.k > 0",
}
WIDER = {"k": ("bigint", "int"), "n": ("numeric(10,2)", "numeric(8,2)")}
"""Types that a column changes between; the view's own columns keep theirs or follow."""


@dataclass
class KnownTable:
    """What the workload knows of a table: what it and its columns are called now; None: dropped."""

    source: str
    base: str
    name: str
    columns: dict[str, str | None] = field(default_factory=lambda: {name: name for name in COLUMNS})
    wide: set[str] = field(default_factory=set)

    @property
    def present(self) -> dict[str, str]:
        return {base: name for base, name in self.columns.items() if name is not None}


@dataclass(frozen=True)
class Drawn:
    """A transaction to run, and what to remember of it if it commits (`Tables.done`)."""

    source: str
    steps: tuple[Step, ...]
    schema: bool = False
    commit: bool = True
    isolation: str = "READ COMMITTED"
    after: tuple[KnownTable, ...] = ()


class Tables:
    """The tables of one source as the workload knows them. Schema changes are drawn by one thread at a time."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tables = {base: KnownTable(source, base, base) for base in SOURCES[source]}
        self.turn = threading.Lock()

    def done(self, drawn: Drawn) -> None:
        for table in drawn.after:
            self.tables[table.base] = table

    def restore(self) -> Iterator[str]:
        """The statements after which everything is there again, called and typed as in the views' files."""
        for base, table in list(self.tables.items()):
            if table.name != base:
                yield f"ALTER TABLE {table.name} RENAME TO {base}"
            for column, name in table.columns.items():
                if name is None:
                    yield f"ALTER TABLE {base} ADD COLUMN {column} {COLUMNS[column]}"
                elif name != column:
                    yield f"ALTER TABLE {base} RENAME COLUMN {name} TO {column}"
            for column in sorted(table.wide):
                yield f"ALTER TABLE {base} ALTER COLUMN {column} TYPE {WIDER[column][1]}"
            self.tables[base] = KnownTable(self.source, base, base)


class Workload:
    """Draws transactions. Each thread uses a workload of its own (`child`), over the same tables."""

    def __init__(self, seed: int | str, tables: dict[str, Tables] | None = None, rows: int = 16) -> None:
        self.seed = seed
        self.random = random.Random(str(seed))
        self.tables = tables or {source: Tables(source) for source in SOURCES}
        self.rows = rows

    def child(self, name: str) -> Workload:
        return Workload(f"{self.seed} {name}", self.tables, self.rows)

    def setup(self, source: str) -> Iterator[str]:
        """CREATE TABLE and the first rows."""
        for base in SOURCES[source]:
            described = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
            yield f"CREATE TABLE {base} ({described})"
            yield self._insert(self.tables[source].tables[base], self.rows)

    # --- data

    def data(self, source: str | None = None) -> Drawn:
        """One to three statements; now and then in a subtransaction, or rolled back."""
        source = source or self.random.choice(sorted(SOURCES))
        steps: list[Step] = []
        for _ in range(self.random.randint(1, 3)):
            step: Step = Data(self._statement(self._table(source)))
            kind = self.random.random()
            if kind < 0.1:
                step = Nested((step,), keep=False)
            elif kind < 0.25:
                step = Nested((step, Data(self._statement(self._table(source)))))
            steps.append(step)
        isolation = self.random.choice(["READ COMMITTED"] * 4 + ["REPEATABLE READ"])
        return Drawn(source, tuple(steps), commit=self.random.random() > 0.05, isolation=isolation)

    def _table(self, source: str) -> KnownTable:
        return self.random.choice(list(self.tables[source].tables.values()))

    def _statement(self, table: KnownTable) -> str:
        names = table.present
        key, which = names["id"], self.random.randrange(self.rows)
        updated = sorted(set(names) - {"id"})
        match self.random.randrange(5):
            case 0:
                return f"DELETE FROM {table.name} WHERE {key} = {which}"
            case 1 | 2 if updated:
                base = self.random.choice(updated)
                return f"UPDATE {table.name} SET {names[base]} = {self._value(base)} WHERE {key} = {which}"
            case _:
                return self._insert(table, self.random.randint(1, 2))

    def _insert(self, table: KnownTable, count: int) -> str:
        names = table.present
        rows = [f"({', '.join(self._value(base) for base in names)})" for _ in range(count)]
        return f"INSERT INTO {table.name} ({', '.join(names.values())}) VALUES {', '.join(rows)}"

    def _value(self, base: str) -> str:
        if base == "t":
            return self.random.choice(["NULL", "''", "'a'", "'ä b'", "'C'", "'(x,\"y'"])
        if base == "id":
            return str(self.random.randrange(self.rows))
        return self.random.choice(["NULL", *map(str, range(8))])

    # --- schemas

    def schema(self, source: str | None = None, *, breaking: bool = False) -> Drawn:
        """A schema change of any kind. Hold `tables[source].turn` until `done`. `breaking`: columns may go."""
        source = source or self.random.choice(sorted(SOURCES))
        table = self._table(source)
        kinds = [
            self._rename_column,
            self._rename_table,
            self._retype,
            self._add_or_drop_extra,
            self._swap,
            self._truncate,
            self._mixed,
        ]
        kinds += [self._drop_or_restore] if breaking else []
        return self.random.choice(kinds)(table)

    def _copy(self, table: KnownTable) -> KnownTable:
        return KnownTable(table.source, table.base, table.name, dict(table.columns), set(table.wide))

    def _drawn(self, table: KnownTable, after: KnownTable, *steps: Step) -> Drawn:
        return Drawn(table.source, steps, schema=True, after=(after,))

    def _alter(self, table: KnownTable, after: KnownTable, change: str) -> Drawn:
        return self._drawn(table, after, Change(f"ALTER TABLE {table.name} {change}", (table.name,)))

    def _fresh(self, base: str) -> str:
        """A name that no table or column has had: those that were swapped out stay where they are."""
        return f"{base}_{self.random.randrange(10**9)}"

    def _rename_column(self, table: KnownTable) -> Drawn:
        after = self._copy(table)
        base = self.random.choice(sorted(table.present))
        after.columns[base] = base if table.columns[base] != base else self._fresh(base)
        return self._alter(table, after, f"RENAME COLUMN {table.columns[base]} TO {after.columns[base]}")

    def _rename_table(self, table: KnownTable) -> Drawn:
        after = self._copy(table)
        after.name = table.base if table.name != table.base else self._fresh(table.base)
        return self._alter(table, after, f"RENAME TO {after.name}")

    def _retype(self, table: KnownTable) -> Drawn:
        after = self._copy(table)
        base = self.random.choice(sorted(WIDER))
        column = table.columns[base]
        if column is None:
            return self._rename_table(table)
        wide, narrow = WIDER[base]
        after.wide ^= {base}
        using = self.random.choice([column, f"({column} + 1) % 8"])
        type_ = wide if base in after.wide else narrow
        return self._alter(table, after, f"ALTER COLUMN {column} TYPE {type_} USING {using}")

    def _add_or_drop_extra(self, table: KnownTable) -> Drawn:
        """The column that no view reads goes, or comes back with a value for every row."""
        after = self._copy(table)
        if table.columns["spare"] is None:
            after.columns["spare"] = "spare"
            return self._alter(table, after, f"ADD COLUMN spare int DEFAULT {self.random.randrange(5)}")
        after.columns["spare"] = None
        return self._alter(table, after, f"DROP COLUMN {table.columns['spare']}")

    def _drop_or_restore(self, table: KnownTable) -> Drawn:
        """A column that views read goes, or comes back under its name, filled."""
        after = self._copy(table)
        gone = sorted(base for base in ("t", "n") if table.columns[base] is None)
        if gone:
            after.columns[gone[0]] = gone[0]
            fill = "'back'" if gone[0] == "t" else "1"
            return self._alter(table, after, f"ADD COLUMN {gone[0]} {COLUMNS[gone[0]]} DEFAULT {fill}")
        base = self.random.choice(["t", "n"])
        after.columns[base] = None
        after.wide.discard(base)
        return self._alter(table, after, f"DROP COLUMN {table.columns[base]}")

    def _swap(self, table: KnownTable) -> Drawn:
        """The table is rebuilt beside itself and takes the old one's name, as online schema changers do it."""
        new = self._fresh("fresh")
        gone = (
            Change(f"DROP TABLE {table.name}", (table.name,))
            if self.random.random() < 0.5
            else Change(f"ALTER TABLE {table.name} RENAME TO old_{new}", (table.name,))
        )
        return self._drawn(
            table,
            table,
            Plain(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE"),
            Change(f"CREATE TABLE {new} (LIKE {table.name})"),
            Data(f"INSERT INTO {new} SELECT * FROM {table.name} WHERE {table.present['id']} % 5 <> 0"),
            gone,
            Change(f"ALTER TABLE {new} RENAME TO {table.name}", (new,)),
        )

    def _truncate(self, table: KnownTable) -> Drawn:
        refill = [Data(self._insert(table, 6))] if self.random.random() < 0.8 else []
        return self._drawn(table, table, Change(f"TRUNCATE {table.name}", (table.name,)), *refill)

    def _mixed(self, table: KnownTable) -> Drawn:
        """Data before and after a rename, in one transaction."""
        renamed = self._rename_column(table)
        return self._drawn(
            table,
            renamed.after[0],
            Data(self._statement(table)),
            *renamed.steps,
            Data(self._statement(renamed.after[0])),
        )
