"""Every kind of DDL as an exact message: what happened, in steps, and explained by the fingerprint it left (C5).

The cases are data: fixtures/schema_changes/*.sql, after setup.sql. A case is `--# title`, its queries, one a line (a
transaction is one query), and what is told of them, a line for every change, with its steps, or `--> nothing`:

    --: since 17                   only PostgreSQL 17 and later can do it
    --: in any order               one command changed several relations, in no order that matters
    --: uncaptured t               tables under whose names there is nothing that can be captured afterwards
    --> t: +1 -0                   rows that were inserted and deleted
    --> t: truncated
    --> t: adds 6 c integer        a column with its number and type; then `not null`, `stored` or `virtual`
    --> t: drops b
    --> t: renames b to c
    --> t: makes a bigint, was integer
    --> t: is now shop.moved       another name or schema of the table
    --> t: is dropped
    --> t: t is replaced by u      tables by the names that they had before the case; `!t`: has after it,
                                   `?first`: the first one that replaced another
    --> t: moves rows: why         rows move that no row image shows
    --> t: harmless: why
"""

from __future__ import annotations

import os
import re
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation
from dyda.model.relation import Column, RelationName
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
from tests.integration.sources.conftest import Ground

FOLDER = Path(__file__).parents[3] / "fixtures" / "schema_changes"
SETUP = (FOLDER / "setup.sql").read_text(encoding="utf-8")
WATCHED = ("t", "u", "p", "parent")

Told = Change | tuple[str, list[Step]]


@dataclass
class Case:
    since: int = 0
    ordered: bool = True
    uncaptured: set[str] = field(default_factory=set)
    queries: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Case:
        case = cls()
        for line in text.strip().splitlines():
            match line.split(" "):
                case ["--:", "since", version]:
                    case.since = int(version)
                case ["--:", "in", "any", "order"]:
                    case.ordered = False
                case ["--:", "uncaptured", *tables]:
                    case.uncaptured = set(tables)
                case ["-->", *_]:
                    case.told.append(line[4:])
                case [first, *_] if not first.startswith("--"):
                    case.queries.append(line)
                case _:
                    raise ValueError(f"no such line in a case: {line}")
        assert case.queries, text
        assert case.told, text
        return case


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(FOLDER.glob("*.sql")):
        for text in re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, body = text.partition("\n")
            found.append(pytest.param(Case.read(body), id=title))
    assert len(found) >= 89
    return found


def read_change(text: str, oid: Callable[[str], int]) -> Told:
    """What a `-->` line says, as the message would."""
    table, _, what = text.partition(": ")
    if rows := re.fullmatch(r"\+(\d+) -(\d+)", what):
        return DataUpdate(named(table), int(rows[1]), int(rows[2]))
    if what in ("truncated", "partly truncated"):
        return Truncation(named(table), what == "truncated")
    return table, [read_step(step, oid) for step in what.split("; ")]


def read_step(text: str, oid: Callable[[str], int]) -> Step:
    if found := re.fullmatch(r"adds (\d+) (\w+) (.*?)( not null)?( stored| virtual)?", text):
        generated = (found[5] or "").strip()[:1]
        return AddColumn(Column(found[2], read_type(found[3]), int(found[1]), found[4] is not None, generated))
    if found := re.fullmatch(r"drops (\w+)", text):
        return DropColumn(found[1])
    if found := re.fullmatch(r"renames (\w+) to (\w+)", text):
        return RenameColumn(found[1], found[2])
    if found := re.fullmatch(r"makes (\w+) (.*), was (.*)", text):
        return ChangeType(found[1], read_type(found[3]), read_type(found[2]))
    if found := re.fullmatch(r"is now (\w+)\.(\w+)", text):
        return RenameRelation(named(found[2], found[1]))
    if text == "is dropped":
        return DropRelation()
    if found := re.fullmatch(r"(\S+) is replaced by (\S+)", text):
        return ReplaceRelation(oid(found[1]), oid(found[2]))
    if found := re.fullmatch(r"moves rows: (.*)", text):
        return Rewrite(found[1])
    if found := re.fullmatch(r"harmless: (.*)", text):
        return Harmless(found[1])
    raise ValueError(f"no such step: {text}")


def read_type(declared: str) -> PgType:
    """Types of the schema's own have a schema in their names; the warehouse cannot know them."""
    return PgType(re.sub(r"\(.*\)", "", declared), declared, builtin="." not in declared)


def named(table: str, schema: str = "shop") -> RelationName:
    return RelationName("crm", schema, table)


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """One database for all cases: each makes the schema `shop` anew."""
    administration = os.environ.get("DYDA_TEST_POSTGRES") or request.getfixturevalue("server").url()
    name = f"shop_{uuid.uuid4().hex[:12]}"
    connection = psycopg2.connect(administration)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        ground = Ground(urllib.parse.urlunsplit(urllib.parse.urlsplit(administration)._replace(path="/" + name)))
        yield ground
        ground.close()
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()


@pytest.fixture
def shop(place: Ground) -> Iterator[Ground]:
    place.run("CREATE SCHEMA shop", "SET search_path = shop", SETUP)
    place.relations.clear()
    place.watch(*WATCHED, schema="shop")
    yield place
    place.run("ROLLBACK", "RESET ALL")
    place.run(
        "TRUNCATE dyda.watched, dyda.holder, dyda.described, dyda.member, dyda.log",
        "DROP SCHEMA IF EXISTS shop, store, other, twin, aside CASCADE",
    )


def known(ground: Ground) -> dict[RelationName, int]:
    return {relation.name: relation.oid for relation in ground.relations.values()}


def oids(ground: Ground) -> dict[str, int]:
    rows = ground.run("SELECT relname, oid FROM pg_class WHERE relnamespace = to_regnamespace('shop')")
    return {name: int(oid) for name, oid in rows}


@pytest.mark.parametrize("case", cases())
def test_a_schema_change_is_told_exactly(shop: Ground, case: Case) -> None:
    if shop.connect().server_version < case.since * 10000:
        pytest.skip(f"came with PostgreSQL {case.since}")
    before = oids(shop)
    gap = shop.gap()
    with shop.source.open(known(shop)) as snapshot:
        position, fingerprints = snapshot.position, snapshot.fingerprints
    for query in case.queries:
        shop.run(query)
    after = oids(shop)
    with shop.source.open(known(shop)) as snapshot:
        messages = snapshot.messages(position)
        logged, now = snapshot.logged_fingerprints, snapshot.fingerprints
    assert shop.gap() == gap
    found: list[Any] = [change for message in messages for change in message.changes]
    first = next(
        (s.new_oid for c in found if isinstance(c, SchemaChange) for s in c.steps if isinstance(s, ReplaceRelation)), 0
    )

    def oid(name: str) -> int:
        return first if name == "?first" else after[name[1:]] if name.startswith("!") else before[name]

    def bare(step: Step) -> Step:
        return ReplaceRelation(step.old_oid, step.new_oid) if isinstance(step, ReplaceRelation) else step

    told = [(c.relation.table, list(map(bare, c.steps))) if isinstance(c, SchemaChange) else c for c in found]
    wanted = [read_change(line, oid) for line in case.told if line != "nothing"]
    if case.ordered:
        assert told == wanted
    else:
        assert sorted(map(str, told)) == sorted(map(str, wanted))
    uncaptured = {name for name, fingerprint in now.items() if fingerprint.startswith("uncaptured")}
    assert {name.table for name in uncaptured} == case.uncaptured
    for name, fingerprint in now.items():
        if name not in uncaptured and fingerprint != fingerprints.get(name):
            assert logged[name] == fingerprint, "C5: explained, the same inside the transaction as after it"
    for change in found:
        if isinstance(change, SchemaChange):
            assert change.command.split()[0] in ("ALTER", "CREATE", "DROP")
            assert change.ddl
