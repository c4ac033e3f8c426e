"""From a query's outline to its tree: FROM, WHERE, the select list, DISTINCT and set operations.

GROUP BY is read in grouping, subqueries inside expressions in subqueries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dyda.errors import ConfigurationError, NotComputable, RelationRefused, UnknownRelation, UnknownView
from dyda.model.algebra.column_facts import column_facts
from dyda.model.algebra.expressions import call, equality
from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Join,
    Node,
    OuterJoin,
    OutputColumn,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    ViewDefinition,
    scans,
)
from dyda.model.algebra.renaming import aliases_of, inherited, renamed
from dyda.model.preferences import Preferences
from dyda.model.relation import Relation
from dyda.model.sql.aliases import Aliases
from dyda.model.sql.expressions import Lookup, Put, condition, item
from dyda.model.sql.grouping import Grouping, aggregate_calls
from dyda.model.sql.outline import Block, Combined, FromItem, Joined, Nested, Occurrence, Outline, QueryOutline
from dyda.model.sql.scope import Around, Scope, Source
from dyda.model.sql.subqueries import Subqueries
from dyda.model.sql.text import Span, SqlText, TokenType

__all__ = ["LONGEST_NAME", "Builder", "Resolve", "Views"]

Resolve = Callable[[str, str | None, str], Relation]
Views = Callable[[str], ViewDefinition]

LONGEST_NAME = 63
"""Bytes in a PostgreSQL identifier; the warehouse would silently cut a longer column name."""

MOST_RELATIONS = 100
"""Occurrences of relations in one view. A WITH or a view below counts each time it is used: without a limit, a few
lines that each use the line before twice would read an astronomical number."""


@dataclass(frozen=True)
class Component:
    """Some words that a preference can be about: items, relations or conditions, by their names."""

    span: Span
    kind: str
    names: tuple[str, ...]


class Builder:
    """Builds the tree of one view; `components` and `star` are what it has met on the way."""

    def __init__(
        self, text: SqlText, outline: Outline, resolve: Resolve, plain_numeric: str, views: Views | None
    ) -> None:
        self.text = text
        self.outline = outline
        self.resolve = resolve
        self.views = views
        self.plain_numeric = plain_numeric
        self.aliases = Aliases(text)
        self.components: list[Component] = []
        self.star = False
        self.inherited: list[Preferences] = []
        """The preferences of views below."""
        self.subqueries = Subqueries(self)
        self.relations = 0

    def note(self, span: Span, kind: str, names: tuple[str, ...]) -> None:
        """Some words that a preference can be about."""
        self.components.append(Component(span, kind, names))

    def query(self, outline: QueryOutline, prefix: str, names: Sequence[str] = ()) -> Query:
        """The query's tree. `prefix` comes before the names of its items where preferences are kept; `names`, if there
        are any, become the names of its columns."""
        if isinstance(outline, Combined):
            return self.combined(outline, prefix, names)
        return self.block(outline, prefix, names)

    def combined(self, outline: Combined, prefix: str, names: Sequence[str]) -> Query:
        left = self.query(outline.left, prefix, names)
        shown = [column.column for column in left.columns]
        right = self.query(outline.right, prefix, shown)
        if not (outline.kind == "union" and outline.all):
            word = self.text.shown(outline.at).upper()
            for side in (left, right):
                self.refuse_text_columns(side, word, outline.at)
        self.refuse_mixed_types(left, right, outline.at)
        return SetOperation(outline.kind, outline.all, left, right)

    def block(self, block: Block, prefix: str, names: Sequence[str]) -> Query:
        node, scope = self.from_clause(block)
        for span in block.where:
            node = self.conjunct(node, span, scope)
        calls = [
            call for span in (*block.items, *block.having) for call in aggregate_calls(self.text, self.outline, span)
        ]
        if block.groups is not None or block.having or calls:
            node, outputs = Grouping(self, block, scope).build(node)
        else:
            node, outputs = self.items(block.items, node, scope, scope)
        outputs = self.named(block, outputs, names)
        project = Project(node, tuple(OutputColumn(output.name or "", output.expression) for output in outputs))
        for span in block.items:
            shown = tuple(prefix + (output.name or "") for output in outputs if output.span == span)
            self.note(span, "item", shown)
        if not block.distinct:
            return project
        self.refuse_text_columns(project, "DISTINCT", block.at)
        return Distinct(project)

    def from_clause(self, block: Block) -> tuple[Node, Scope]:
        """FROM with its relations' aliases. Those of one FROM are assigned before those of the queries inside it, so
        that the outer ones keep their names."""
        names: dict[str, str] = {}
        aliases: dict[int, str] = {}
        for leaf in _leaves(block.tables):
            name = leaf.alias or (leaf.parts[-1] if isinstance(leaf, Occurrence) else None)
            if name is None:
                aliases[id(leaf)] = self.aliases.new("query")
                continue
            if name in names:
                remedy = "Give each occurrence its own alias: source.table a."
                raise self.text.refusal(leaf.span.start, f"two relations are called {name!r}", remedy)
            names[name] = aliases[id(leaf)] = self.aliases.take(name)
        return self.from_item(block.tables, aliases, self.item_names(block))

    def item_names(self, block: Block) -> frozenset[str]:
        ends = [span.stop - 1 for span in block.items]
        named = [end for end in ends if self.text.kind(end - 1) is TokenType.ALIAS and self.text.is_name(end)]
        return frozenset(self.text.name(end) for end in named)

    def from_item(self, source: FromItem, aliases: dict[int, str], items: frozenset[str]) -> tuple[Node, Scope]:
        if isinstance(source, Joined):
            return self.joined(source, aliases, items)
        alias = aliases[id(source)]
        self.note(source.span, "relation", (alias,))
        node: Node
        name, parts = source.alias, tuple[str, ...]()
        if isinstance(source, Nested):
            node = Derived(self.query(source.query, f"{alias}.", source.columns), alias)
        else:
            if name is None:
                name, parts = source.parts[-1], source.parts
            if source.definition is not None:
                columns = source.columns or source.definition.columns
                node = Derived(self.query(source.definition.query, f"{alias}.", columns), alias)
            elif len(source.parts) == 1:
                node = self.view(source, alias)
            else:
                node = self.scan(source, alias)
        facts = {ref.column: known for ref, known in column_facts(node).items()}
        relation = node.relation.name if isinstance(node, Scan) else None
        return node, Scope(self.text, [Source(name, alias, facts, parts, relation)], item_names=items)

    def joined(self, joined: Joined, aliases: dict[int, str], items: frozenset[str]) -> tuple[Node, Scope]:
        left, left_scope = self.from_item(joined.left, aliases, items)
        right, right_scope = self.from_item(joined.right, aliases, items)
        scope = left_scope + right_scope
        conditions = [self.on(span, scope) for span in joined.on]
        conditions += self.using(joined, left_scope, right_scope, scope)
        match joined.kind:
            case "inner":
                node: Node = Join(left, right, conditions[0] if conditions else None)
                for further in conditions[1:]:
                    node = Select(node, further)
            case "semi" | "anti":
                return SemiJoin(left, right, tuple(conditions), joined.kind == "anti"), left_scope
            case kind:
                node = OuterJoin(left, right, kind, tuple(conditions))
        return node, scope

    def count(self, relations: int, occurrence: Occurrence) -> None:
        self.relations += relations
        if self.relations > MOST_RELATIONS:
            raise self.text.refusal(
                occurrence.span.start,
                f"the view reads more than {MOST_RELATIONS} relations",
                "Every use of a common table expression or of another view counts. Split the view or simplify it.",
            )

    def scan(self, occurrence: Occurrence, alias: str) -> Scan:
        self.count(1, occurrence)
        source, *schema, table = occurrence.parts
        try:
            return Scan(alias, self.resolve(source, schema[0] if schema else None, table))
        except (UnknownRelation, RelationRefused, ConfigurationError) as error:
            place = self.text.place(self.text.offset(occurrence.span.start))
            placed = type(error)(f"{place}: {error.what}", error.remedy)
            if isinstance(placed, UnknownRelation):
                placed.written = occurrence.parts
            raise placed from None

    def view(self, occurrence: Occurrence, alias: str) -> Derived:
        """The definition of another view, put in place under aliases of its own."""
        name, start = occurrence.parts[0], occurrence.span.start
        if self.views is None:
            what = f"the relation {name} has no source in its name"
            raise self.text.refusal(start, what, "Write source.table or source.schema.table.")
        if name == self.text.view:
            raise self.text.refusal(start, f"the view {name} reads itself", "Read source.table or another view.")
        try:
            definition = self.views(name)
        except (UnknownView, KeyError):
            what = f"{name} is neither a common table expression here nor another view of this project"
            remedy = "Write source.table or source.schema.table, or the name of another view."
            raise self.text.refusal(start, what, remedy) from None
        except ConfigurationError as error:
            if error.what.startswith("views/"):  # it is about a view further below
                raise
            place = self.text.place(self.text.offset(start))
            raise ConfigurationError(f"{place}: {error.what}", error.remedy) from None
        self.count(sum(1 for _ in scans(definition.tree)), occurrence)
        names = {alias: self.aliases.copied(alias) for alias in aliases_of(definition.tree)}
        self.inherited.append(inherited(definition, alias, names))
        return Derived(renamed(definition.tree, names), alias, name)

    def on(self, span: Span, scope: Scope) -> Expression:
        """A condition of a join, which sees the relations that it joins and no subqueries."""
        for at in self.outline.subqueries:
            if at in span:
                remedy = "Put the condition in WHERE, or join a derived table."
                raise self.text.unsupported(at, "a subquery in ON", remedy)
        return self.condition(span, scope)

    def condition(self, span: Span, scope: Lookup, puts: dict[int, Put] | None = None) -> Expression:
        expression = condition(self.text, span, scope, self.plain_numeric, puts)
        self.note(span, "condition", (expression.sql,))
        return expression

    def conjunct(self, node: Node, span: Span, scope: Around, puts: dict[int, Put] | None = None) -> Node:
        """`node` with one condition of WHERE or HAVING applied."""
        if any(at in span for at in self.outline.subqueries):
            return self.subqueries.conjunct(node, span, scope, puts or {})
        return Select(node, self.condition(span, scope, puts))

    def using(self, joined: Joined, left: Scope, right: Scope, scope: Scope) -> list[Expression]:
        """USING (k) is left.k = right.k. After it, a plain k means the preserved side's (the left one's if both are the
        same, coalesce(left.k, right.k) if either may be missing), and * has it once."""
        conditions = []
        for name, index in joined.using:
            offset = self.text.offset(index)
            one, other = left.find([name], offset), right.find([name], offset)
            for reference in (one, other):
                declared = scope.facts(reference).text_type(self.plain_numeric)
                if declared is not None:
                    what = f"{reference} has type {declared}, which Spark cannot compare exactly"
                    remedy = f"Join on its text: ON CAST({one} AS STRING) = CAST({other} AS STRING)."
                    raise self.text.refusal(index, what, remedy)
            ours, theirs = left.standin(one) or Expression.of(one), right.standin(other) or Expression.of(other)
            scope.merged[name] = other if joined.kind == "right" else one
            if joined.kind == "full":
                merged = ColumnRef(f"#{one.alias},{other.alias}", name)
                scope.merged[name] = merged
                scope.standins[merged] = call("coalesce", ours, theirs)
            equal = equality(ours, theirs)
            conditions.append(equal)
            self.note(Span(index, index + 1), "condition", (equal.sql,))
        return conditions

    def items(
        self, spans: Sequence[Span], node: Node, scope: Around, stars: Scope | None, puts: dict[int, Put] | None = None
    ) -> tuple[Node, list[Output]]:
        """The select list, and the node below it, with the subqueries of the list joined."""
        outputs = []
        for span in spans:
            node, joined = self.subqueries.values(node, span, scope, puts or {})
            read = item(self.text, span, scope, self.plain_numeric, {**(puts or {}), **joined})
            if read.star is not None:
                if stars is None:
                    raise self.text.refusal(span.start, "* beside aggregates or GROUP BY", "List the grouped columns.")
                self.star = True
                for name, ref in stars.star(read.star, self.text.offset(span.start)):
                    outputs.append(Output(name, stars.standin(ref) or Expression.of(ref), span))
            elif read.expression is not None:
                outputs.append(Output(read.name, read.expression, span))
        return node, outputs

    def named(self, block: Block, outputs: list[Output], names: Sequence[str]) -> list[Output]:
        """Each output column under its name; refused if names are missing or not distinct."""
        if names:
            if len(names) != len(outputs):
                what = f"this query has {len(outputs)} columns where {len(names)} are expected: {', '.join(names)}"
                raise self.text.refusal(block.at, what, "Select one column for each.")
            outputs = [replace(output, name=name) for name, output in zip(names, outputs, strict=True)]
        seen: dict[str, int] = {}
        for output in outputs:
            name, start = output.name, output.span.start
            if name is None:
                raise self.text.refusal(start, "an expression without a name", "Name it: … AS name.")
            if name in seen:
                other = self.text.line(self.text.offset(seen[name]))
                what = f"two output columns are called {name!r} (the other is on line {other})"
                raise self.text.refusal(start, what, "Output columns need distinct names: rename one with AS.")
            if not 0 < len(name.encode()) <= LONGEST_NAME:
                what = f"the output column {name!r} has more than {LONGEST_NAME} bytes"
                raise self.text.refusal(start, what, "Give it a shorter name with AS.")
            seen[name] = start
        return outputs

    def refuse_text_columns(self, query: Query, operator: str, at: int) -> None:
        """Types that travel as text have no equality on Spark: what compares whole rows cannot have them."""
        for ref, facts in column_facts(query).items():
            declared = facts.text_type(self.plain_numeric)
            if declared is not None:
                raise NotComputable(
                    f"{self.text.place(self.text.offset(at))}: {operator} compares the column {ref.column!r} of type "
                    f"{declared}, which Spark cannot compare exactly",
                    f"Compare its text: CAST(… AS STRING) AS {ref.column}.",
                )

    def refuse_mixed_types(self, left: Query, right: Query, at: int) -> None:
        """A column that travels as text on one side must have the same type on the other."""
        for (ref, ours), theirs in zip(column_facts(left).items(), column_facts(right).values(), strict=True):
            declared = ours.text_type(self.plain_numeric) or theirs.text_type(self.plain_numeric)
            if declared is None or (ours.column and theirs.column and ours.column.type == theirs.column.type):
                continue
            raise NotComputable(
                f"{self.text.place(self.text.offset(at))}: the column {ref.column!r} has type {declared} on one side "
                "only",
                f"Cast both sides to text: CAST(… AS STRING) AS {ref.column}.",
            )


@dataclass(frozen=True)
class Output:
    """A column of a select list that may have no name yet."""

    name: str | None
    expression: Expression
    span: Span


def _leaves(source: FromItem) -> list[Occurrence | Nested]:
    if isinstance(source, Joined):
        return _leaves(source.left) + _leaves(source.right)
    return [source]
