"""DDL for `dyda impact`: judged exactly or refused by name, whatever else stands in the text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dyda.errors import ConfigurationError, DydaError
from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.statements import apply_ddl
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from tests.properties.fuzzing import ODD_TEXT, answer_or_refusal, ddl_texts, mutated, profile

INT, TEXT = PgType("integer", "integer"), PgType("text", "text")
CUSTOMER = RelationName("crm", "public", "customer")
TABLES = {
    name: Relation(
        name, oid, (Column("id", INT, 1, True), Column("name", TEXT, 2), Column("address", TEXT, 3)), (("id",),)
    )
    for oid, name in enumerate(
        [CUSTOMER, RelationName("booking", "public", "flight_res"), RelationName("crm", "other", 'Odd "name')], 1
    )
}

WRITTEN = [
    *ddl_texts(),
    "ALTER TABLE crm.customer ADD COLUMN phone varchar(20) DEFAULT 'x' NOT NULL, DROP name CASCADE",
    "ALTER TABLE IF EXISTS ONLY crm.customer ALTER id SET DATA TYPE numeric(10, 2) USING id::numeric",
    "CREATE TABLE IF NOT EXISTS crm.n (id serial PRIMARY KEY, at timestamp(3) with time zone, CHECK (id > 0))",
    "CREATE TABLE crm.n (LIKE crm.customer INCLUDING ALL, v int GENERATED ALWAYS AS (id * 2) STORED)",
    "DROP TABLE IF EXISTS crm.customer, booking.flight_res RESTRICT; TRUNCATE crm.customer RESTART IDENTITY CASCADE;",
    "ALTER TABLE crm.customer RENAME TO c; ALTER TABLE crm.c RENAME name TO title; ALTER TABLE crm.c SET SCHEMA old",
    "ALTER TABLE crm.customer ADD CONSTRAINT k UNIQUE (id, name), ADD FOREIGN KEY (id) REFERENCES crm.n (id)",
    'ALTER TABLE crm.other."Odd ""name" DROP COLUMN IF EXISTS "Odd ""name"',
    "DO $$ BEGIN ALTER TABLE crm.customer DROP name; END $$; CREATE FUNCTION f() RETURNS int AS $b$ SELECT 1; $b$",
    "BEGIN; -- why\nUPDATE crm.customer SET name = E'it\\'s'; /* nested /* comment */ */ COMMIT;",
    "\\c other\n\\i file.sql\nCOPY crm.customer FROM stdin;\n1\tx\n\\.\n",
    "GRANT SELECT ON crm.customer TO ann; COMMENT ON TABLE crm.customer IS 'x'; VACUUM FULL crm.customer",
]
STRANGE = [
    "$$",
    "$a$",
    "'",
    '"',
    "E'\\",
    'U&"\\0061"',
    "\\d",
    "\\gexec",
    ";;",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    "[",
    "]",
    "::",
    ":=",
    "?",
    "$1",
    "%",
    "@",
    "numeric(",
    "float(99999999999999999999)",
    "DEFAULT",
    "USING",
    "ARRAY",
    "interval day to second",
    "LIKE",
    "GENERATED",
    "PRIMARY KEY",
    "IF EXISTS",
    "TYPE",
    "CONSTRAINT",
]


def named(parts: tuple[str, ...]) -> RelationName:
    if len(parts) not in (2, 3) or parts[0] not in ("crm", "booking"):
        raise ConfigurationError(f"{'.'.join(parts)[:100]} does not say whose table it is", "Name the source.")
    return RelationName(parts[0], parts[1] if len(parts) == 3 else "public", parts[-1])


def judge(text: str) -> int | DydaError:
    schemas = Schemas(TABLES)

    def everything() -> int:
        count = apply_ddl(text, schemas, named)
        assert schemas.changes is not None
        assert schemas.now is not None
        return count

    return answer_or_refusal(everything)


@profile(600)
@given(mutated(WRITTEN, STRANGE))
def test_ddl_after_accidents(text: str) -> None:
    judge(text)


@profile(300)
@given(
    st.text(max_size=100)
    | st.lists(ODD_TEXT | st.sampled_from(STRANGE) | st.sampled_from(" ".join(WRITTEN).split()), max_size=25).map(
        " ".join
    )
)
def test_random_ddl(text: str) -> None:
    judge(text)
