"""From the consequences of a choice to a definition: today's names, the preferences that stay, text, and that read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef, Expression, OutputColumn, Project, Query, Scan, ViewDefinition, scans
from dyda.model.preferences import Preference, Preferences
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from vs.rewrite.assembly import free_names, is_ambiguous, resolver
from vs.rewrite.current_names import Words
from vs.rewrite.tree import Consequences
from vs.schema_mapping import Passage
from vs.view.region_preferences import condition_text, item_name
from vs.view.regions import Anatomy

__all__ = ["NestedAssembly", "assemble_nested"]


@dataclass(frozen=True)
class NestedAssembly:
    """A nested view's text over today's relations; what was followed and what was appended, in words."""

    name: str
    sql: str
    relations: tuple[Relation, ...]
    followed: tuple[str, ...]
    appended: tuple[str, ...]

    def read(self, plain_numeric: str) -> ViewDefinition:
        """The text read again. A DydaError says why it cannot be."""
        return parse_view(self.name, self.sql, resolver(self.relations), plain_numeric=plain_numeric)


def assemble_nested(found: Consequences, passage: Passage, append: Preference | None) -> NestedAssembly:
    """The rewritten tree written down in today's names. `append`: with the columns that are new, and what holds for
    them."""
    definition = found.anatomy.definition
    tree = found.tree
    followed: dict[str, None] = {}
    names = {scan.alias: scan.relation.name for scan in scans(tree)}
    used = sorted(ref for ref in ViewDefinition("", "", tree).columns if ref.alias in names)
    for ref in used:
        followed.update(dict.fromkeys(passage.said(names[ref.alias], ref)))
    for name in names.values():
        now = passage.after(name)
        if now is not None and now.name != name:
            followed.setdefault(f"{name} is {now.name} now")
    words = Words(passage, names, followed)
    present = words.query(tree)
    appended = _appended(found, passage, present) if append is not None else []
    if appended and isinstance(present, Project):
        present = Project(
            present.input, (*present.items, *(OutputColumn(name, Expression.of(ref)) for name, ref in appended))
        )
    relations = tuple(scan.relation for scan in scans(present))
    anew = bool(
        followed or appended or definition.star or found.solutions or found.cut or found.gone or is_ambiguous(relations)
    )
    preferences = _preferences(found, present, words, {name: append for name, _ in appended if append is not None})
    sql = render_view(present, preferences) if anew else definition.sql
    told = tuple(f"{ref.column} of {names[ref.alias]}" for _, ref in appended)
    return NestedAssembly(definition.name, sql, relations, tuple(followed), told)


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
    return Preferences(
        written.extent,
        written.new_columns,
        tuple((n, preference) for n in items if (preference := appended.get(n, written.of_item(n))) is not None),
        tuple((alias, preference) for alias, preference in relations.items() if alias in aliases),
        tuple(conditions.items()),
    )


def _appended(found: Consequences, passage: Passage, tree: Query) -> list[tuple[str, ColumnRef]]:
    """Columns that were added to relations whose rows the view shows; a group or a set operation shows none."""
    if not isinstance(tree, Project):
        return []
    shown = {ref.alias for ref in tree.input.columns}
    stayed = {scan.alias: scan for scan in scans(found.anatomy.definition.tree)}
    before = [
        scan for scan in scans(found.tree) if isinstance(scan, Scan) and stayed.get(scan.alias) == scan
    ]  # what stands in for another shows what that one showed
    added = [
        (scan.alias, column.name)
        for scan in before
        if scan.alias in shown
        for column in passage.added(scan.relation.name)
    ]
    return list(free_names((item.name for item in tree.items), added))
