"""From a view file to its algebra: parse, resolve names against the sources' catalogs, refuse what is not there.

    text ─ sql_text ─ words ─ sql_structure ─ outline ─ sql_build ─ Project(Select(Join(Scan, Scan)))

Names that are not quoted are folded to lower case and then matched exactly against the catalog; backticks quote.
"""

from __future__ import annotations

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.preferences import Preference, Preferences, read_header, read_preference
from dyda.model.sql.builder import LONGEST_NAME, Builder, Component, Resolve, Views
from dyda.model.sql.outline_reader import read_outline
from dyda.model.sql.scope import RESERVED
from dyda.model.sql.text import Comment, SqlText, TokenType

__all__ = ["LONGEST_NAME", "RESERVED", "Resolve", "Views", "parse_view", "referenced_tables", "referenced_views"]


def referenced_tables(name: str, text: str) -> list[tuple[str, str | None, str, int]]:
    """(source, schema or None, table, line) of each occurrence of a source's relation; needs no catalog."""
    words = SqlText(name, text)
    tables = []
    with words.reading():
        outline = read_outline(words)
    for occurrence in outline.occurrences:
        if len(occurrence.parts) == 1:
            continue
        source, *schema, table = occurrence.parts
        line = words.line(words.offset(occurrence.span.start))
        tables.append((source, schema[0] if schema else None, table, line))
    return tables


def referenced_views(name: str, text: str) -> list[tuple[str, int]]:
    """(view, line) of each occurrence of another view: names of one part that no WITH explains."""
    words = SqlText(name, text)
    with words.reading():
        outline = read_outline(words)
    return [
        (occurrence.parts[0], words.line(words.offset(occurrence.span.start)))
        for occurrence in outline.occurrences
        if len(occurrence.parts) == 1
    ]


def parse_view(
    name: str,
    text: str,
    resolve: Resolve,
    *,
    plain_numeric: str = "decimal(38,18)",
    views: Views | None = None,
) -> ViewDefinition:
    """The view's definition, or an error that says what to change in its file. `views` gives other views' ones."""
    words = SqlText(name, text)
    with words.reading():
        outline = read_outline(words)
        builder = Builder(words, outline, resolve, plain_numeric, views)
        tree = builder.query(outline.query, "")
    preferences = _preferences(words, builder.components, builder.inherited)
    return ViewDefinition(name, text, tree, preferences, builder.star or words.loose)


def _preferences(text: SqlText, components: list[Component], inherited: list[Preferences]) -> Preferences:
    """Lift each preference comment to the component that it directly follows; of what a view below says, each
    component has it here, too."""
    extent, new_columns = read_header(text)
    found: dict[str, dict[str, Preference]] = {"item": {}, "relation": {}, "condition": {}}
    for below in inherited:
        found["item"] |= dict(below.items)
        found["relation"] |= dict(below.relations)
        found["condition"] |= dict(below.conditions)
    for comment in text.comments:
        preference = read_preference(comment, text)
        if preference is None:
            continue
        meant = _meant(text, comment, components)
        if not meant:
            raise text.refusal(
                comment.start,
                f"the preference {comment.body.strip()!r} follows no select item, relation or condition",
                "Put it directly after the one that it is about.",
            )
        for component in meant:
            for name in component.names:
                found[component.kind][name] = found[component.kind].get(name, Preference()) | preference
    return Preferences(
        extent,
        new_columns,
        tuple(found["item"].items()),
        tuple(found["relation"].items()),
        tuple(found["condition"].items()),
    )


def _meant(text: SqlText, comment: Comment, components: list[Component]) -> list[Component]:
    """The components that a comment is about: the smallest that it stands in or after. One that is written once and
    used several times, in a common table expression, is several."""
    if comment.after is None:
        return []
    index = comment.after
    comma = text.words[index]
    if comma.token_type is TokenType.COMMA and text.line(comma.start) == text.line(comment.start):
        index -= 1  # `c.name, -- replaceable`: at the end of its line it is about what the line says
    around = sorted((one for one in components if index in one.span), key=lambda one: len(one.span))
    if text.kind(index) is TokenType.R_PAREN:  # (a AND b) /* dispensable */: both; USING (k) /* … */: k
        opening = text.opening(index)
        inside = [
            one for one in components if one.kind == "condition" and opening < one.span.start and one.span.stop <= index
        ]
        grouped = text.kind(opening + 1) not in (TokenType.SELECT, TokenType.WITH)
        if grouped and inside and (not around or len(around[0].span) > index - opening + 1):
            return inside
    return [one for one in around if len(one.span) == len(around[0].span) and one.names]
