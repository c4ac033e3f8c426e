"""From a draft to a definition: today's names, text, and the text read again over the relations as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dyda.errors import DydaError
from dyda.model.algebra.nodes import (
    ColumnRef,
    Expression,
    Join,
    Node,
    OutputColumn,
    Project,
    Scan,
    Select,
    ViewDefinition,
)
from dyda.model.preferences import Preference, Preferences
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import LONGEST_NAME, RESERVED, Resolve, parse_view
from dyda.model.sql.render import render_view
from vs.rewrite.current_names import Words
from vs.schema_mapping import Passage
from vs.search.draft import Draft, DraftCondition

__all__ = ["Assembly", "NothingLeft", "assemble", "free_names", "is_ambiguous", "resolver"]


class NothingLeft(DydaError):
    """All columns of the view are gone."""


@dataclass(frozen=True)
class Assembly:
    """A draft's text over today's relations; what was followed and what was appended, in words."""

    name: str
    sql: str
    relations: tuple[Relation, ...]
    followed: tuple[str, ...]
    appended: tuple[str, ...]

    def read(self, plain_numeric: str) -> ViewDefinition:
        """The text read again. A DydaError says why it cannot be."""
        return parse_view(self.name, self.sql, resolver(self.relations), plain_numeric=plain_numeric)


def assemble(draft: Draft, passage: Passage, append: Preference | None) -> Assembly:
    """The draft written down in today's names. `append`: with the columns that are new, and what holds for them."""
    definition = draft.block.definition
    followed: dict[str, None] = {}
    relations = {occurrence.alias: _there(passage, occurrence.relation) for occurrence in draft.occurrences}
    names = {occurrence.alias: occurrence.relation for occurrence in draft.occurrences}
    for alias, name in names.items():
        for ref in sorted(_used(draft, alias)):
            followed.update(dict.fromkeys(passage.said(name, ref)))
        if name != relations[alias].name:
            followed.setdefault(f"{name} is {relations[alias].name} now")
    words = Words(passage, names, followed)
    items = [OutputColumn(item.name, words.item(item.expression)) for item in draft.items]
    conditions = [words.computed(condition.expression) for condition in draft.conditions]
    appended = _appended(draft, passage, [item.name for item in items]) if append is not None else []
    items += [OutputColumn(name, Expression.of(ref)) for name, ref in appended]
    if not items:
        raise NothingLeft(
            "no column would be left", "mark a column of the view replaceable and add a [[function]] for it"
        )
    present = tuple(relations.values())
    anew = bool(followed or appended or definition.star or is_ambiguous(present) or not _is_untouched(draft))
    tree = Project(_joined(relations, conditions), tuple(items))
    preferences = _preferences(draft, conditions, [(name, append) for name, _ in appended if append is not None])
    sql = render_view(tree, preferences) if anew else definition.sql
    told = tuple(f"{ref.column} of {names[ref.alias]}" for _, ref in appended)
    return Assembly(definition.name, sql, present, tuple(followed), told)


def _used(draft: Draft, alias: str) -> set[ColumnRef]:
    expressions = [item.expression for item in draft.items] + [condition.expression for condition in draft.conditions]
    return {ref for expression in expressions for ref in expression.columns if ref.alias == alias}


def _there(passage: Passage, name: RelationName) -> Relation:
    found = passage.after(name)
    assert found is not None, f"{name} is gone, and the draft still reads it"
    return found


def _appended(draft: Draft, passage: Passage, taken: Iterable[str]) -> list[tuple[str, ColumnRef]]:
    """Columns that were added to relations of the view, under names that no column has."""
    stayed = dict(draft.block.occurrences)
    added = [
        (occurrence.alias, column.name)
        for occurrence in draft.occurrences
        if stayed.get(occurrence.alias) == occurrence.relation
        for column in passage.added(occurrence.relation)
    ]
    return list(free_names(taken, added))


def free_names(taken: Iterable[str], added: Iterable[tuple[str, str]]) -> Iterator[tuple[str, ColumnRef]]:
    """Each new column, by alias and name, under a name that no column has; those that have none are left out."""
    names = {name.casefold() for name in taken}
    for alias, column in added:
        name = column if column.casefold() not in names else f"{alias}_{column}"
        carried = column not in RESERVED and not column.startswith("##")
        if carried and name.casefold() not in names and len(name.encode()) <= LONGEST_NAME:
            names.add(name.casefold())
            yield name, ColumnRef(alias, column)


def _joined(relations: Mapping[str, Relation], conditions: Iterable[Expression]) -> Node:
    node: Node | None = None
    for alias, relation in relations.items():
        scan = Scan(alias, relation)
        node = scan if node is None else Join(node, scan)
    assert node is not None
    for condition in conditions:
        node = Select(node, condition)
    return node


def _preferences(draft: Draft, conditions: list[Expression], appended: Iterable[tuple[str, Preference]]) -> Preferences:
    written = draft.block.definition.preferences
    return Preferences(
        written.extent,
        written.new_columns,
        (*((item.name, item.preference) for item in draft.items if item.preference), *appended),
        tuple((occurrence.alias, occurrence.preference) for occurrence in draft.occurrences if occurrence.preference),
        tuple(
            (expression.sql, condition.preference)
            for condition, expression in zip(draft.conditions, conditions, strict=True)
            if condition.preference
        ),
    )


def _is_untouched(draft: Draft) -> bool:
    block = draft.block
    unchanged = [DraftCondition(c.expression, c.written) for c in block.conditions] == list(draft.conditions)
    return unchanged and not (draft.dropped or draft.replaced or draft.departures or draft.bridges)


def resolver(relations: Iterable[Relation]) -> Resolve:
    known = {relation.name: relation for relation in relations}
    by_short_name = {(name.source, name.table): relation for name, relation in known.items()}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return known[RelationName(source, schema, table)] if schema else by_short_name[source, table]

    return resolve


def is_ambiguous(relations: Iterable[Relation]) -> bool:
    """Whether a name without its schema may mean several of the relations; then the text must be written anew."""
    names = {relation.name for relation in relations}
    return len({(name.source, name.table) for name in names}) < len(names)
