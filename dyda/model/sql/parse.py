"""From a view file to its algebra: parse, resolve names against the sources' catalogs, refuse what does not exist.

    text ─ SqlText ─ words ─ outline_reader ─ outline ─ Builder ─ Project(Select(Join(Scan, Scan)))

Names that are not quoted are folded to lower case and then matched exactly against the catalog; backticks quote.
"""

from __future__ import annotations

from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.preferences import Header, Preference, Preferences, read_header, read_preference
from dyda.model.sql.builder import LONGEST_NAME, Builder, Component, Resolve, Views
from dyda.model.sql.outline_reader import read_outline
from dyda.model.sql.scope import RESERVED
from dyda.model.sql.text import Comment, SqlText, TokenType

__all__ = ["LONGEST_NAME", "RESERVED", "Resolve", "Views", "parse_view", "referenced_tables", "referenced_views"]


def referenced_tables(name: str, text: str) -> list[tuple[str, str | None, str, int]]:
    """(source, schema or None, table, line) of each occurrence of a source's relation; needs no catalog."""
    return [
        (parts[0], parts[1] if len(parts) == 3 else None, parts[-1], line)
        for parts, line in _referenced(name, text)
        if len(parts) > 1
    ]


def referenced_views(name: str, text: str) -> list[tuple[str, int]]:
    """(view, line) of each occurrence of another view: names of one part that no WITH defines."""
    return [(parts[0], line) for parts, line in _referenced(name, text) if len(parts) == 1]


def _referenced(name: str, text: str) -> list[tuple[tuple[str, ...], int]]:
    words = SqlText(name, text)
    with words.reading():
        occurrences = read_outline(words).occurrences
    return [(occurrence.parts, words.line(words.offset(occurrence.span.start))) for occurrence in occurrences]


def parse_view(
    name: str, text: str, resolve: Resolve, *, plain_numeric: str = "decimal(38,18)", views: Views | None = None
) -> ViewDefinition:
    """The view's definition, or an error that says what to change in its file. `views` returns other views'."""
    words = SqlText(name, text)
    with words.reading():
        outline = read_outline(words)
        builder = Builder(words, outline, resolve, plain_numeric, views)
        tree = builder.query(outline.query, "")
    header = read_header(words, [column.column for column in tree.columns])
    preferences = _preferences(words, header, builder.components, builder.inherited)
    return ViewDefinition(name, text, tree, preferences, builder.star or words.loose)


def _preferences(
    text: SqlText, header: Header, components: list[Component], inherited: list[Preferences]
) -> Preferences:
    """The preference comments, each with the component that it directly follows, and those of views below."""
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
            what = f"the preference {comment.body.strip()!r} follows no select item, relation or condition"
            raise text.refusal_at(comment.start, what, "Put it directly after the one that it is about.")
        for component in meant:
            for name in component.names:
                found[component.kind][name] = found[component.kind].get(name, Preference()) | preference
    return Preferences(
        header.extent,
        header.new_columns,
        tuple(found["item"].items()),
        tuple(found["relation"].items()),
        tuple(found["condition"].items()),
        header.key,
        header.indexes,
    )


def _meant(text: SqlText, comment: Comment, components: list[Component]) -> list[Component]:
    """The components that a comment is about: the smallest that it is in or after. One of a common table expression
    that is used several times is several."""
    if comment.after is None:
        return []
    index = comment.after
    comma = text.words[index]
    if comma.token_type is TokenType.COMMA and text.line(comma.start) == text.line(comment.start):
        index -= 1  # `c.name, -- replaceable`: at the end of a line it is about what precedes the comma
    around = sorted((part for part in components if index in part.span), key=lambda part: len(part.span))
    if text.kind(index) is TokenType.R_PAREN:  # (a AND b) /* dispensable */: both; USING (k) /* … */: k
        opening = text.counterpart(index)
        conditions = [part for part in components if part.kind == "condition"]
        inside = [part for part in conditions if opening < part.span.start and part.span.stop <= index]
        grouped = text.kind(opening + 1) not in (TokenType.SELECT, TokenType.WITH)
        if grouped and inside and (not around or len(around[0].span) > index - opening + 1):
            return inside
    return [part for part in around if len(part.span) == len(around[0].span) and part.names]
