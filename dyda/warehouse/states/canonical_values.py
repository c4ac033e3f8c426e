"""Values of a warehouse type in SQL: one text for all texts of equal value.

GROUP BY, DISTINCT and the set operations go by value: -0 is 0, and 1.0 is 1.00 where the type says nothing of a scale.
A type with a scale gives equal values equal texts anyway.
"""

from __future__ import annotations

__all__ = ["canonical", "compared", "extreme", "printed"]

FLOATS = frozenset({"real", "float4", "double precision", "float8"})
NUMERICS = frozenset({"numeric", "decimal"})
COLLATED = ("text", "character", "char", "varchar", "bpchar", "name")
BY_TEXT = frozenset({"uuid", "bytea"})
"""Types that older servers have no min() and max() for; their texts are in the same order."""


def canonical(type_: str, value: str) -> str:
    """`value` as the one of all equal values that is kept."""
    if type_ in FLOATS:
        return f"({value} + '0'::{type_})"
    if type_ in NUMERICS:
        return f"trim_scale({value})"
    return value


def printed(type_: str, value: str) -> str:
    """The text of a value of the type, as its output function prints it."""
    # A cast to text would turn 't' into 'true' and cut blanks.
    return value if type_ == "text" else f"CASE WHEN {value} IS NOT NULL THEN format('%s', {value}) END"


def compared(type_: str, text: str) -> str:
    """The value of a text, as it compares: texts by their bytes, as on Spark."""
    value = f"({text})::{type_}"
    return f'({value} COLLATE "C")' if type_.startswith(COLLATED) else f"({value})"


def extreme(function: str, type_: str, text: str, condition: str) -> str:
    """The smallest or largest (`function` min or max) of the values of texts."""
    if type_ == "boolean":
        aggregate = "bool_and" if function == "min" else "bool_or"
        return f"{aggregate}(({text})::boolean) FILTER (WHERE {condition})"
    if type_ in BY_TEXT:
        return f'({function}({text} COLLATE "C") FILTER (WHERE {condition}))::{type_}'
    return f"{function}({compared(type_, text)}) FILTER (WHERE {condition})"
