"""Every statement that PostgreSQL 18 parses is read exactly, judged harmless, or refused with its line and the reason.

fixtures/ddl has the statements, each with what it does to the known tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import postgast
import pytest
from postgast import pg_query_pb2 as pg

from dyda.errors import DydaError
from dyda.model.ddl.schemas import Schemas
from dyda.model.ddl.statements import UnreadableDdl, apply_ddl
from dyda.model.ddl.words import LISTS, WORDS
from dyda.model.message import SchemaChange
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType

FIXTURES = Path(__file__).parents[3] / "fixtures" / "ddl"
INT, TEXT, NUMERIC = (PgType(name, name) for name in ("integer", "text", "numeric"))


def table(name: str, oid: int, *columns: Column) -> Relation:
    return Relation(RelationName("crm", "public", name), oid, columns, (("id",),))


KNOWN = {
    relation.name: relation
    for relation in (
        table("customer", 7, Column("id", INT, 1, True), Column("name", TEXT, 2, True), Column("age", INT, 3)),
        table(
            "invoice", 8, Column("id", INT, 1, True), Column("net", NUMERIC, 2), Column("gross", NUMERIC, 3, False, "s")
        ),
    )
}


def cases() -> Iterator[tuple[str, str, str]]:
    for path in sorted(FIXTURES.glob("*.sql")):
        text = re.sub(r"\A(-- .*\n)+", "", path.read_text(encoding="utf-8"))
        for number, (statements, expected) in enumerate(re.findall(r"((?:(?!-->).*\n)+)--> (.*)\n", text), 1):
            yield f"{path.stem}-{number}", statements, expected


CASES = list(cases())


def named(parts: tuple[str, ...]) -> RelationName:
    return RelationName("crm", parts[0] if len(parts) == 2 else "public", parts[-1])


def judged(text: str) -> str:
    schemas = Schemas(KNOWN)
    refused: DydaError | None = None
    try:
        apply_ddl(text, schemas, named)
        changes = schemas.changes
    except DydaError as error:
        refused = error
    if refused is not None:
        assert refused.remedy
        assert "\n" not in refused.what
        if not isinstance(refused, UnreadableDdl):
            return f"error: {refused.what}"
        assert re.match(r"line \d+: this statement cannot be read exactly: ", refused.what)
        return f"refused: {refused.what}"
    told = [
        f"{change.relation.table}: "
        + ("; ".join(map(str, change.steps)) if isinstance(change, SchemaChange) else "truncated")
        for change in changes
    ]
    told += [f"{name.table}: rows" for name in schemas.written]
    return " | ".join(told) or "nothing"


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_a_statement_does(text: str, expected: str) -> None:
    if expected.startswith(("refused: ", "error: ")):
        outcome, part = expected.split(": ", 1)
        told = judged(text)
        assert told.startswith(f"{outcome}: ")
        assert part in told
    else:
        assert judged(text) == expected


def parsed() -> Iterator[Any]:
    for _, text, _ in CASES:
        try:
            yield postgast.parse(text)
        except postgast.PgQueryError:
            continue


INNER = {"raw", "set_operation", "return", "plassign", "replica_identity"}
"""Nodes that are no statement by themselves."""


def test_every_kind_of_statement_is_tried() -> None:
    tried = {str(raw.stmt.WhichOneof("node")).removesuffix("_stmt") for tree in parsed() for raw in tree.stmts}
    there = {field.name.removesuffix("_stmt") for field in pg.Node.DESCRIPTOR.fields if field.name.endswith("_stmt")}
    assert there - INNER - tried == set()
    assert LISTS["harmless_statements"] | WORDS["refused_statements"].keys() <= there


def test_every_action_of_alter_table_is_tried() -> None:
    tried = {
        pg.AlterTableType.Name(node.subtype)
        for tree in parsed()
        for _, node in postgast.walk(tree)
        if isinstance(node, pg.AlterTableCmd)
    }
    inside = re.compile(
        r"AT_(ReAdd\w*|Cooked\w*|AddColumnToView|AddIndex\w*|ReplaceRelOptions)|ALTER_TABLE_TYPE_UNDEFINED"
    )
    assert {name for name in list(pg.AlterTableType.keys()) if not inside.fullmatch(name)} - tried == set()
    assert {f"AT_{name}" for name in LISTS["harmless_actions"]} <= tried


OBJECTS = """
    ACCESS METHOD x|AGGREGATE x(int)|CAST (int AS text)|COLLATION x|CONVERSION x|DOMAIN x|EVENT TRIGGER x|EXTENSION x
    FOREIGN DATA WRAPPER x|FOREIGN TABLE x|FUNCTION x(int)|INDEX x|LANGUAGE x|MATERIALIZED VIEW x|OPERATOR + (int, int)
    OPERATOR CLASS x USING btree|OPERATOR FAMILY x USING btree|POLICY x ON customer|PROCEDURE x|PUBLICATION x|ROUTINE x
    RULE x ON customer|SCHEMA x|SEQUENCE x|SERVER x|STATISTICS x|TABLE x|TEXT SEARCH CONFIGURATION x
    TEXT SEARCH DICTIONARY x|TEXT SEARCH PARSER x|TEXT SEARCH TEMPLATE x|TRANSFORM FOR int LANGUAGE x
    TRIGGER x ON customer|TYPE x|VIEW x
"""


@pytest.mark.parametrize("what", [part.strip() for part in re.split(r"[|\n]", OBJECTS) if part.strip()])
def test_whatever_is_dropped_or_renamed_is_judged_or_refused(what: str) -> None:
    for statement in (
        f"DROP {what}",
        f"DROP {what} CASCADE",
        f"ALTER {what} RENAME TO y",
        f"ALTER {what} SET SCHEMA y",
    ):
        assert judged(statement).startswith(("nothing", "refused: "))


def test_a_line_is_told() -> None:
    text = "-- Ä\nALTER TABLE customer ADD x int;\n\n/* why */\n  DO $$ BEGIN END $$;\nDROP TABLE customer"
    with pytest.raises(UnreadableDdl, match=r"^V2__x\.sql, line 5: .*: DO \$\$ BEGIN END \$\$: DO runs code"):
        apply_ddl(text, Schemas(KNOWN), named, "V2__x.sql")
    assert judged("SELECT 'é';\n\\c x").startswith("refused: line 2: ")
    assert judged("SELECT 1;\nALTER TABLE customer\nDROP nothing").startswith("error: line 2: ")
    assert judged("SELECT 1;\nSELECT").startswith("refused: line 2: ") is False  # PostgreSQL takes an empty SELECT
    assert judged("SELECT 1;\nSELECT (1\n\n").startswith("refused: line 2: ")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1\0; DROP TABLE customer",
        "SELECT '\ud800'",
        "SELECT " + " || ".join(["'a'"] * 200),
        "SELECT " + "(" * 50000,
        "-- migrate:up\nALTER TABLE customer ADD x int;\n-- migrate:down\nALTER TABLE customer DROP x;",
        "-- +goose Up\nSELECT 1;\n-- +goose Down\nSELECT 2;",
        "SELECT set_config()",
        "ALTER TABLE customer ADD x pg_catalog",
        "ALTER TABLE customer ADD x numeric(99999999999)",
        "ALTER TABLE customer ADD x SETOF int",
        "ALTER TABLE customer ADD x other.id%TYPE",
    ],
)
def test_odd_texts_are_judged_or_refused(text: str) -> None:
    assert judged(text)


def test_a_statement_that_is_nested_too_deeply_is_refused_alone() -> None:
    deep = "SELECT " + " || ".join(["'ä'"] * 200)
    assert judged(f"SELECT 1;\n\n-- é\n{deep};\nSELECT 2").startswith("refused: line 4: ")
