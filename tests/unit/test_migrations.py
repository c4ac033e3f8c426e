"""Migration files: in the order in which their tool runs them, and in the form in which it prints them."""

from __future__ import annotations

import io
from pathlib import Path

import alembic.command
import alembic.config
import pytest

from dyda.commands.migrations import Migration, in_order, read_migrations
from dyda.errors import DydaError
from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.statements import UnreadableDdl, apply_ddl
from dyda.model.message import SchemaChange
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType

FIXTURES = Path(__file__).parents[2] / "fixtures" / "migrations"
CUSTOMER = RelationName("crm", "public", "customer")
RELATION = Relation(
    CUSTOMER,
    7,
    (
        Column("id", PgType("integer", "integer"), 1, True),
        Column("name", PgType("text", "text"), 2),
        Column("age", PgType("integer", "integer"), 3),
    ),
    (("id",),),
)


def named(parts: tuple[str, ...]) -> RelationName:
    return RelationName("crm", parts[0] if len(parts) == 2 else "public", parts[-1])


def judged(*migrations: Migration) -> tuple[list[str], Schemas]:
    schemas = Schemas({CUSTOMER: RELATION})
    for migration in migrations:
        apply_ddl(migration.text, schemas, named, migration.file)
    steps = [step for change in schemas.changes if isinstance(change, SchemaChange) for step in change.steps]
    return [str(step) for step in steps], schemas


# --- order


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ["V10__c.sql", "V2__b.sql", "V1.1__a.sql", "V1__z.sql", "R__views.sql", "V1_2__x.sql", "R__a.sql"],
            ["V1__z.sql", "V1.1__a.sql", "V1_2__x.sql", "V2__b.sql", "V10__c.sql", "R__a.sql", "R__views.sql"],
        ),
        (["V2__b.sql", "V1__a.sql", "U2__b.sql", "B1__all.sql", "beforeMigrate.sql"], ["V1__a.sql", "V2__b.sql"]),
        (["b/V2__b.sql", "a/V10__a.sql", "c/R__r.sql"], ["b/V2__b.sql", "a/V10__a.sql", "c/R__r.sql"]),
        (["V1.0__a.sql", "V1.0.1__b.sql", "V0.9__c.sql"], ["V0.9__c.sql", "V1.0__a.sql", "V1.0.1__b.sql"]),
        (["10_c.sql", "2_b.sql", "1_a.sql"], ["1_a.sql", "2_b.sql", "10_c.sql"]),
        (["2_x.up.sql", "2_x.down.sql", "1_y.up.sql", "1_y.down.sql"], ["1_y.up.sql", "2_x.up.sql"]),
        (["1_slow.sql", "2_cool-down.sql"], ["1_slow.sql", "2_cool-down.sql"]),
        (
            ["20240102_b/migration.sql", "20240101_a/migration.sql"],
            ["20240101_a/migration.sql", "20240102_b/migration.sql"],
        ),
        ([], []),
    ],
)
def test_the_order_of_files(names: list[str], expected: list[str]) -> None:
    assert in_order(names)[0] == expected
    assert in_order(reversed(names))[0] == expected


def test_a_folder_is_read_in_order_and_says_so(tmp_path: Path) -> None:
    for name in ("V2__b.sql", "V10__c.sql", "V1__a.sql", "U1__a.sql"):
        (tmp_path / name).write_text(f"\ufeff-- {name}\n")
    (tmp_path / "notes.txt").write_text("no SQL")
    migrations, notes = read_migrations([tmp_path])
    assert [migration.file for migration in migrations] == ["V1__a.sql", "V2__b.sql", "V10__c.sql"]
    assert migrations[0].text == "-- V1__a.sql\n"
    assert notes == [
        "read in Flyway's order: V1__a.sql, V2__b.sql, V10__c.sql",
        "skipped (undo, baseline, callback or down files): U1__a.sql",
    ]
    (tmp_path / "latin.sql").write_bytes(b"\xe9")
    for path in (tmp_path / "nothing", tmp_path / "latin.sql", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(DydaError) as raised:
            read_migrations([path])
        assert str(path) in raised.value.what
        assert raised.value.remedy


# --- what tools print


ENVIRONMENT = """
from alembic import context
context.configure(url="postgresql://", literal_binds=True)
with context.begin_transaction():
    context.run_migrations()
"""
REVISION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "ae1027a6acf", None

def upgrade():
    op.create_table(
        "address",
        sa.Column("id", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("customer", sa.Integer, sa.ForeignKey("customer.id", ondelete="CASCADE"), nullable=False),
        sa.Column("kind", sa.Enum("home", "work", name="kind"), server_default="home"),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()")),
        comment="where; they live",
    )
    with op.get_context().autocommit_block():
        op.create_index("by_customer", "address", ["customer"], postgresql_concurrently=True)
    op.add_column("customer", sa.Column("phone", sa.String(20), server_default="it's", nullable=False))
    op.alter_column("customer", "age", new_column_name="years", existing_type=sa.Integer())
    op.alter_column("customer", "years", type_=sa.BigInteger(), postgresql_using="years::bigint")
    op.alter_column("customer", "name", nullable=False, comment="all of it")
    op.create_unique_constraint("uq_phone", "customer", ["phone"])
    op.execute("UPDATE customer SET phone = 'x' WHERE phone IS NULL")
    op.drop_constraint("uq_phone", "customer", type_="unique")
    op.drop_column("customer", "phone")
    op.rename_table("customer", "client")
"""


def test_alembic(tmp_path: Path) -> None:
    (tmp_path / "versions").mkdir()
    (tmp_path / "env.py").write_text(ENVIRONMENT)
    (tmp_path / "versions" / "first.py").write_text(REVISION)
    printed = io.StringIO()
    settings = alembic.config.Config(output_buffer=printed)
    settings.set_main_option("script_location", str(tmp_path))
    settings.set_main_option("path_separator", "os")
    alembic.command.upgrade(settings, "head", sql=True)
    text = printed.getvalue()
    assert text.startswith("BEGIN;\n")
    assert "-- Running upgrade  -> ae1027a6acf" in text
    assert "CREATE INDEX CONCURRENTLY" in text
    assert "INSERT INTO alembic_version" in text
    steps, schemas = judged(Migration(text, "upgrade.sql"))
    assert steps == [
        "adds column phone",
        "renames column age to years",
        "changes column years from integer to bigint",
        "rewrites its rows with other values",
        "makes column name NOT NULL",
        "makes phone a key",
        "adds a constraint",
        "drops a constraint",
        "drops column phone",
        "renames it to crm.public.client",
    ]
    assert list(schemas.written) == [CUSTOMER]
    assert list(schemas.unknown) == []


def test_django() -> None:
    (migration,), _ = read_migrations([FIXTURES / "django.sql"])
    assert judged(migration)[0] == [
        "adds column phone",
        "changes something that no row shows",
        "changes column id from integer to bigint",
        "rewrites its rows with other values",
        "renames column age to years",
    ]
    assert len(migration.notes) == 1
    assert migration.notes[0].startswith(f"{FIXTURES / 'django.sql'}, line 20: ")


def test_flyway() -> None:
    migrations, notes = read_migrations([FIXTURES / "flyway"])
    assert judged(*migrations)[0] == ["renames column age to years", "drops column years", "adds column phone"]
    assert notes[0].startswith("read in Flyway's order: V1.1__rename_age.sql, V2__drop_age.sql, V10__")
    with pytest.raises(DydaError, match=r"^V2__drop_age\.sql, line 2: column 'years' is not in"):
        judged(*reversed(migrations))


def test_pg_dump() -> None:
    (migration,), _ = read_migrations([FIXTURES / "pg_dump.sql"])
    assert judged(migration)[0] == []
    with pytest.raises(UnreadableDdl, match=r"^line 1: .*\\restrict is a psql command"):
        judged(Migration(f"\\restrict xyz\n{migration.text}"))
    with pytest.raises(UnreadableDdl, match=r"^line 2: "):
        judged(Migration("COPY public.customer (id) FROM stdin;\n1\n\\.\n"))
