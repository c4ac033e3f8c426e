"""knowledge.toml: its document read into constraints, and constraints written down as the same document.

    parse_knowledge(render_knowledge(k), resolve) == k

Errors name the entry by its kind and number: a relation or a column that does not exist, columns whose types have no
values in common, two entries that contradict each other, an unknown key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dyda.errors import (
    ConfigurationError,
    NotComputable,
    RelationRefused,
    UnknownColumn,
    UnknownRelation,
    UnsupportedSql,
)
from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.knowledge.constraints import (
    Constraint,
    Containment,
    FunctionConstraint,
    JoinConstraint,
    Knowledge,
    Projection,
    mismatch,
)
from dyda.model.knowledge.notation import (
    Resolve,
    TableName,
    column_list,
    column_name,
    conditions,
    named_tables,
    table_name,
    value,
)
from dyda.model.relation import Relation, RelationName, quoted

__all__ = ["parse_knowledge", "referenced_relations", "render_knowledge"]

Document = Mapping[str, Any]

NEEDED = {"join": ("between", "on"), "containment": ("of", "is", "in"), "function": ("attribute", "equals")}
OPTIONAL = {"containment": ("of_where", "in_where")}
CONTAINMENTS = ("subset", "equivalent", "superset")
REVERSED = {"subset": "superset", "equivalent": "equivalent", "superset": "subset"}


def parse_knowledge(document: Document, resolve: Resolve) -> Knowledge:
    """The constraints of a knowledge.toml, or an error that names the entry and what is wrong with it."""
    return _Reader(document, resolve).knowledge()


def referenced_relations(document: Document) -> list[TableName]:
    """(source, schema or None, table) of each relation that the document names, once; needs no catalog."""
    return list(dict.fromkeys(name for entry in _entries(document) for name in entry.tables()))


def render_knowledge(knowledge: Knowledge) -> dict[str, Any]:
    """The constraints as a document, with full names throughout."""
    document: dict[str, Any] = {}
    for constraint in knowledge.constraints:
        match constraint:
            case JoinConstraint(left, right, on):
                entry = {"between": [str(left), str(right)], "on": _conjunction(on, constraint)}
                document.setdefault("join", []).append(entry)
            case Containment():
                document.setdefault("containment", []).append(_containment(constraint))
            case FunctionConstraint(relation, column, equals):
                entry = {"attribute": f"{relation}.{quoted(column)}", "equals": _expression(equals, constraint)}
                document.setdefault("function", []).append(entry)
    return document


@dataclass(frozen=True)
class _Entry:
    """One entry of the document. `number` counts from 1 within its kind."""

    kind: str
    number: int
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        return f"[[{self.kind}]] {self.number}"

    def error(self, what: str, remedy: str = "") -> ConfigurationError:
        return ConfigurationError(f"knowledge.toml, {self}: {what.removeprefix(': ')}", remedy)

    @contextmanager
    def reported(self, setting: str = "") -> Iterator[None]:
        """Add the entry and the setting to errors raised inside."""
        try:
            yield
        except (UnknownRelation, RelationRefused, UnknownColumn, NotComputable, UnsupportedSql) as error:
            raise self.error(f"{setting}: {error.what.removeprefix(': ')}", error.remedy) from None

    def text(self, setting: str) -> str:
        found = self.settings[setting]
        if not isinstance(found, str) or not found.strip():
            raise self.error(f"{setting} must be a text, not {found!r}", "Write it in quotes.")
        return found

    def between(self) -> tuple[str, str]:
        match self.settings["between"]:
            case [str(left), str(right)]:
                return left, right
            case _:
                raise self.error("between must list two relations", 'Write between = ["source.table", "source.table"].')

    def tables(self) -> list[TableName]:
        """The relations that the entry names."""
        with self.reported():
            match self.kind:
                case "join":
                    return [table_name(text) for text in self.between()]
                case "containment":
                    return [column_list(self.text(setting))[0] for setting in ("of", "in")]
                case _:
                    qualifiers = [parts for parts in named_tables(self.text("equals")) if len(parts) > 1]
                    over: list[TableName] = [(q[0], q[1] if len(q) > 2 else None, q[-1]) for q in qualifiers]
                    return [column_name(self.text("attribute"))[0], *over]


def _entries(document: Document) -> Iterator[_Entry]:
    for kind, entries in document.items():
        if kind not in NEEDED:
            remedy = f"Known entries: {', '.join(f'[[{known}]]' for known in NEEDED)}."
            raise ConfigurationError(f"knowledge.toml: unknown key {kind!r}", remedy)
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            raise ConfigurationError(f"knowledge.toml: {kind} is not a list of entries", f"Write [[{kind}]].")
        for number, settings in enumerate(entries, 1):
            entry = _Entry(kind, number, settings)
            known = (*NEEDED[kind], *OPTIONAL.get(kind, ()))
            for key in settings:
                if key not in known:
                    raise entry.error(f"unknown key {key!r}", f"Known keys: {', '.join(known)}.")
            for key in NEEDED[kind]:
                if key not in settings:
                    raise entry.error(f"{key} is missing", "Add it.")
            yield entry


@dataclass
class _Reader:
    document: Document
    resolve: Resolve
    found: dict[RelationName, Relation] = field(default_factory=dict)
    by_name: dict[TableName, Relation] = field(default_factory=dict)

    def knowledge(self) -> Knowledge:
        entries = list(_entries(self.document))
        for entry in entries:
            for name in entry.tables():
                with entry.reported():
                    self.relation(*name)
        read = [(entry, self.constraint(entry)) for entry in entries]
        for entry, constraint in read:
            problem = mismatch(constraint, self.found.__getitem__)
            if problem is not None:
                raise entry.error(problem, "Name columns whose values can be equal.")
        _refuse_contradictions(read)
        return Knowledge.of([constraint for _, constraint in read])

    def relation(self, source: str, schema: str | None, table: str) -> Relation:
        name = (source, schema, table)
        if name not in self.by_name:
            relation = self.resolve(*name)
            self.by_name[name] = self.found.setdefault(relation.name, relation)
        return self.by_name[name]

    def constraint(self, entry: _Entry) -> Constraint:
        match entry.kind:
            case "join":
                return self.join(entry)
            case "containment":
                return self.containment(entry)
            case _:
                return self.function(entry)

    def join(self, entry: _Entry) -> JoinConstraint:
        left, right = (self.relation(*table_name(text)) for text in entry.between())
        if left.name == right.name:
            raise entry.error(f"{left.name} is joined with itself", "Name two relations.")
        on = self.conditions(entry, "on", [left, right])
        mentioned = {alias for condition in on for alias in condition.aliases}
        for relation in (left, right):
            if str(relation.name) not in mentioned:
                raise entry.error(f"on does not mention {relation.name}", "Write a condition over both relations.")
        return JoinConstraint(left.name, right.name, on)

    def containment(self, entry: _Entry) -> Containment:
        of, within = self.projection(entry, "of", "of_where"), self.projection(entry, "in", "in_where")
        is_ = entry.text("is")
        if is_ not in CONTAINMENTS:
            raise entry.error(f"is cannot be {is_!r}", f"Choose one of: {', '.join(CONTAINMENTS)}.")
        if len(of.columns) != len(within.columns):
            raise entry.error("of and in list different numbers of columns", "List as many in both.")
        if of.relation == within.relation:
            raise entry.error(f"{of.relation} is compared with itself", "Name two relations.")
        return Containment(of, is_, within)

    def projection(self, entry: _Entry, setting: str, where: str) -> Projection:
        with entry.reported(setting):
            name, columns = column_list(entry.text(setting))
            relation = self.relation(*name)
            for column in columns:
                relation.column(column)
        selection = self.conditions(entry, where, [relation]) if where in entry.settings else ()
        return Projection(relation.name, columns, selection)

    def conditions(self, entry: _Entry, setting: str, relations: Sequence[Relation]) -> tuple[Expression, ...]:
        with entry.reported(setting):
            return conditions(entry.text(setting), relations, self.relation)

    def function(self, entry: _Entry) -> FunctionConstraint:
        with entry.reported("attribute"):
            name, column = column_name(entry.text("attribute"))
            relation = self.relation(*name)
            relation.column(column)
        text = entry.text("equals")
        with entry.reported("equals"):
            equals = value(text, self.meant(named_tables(text)), self.relation)
        over = [other for other in self.found.values() if str(other.name) in equals.aliases]
        if len(over) != 1 or over[0].name == relation.name:
            remedy = "Write source.table.column for its columns."
            raise entry.error("equals must be an expression over one other relation", remedy)
        return FunctionConstraint(relation.name, column, equals, over[0].name)

    def meant(self, qualifiers: Sequence[Sequence[str]]) -> list[Relation]:
        """The relations that columns are qualified with; one named by its table alone is in another entry."""
        sources = {(qualifier[0], qualifier[-1]) for qualifier in qualifiers if len(qualifier) > 1}
        tables = {qualifier[-1] for qualifier in qualifiers} - {table for _, table in sources}
        found = self.found.items()
        return [r for name, r in found if (name.source, name.table) in sources or name.table in tables]


def _refuse_contradictions(read: Sequence[tuple[_Entry, Constraint]]) -> None:
    """Two projections may be compared only once, and no entry may repeat another."""
    seen: dict[object, _Entry] = {}
    relations: dict[object, str] = {}
    for entry, constraint in read:
        key: object = constraint
        if isinstance(constraint, Containment):
            turned = constraint.within.relation < constraint.of.relation
            one, other = (constraint.within, constraint.of) if turned else (constraint.of, constraint.within)
            pairs = tuple(sorted(zip(one.columns, other.columns, strict=True)))
            key = (one.relation, one.where, other.relation, other.where, pairs)
            is_ = REVERSED[constraint.is_] if turned else constraint.is_
            if relations.setdefault(key, is_) != is_:
                remedy = 'Keep one of them; if both are true, write is = "equivalent".'
                raise entry.error(f"it contradicts {seen[key]} about the same projections", remedy)
        if key in seen:
            raise entry.error(f"it says the same as {seen[key]}", "Remove one of them.")
        seen[key] = entry


def _containment(containment: Containment) -> dict[str, str]:
    written = {"of": _projection(containment.of), "is": containment.is_, "in": _projection(containment.within)}
    for setting, projection in (("of_where", containment.of), ("in_where", containment.within)):
        if projection.where:
            written[setting] = _conjunction(projection.where, containment)
    return written


def _projection(projection: Projection) -> str:
    return f"{projection.relation}({', '.join(quoted(column) for column in projection.columns)})"


def _conjunction(conditions: Sequence[Expression], constraint: Constraint) -> str:
    return " AND ".join(_expression(condition, constraint) for condition in conditions)


def _expression(expression: Expression, constraint: Constraint) -> str:
    """With each column under its relation's full name, all parts quoted: any of them may be a keyword."""
    names = {str(name): name for name in constraint.relations}

    def shown(reference: ColumnRef) -> str:
        name = names[reference.alias]
        return ".".join(quoted(part) for part in (name.source, name.schema, name.table, reference.column))

    return expression.rendered(shown)
