"""What a source's catalog says: relations, the tables they consist of, and fingerprints of both (rules C3, R2)."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from dyda.cursor import Cursor, Row
from dyda.errors import RelationRefused, UnknownRelation
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.sources.connection import load_sql
from dyda.sources.fingerprints import ABSENT
from dyda.sources.reading.encoding import Repertoire
from dyda.sources.stalled_server import PatientConnection

__all__ = [
    "Fingerprint",
    "Hierarchy",
    "answer",
    "describe",
    "find",
    "fingerprint",
    "fingerprint_tables",
    "hierarchies",
    "oids_of",
    "relations",
]

KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
    "I": "an index",
    "t": "a TOAST table",
}
SYSTEM = ("pg_catalog", "information_schema", "pg_toast", "dyda")


@dataclass(frozen=True)
class Member:
    """One table of a hierarchy, as sql/members.sql describes it."""

    oid: int
    schema: str
    table: str
    kind: str
    persistence: str
    rows: int
    subscribed: bool
    parents: list[int]
    parents_shown: list[str]


@dataclass(frozen=True)
class Hierarchy:
    """A relation under its present name, and all tables that it consists of (`root` is one), by oid."""

    root: int
    schema: str
    schema_xmin: str
    table: str
    members: list[int]


@dataclass(frozen=True)
class Fingerprint:
    """`lasting` must stay the same between units, `passing` while one unit reads. See sql/fingerprint.sql.

    `name` is what the relation is called now; `captured` whether all its tables have their triggers.
    """

    root: int | None
    lasting: str
    passing: str
    members: tuple[int, ...] = ()
    name: RelationName | None = None
    captured: bool = True


def relations(cursor: Cursor) -> list[tuple[str, str]]:
    """The tables that can be watched."""
    cursor.execute(load_sql("relations"))
    return [(schema, table) for schema, table in cursor.fetchall()]


def oids_of(cursor: Cursor, tables: Sequence[tuple[str, str]]) -> list[int | None]:
    """The oid of what is called (schema, table) now, for each of them."""
    if not tables:
        return []
    cursor.execute(
        load_sql("names"), {"schemas": [schema for schema, _ in tables], "tables": [table for _, table in tables]}
    )
    return [oid for (oid,) in cursor.fetchall()]


def hierarchies(cursor: Cursor, oids: Collection[int]) -> dict[int, Hierarchy]:
    """The relations that exist among those with these oids."""
    return {row[0]: Hierarchy(*row) for row in answer(cursor, "hierarchy", oids)} if oids else {}


def describe(cursor: Cursor, source: str, tables: Collection[tuple[str, str]]) -> dict[tuple[str, str], Relation]:
    """The relations as they are now; refuses by name what cannot be captured exactly (rule C3)."""
    wanted = list(dict.fromkeys(tables))
    if cursor.connection.get_parameter_status("server_encoding") == "SQL_ASCII":
        raise RelationRefused(
            f"source {source}: its database has no encoding (SQL_ASCII), so its texts cannot be read exactly",
            "Move it into a database with an encoding, UTF8 for example.",
        )
    possible = Repertoire().holds(cursor, ["".join(name) for name in wanted])
    asked = [name for name, holds in zip(wanted, possible, strict=True) if holds]
    oids = dict(zip(asked, oids_of(cursor, asked), strict=True))
    for schema, table in wanted:
        if oids.get((schema, table)) is None:
            raise _unknown(cursor, source, schema, table)
    described = _relations(cursor, source, [oid for oid in oids.values() if oid is not None], refuse=True)
    return {(relation.name.schema, relation.name.table): relation for relation in described}


def find(cursor: Cursor, source: str, oids: Collection[int]) -> dict[int, Relation | None]:
    """The relations with these oids under the names they have now; None: gone. Refuses nothing."""
    found = {relation.oid: relation for relation in _relations(cursor, source, oids)}
    return {oid: found.get(oid) for oid in sorted(set(oids))}


def sizes(cursor: Cursor, oids: Collection[int]) -> dict[int, int]:
    """How many bytes the relations with these oids have now, roughly what reading all of them takes."""
    return {row[0]: row[1] for row in answer(cursor, "sizes", oids)} if oids else {}


def _relations(cursor: Cursor, source: str, oids: Collection[int], *, refuse: bool = False) -> list[Relation]:
    trees = hierarchies(cursor, oids)
    cursor.execute(load_sql("members"), {"relids": [relid for tree in trees.values() for relid in tree.members]})
    members = {row[0]: Member(*row) for row in cursor.fetchall()}
    columns: dict[int, list[Column]] = {root: [] for root in trees}
    cursor.execute(load_sql("columns"), {"relids": list(trees)})
    for relid, name, number, not_null, generated, bare, declared, builtin in cursor.fetchall():
        columns[relid].append(Column(name, PgType(bare, declared, builtin), number, not_null, generated))
    keys: dict[int, list[tuple[str, ...]]] = {root: [] for root in trees}
    cursor.execute(load_sql("keys"), {"relids": list(trees)})
    for relid, names in cursor.fetchall():
        if all(column.not_null for column in columns[relid] if column.name in names):
            keys[relid].append(tuple(names))
    described = []
    for root in [oid for oid in dict.fromkeys(oids) if oid in trees]:
        tree = trees[root]
        relation_name = RelationName(source, tree.schema, tree.table)
        parts = [members[relid] for relid in tree.members]
        if refuse:
            _refuse(relation_name, members[root], parts)
        rows = sum(part.rows for part in parts if part.kind == "r")
        unique_keys = tuple(dict.fromkeys(keys[root]))
        described.append(Relation(relation_name, root, tuple(columns[root]), unique_keys, rows))
    return described


def fingerprint(
    cursor: Cursor, names: Sequence[RelationName], known: Mapping[RelationName, int] | None = None
) -> dict[RelationName, Fingerprint]:
    """Fingerprints of the relations and all their descendants; the transaction must be a fresh one (R2).

    A name means the table that has it now. If none has, it means the table `known` by it, whatever its name is now.
    """
    named = zip(names, oids_of(cursor, [(name.schema, name.table) for name in names]), strict=True)
    roots = {name: oid if oid is not None else (known or {}).get(name) for name, oid in named}
    prints = _prints(cursor, names[0].source, {oid for oid in roots.values() if oid is not None}) if names else {}
    return {name: prints.get(root or 0, Fingerprint(None, ABSENT, ABSENT)) for name, root in roots.items()}


def fingerprint_tables(cursor: Cursor, source: str, oids: Collection[int]) -> dict[RelationName, Fingerprint]:
    """Those of the tables with these oids that exist, under the names they have now."""
    return {found.name: found for found in _prints(cursor, source, oids).values() if found.name is not None}


def _prints(cursor: Cursor, source: str, oids: Collection[int]) -> dict[int, Fingerprint]:
    trees = hierarchies(cursor, oids)
    tables = {relid for tree in trees.values() for relid in tree.members}
    parts = {relid: part for relid, *part in answer(cursor, "fingerprint", tables)} if tables else {}
    prints = {}
    for root, tree in trees.items():
        lasting = _hash([tree.schema, *(parts[relid][0] for relid in tree.members)])
        passing = _hash([tree.schema_xmin, *(parts[relid][1] for relid in tree.members)])
        captured = all(parts[relid][2] for relid in tree.members)
        name = RelationName(source, tree.schema, tree.table)
        prints[root] = Fingerprint(root, lasting, passing, tuple(tree.members), name, captured)
    return prints


def answer(cursor: Cursor, question: str, relids: Collection[int]) -> list[Row]:
    """The rows of sql/QUESTION.sql. Every poll asks these questions, and planning takes several times as long as
    answering, so each session plans once."""
    prepared = cast(PatientConnection, cursor.connection).prepared
    if question not in prepared:
        text = load_sql(question).replace("%(relids)s", "$1").replace("%%", "%")
        cursor.execute(f"PREPARE dyda_{question} (oid[]) AS {text}")
        prepared.add(question)
    # By default PostgreSQL would plan each time: it expects longer arrays than these, and so costlier generic plans.
    cursor.execute(
        f"SET LOCAL plan_cache_mode = force_generic_plan; EXECUTE dyda_{question} (%s::oid[])", (sorted(relids),)
    )
    return cursor.fetchall()


def _hash(parts: Iterable[str]) -> str:
    """As dyda.lasting does it."""
    return hashlib.md5(" ".join(parts).encode(), usedforsecurity=False).hexdigest()


def _refuse(name: RelationName, root: Member, members: Collection[Member]) -> None:
    """Rule C3, for the relation itself and for every table below it."""
    if name.schema in SYSTEM:
        raise RelationRefused(f"{name} is a system table", "Watch an ordinary table.")
    if root.parents:
        parent = root.parents_shown[0]
        raise RelationRefused(
            f"{name} is a partition or an inheritance child of {parent}: statements on {parent} change its rows too",
            f"Use {parent} in the view, with a condition that selects these rows.",
        )
    inside = {member.oid for member in members}
    for member in sorted(members, key=lambda member: member is not root):
        shown = f"{member.schema}.{member.table}"
        part = "it" if member is root else f"its part {shown}"
        outside = [shown for oid, shown in zip(member.parents, member.parents_shown, strict=True) if oid not in inside]
        what = remedy = ""
        if member.kind not in ("r", "p"):
            what = f"is {KINDS.get(member.kind, 'not a table')}, whose changes cannot be captured"
            remedy = "Watch the tables it is made from."
            if member is not root:
                remedy = f"Detach or drop {shown}, or watch the other parts one by one."
        elif member.persistence == "u":
            what, remedy = "is unlogged: a crash would empty it", "Run ALTER TABLE … SET LOGGED at the source."
        elif member.persistence == "t" and member is root:
            what, remedy = "is a temporary table", "Watch a permanent table."
        elif member.persistence == "t":
            what = "is a temporary table, whose rows only one session can see"
            remedy = "Maintenance resumes once that session ends or drops the temporary table."
        elif member.subscribed:
            what = "is the target of a logical replication subscription, which does not fire capture's triggers"
            remedy = "Watch the table at the publisher."
        elif outside:
            what = f"also inherits from {outside[0]}, and statements on {outside[0]} would change its rows uncaptured"
            remedy = f"Run ALTER TABLE … NO INHERIT {outside[0]} at the source, or watch the child tables one by one."
        if what:
            raise RelationRefused(f"{name}: {part} {what}", remedy)


def _unknown(cursor: Cursor, source: str, schema: str, table: str) -> UnknownRelation:
    there = relations(cursor)
    shown = {f"{s}.{t}": str(RelationName(source, s, t)) for s, t in there}
    near = difflib.get_close_matches(f"{schema}.{table}", shown, n=3, cutoff=0.6)
    near += [f"{s}.{t}" for s, t in there if t.lower() == table.lower() and f"{s}.{t}" not in near]
    if near:
        remedy = f"Did you mean {' or '.join(shown[name] for name in near)}?"
    elif there:
        names = ", ".join(list(shown.values())[:20])
        remedy = f"It has: {names}{', …' if len(there) > 20 else ''}."
    else:
        remedy = "It has no tables that this role can see."
    return UnknownRelation(f"source {source} has no table {RelationName(source, schema, table)}", remedy)
