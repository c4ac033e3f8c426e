"""PostgreSQL's DDL as a source team writes it, read exactly or refused by name; nothing is executed.

    text ─ sqlglot's words ─ one statement after the other ─▶ Schemas: the tables as they would be

Names that are not quoted are folded to lower case, as PostgreSQL does it. What is refused may well be harmless, but
only the source could tell: an answer that is only nearly right is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.types import read_type
from dyda.model.ddl.words import UnreadableDdl, Word, Words, once, statements_of
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import Harmless, Rewrite
from dyda.model.types import PgType

__all__ = ["UnreadableDdl", "apply_ddl"]

Named = Callable[[tuple[str, ...]], RelationName]
"""What a table is by the parts of its written name."""

HARMLESS = (
    "ANALYZE",
    "BEGIN",
    "COMMENT ON",
    "COMMIT",
    "CREATE EXTENSION",
    "CREATE INDEX",
    "CREATE MATERIALIZED VIEW",
    "CREATE OR REPLACE FUNCTION",
    "CREATE OR REPLACE VIEW",
    "CREATE FUNCTION",
    "CREATE ROLE",
    "CREATE SCHEMA",
    "CREATE SEQUENCE",
    "CREATE TYPE",
    "CREATE UNIQUE INDEX",
    "CREATE VIEW",
    "DELETE FROM",
    "DROP FUNCTION",
    "DROP INDEX",
    "DROP MATERIALIZED VIEW",
    "DROP SEQUENCE",
    "DROP VIEW",
    "END",
    "GRANT",
    "INSERT INTO",
    "RESET",
    "REVOKE",
    "SET",
    "START TRANSACTION",
    "UPDATE",
    "VACUUM",
)
"""Statements that change no table's columns; those that change rows are maintained as ever."""

HARMLESS_ACTIONS = (
    "CLUSTER ON",
    "DISABLE ROW LEVEL SECURITY",
    "NO FORCE ROW LEVEL SECURITY",
    "OWNER TO",
    "RENAME CONSTRAINT",
    "REPLICA IDENTITY",
    "RESET (",
    "SET (",
    "SET TABLESPACE",
    "SET WITHOUT CLUSTER",
    "VALIDATE CONSTRAINT",
)

HARMLESS_COLUMN_ACTIONS = (
    "ADD GENERATED",
    "DROP DEFAULT",
    "DROP IDENTITY",
    "RESET (",
    "RESTART",
    "SET (",
    "SET COMPRESSION",
    "SET DEFAULT",
    "SET GENERATED",
    "SET STATISTICS",
    "SET STORAGE",
)

COLUMN_CONSTRAINTS = (
    "CHECK",
    "COLLATE",
    "COMPRESSION",
    "CONSTRAINT",
    "DEFAULT",
    "GENERATED",
    "NOT",
    "NULL",
    "PRIMARY",
    "REFERENCES",
    "STORAGE",
    "UNIQUE",
)
TABLE_CONSTRAINTS = ("CHECK", "CONSTRAINT", "EXCLUDE", "FOREIGN", "PRIMARY", "UNIQUE")


def apply_ddl(text: str, schemas: Schemas, named: Named) -> int:
    """Let every statement of the text happen to `schemas`; how many there were."""
    statements = statements_of(text)
    for words in statements:
        _Statement(text, words, schemas, named).apply()
    return len(statements)


class _Statement(Words):
    """Reads one statement from left to right and lets it happen."""

    def __init__(self, text: str, words: Sequence[Word], schemas: Schemas, named: Named) -> None:
        super().__init__(text, words)
        self.schemas = schemas
        self.named = named

    def apply(self) -> None:
        if self.taken("ALTER TABLE"):
            self.alter_table()
        elif self.taken("DROP TABLE"):
            self.drop_table()
        elif self.taken("CREATE TABLE"):
            self.create_table()
        elif self.taken("TRUNCATE"):
            self.truncate()
        elif not any(self.begins(harmless) for harmless in HARMLESS):
            raise self.refusal("it is not a statement that can be judged here")

    def table(self) -> RelationName:
        return self.named(self.dotted())

    def type(self) -> PgType:
        words = self.skip(until=[*COLUMN_CONSTRAINTS, "USING"])
        text = "".join(self.written[word.start : word.end] + " " for word in once(words))
        found = read_type(text)
        if found is None:
            raise self.refusal(f"{text.strip()!r} is not a type that can be read")
        return found

    # --- statements

    def drop_table(self) -> None:
        optional = self.taken("IF EXISTS")
        names = [self.table()]
        while self.taken(","):
            names.append(self.table())
        self.either("CASCADE", "RESTRICT")
        self.finish()
        for name in names:
            if not (optional and not self.schemas.has(name)):
                self.schemas.drop(name)

    def truncate(self) -> None:
        self.taken("TABLE")
        while True:
            self.taken("ONLY")
            name = self.table()
            self.taken("*")
            self.schemas.truncate(name)
            if not self.taken(","):
                break
        self.either("RESTART IDENTITY", "CONTINUE IDENTITY")
        self.either("CASCADE", "RESTRICT")
        self.finish()

    def create_table(self) -> None:
        optional = self.taken("IF NOT EXISTS")
        name = self.table()
        if optional and self.schemas.has(name):
            return
        if not self.taken("("):
            self.schemas.create(name, None, ())  # AS SELECT, PARTITION OF: its columns come from elsewhere
            return
        columns: list[Column] | None = []
        keys: list[tuple[str, ...]] = []
        primary: set[str] = set()
        while not self.taken(")"):
            if self.taken("LIKE"):
                like = self.schemas.relation(self.table())
                options = {word.upper for word in self.skip()}
                computed = "INCLUDING" in options and bool(options & {"ALL", "GENERATED"})
                if like is None or columns is None or "EXCLUDING" in options:
                    columns = None
                else:
                    columns += [c if computed else replace(c, generated="") for c in like.columns]
            elif self.words[self.at].upper in TABLE_CONSTRAINTS:
                key, is_primary = self.table_constraint()
                keys += [key] if key else []
                primary |= set(key) if is_primary else set()
            else:
                column, is_key, _ = self.column(len(columns or ()) + 1)
                keys += [(column.name,)] if is_key else []
                columns = None if columns is None else [*columns, column]
            if not self.begins(")"):
                self.need(",")
        if self.begins("INHERITS") or self.begins("AS"):
            columns = None
        if columns is not None:
            columns = [
                replace(column, number=number, not_null=column.not_null or column.name in primary)
                for number, column in enumerate(columns, 1)
            ]
        self.schemas.create(name, columns, keys)

    def table_constraint(self) -> tuple[tuple[str, ...], bool]:
        """The key that a table constraint makes, if it does, and whether it is the primary one."""
        if self.taken("CONSTRAINT"):
            self.name()
        key: tuple[str, ...] = ()
        primary = self.taken("PRIMARY KEY")
        if primary or self.taken("UNIQUE"):
            if self.taken("USING"):
                raise self.refusal("which columns the index has is not in the catalog")
            self.either("NULLS NOT DISTINCT", "NULLS DISTINCT")
            key = tuple(self.names())
        self.skip()
        return key, primary

    def column(self, number: int) -> tuple[Column, bool, bool]:
        """A column's definition, whether it is a key, and whether rows that are there already must be written anew."""
        name = self.name()
        type_ = self.type()
        not_null, key, generated, rewrites = False, False, "", type_.name.endswith("serial")
        while not self.over and self.words[self.at].upper not in (",", ")"):
            if self.taken("NOT NULL"):
                not_null = True
            elif self.taken("PRIMARY KEY"):
                not_null, key = True, True
            elif self.taken("UNIQUE"):
                self.either("NULLS NOT DISTINCT", "NULLS DISTINCT")
                key = True
            elif self.taken("DEFAULT"):
                rewrites |= not _constant(self.skip(until=[c for c in COLUMN_CONSTRAINTS if c != "NULL"]))
            elif self.taken("GENERATED"):
                generated = self.generated()
                rewrites, not_null = True, not_null or generated == ""
            elif self.taken("CONSTRAINT"):
                self.name()
            elif self.taken("COLLATE"):
                self.dotted()
            elif self.taken("NULL"):
                pass
            elif self.words[self.at].upper in ("CHECK", "REFERENCES", "STORAGE", "COMPRESSION"):
                self.at += 1
                self.skip(until=COLUMN_CONSTRAINTS)
            else:
                raise self.refusal(f"{self.words[self.at].text!r} is not expected in a column's definition")
        if type_.name.endswith("serial"):
            base = {"smallserial": "smallint", "bigserial": "bigint"}.get(type_.name, "integer")
            type_, not_null = PgType(base, base), True
        return Column(name, type_, number, not_null, generated), key, rewrites

    def generated(self) -> str:
        """'' for an identity, else whether the computed values are stored (s) or virtual (v)."""
        self.either("ALWAYS", "BY DEFAULT")
        self.need("AS")
        if self.taken("IDENTITY"):
            if self.begins("("):
                self.parenthesis()
            return ""
        self.parenthesis()
        if self.taken("STORED"):
            return "s"
        self.taken("VIRTUAL")
        return "v"

    def parenthesis(self) -> None:
        self.need("(")
        while not self.begins(")"):
            if self.over:
                raise self.refusal(") is expected at its end")
            self.skip()
            self.taken(",")
        self.need(")")

    # --- ALTER TABLE

    def alter_table(self) -> None:
        optional = self.taken("IF EXISTS")
        self.taken("ONLY")
        table = self.table()
        self.taken("*")
        if optional and not self.schemas.has(table):
            return
        while True:
            table = self.action(table)
            if not self.taken(","):
                break
        self.finish()

    def action(self, table: RelationName) -> RelationName:
        """One action; what the table is called after it."""
        if self.taken("ADD"):
            self.add(table)
        elif self.taken("DROP CONSTRAINT"):
            self.skip()
            self.schemas.drop_keys(table)
        elif self.taken("DROP"):
            self.drop_column(table)
        elif self.taken("ALTER"):
            self.alter_column(table)
        elif any(self.begins(harmless) for harmless in HARMLESS_ACTIONS):
            self.skip()
            self.schemas.note(table, Harmless("changes something that no row shows"))
        elif self.taken("RENAME TO"):
            new = RelationName(table.source, table.schema, self.name())
            self.schemas.rename(table, new)
            return new
        elif self.taken("RENAME"):
            self.taken("COLUMN")
            old = self.name()
            self.need("TO")
            self.schemas.rename_columns(table, {old: self.name()})
        elif self.taken("SET SCHEMA"):
            new = RelationName(table.source, self.name(), table.table)
            self.schemas.rename(table, new)
            return new
        elif self.taken("SET ACCESS METHOD"):
            self.name()
            self.schemas.note(table, Rewrite("rewrites its rows for another access method"))
        else:
            raise self.refusal(f"the action {self.place()} is not one that can be judged here".replace("before ", ""))
        return table

    def add(self, table: RelationName) -> None:
        if self.words[self.at : self.at + 1] and self.words[self.at].upper in TABLE_CONSTRAINTS:
            columns, primary = self.table_constraint()
            if columns:
                self.schemas.add_key(table, columns, primary=primary)
            self.schemas.note(table, Harmless("adds a constraint"))
            return
        self.taken("COLUMN")
        optional = self.taken("IF NOT EXISTS")
        column, key, rewrites = self.column(0)
        there = self.schemas.relation(table)
        if optional and there is not None and column.name in there.by_name:
            return
        self.schemas.add_column(table, column.name, column.type, not_null=column.not_null, generated=column.generated)
        if key:
            self.schemas.add_key(table, [column.name], primary=column.not_null)
        if rewrites and column.generated != "v":
            self.schemas.note(table, Rewrite("rewrites its rows to fill a column"))

    def drop_column(self, table: RelationName) -> None:
        self.taken("COLUMN")
        optional = self.taken("IF EXISTS")
        column = self.name()
        self.either("CASCADE", "RESTRICT")
        there = self.schemas.relation(table)
        if not (optional and there is not None and column not in there.by_name):
            self.schemas.drop_column(table, column)

    def alter_column(self, table: RelationName) -> None:
        self.taken("COLUMN")
        column = self.name()
        if self.taken("TYPE") or self.taken("SET DATA TYPE"):
            type_ = self.type()
            if not type_.builtin:
                raise self.refusal(f"what the type {type_.name} is only the source knows")
            self.skip()  # COLLATE, USING: the rows are read again in any case
            self.schemas.change_type(table, column, type_)
        elif self.taken("SET NOT NULL"):
            self.schemas.set_not_null(table, column, True)
        elif self.taken("DROP NOT NULL"):
            self.schemas.set_not_null(table, column, False)
        elif self.taken("SET EXPRESSION") or self.taken("DROP EXPRESSION"):
            self.skip()
            self.schemas.note(table, Rewrite(f"computes column {column} in another way"))
        elif any(self.begins(harmless) for harmless in HARMLESS_COLUMN_ACTIONS):
            self.skip()
            self.schemas.note(table, Harmless(f"changes how column {column} is filled or stored"))
        else:
            raise self.refusal(f"what is done to column {column} is not something that can be judged here")


def _constant(words: Sequence[Word]) -> bool:
    """Whether PostgreSQL fills old rows with the default without writing them: it calls nothing but the clock."""
    called = [
        word for word, after in pairwise(words) if after.upper == "(" and (word.quoted or word.text.isidentifier())
    ]
    return all(word.upper in STEADY for word in called)


STEADY = frozenset(
    {"NOW", "CURRENT_TIMESTAMP", "CURRENT_TIME", "LOCALTIME", "LOCALTIMESTAMP", "CAST"}
    # names of types with a modifier, as in '7'::numeric(3,1)
    | {
        "BIT",
        "CHAR",
        "CHARACTER",
        "DECIMAL",
        "FLOAT",
        "NUMERIC",
        "TIME",
        "TIMESTAMP",
        "TIMESTAMPTZ",
        "VARCHAR",
        "VARYING",
    }
)
