"""From a view file to its algebra: parse, resolve names against the sources' catalogs, refuse what is not there.

    text ─ sql_text ─ words ─ sql_structure ─ outline ─ sql_expressions ─ Project(Select(Join(Scan, Scan)))

Names that are not quoted are folded to lower case and then matched exactly against the catalog; backticks quote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dyda.errors import RelationRefused, UnknownColumn, UnknownRelation
from dyda.model.algebra import ColumnRef, Expression, Join, Node, OutputColumn, Project, Scan, Select, ViewDefinition
from dyda.model.preferences import Preference, Preferences, read_header, read_preference
from dyda.model.relation import Column, Relation
from dyda.model.sql_expressions import condition, item
from dyda.model.sql_structure import FromItem, Joined, Occurrence, Outline, occurrences, read_outline
from dyda.model.sql_text import Comment, Span, SqlText, TokenType

__all__ = ["parse_view", "referenced_tables"]

Resolve = Callable[[str, str | None, str], Relation]

RESERVED = ("#count", "#xid")
"""Columns that row images are delivered with."""

LONGEST_NAME = 63
"""Bytes in a PostgreSQL identifier; the warehouse would cut a longer column name silently."""


def referenced_tables(name: str, text: str) -> list[tuple[str, str | None, str, int]]:
    """(source, schema or None, table, line) of each occurrence, left to right; needs no catalog."""
    words = SqlText(name, text)
    tables = []
    for occurrence in occurrences(read_outline(words).tables):
        source, *schema, table = occurrence.parts
        line = words.line(words.offset(occurrence.span.start))
        tables.append((source, schema[0] if schema else None, table, line))
    return tables


def parse_view(name: str, text: str, resolve: Resolve, *, plain_numeric: str = "decimal(38,18)") -> ViewDefinition:
    """The view's definition, or an error that says what to change in its file."""
    words = SqlText(name, text)
    outline = read_outline(words)
    return _Builder(words, outline, resolve, plain_numeric).build()


@dataclass
class _Scope:
    """The columns an expression may use: those of some occurrences, with USING's shared columns merged."""

    text: SqlText
    scans: list[tuple[Occurrence, Scan]]
    merged: dict[str, ColumnRef] = field(default_factory=dict)
    item_names: frozenset[str] = frozenset()

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        *qualifier, name = parts
        if not qualifier and name in self.merged:
            return self.merged[name]
        scans = [scan for occurrence, scan in self.scans if not qualifier or _answers(occurrence, scan, qualifier)]
        if not scans:
            raise UnknownRelation(
                f"{self.text.place(offset)}: {'.'.join(qualifier)} in {'.'.join(parts)} is not in FROM here",
                f"There is: {', '.join(scan.alias for _, scan in self.scans)}.",
            )
        holders = [scan for scan in scans if name in scan.relation.by_name]
        if not holders:
            having = "; ".join(f"{s.alias} has: {', '.join(s.relation.by_name)}" for s in scans)
            raise UnknownColumn(
                f"{self.text.place(offset)}: there is no column {name!r} here; {having}", self._hint(name, scans)
            )
        if len(holders) > 1:
            raise self.text.refusal(
                offset,
                f"the column {name!r} is in several relations",
                f"Write {' or '.join(str(ColumnRef(scan.alias, name)) for scan in holders)}.",
            )
        if name in RESERVED or name.startswith("##"):
            raise self.text.refusal(
                offset, f"a column called {name!r} cannot be carried: DyDa uses this name", "Rename it at the source."
            )
        reference = ColumnRef(holders[0].alias, name)
        if holders[0].relation.by_name[name].generated == "v":
            raise self.text.refusal(
                offset,
                f"{reference} is a virtual generated column, whose values no row image holds",
                "Make it STORED at the source, write its expression in the view, or leave it out.",
            )
        return reference

    def column(self, reference: ColumnRef) -> Column:
        scan = next(scan for _, scan in self.scans if scan.alias == reference.alias)
        return scan.relation.column(reference.column)

    def star(self, qualifier: Sequence[str], offset: int) -> list[ColumnRef]:
        """What * or alias.* stands for; columns joined with USING come first, once."""
        if qualifier:
            scans = [scan for occurrence, scan in self.scans if _answers(occurrence, scan, qualifier)]
            if not scans:
                self.find([*qualifier, "*"], offset)
            return [self.find([scan.alias, ref.column], offset) for scan in scans for ref in scan.columns]
        first = [self.merged[name] for name in self.merged]
        rest = [ref for _, scan in self.scans for ref in scan.columns if ref.column not in self.merged]
        return first + [self.find([ref.alias, ref.column], offset) for ref in rest]

    def _hint(self, name: str, scans: Sequence[Scan]) -> str:
        if name in self.item_names:
            return "It names a select item: repeat the item's expression here."
        alike = [column for scan in scans for column in scan.relation.by_name if column.lower() == name.lower()]
        if alike:
            return f"Quote it to keep its capitals: `{alike[0]}`."
        return "Correct the name; names without backticks are folded to lower case."

    def __add__(self, other: _Scope) -> _Scope:
        return _Scope(self.text, self.scans + other.scans, {**self.merged, **other.merged}, self.item_names)


def _answers(occurrence: Occurrence, scan: Scan, qualifier: Sequence[str]) -> bool:
    """Whether `qualifier` names the occurrence: its alias, or without one its name or the end of its name."""
    if occurrence.alias is not None or len(qualifier) == 1:
        return list(qualifier) == [scan.alias]
    return len(qualifier) <= len(occurrence.parts) and occurrence.parts[-len(qualifier) :] == tuple(qualifier)


class _Builder:
    def __init__(self, text: SqlText, outline: Outline, resolve: Resolve, plain_numeric: str) -> None:
        self.text = text
        self.outline = outline
        self.resolve = resolve
        self.plain_numeric = plain_numeric
        self.relation_spans: dict[str, Span] = {}
        self.condition_spans: list[tuple[Span, str]] = []
        self.star = False

    def build(self) -> ViewDefinition:
        node, scope = self.from_item(self.outline.tables)
        for span in self.outline.where:
            node = Select(node, self.condition(span, scope))
        items, names = self.items(scope)
        self.refuse_duplicates(items)
        outputs = tuple(output for output, _ in items)
        tree = Project(node, outputs)
        return ViewDefinition(self.text.view, self.text.text, tree, self.preferences(names), self.star)

    def from_item(self, source: FromItem) -> tuple[Node, _Scope]:
        if isinstance(source, Occurrence):
            scan = self.scan(source)
            return scan, _Scope(self.text, [(source, scan)], item_names=self.item_names())
        left, left_scope = self.from_item(source.left)
        right, right_scope = self.from_item(source.right)
        scope = left_scope + right_scope
        conditions = [self.condition(span, scope) for span in source.on]
        conditions += self.using(source, left_scope, right_scope, scope)
        node: Node = Join(left, right, conditions[0] if conditions else None)
        for further in conditions[1:]:
            node = Select(node, further)
        return node, scope

    def item_names(self) -> frozenset[str]:
        ends = [span.stop - 1 for span in self.outline.items]
        named = [end for end in ends if self.text.kind(end - 1) is TokenType.ALIAS and self.text.is_name(end)]
        return frozenset(self.text.name(end) for end in named)

    def scan(self, occurrence: Occurrence) -> Scan:
        source, *schema, table = occurrence.parts
        offset = self.text.offset(occurrence.span.start)
        try:
            relation = self.resolve(source, schema[0] if schema else None, table)
        except (UnknownRelation, RelationRefused) as error:
            raise type(error)(f"{self.text.place(offset)}: {error.what}", error.remedy) from None
        alias = occurrence.alias or table
        if alias in self.relation_spans:
            raise self.text.refusal(
                offset, f"two relations are called {alias!r}", "Give each occurrence its own alias: source.table a."
            )
        self.relation_spans[alias] = occurrence.span
        return Scan(alias, relation)

    def condition(self, span: Span, scope: _Scope) -> Expression:
        expression = condition(self.text, span, scope, self.plain_numeric)
        self.condition_spans.append((span, expression.sql))
        return expression

    def using(self, joined: Joined, left: _Scope, right: _Scope, scope: _Scope) -> list[Expression]:
        """USING (k) is left.k = right.k; from then on a plain k means the left one, and * shows it once."""
        conditions = []
        for name, index in joined.using:
            offset = self.text.offset(index)
            one, other = left.find([name], offset), right.find([name], offset)
            for reference in (one, other):
                type_ = scope.column(reference).type
                if type_.computation(self.plain_numeric) is None:
                    raise self.text.refusal(
                        offset,
                        f"{reference} is of type {type_.declared}, which Spark cannot compare exactly",
                        f"Join on its text: ON CAST({one} AS STRING) = CAST({other} AS STRING).",
                    )
            scope.merged[name] = one
            parts = (one, " = ", other)
            sql = "".join(str(part) for part in parts)
            conditions.append(Expression(sql, frozenset({one, other}), equality=(one, other), parts=parts))
            self.condition_spans.append((Span(index, index + 1), sql))
        return conditions

    def items(self, scope: _Scope) -> tuple[list[tuple[OutputColumn, int]], list[tuple[Span, tuple[str, ...]]]]:
        """Output columns with their offsets, and the output names that each written item stands for."""
        outputs: list[tuple[OutputColumn, int]] = []
        names = []
        for span in self.outline.items:
            offset = self.text.offset(span.start)
            read = item(self.text, span, scope, self.plain_numeric)
            if read.star is not None:
                self.star = True
                found = [OutputColumn(ref.column, Expression.of(ref)) for ref in scope.star(read.star, offset)]
            elif read.expression is not None and read.name is not None:
                found = [OutputColumn(read.name, read.expression)]
            else:
                raise self.text.refusal(offset, "an expression without a name", "Name it: … AS name.")
            outputs += [(output, offset) for output in found]
            names.append((span, tuple(output.name for output in found)))
        return outputs, names

    def refuse_duplicates(self, items: Sequence[tuple[OutputColumn, int]]) -> None:
        seen: dict[str, int] = {}
        for output, offset in items:
            if output.name in seen:
                other = self.text.line(seen[output.name])
                raise self.text.refusal(
                    offset,
                    f"two output columns are called {output.name!r} (the other is on line {other})",
                    "Output columns need distinct names: rename one with AS.",
                )
            if not 0 < len(output.name.encode()) <= LONGEST_NAME:
                raise self.text.refusal(
                    offset,
                    f"the output column {output.name!r} has more than {LONGEST_NAME} bytes",
                    "Name it shorter with AS.",
                )
            seen[output.name] = offset

    def preferences(self, names: Sequence[tuple[Span, tuple[str, ...]]]) -> Preferences:
        """Lift each preference comment to the component that it directly follows."""
        extent, new_columns = read_header(self.text)
        found: dict[str, dict[str, Preference]] = {"item": {}, "relation": {}, "condition": {}}
        for comment in self.text.comments:
            preference = read_preference(comment, self.text)
            if preference is None:
                continue
            components = self.components(comment, names)
            if not components:
                raise self.text.refusal(
                    comment.start,
                    f"the preference {comment.body.strip()!r} follows no select item, relation or condition",
                    "Put it directly after the one that it is about.",
                )
            for kind, name in components:
                found[kind][name] = found[kind].get(name, Preference()) | preference
        return Preferences(
            extent,
            new_columns,
            tuple(found["item"].items()),
            tuple(found["relation"].items()),
            tuple(found["condition"].items()),
        )

    def components(self, comment: Comment, names: Sequence[tuple[Span, tuple[str, ...]]]) -> list[tuple[str, str]]:
        if comment.after is None:
            return []
        index = comment.after
        comma = self.text.words[index]
        if comma.token_type is TokenType.COMMA and self.text.line(comma.start) == self.text.line(comment.start):
            index -= 1  # `c.name, -- replaceable`: at the end of its line it is about what the line says
        spans: list[tuple[Span, str, tuple[str, ...]]] = [(span, "item", shown) for span, shown in names]
        spans += [(span, "relation", (alias,)) for alias, span in self.relation_spans.items()]
        spans += [(span, "condition", (sql,)) for span, sql in self.condition_spans]
        for span, kind, components in spans:
            if index in span:
                return [(kind, name) for name in components]
        if self.text.kind(index) is TokenType.R_PAREN:  # (a AND b) /* dispensable */: both; USING (k) /* … */: k
            group = [sql for span, sql in self.condition_spans if self.text.closing_of(span, index)]
            return [("condition", sql) for sql in group]
        return []
