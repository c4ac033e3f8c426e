"""DDL as steps over known relations; what cannot be read exactly is refused by name."""

from __future__ import annotations

import pytest

from dyda.errors import DydaError, UnknownColumn
from dyda.model.ddl.schemas import Schemas, Unforeseeable
from dyda.model.ddl.statements import UnreadableDdl, apply_ddl
from dyda.model.message import DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropRelation,
    Harmless,
    RenameColumn,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
)
from dyda.model.types import PgType

INT, TEXT = PgType("integer", "integer"), PgType("text", "text")
REWRITTEN = Rewrite("rewrites its rows with other values")
CUSTOMER = RelationName("crm", "public", "customer")
RELATION = Relation(
    CUSTOMER, 7, (Column("id", INT, 1, True), Column("name", TEXT, 2), Column("age", INT, 3)), (("id",),)
)


def named(parts: tuple[str, ...]) -> RelationName:
    return RelationName("crm", parts[0] if len(parts) == 2 else "public", parts[-1])


def after(ddl: str) -> Schemas:
    schemas = Schemas({CUSTOMER: RELATION})
    apply_ddl(ddl, schemas, named)
    return schemas


def steps(ddl: str) -> tuple[Step, ...]:
    (change,) = after(ddl).changes
    assert isinstance(change, SchemaChange)
    return change.steps


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("ALTER TABLE customer DROP age", (DropColumn("age"),)),
        ("ALTER TABLE customer RENAME age TO years", (RenameColumn("age", "years"),)),
        ("ALTER TABLE customer ALTER age TYPE int8", (ChangeType("age", INT, PgType("bigint", "bigint")), REWRITTEN)),
        ("ALTER TABLE customer ALTER age TYPE int USING age + 1", (REWRITTEN,)),
        ("ALTER TABLE customer ALTER age TYPE int USING age", (Harmless("writes no row"),)),
        (
            "ALTER TABLE customer ALTER name TYPE varchar",
            (ChangeType("name", TEXT, PgType("character varying", "character varying")), Harmless("writes no row")),
        ),
        ("ALTER TABLE customer RENAME TO client", (RenameRelation(RelationName("crm", "public", "client")),)),
        ("ALTER TABLE customer SET SCHEMA old", (RenameRelation(RelationName("crm", "old", "customer")),)),
        ("DROP TABLE customer", (DropRelation(),)),
        ("ALTER TABLE customer ADD phone text DEFAULT 'x'", (AddColumn(Column("phone", TEXT, 4)),)),
        ("ALTER TABLE customer ADD at text DEFAULT now()::text", (AddColumn(Column("at", TEXT, 4)),)),
        ("ALTER TABLE customer ADD v text DEFAULT 'x'::varchar(3)", (AddColumn(Column("v", TEXT, 4)),)),
        (
            "ALTER TABLE customer ADD dice int DEFAULT (random() * 6)",
            (AddColumn(Column("dice", INT, 4)), Rewrite("rewrites its rows to fill a column")),
        ),
        ("ALTER TABLE customer OWNER TO ann", (Harmless("changes something that no row shows"),)),
        ("DROP TABLE customer; CREATE TABLE customer (id int)", (ReplaceRelation(7, -1),)),
    ],
)
def test_steps(ddl: str, expected: tuple[Step, ...]) -> None:
    assert steps(ddl) == expected


def test_several_statements_happen_one_after_the_other() -> None:
    schemas = after("ALTER TABLE customer RENAME TO client; ALTER TABLE client RENAME age TO years; -- done\n;;")
    now = schemas.now[CUSTOMER]
    assert now is not None
    assert now.name == RelationName("crm", "public", "client")
    assert list(now.by_name) == ["id", "name", "years"]
    assert now.oid == 7


def test_a_number_is_never_given_twice() -> None:
    now = after("ALTER TABLE customer DROP age, ADD age int").now[CUSTOMER]
    assert now is not None
    assert now.column("age").number == 4


def test_what_changes_nothing_is_no_change() -> None:
    schemas = after("ALTER TABLE customer ADD x int; ALTER TABLE customer DROP x")
    assert schemas.now == {}
    assert after("CREATE TABLE other (a int); ALTER TABLE other DROP a").changes == []


def test_a_swap_within_one_text_means_the_name() -> None:
    ddl = (
        "CREATE TABLE n (id int, name text); ALTER TABLE customer RENAME TO o; ALTER TABLE n RENAME TO customer;"
        "DROP TABLE o"
    )
    now = after(ddl).now[CUSTOMER]
    assert now is not None
    assert (now.oid, list(now.by_name)) == (-1, ["id", "name"])


def test_tables_that_nobody_uses_are_told_and_change_nothing() -> None:
    schemas = after("ALTER TABLE adress DROP x; ALTER TABLE adress RENAME TO y; DROP TABLE z; TRUNCATE w")
    assert list(map(str, schemas.unknown)) == ["crm.public.adress", "crm.public.z", "crm.public.w"]
    assert schemas.now == {}


def test_a_table_that_is_not_in_the_catalog_cannot_take_a_known_name() -> None:
    with pytest.raises(Unforeseeable, match="takes the name"):
        _ = after("ALTER TABLE customer RENAME TO o; ALTER TABLE n RENAME TO customer").now
    with pytest.raises(Unforeseeable):
        _ = after("DROP TABLE customer; CREATE TABLE customer AS SELECT 1").now


def test_truncate_is_told() -> None:
    assert after("TRUNCATE TABLE ONLY customer").changes == [Truncation(CUSTOMER)]
    assert after("TRUNCATE customer CASCADE").changes == [Truncation(CUSTOMER, whole=True)]


REFUSED = [
    "ALTER TABLE customer DISABLE TRIGGER ALL",
    "ALTER TABLE customer SET UNLOGGED",
    "ALTER TABLE customer ATTACH PARTITION x FOR VALUES IN (1)",
    "ALTER TABLE customer INHERIT parent",
    "ALTER TABLE customer ALTER age TYPE mood USING age::mood",
    "ALTER TABLE customer ALTER age FROBNICATE",
    "ALTER TABLE customer ADD x int SPARSE",
    "ALTER TABLE customer DROP age RESTRICT NOW",
    "ALTER TABLE customer",
    "ALTER TABLE customer RENAME age years",
    "ALTER TABLE 'customer' DROP age",
    "ALTER TYPE mood RENAME VALUE 'a' TO 'b'",
    "ALTER SCHEMA public RENAME TO old",
    "DROP SCHEMA public CASCADE",
    "DROP TYPE mood CASCADE",
    "DO $$ BEGIN EXECUTE 'DROP TABLE customer'; END $$",
    "CALL migrate()",
    "SELECT migrate()",
    "ROLLBACK",
    "DROPP TABLE customer",
    "nonsense",
    "ALTER TABLE customer ADD",
    "ALTER TABLE customer ADD CONSTRAINT k PRIMARY KEY USING INDEX i",
    "CREATE TABLE t (a int",
]


@pytest.mark.parametrize("ddl", REFUSED)
def test_what_cannot_be_read_exactly_is_refused_by_name(ddl: str) -> None:
    with pytest.raises(UnreadableDdl) as raised:
        after(f"ALTER TABLE customer DROP name; {ddl}")
    assert ddl.split()[0] in raised.value.what
    assert raised.value.remedy


@pytest.mark.parametrize("ddl", ["ALTER TABLE customer DROP 'x", 'DROP TABLE "customer', "DROP TABLE t /* open"])
def test_an_unclosed_text_is_refused(ddl: str) -> None:
    with pytest.raises(UnreadableDdl):
        after(ddl)


@pytest.mark.parametrize(
    ("ddl", "error"),
    [
        ("ALTER TABLE customer DROP nothing", UnknownColumn),
        ("ALTER TABLE customer RENAME nothing TO x", UnknownColumn),
        ("ALTER TABLE customer RENAME id TO age", DydaError),
        ("ALTER TABLE customer ADD age int", DydaError),
        ("CREATE TABLE customer (id int)", DydaError),
    ],
)
def test_what_the_source_would_refuse_is_an_error(ddl: str, error: type[DydaError]) -> None:
    with pytest.raises(error):
        after(ddl)


def test_a_message_happens_to_the_relations_as_its_steps_say() -> None:
    schemas = Schemas({CUSTOMER: RELATION})
    moved = RelationName("crm", "public", "client")
    change = SchemaChange(CUSTOMER, "ALTER TABLE", "", (RenameRelation(moved), DropColumn("age"), Harmless("x")))
    schemas.apply(UpdateMessage("crm", 1, 1, (DataUpdate(CUSTOMER, 1, 0), change)))
    now = schemas.now[CUSTOMER]
    assert now is not None
    assert (now.name, list(now.by_name)) == (moved, ["id", "name"])
    for unclear in (SchemaChange(CUSTOMER, "ALTER TABLE"), SchemaChange(CUSTOMER, "x", "", (ReplaceRelation(7, 8),))):
        with pytest.raises(Unforeseeable):
            Schemas({CUSTOMER: RELATION}).apply(UpdateMessage("crm", 1, 1, (unclear,)))
