"""From the names known before to today's names: a tree over the relations as they are now.

The view's own column names stay. Where a column has a type of another kind now, expressions that compute with it cast
it to the old type, so that they keep their meaning; a column that is only passed on to readers has the new type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dyda.model.algebra.nodes import ColumnRef, Expression, OutputColumn, Project, Query, Scan, Some, rebuild
from dyda.model.knowledge.constraints import comparable
from dyda.model.relation import Column, RelationName
from vs.schema_mapping import Passage
from vs.search.substitution import cast, substituted

__all__ = ["Words"]


@dataclass(frozen=True)
class Words:
    """`names`: the relation of each occurrence, as known before; `followed` fills with what was followed."""

    passage: Passage
    names: Mapping[str, RelationName]
    followed: dict[str, None]

    def item(self, expression: Expression) -> Expression:
        """What readers see: a column follows its type."""
        return substituted(expression, self._followed) if expression.column else self.computed(expression)

    def computed(self, expression: Expression) -> Expression:
        return substituted(expression, self._as_before)

    def _followed(self, ref: ColumnRef) -> Expression:
        if ref.alias not in self.names:
            return Expression.of(ref)
        return Expression.of(ColumnRef(ref.alias, self._column(ref).name))

    def _as_before(self, ref: ColumnRef) -> Expression:
        if ref.alias not in self.names:
            return Expression.of(ref)
        name, now = self.names[ref.alias], self._column(ref)
        before = self.passage.relations[name].column(ref.column)
        was, is_ = before.type.computation(), now.type.computation()
        if was is None or comparable(before.type, now.type):
            return self._followed(ref)
        self.followed.setdefault(
            f"column {ref.column} of {name} is now {now.type.declared}; expressions read it as {before.type.declared}"
        )
        through_text = () if is_ is not None or was.spark_type == "STRING" else ("STRING",)
        return cast(ColumnRef(ref.alias, now.name), (*through_text, was.spark_type))

    def _column(self, ref: ColumnRef) -> Column:
        found = self.passage.column(self.names[ref.alias], ref.column)
        assert found is not None, f"{ref} is gone, and the draft still reads it"
        return found

    def query(self, query: Query) -> Query:
        """The whole view. Only columns of its own select list follow their types: elsewhere something computes."""
        if isinstance(query, Project):
            items = tuple(OutputColumn(item.name, self.item(item.expression)) for item in query.items)
            return Project(self._below(query.input), items)
        return self._below(query)

    def _below(self, node: Some) -> Some:
        if isinstance(node, Scan):
            found = self.passage.after(node.relation.name)
            assert found is not None, f"{node.relation.name} is gone, and the draft still reads it"
            return replace(node, relation=found)
        return rebuild(node, [self._below(one) for one in node.inputs], self.computed)
