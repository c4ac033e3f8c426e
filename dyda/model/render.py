"""A view's tree as Spark SQL text: how a rewritten definition is written down, preferences included.

    parse_view(render_view(d)).tree means the same as d.tree, and has the same output names and preferences

Expressions stay as their author wrote them; only the column references are put anew.
"""

from __future__ import annotations

from functools import lru_cache

from dyda.model.algebra import Expression, Join, Node, Project, Query, Scan, Select
from dyda.model.preferences import Preference, Preferences
from dyda.model.sql_text import SqlText, TokenType

__all__ = ["render_view"]


def render_view(tree: Query, preferences: Preferences) -> str:
    """The text of a view file that says what `tree` and `preferences` say."""
    if not isinstance(tree, Project):
        raise ValueError(f"{type(tree).__name__} cannot be written yet")
    lines = []
    header = [f"{name} = {value}" for name in ("extent", "new_columns") if (value := getattr(preferences, name))]
    if header:
        lines.append(f"-- dyda: {', '.join(header)}")
    items = []
    for item in tree.items:
        text = item.expression.rendered(str)
        if item.expression.column is None or item.expression.column.column != item.name:
            text += f" AS {_quoted(item.name)}"
        items.append(text + _comment(preferences.of_item(item.name)))
    lines.append("SELECT " + ",\n       ".join(items))
    tables: list[str] = []
    conditions: list[str] = []
    _gather(tree.input, preferences, tables, conditions)
    lines.append("FROM " + "\nCROSS JOIN ".join(tables))
    if conditions:
        lines.append("WHERE " + "\n  AND ".join(conditions))
    return "\n".join(lines) + "\n"


def _gather(node: Node, preferences: Preferences, tables: list[str], conditions: list[str]) -> None:
    """Inner joins and selections commute, so every condition may stand in WHERE."""
    match node:
        case Scan(alias, relation):
            name = ".".join(_quoted(part) for part in (relation.name.source, relation.name.schema, relation.name.table))
            tables.append(f"{name} {_quoted(alias)}{_comment(preferences.of_relation(alias))}")
        case Select(below, condition):
            _gather(below, preferences, tables, conditions)
            conditions.append(_conjunct(condition, preferences))
        case Join(left, right, condition):
            _gather(left, preferences, tables, conditions)
            _gather(right, preferences, tables, conditions)
            if condition is not None:
                conditions.append(_conjunct(condition, preferences))
        case _:
            raise ValueError(f"{type(node).__name__} cannot be written yet")


def _conjunct(condition: Expression, preferences: Preferences) -> str:
    """The condition as one part of a conjunction: only what binds weaker than AND needs parentheses."""
    text = condition.rendered(str)
    return f"{f'({text})' if _binds_weaker(text) else text}{_comment(preferences.of_condition(condition.sql))}"


@lru_cache(maxsize=4096)
def _binds_weaker(text: str) -> bool:
    depth = 0
    for word in SqlText("", text).words:
        depth += _DEPTH.get(word.token_type, 0)
        if depth == 0 and word.token_type in _WEAKER:
            return True
    return False


_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1, TokenType.CASE: 1, TokenType.END: -1}
_WEAKER = frozenset({TokenType.OR, TokenType.XOR, TokenType.DAMP})


def _comment(preference: Preference | None) -> str:
    words = [word for word in ("dispensable", "replaceable") if preference is not None and getattr(preference, word)]
    return f" /* {', '.join(words)} */" if words else ""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
