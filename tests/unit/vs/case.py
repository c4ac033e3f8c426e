"""What the fixtures and the unit tests of synchronization share: small schemas and DDL, without a database."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dyda.errors import UnknownRelation
from dyda.model.algebra.nodes import ViewDefinition, in_place
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.knowledge.file import parse_knowledge
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from dyda.model.types import PgType
from vs import Defaults, Judgement, World, synchronize

Catalog = dict[RelationName, Relation]

_NAME = r"(?P<name>[\w.]+)"
_BUILTIN = re.compile(
    r"(integer|bigint|smallint|text|character varying|numeric|date|boolean|json|jsonb|real|double precision"
    r"|character|bpchar|interval|inet|timestamp with(out)? time zone|uuid|bytea)(\(.*\))?(\[\])?"
)


@dataclass
class Schemas:
    """Relations by name, changed by DDL. `known`: what each one was called at first, by oid."""

    relations: Catalog
    oids: int = 100

    def resolve(self, source: str, schema: str | None, table: str) -> Relation:
        name = RelationName(source, schema or "public", table)
        if name not in self.relations:
            raise UnknownRelation(f"{name} is not there")
        return self.relations[name]

    def execute(self, script: str) -> Schemas:
        """Other schemas: after the statements."""
        after = Schemas(dict(self.relations), self.oids)
        for statement in re.sub(r"--.*", "", script).split(";"):
            if statement.strip():
                after._statement(" ".join(statement.split()))
        return after

    def _statement(self, text: str) -> None:
        if match := re.fullmatch(rf"CREATE TABLE {_NAME} ?\((?P<body>.*)\)(?: ROWS (?P<rows>\d+))?", text):
            self.oids += 1
            name = full(match["name"])
            columns, keys = _columns(match["body"])
            self.relations[name] = Relation(name, self.oids, columns, keys, int(match["rows"] or 0))
        elif match := re.fullmatch(rf"DROP TABLE {_NAME}", text):
            del self.relations[full(match["name"])]
        elif match := re.fullmatch(rf"ALTER TABLE {_NAME} (?P<action>.*)", text):
            relation = self.relations.pop(full(match["name"]))
            for action in re.split(r", (?=ADD|DROP|ALTER|RENAME)", match["action"]):
                relation = _altered(relation, action)
            self.relations[relation.name] = relation
        else:
            raise AssertionError(f"this DDL is not read here: {text}")


def full(name: str) -> RelationName:
    source, *schema, table = name.split(".")
    return RelationName(source, schema[0] if schema else "public", table)


def _columns(body: str) -> tuple[tuple[Column, ...], tuple[tuple[str, ...], ...]]:
    columns: list[Column] = []
    keys: list[tuple[str, ...]] = []
    for entry in re.split(r", (?![^()]*\))", body):
        if match := re.fullmatch(r"(PRIMARY KEY|UNIQUE) \((.*)\)", entry.strip()):
            key = tuple(match[2].split(", "))
            keys.append(key)
            primary = match[1] == "PRIMARY KEY"
            columns = [replace(c, not_null=c.not_null or (primary and c.name in key)) for c in columns]
        else:
            columns.append(_column(entry.strip(), len(columns) + 1))
            if re.search(r"PRIMARY KEY|UNIQUE", entry):
                keys.append((columns[-1].name,))
    return tuple(columns), tuple(keys)


def _column(text: str, number: int) -> Column:
    name, declared = text.split(" ", 1)
    not_null = bool(re.search("NOT NULL|PRIMARY KEY", declared))
    virtual = "VIRTUAL" in declared
    declared = re.sub(r" ?(NOT NULL|PRIMARY KEY|UNIQUE|VIRTUAL|DEFAULT \S+)", "", declared)
    return Column(name, _type(declared), number, not_null, "v" if virtual else "")


def _type(declared: str) -> PgType:
    return PgType(re.sub(r"\(.*\)", "", declared), declared, builtin=bool(_BUILTIN.fullmatch(declared)))


def _altered(relation: Relation, action: str) -> Relation:
    name = relation.name
    if match := re.fullmatch(r"DROP COLUMN (\w+)", action):
        relation.column(match[1])
        keys = tuple(key for key in relation.keys if match[1] not in key)
        return replace(relation, columns=tuple(c for c in relation.columns if c.name != match[1]), keys=keys)
    if match := re.fullmatch(r"ADD COLUMN (.*)", action):
        number = max((column.number for column in relation.columns), default=0) + 10
        return replace(relation, columns=(*relation.columns, _column(match[1], number)))
    if match := re.fullmatch(r"RENAME COLUMN (\w+) TO (\w+)", action):
        keys = tuple(tuple(match[2] if c == match[1] else c for c in key) for key in relation.keys)
        return replace(_with(relation, match[1], name=match[2]), keys=keys)
    if match := re.fullmatch(r"ALTER COLUMN (\w+) TYPE (.*)", action):
        return _with(relation, match[1], type=_type(match[2]))
    if match := re.fullmatch(r"ALTER COLUMN (\w+) SET VIRTUAL", action):
        return _with(relation, match[1], generated="v")
    if match := re.fullmatch(r"RENAME TO (\w+)", action):
        return replace(relation, name=replace(name, table=match[1]))
    if match := re.fullmatch(r"SET SCHEMA (\w+)", action):
        return replace(relation, name=replace(name, schema=match[1]))
    raise AssertionError(f"this DDL is not read here: {action}")


def _with(relation: Relation, column: str, **values: object) -> Relation:
    relation.column(column)
    changed = tuple(replace(c, **values) if c.name == column else c for c in relation.columns)  # type: ignore[arg-type]
    return replace(relation, columns=changed)


def moved(before: Schemas, after: Schemas) -> Mapping[RelationName, Relation | None]:
    """What became of each relation that changed: the same table under whatever name, or what took its name."""
    by_oid = {relation.oid: relation for relation in after.relations.values()}
    now = {n: by_oid.get(relation.oid, after.relations.get(n)) for n, relation in before.relations.items()}
    return {name: found for name, found in now.items() if found != before.relations[name]}


def knowledge(text: str, schemas: Schemas) -> Knowledge:
    return parse_knowledge(tomllib.loads(text), schemas.resolve)


def view(
    text: str, schemas: Schemas, name: str = "v", views: Mapping[str, ViewDefinition] | None = None
) -> ViewDefinition:
    return parse_view(name, text, schemas.resolve, views=(views or {}).__getitem__)


def judge(
    text: str,
    before: Schemas,
    change: str,
    known: str = "",
    defaults: Defaults | None = None,
    below: tuple[str, str] | None = None,
) -> tuple[Judgement, Schemas]:
    """`below`: a view that this one reads, by name and text; its definition is put in its place."""
    after = before.execute(change)
    world = World(before.relations, moved(before, after), knowledge(known, before))
    definition = view(text, before, views={below[0]: view(below[1], before, below[0])} if below is not None else {})
    tree = in_place(definition.tree)
    sql = render_view(tree, definition.preferences) if below is not None else text
    return synchronize(replace(definition, tree=tree, sql=sql), world, defaults), after


TRAVEL = Schemas({}).execute(
    """
    -- Figure 1 of paper 001
    CREATE TABLE crm.customer (name text PRIMARY KEY, address text, phone text);
    CREATE TABLE tours.tour (tour_id integer PRIMARY KEY, tour_name text, age integer, type text, no_days integer);
    CREATE TABLE people.participant (participant text, tour_id integer, start_date date, loc text);
    CREATE TABLE booking.flight_res (name text, age integer, flight_no text, dest text);
    """
)
