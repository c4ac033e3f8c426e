"""A seeded workload: four sources, views of every kind, writers that conflict, schemas that change, and keys.

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
from dataclasses import dataclass, field, replace

from tests.torture.recording import Change, Data, Nested, Plain, Step

__all__ = ["KEYED_VIEWS", "SOURCES", "VIEWS", "Drawn", "Tables", "Workload"]

COLUMNS = {"id": "int", "k": "int", "t": "text", "n": "numeric(8,2)", "spare": "int"}
SOURCES = {
    "crm": ("customer", "city", "member"),
    "booking": ("flight", "seat", "ticket"),
    "tours": ("tour", "guide"),
    "people": ("person",),
}
KEYED = ("member", "ticket")
"""Tables that begin with a primary key."""
KEYED_VIEWS = {
    "members": "SELECT m.id, m.t, m.n FROM crm.member m",
    "tickets": "SELECT t.id, m.t AS name, t.n FROM booking.ticket t LEFT JOIN crm.member m ON m.id = t.k",
    "spares": "-- dyda: extent = any, new_columns = append\n"
    "SELECT m.id, m.k, m.spare /* dispensable */ FROM crm.member m",
}
"""Views whose rows are unique as long as all their tables have a key, and not longer."""
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
    **KEYED_VIEWS,
}
WIDER = {"k": ("bigint", "int"), "n": ("numeric(10,2)", "numeric(8,2)")}
"""Types that a column changes between; the view's own columns keep theirs or follow."""


@dataclass
class KnownTable:
    """What the workload knows of a table: what it and its columns are called now; None: dropped.

    `key` is the name of the constraint that makes `id` unique, if there is one; `primary`: it is a primary key;
    `nullable`: whether `id` may be NULL.
    """

    source: str
    base: str
    name: str
    columns: dict[str, str | None] = field(default_factory=lambda: {name: name for name in COLUMNS})
    wide: set[str] = field(default_factory=set)
    key: str | None = None
    primary: bool = False
    nullable: bool = True

    @classmethod
    def first(cls, source: str, base: str) -> KnownTable:
        """As it is set up."""
        keyed = base in KEYED
        return cls(source, base, base, key=f"{base}_key" if keyed else None, primary=keyed, nullable=not keyed)

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
        self.tables = {base: KnownTable.first(source, base) for base in SOURCES[source]}
        self.turn = threading.Lock()

    def done(self, drawn: Drawn) -> None:
        for table in drawn.after:
            self.tables[table.base] = table

    def restore(self) -> Iterator[str]:
        """The statements after which everything is there again, called and typed as in the views' files. Keys stay as
        they are: no view needs one."""
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
            fresh = KnownTable.first(self.source, base)
            self.tables[base] = replace(fresh, key=table.key, primary=table.primary, nullable=table.nullable)


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
            table = self.tables[source].tables[base]
            described = [f"{name} {type_}" for name, type_ in COLUMNS.items()]
            described += [f"CONSTRAINT {table.key} PRIMARY KEY (id)"] if table.key else []
            yield f"CREATE TABLE {base} ({', '.join(described)})"
            yield self._insert(table, self.rows)

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
            case 1 if table.base in KEYED and self.random.random() < 0.3:
                return f"UPDATE {table.name} SET {key} = {self._value('id')} WHERE {key} = {which}"
            case 1 | 2 if updated:
                base = self.random.choice(updated)
                return f"UPDATE {table.name} SET {names[base]} = {self._value(base)} WHERE {key} = {which}"
            case _:
                return self._insert(table, self.random.randint(1, 2))

    def _insert(self, table: KnownTable, count: int) -> str:
        """Where there is a key, rows that would repeat it are left out; where there is none, they repeat."""
        names = table.present
        rows = [f"({', '.join(self._cell(table, base) for base in names)})" for _ in range(count)]
        unless = " ON CONFLICT DO NOTHING" if table.base in KEYED else ""
        return f"INSERT INTO {table.name} ({', '.join(names.values())}) VALUES {', '.join(rows)}{unless}"

    def _cell(self, table: KnownTable, base: str) -> str:
        if base == "id" and table.base in KEYED and table.nullable and self.random.random() < 0.3:
            return "NULL"
        return self._value(base)

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
        kinds += [self._change_key] * len(kinds) if table.base in KEYED else []
        return self.random.choice(kinds)(table)

    def _copy(self, table: KnownTable) -> KnownTable:
        return replace(table, columns=dict(table.columns), wide=set(table.wide))

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
        new, after = self._fresh("fresh"), self._copy(table)
        again: tuple[Step, ...] = ()
        after.key = None
        if table.key is not None and self.random.random() < 0.5:
            after.key, after.primary = self._fresh("key"), table.primary
            again = (Change(f"ALTER TABLE {new} {self._unique(after)}", (new,)),)
        gone = (
            Change(f"DROP TABLE {table.name}", (table.name,))
            if self.random.random() < 0.5
            else Change(f"ALTER TABLE {table.name} RENAME TO old_{new}", (table.name,))
        )
        return self._drawn(
            table,
            after,
            Plain(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE"),
            Change(f"CREATE TABLE {new} (LIKE {table.name})"),
            Data(f"INSERT INTO {new} SELECT * FROM {table.name} WHERE {table.present['id']} % 5 <> 0"),
            *again,
            gone,
            Change(f"ALTER TABLE {new} RENAME TO {table.name}", (new,)),
        )

    def _change_key(self, table: KnownTable) -> Drawn:
        """The key goes, and with it, in the same transaction or later, rows come that repeat it; or it comes back."""
        if table.key is None:
            return self._add_key(table)
        column = table.present["id"]
        if not table.primary and table.nullable:
            after = replace(self._copy(table), nullable=False)
            emptied = Data(f"DELETE FROM {table.name} WHERE {column} IS NULL")
            return self._drawn(
                table, after, self._locked(table), emptied, self._altered(table, f"ALTER {column} SET NOT NULL")
            )
        if not table.primary and self.random.random() < 0.5:
            after, change = replace(self._copy(table), nullable=True), f"ALTER {column} DROP NOT NULL"
            again = f"INSERT INTO {table.name} ({column}) VALUES (NULL), (NULL)"
        else:
            after, change = replace(self._copy(table), key=None, primary=False), f"DROP CONSTRAINT {table.key}"
            again = f"INSERT INTO {table.name} SELECT * FROM {table.name} WHERE {column} % 3 = 0"
        rows = [Data(self._statement(table)), Data(again)] if self.random.random() < 0.6 else []
        return self._drawn(table, after, *rows[:1], self._altered(table, change), *rows[1:])

    def _add_key(self, table: KnownTable) -> Drawn:
        """What repeats the key is deleted first; now and then another row follows in the same transaction."""
        column = table.present["id"]
        primary = self.random.random() < 0.5
        after = replace(self._copy(table), key=self._fresh("key"), primary=primary, nullable=False)
        return self._drawn(
            table,
            after,
            self._locked(table),
            Data(f"DELETE FROM {table.name} WHERE {column} IS NULL"),
            Data(f"DELETE FROM {table.name} WHERE ctid NOT IN (SELECT min(ctid) FROM {table.name} GROUP BY {column})"),
            self._altered(table, self._unique(after)),
            *([Data(self._insert(after, 1))] if self.random.random() < 0.5 else []),
        )

    def _unique(self, table: KnownTable) -> str:
        column = table.present["id"]
        if table.primary:
            return f"ADD CONSTRAINT {table.key} PRIMARY KEY ({column})"
        not_null = f"ALTER {column} SET NOT NULL, " if not table.nullable else ""
        return f"{not_null}ADD CONSTRAINT {table.key} UNIQUE ({column})"

    def _locked(self, table: KnownTable) -> Step:
        return Plain(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE")

    def _altered(self, table: KnownTable, change: str) -> Step:
        return Change(f"ALTER TABLE {table.name} {change}", (table.name,))

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
