"""What a source's catalog says: relations with their columns, hierarchies, and fingerprints of both (rules C3, R2)."""

from __future__ import annotations

import difflib
import hashlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from dyda.cursor import Cursor, Row
from dyda.errors import RelationRefused, UnknownRelation
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.sources.connection import load_sql
from dyda.sources.reading.encoding import Repertoire
from dyda.sources.stalled_server import PatientConnection

__all__ = [
    "ABSENT",
    "Fingerprint",
    "Hierarchy",
    "answer",
    "describe",
    "find",
    "fingerprint",
    "fingerprint_tables",
    "hierarchies",
    "is_uncaptured",
    "look",
    "relations",
    "stand_under",
    "uncaptured",
]

ABSENT = "absent"
"""The fingerprint of a name that leads to no relation."""
_UNCAPTURED = "uncaptured"


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
    """One table of a hierarchy."""

    oid: int
    schema: str
    table: str
    kind: str
    persistence: str
    rows: int
    subscribed: bool
    parents: tuple[int, ...]
    parents_shown: tuple[str, ...]
    method: str
    owner: str


@dataclass(frozen=True)
class Hierarchy:
    """A named relation and everything below it, the relation first. `root` is None if the name leads nowhere."""

    root: int | None
    members: tuple[int, ...]


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


def uncaptured(lasting: str) -> str:
    """How a snapshot prints a relation whose capture is not complete. That equals no other, not even itself taken
    again: nothing that read such a relation can be installed."""
    return f"{_UNCAPTURED} {lasting} {uuid.uuid4().hex}"


def is_uncaptured(printed: str) -> bool:
    """Whether a fingerprint is that of a relation whose capture is not complete."""
    return printed.startswith(_UNCAPTURED)


def look(printed: str | None) -> str | None:
    """A fingerprint as one sees it who reads no rows: of a relation that is not captured, too, it stays the same until
    the relation changes."""
    return printed.rsplit(" ", 1)[0] if printed is not None and is_uncaptured(printed) else printed


def relations(cursor: Cursor) -> list[tuple[str, str]]:
    """What there is to watch."""
    cursor.execute(load_sql("relations"))
    return [(schema, table) for schema, table in cursor.fetchall()]


def stand_under(cursor: Cursor, tables: Sequence[tuple[str, str]]) -> list[int | None]:
    """The oid of what is called (schema, table) now, for each of them."""
    if not tables:
        return []
    cursor.execute(load_sql("names"), _parameters(tables))
    found: dict[int, int | None] = dict(cursor.fetchall())
    return [found[position] for position in range(1, len(tables) + 1)]


def hierarchies(cursor: Cursor, tables: Sequence[tuple[str, str]]) -> list[Hierarchy]:
    """For each (schema, table) the tables it consists of, now."""
    if not tables:
        return []
    cursor.execute(load_sql("tree"), _parameters(tables))
    members: dict[int, set[int]] = {}
    roots: dict[int, int | None] = {}
    for position, root, relid in cursor.fetchall():
        roots[position] = root
        if relid is not None:
            members.setdefault(position, set()).add(relid)
    found = []
    for position in range(1, len(tables) + 1):
        root = roots[position]
        below = sorted(members.get(position, set()) - {root})
        found.append(Hierarchy(root, () if root is None else (root, *below)))
    return found


def _parameters(tables: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    return {"schemas": [schema for schema, _ in tables], "tables": [table for _, table in tables]}


def describe(cursor: Cursor, source: str, tables: Collection[tuple[str, str]]) -> dict[tuple[str, str], Relation]:
    """The relations as they are now; refuses by name what cannot be captured exactly (rule C3)."""
    wanted = list(dict.fromkeys(tables))
    if cursor.connection.get_parameter_status("server_encoding") == "SQL_ASCII":
        raise RelationRefused(
            f"source {source}: its database has no encoding (SQL_ASCII), so its texts cannot be read exactly",
            "Move it into a database with an encoding, UTF8 for example.",
        )
    held = Repertoire().holds(cursor, ["".join(name) for name in wanted])
    for (schema, table), possible in zip(wanted, held, strict=True):
        if not possible:
            raise _unknown(cursor, source, schema, table)
    trees = hierarchies(cursor, wanted)
    members = _members(cursor, [relid for tree in trees for relid in tree.members])
    for (schema, table), tree in zip(wanted, trees, strict=True):
        if tree.root is None:
            raise _unknown(cursor, source, schema, table)
        _refuse(RelationName(source, schema, table), [members[relid] for relid in tree.members])
    return _relations(cursor, source, wanted, trees, members)


def find(cursor: Cursor, source: str, oids: Collection[int]) -> dict[int, Relation | None]:
    """The relations with these oids under the names they have now; None: gone. Refuses nothing."""
    wanted = sorted(set(oids))
    cursor.execute(
        "SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.oid = ANY (%s::oid[])",
        (wanted,),
    )
    names = {oid: (schema, table) for oid, schema, table in cursor.fetchall()}
    tables = list(names.values())
    trees = hierarchies(cursor, tables)
    members = _members(cursor, [relid for tree in trees for relid in tree.members])
    found = {relation.oid: relation for relation in _relations(cursor, source, tables, trees, members).values()}
    return {oid: found.get(oid) for oid in wanted}


def _relations(
    cursor: Cursor,
    source: str,
    tables: Sequence[tuple[str, str]],
    trees: Sequence[Hierarchy],
    members: Mapping[int, Member],
) -> dict[tuple[str, str], Relation]:
    roots = [tree.root for tree in trees]
    columns = _columns(cursor, roots)
    keys: dict[int, list[tuple[str, ...]]] = {}
    cursor.execute(load_sql("keys"), {"relids": roots})
    for relid, names in cursor.fetchall():
        keys.setdefault(relid, []).append(tuple(names))
    found = {}
    for (schema, table), tree in zip(tables, trees, strict=True):
        root = tree.members[0]
        found[(schema, table)] = Relation(
            name=RelationName(source, schema, table),
            oid=root,
            columns=tuple(columns.get(root, ())),
            keys=tuple(dict.fromkeys(keys.get(root, ()))),
            estimated_rows=sum(members[relid].rows for relid in tree.members if members[relid].kind == "r"),
        )
    return found


def fingerprint(
    cursor: Cursor, names: Sequence[RelationName], known: Mapping[RelationName, int] | None = None
) -> dict[RelationName, Fingerprint]:
    """Fingerprints of the relations and all their descendants; the transaction must be a fresh one (R2).

    A name means the table that stands under it. If none does, it means the table that is `known` by it, wherever
    that is now.
    """
    under = dict(zip(names, stand_under(cursor, [(name.schema, name.table) for name in names]), strict=True))
    roots = {name: oid if oid is not None else (known or {}).get(name) for name, oid in under.items()}
    prints = _prints(cursor, names[0].source, {oid for oid in roots.values() if oid is not None}) if names else {}
    return {name: prints.get(root or 0, Fingerprint(None, ABSENT, ABSENT)) for name, root in roots.items()}


def fingerprint_tables(cursor: Cursor, source: str, oids: Collection[int]) -> dict[RelationName, Fingerprint]:
    """Those of the tables with these oids that exist, under the names they have now."""
    return {found.name: found for found in _prints(cursor, source, oids).values() if found.name is not None}


def _prints(cursor: Cursor, source: str, oids: Collection[int]) -> dict[int, Fingerprint]:
    if not oids:
        return {}
    trees = answer(cursor, "hierarchy", oids)
    found_below = {relid for *_, members in trees for relid in members}
    parts = {relid: part for relid, *part in answer(cursor, "fingerprint", found_below)}
    found = {}
    for root, schema, namespace_xmin, table, members in trees:
        lasting = _hash([schema, *(parts[relid][0] for relid in members)])
        passing = _hash([namespace_xmin, *(parts[relid][1] for relid in members)])
        captured = all(parts[relid][2] for relid in members)
        found[root] = Fingerprint(root, lasting, passing, tuple(members), RelationName(source, schema, table), captured)
    return found


def answer(cursor: Cursor, question: str, relids: Collection[int]) -> list[Row]:
    """To what every poll asks more than once: planning it takes several times as long, so a session does that once."""
    prepared = cast(PatientConnection, cursor.connection).prepared
    if question not in prepared:
        text = load_sql(question).replace("%(relids)s", "$1").replace("%%", "%")
        cursor.execute(f"PREPARE dyda_{question} (oid[]) AS {text}")
        prepared.add(question)
    # Left to itself, PostgreSQL plans anew each time: it takes an array of unknown length for a longer one than it is.
    cursor.execute(
        f"SET LOCAL plan_cache_mode = force_generic_plan; EXECUTE dyda_{question} (%s::oid[])", (sorted(relids),)
    )
    return cursor.fetchall()


def _hash(parts: Iterable[str]) -> str:
    """As dyda.lasting does it."""
    return hashlib.md5(" ".join(parts).encode(), usedforsecurity=False).hexdigest()


def _members(cursor: Cursor, relids: Sequence[int]) -> dict[int, Member]:
    cursor.execute(load_sql("members"), {"relids": list(relids)})
    found = {}
    for oid, schema, table, kind, persistence, rows, subscribed, parents, shown, method, owner in cursor.fetchall():
        parts = (tuple(parents), tuple(shown))
        found[oid] = Member(oid, schema, table, kind, persistence, rows, subscribed, *parts, method, owner)
    return found


def _columns(cursor: Cursor, roots: Sequence[int | None]) -> dict[int, list[Column]]:
    cursor.execute(load_sql("columns"), {"relids": list(roots)})
    found: dict[int, list[Column]] = {}
    for relid, name, number, not_null, generated, bare, declared, builtin in cursor.fetchall():
        column = Column(name, PgType(bare, declared, builtin), number, not_null, generated)
        found.setdefault(relid, []).append(column)
    return found


def _refuse(name: RelationName, members: Sequence[Member]) -> None:
    """Rule C3, for the relation itself and for every table below it."""
    root = members[0]
    if name.schema in SYSTEM:
        raise RelationRefused(f"{name} belongs to the system, not to an application", "Watch an ordinary table.")
    if root.parents:
        parent = root.parents_shown[0]
        raise RelationRefused(
            f"{name} is a partition or an inheritance child of {parent}: statements on {parent} change its rows too",
            f"Use {parent} in the view, with a condition that selects these rows.",
        )
    inside = {member.oid for member in members}
    for member in members:
        part = "it" if member is root else f"its part {member.schema}.{member.table}"
        if member.kind not in ("r", "p"):
            kind = KINDS.get(member.kind, "not a table")
            remedy = "Watch the ordinary tables under it."
            if member is not root:
                remedy = f"Detach or drop {member.schema}.{member.table}, or watch the other parts singly."
            raise RelationRefused(f"{name}: {part} is {kind}, whose changes cannot be captured", remedy)
        if member.persistence == "u":
            raise RelationRefused(
                f"{name}: {part} is unlogged and would be empty after a crash",
                "Run ALTER TABLE … SET LOGGED at the source.",
            )
        if member.persistence == "t" and member is root:
            raise RelationRefused(f"{name}: it is a temporary table", "Watch a permanent table.")
        if member.persistence == "t":
            raise RelationRefused(
                f"{name}: {part} is a temporary table, whose rows only one session can see",
                "Views of it go on by themselves once that session drops the temporary table or ends.",
            )
        if member.subscribed:
            raise RelationRefused(
                f"{name}: {part} is the target of a logical replication subscription, which fires no such triggers",
                "Watch the table at the publisher.",
            )
        outside = [shown for oid, shown in zip(member.parents, member.parents_shown, strict=True) if oid not in inside]
        if outside:
            raise RelationRefused(
                f"{name}: {part} also inherits from {outside[0]}; statements on {outside[0]} change its rows unseen",
                f"Run ALTER TABLE … NO INHERIT {outside[0]} at the source, or watch both parents' children singly.",
            )


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
