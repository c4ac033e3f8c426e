"""From a tree to a definition: today's names, the preferences that stay, the text, and that text read again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef, Expression, OutputColumn, Project, Query, ViewDefinition, scans
from dyda.model.preferences import Preference, Preferences
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import LONGEST_NAME, RESERVED, Resolve, parse_view
from dyda.model.sql.render import render_view
from vs.rewrite.current_names import Words
from vs.rewrite.tree import Consequences, some_of
from vs.schema_mapping import Passage
from vs.view.region_preferences import condition_text, item_name
from vs.view.regions import Anatomy

__all__ = ["Assembly", "assemble", "resolver"]


@dataclass(frozen=True)
class Assembly:
    """A view's text over today's relations; the renames and types it follows and the columns it appends, in words."""

    name: str
    sql: str
    relations: tuple[Relation, ...]
    followed: tuple[str, ...]
    appended: tuple[str, ...]

    def read(self, plain_numeric: str) -> ViewDefinition:
        """The text read again. A DydaError says why it cannot be."""
        return parse_view(self.name, self.sql, resolver(self.relations), plain_numeric=plain_numeric)


def assemble(found: Consequences, passage: Passage, append: Preference | None) -> Assembly:
    """The rewritten tree as text in today's names. `append`: the preference of appended columns; None to append
    none."""
    definition = found.anatomy.definition
    tree = found.tree
    names = {scan.alias: scan.relation.name for scan in scans(tree)}
    followed = _followed(tree, names, passage)
    words = Words(passage, names, followed)
    present = words.query(tree)
    appended = _appended(found, passage, present) if append is not None else []
    if isinstance(present, Project):
        new = (OutputColumn(name, Expression.of(ref)) for name, ref in appended)
        present = Project(present.input, some_of((*present.items, *new)))
    relations = tuple(scan.relation for scan in scans(present))
    sql = definition.sql
    if followed or appended or definition.star or found.is_different or _is_ambiguous(relations):
        own = {name: append for name, _ in appended if append is not None}
        sql = render_view(present, _preferences(found, present, words, own))
    new_columns = tuple(f"{ref.column} of {names[ref.alias]}" for _, ref in appended)
    return Assembly(definition.name, sql, relations, tuple(followed), new_columns)


def _followed(tree: Query, names: Mapping[str, RelationName], passage: Passage) -> dict[str, None]:
    """New names of relations and columns, in the order of FROM."""
    used = sorted(ref for ref in ViewDefinition("", "", tree).columns if ref.alias in names)
    found: dict[str, None] = {}
    for alias in names:
        for ref in used:
            if ref.alias == alias:
                found.update(dict.fromkeys(passage.said(names[alias], ref)))
        now = passage.after(names[alias])
        if now is not None and now.name != names[alias]:
            found.setdefault(f"{names[alias]} was renamed to {now.name}")
    return found


def _preferences(found: Consequences, tree: Query, words: Words, appended: Mapping[str, Preference]) -> Preferences:
    """What the file says of all that is still there, and what new components have from those that they serve."""
    written = found.anatomy.definition.preferences
    conditions: dict[str, Preference] = {}

    def say(condition: Expression, preference: Preference | None) -> None:
        if preference is not None:
            conditions[words.computed(condition).sql] = preference

    for place in found.anatomy.places:
        if place.filters and place not in found.gone and not found.is_cut(place.path):
            say(found.put(condition_text(found.anatomy, place)), found.standing.written(place))
    relations = dict(written.relations)
    for solution in found.solutions:
        for condition in solution.added:
            say(condition.expression, condition.preference)
        relations |= {one.alias: one.preference for one in solution.occurrences if one.preference is not None}
    anatomy = Anatomy(ViewDefinition("", "", tree))
    aliases = {ref.alias for node in anatomy.nodes.values() for ref in node.columns}
    items = dict.fromkeys(item_name(anatomy, place) for place in anatomy.places if place.kind == "item")
    shown = {column.column for column in tree.columns}
    return Preferences(
        written.extent,
        written.new_columns,
        tuple((n, preference) for n in items if (preference := appended.get(n, written.of_item(n))) is not None),
        tuple((alias, preference) for alias, preference in relations.items() if alias in aliases),
        tuple(conditions.items()),
        # A key or an index that has lost a column is not what its author asked for.
        written.key if written.key is not None and shown.issuperset(written.key) else None,
        tuple(index for index in written.indexes if shown.issuperset(index)),
    )


def _appended(found: Consequences, passage: Passage, tree: Query) -> list[tuple[str, ColumnRef]]:
    """Columns that were added to relations whose rows the view shows; a group or a set operation shows none."""
    if not isinstance(tree, Project):
        return []
    shown = {ref.alias for ref in tree.input.columns}
    stayed = {scan.alias: scan for scan in scans(found.anatomy.definition.tree)}
    added = [
        (scan.alias, column.name)
        for scan in scans(found.tree)
        if scan.alias in shown and stayed.get(scan.alias) == scan  # a stand-in shows what the one before it showed
        for column in passage.added(scan.relation.name)
    ]
    return list(_free_names((item.name for item in tree.items), added))


def _free_names(taken: Iterable[str], added: Iterable[tuple[str, str]]) -> Iterator[tuple[str, ColumnRef]]:
    """Each new column, by alias and name, under a name that no column has; those that have none are left out."""
    names = {name.casefold() for name in taken}
    for alias, column in added:
        name = column if column.casefold() not in names else f"{alias}_{column}"
        carried = column not in RESERVED and not column.startswith("##")
        if carried and name.casefold() not in names and len(name.encode()) <= LONGEST_NAME:
            names.add(name.casefold())
            yield name, ColumnRef(alias, column)


def resolver(relations: Iterable[Relation]) -> Resolve:
    known = {relation.name: relation for relation in relations}
    by_short_name = {(name.source, name.table): relation for name, relation in known.items()}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return known[RelationName(source, schema, table)] if schema else by_short_name[source, table]

    return resolve


def _is_ambiguous(relations: Iterable[Relation]) -> bool:
    """Whether a name without its schema may mean several of the relations; then the text must be rewritten."""
    names = {relation.name for relation in relations}
    return len({(name.source, name.table) for name in names}) < len(names)
