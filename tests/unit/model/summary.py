"""A tree as one line that a test can compare, without backticks."""

from __future__ import annotations

from dyda.model.algebra.nodes import (
    Aggregate,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
)


def summary(node: Node) -> str:
    match node:
        case Scan(alias, relation):
            return f"{relation.name.table} {alias}" if alias != relation.name.table else alias
        case Select(below, condition):
            return f"σ[{_text(condition)}]({summary(below)})"
        case Join(left, right, condition):
            on = f"[{_text(condition)}]" if condition is not None else ""
            return f"({summary(left)} ⋈{on} {summary(right)})"
        case OuterJoin(left, right, kind, conditions):
            sign = {"left": "⟕", "right": "⟖", "full": "⟗"}[kind]
            return f"({summary(left)} {sign}[{_list(conditions)}] {summary(right)})"
        case SemiJoin(left, right, conditions, anti, membership):
            pair = f"; {_text(membership[0])} ∉ {_text(membership[1])}" if membership else ""
            return f"({summary(left)} {'▷' if anti else '⋉'}[{_list(conditions)}{pair}] {summary(right)})"
        case Group(below, alias, keys, aggregates):
            shown = [f"{key.name}={_text(key.expression)}" for key in keys] + [_aggregate(one) for one in aggregates]
            return f"γ {alias}[{', '.join(shown)}]({summary(below)})"
        case Derived(below, alias, view):
            return f"{alias}{f':{view}' if view else ''}={{{summary(below)}}}"
        case Project(below, items):
            return f"π[{', '.join(f'{i.name}={_text(i.expression)}' for i in items)}]({summary(below)})"
        case Distinct(below):
            return f"δ({summary(below)})"
        case SetOperation(kind, everything, left, right):
            sign = {"union": "∪", "except": "−", "intersect": "∩"}[kind] + ("+" if everything else "")
            return f"({summary(left)} {sign} {summary(right)})"


def _aggregate(one: Aggregate) -> str:
    inside = ("distinct " if one.distinct else "") + (_text(one.argument) if one.argument is not None else "*")
    return f"{one.name}={one.function}({inside})" + (f" if {_text(one.only)}" if one.only is not None else "")


def _list(conditions: tuple[Expression, ...]) -> str:
    return " ∧ ".join(map(_text, conditions))


def _text(expression: Expression) -> str:
    assert "".join(map(str, expression.parts)) == expression.sql
    assert {part for part in expression.parts if not isinstance(part, str)} == expression.columns
    return expression.rendered(lambda ref: f"{ref.alias}.{ref.column}")
