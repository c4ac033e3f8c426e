"""What PostgreSQL writes and Spark SQL does not: each construct is refused by name, with what to write instead.

Spark would refuse all of it, too, but late, without the line, and in words that the author does not recognise.
Nothing is refused here that Spark accepts: maintained views are read by the same rules.
"""

from __future__ import annotations

import re

from dyda.model.sql.text import SqlText, TokenType, kinds, names
from dyda.model.sql.types import refuse_type, type_instead

__all__ = ["refuse_foreign"]


def refuse_foreign(text: SqlText, index: int) -> None:
    """Refuse the word if Spark SQL has no place for it. Names in backticks do not come here."""
    _refuse_quotes(text, index)
    _refuse_cast(text, index)
    if text.kind(index - 1) is TokenType.DOT:
        return
    _refuse_literal(text, index)
    _refuse_phrase(text, index)
    _refuse_operator(text, index)
    _refuse_comparison(text, index)


def _refuse_quotes(text: SqlText, index: int) -> None:
    written, offset = text.shown(index), text.offset(index)
    quoted = re.match(r"\$(\w*)\$", text.text[offset : offset + 80])
    if quoted and not quoted[1][:1].isdigit():
        raise text.unsupported(index, f"a dollar-quoted string ({quoted[0]})", "Write it in single quotes: '…'.")
    if text.kind(index) is not TokenType.STRING or not written.startswith('"'):
        return
    what = f"{written} is a string in Spark SQL, not a name"
    if text.kind(index - 1) is TokenType.COLLATE:
        raise text.refusal(index, what, "Remove COLLATE: strings are compared by their bytes.")
    if TokenType.DOT in (text.kind(index - 1), text.kind(index + 1)):
        raise text.refusal(index, what, f"Write it in backticks: `{written[1:-1]}`.")


def _refuse_cast(text: SqlText, index: int) -> None:
    """x::type and CAST(x AS type)."""
    if text.shown(index) == "::":
        refuse_type(text, index + 1)
    if text.shown(index).lower() in ("cast", "try_cast") and text.kind(index + 1) is TokenType.L_PAREN:
        for inner in text.top(text.inside(index + 1)):
            if text.kind(inner) is TokenType.ALIAS and text.kind(inner - 1) is not TokenType.DOT:
                refuse_type(text, inner + 1)


def _refuse_literal(text: SqlText, index: int) -> None:
    """E'…', B'…', TEXT '…': words that say how a string is to be read."""
    kind, offset, name = text.kind(index), text.offset(index), text.shown(index).lower()
    if kind is TokenType.NATIONAL_STRING:
        raise text.unsupported(index, "N'…'", "Write '…'.")
    if kind is TokenType.ARRAY and text.kind(index + 1) is TokenType.L_BRACKET and _lists_several(text, index + 1):
        raise text.unsupported(index, "ARRAY[…]", "Write array(…).")
    following = index + 1
    if text.kind(following) is TokenType.AMP and name == "u":
        following += 1
    if text.kind(following) is not TokenType.STRING or not text.is_name(index):
        return
    if text.offset(following) == offset + following - index and name in _PREFIXES:
        raise text.unsupported(index, f"{text.text[offset : text.offset(following)]}'…'", _PREFIXES[name])
    instead = type_instead(name)
    if instead is not None and name in _TYPED:
        value = text.shown(following)
        shown = value if len(value) <= 40 else "'…'"
        type_ = "STRING" if instead.startswith("STRING") else instead
        raise text.refusal(index, f"Spark SQL has no literals of type {name}", f"Write CAST({shown} AS {type_}).")


def _lists_several(text: SqlText, opening: int) -> bool:
    """Whether there is a comma, or nothing, between the brackets. One value may be the place in a column `array`."""
    inside = text.inside(opening)
    return not inside or any(text.kind(index) is TokenType.COMMA for index in text.top(inside))


def _refuse_phrase(text: SqlText, index: int) -> None:
    following = " ".join(text.shown(place).upper() for place in range(index, min(index + 4, len(text.words))))
    for phrase, remedy in _PHRASES.items():
        if found := re.match(phrase, following):
            raise text.unsupported(index, found[0], remedy)


def _refuse_operator(text: SqlText, index: int) -> None:
    kind, before, after = text.kind(index), text.kind(index - 1), text.kind(index + 1)
    offset, written = text.offset(index), text.shown(index)
    negated = before is TokenType.NOT and text.shown(index - 1) == "!"
    if written in _PATTERNS and (kind is not TokenType.TILDE or before in _VALUES or negated):
        remedy = f"Write: … {'NOT ' * negated}{_PATTERNS[written]}."
        raise text.unsupported(index - negated, f"the operator {'!' * negated}{written}", remedy)
    if kind in _JSON or (kind is TokenType.ARROW and not _is_lambda(text, index)):
        remedy = "Read its text: get_json_object(CAST(… AS STRING), '$.key')."
        raise text.unsupported(index, f"the operator {written}", remedy)
    if kind is TokenType.PARAMETER and _CONTAINS.match(text.text[max(offset - 1, 0) : offset + 2]):
        remedy = "Keep the column in the view and compare in the query that reads it."
        raise text.unsupported(index, "an operator of arrays, ranges or json (@>, <@)", remedy)
    if kind is TokenType.SIMILAR_TO:
        raise text.unsupported(index, "SIMILAR TO", "Write a regular expression: … RLIKE '^(…)$'.")
    if kind is TokenType.OVERLAPS and before is TokenType.R_PAREN:
        raise text.unsupported(index, "OVERLAPS", "Compare the ends: a.start < b.stop AND b.start < a.stop.")
    if kind in _POSTFIX and after is not TokenType.L_PAREN and before in _VALUES:
        raise text.unsupported(index, written.upper(), f"Write {_POSTFIX[kind]}.")
    if written.upper() == "SYMMETRIC" and before is TokenType.BETWEEN and after is not TokenType.AND:
        raise text.unsupported(index, "BETWEEN SYMMETRIC", "Write: BETWEEN least(a, b) AND greatest(a, b).")


def _is_lambda(text: SqlText, index: int) -> bool:
    """`transform(a, x -> …)`, `aggregate(a, 0, (x, y) -> …)`: Spark's own arrow."""
    begins = (TokenType.COMMA, TokenType.L_PAREN)
    return text.kind(index - 1) is TokenType.R_PAREN or text.kind(index - 2) in begins


def _refuse_comparison(text: SqlText, index: int) -> None:
    """`= ANY (…)` over a list or a subquery; over a column it is Spark's aggregate."""
    several = {TokenType.ANY: "ANY", TokenType.SOME: "ANY", TokenType.ALL: "ALL"}.get(text.words[index].token_type)
    if several is None or text.kind(index + 1) is not TokenType.L_PAREN or text.kind(index - 1) not in _COMPARISONS:
        return
    if text.kind(index + 2) not in _LISTS and not text.shown(index + 2).startswith("'{"):
        return
    operator = text.shown(index - 1)
    member = {("=", "ANY"): "IN", ("<>", "ALL"): "NOT IN", ("!=", "ALL"): "NOT IN"}.get((operator, several))
    if member is not None:
        remedy = f"Write {member} (…)."
    elif several == "ANY":
        remedy = f"Write EXISTS (SELECT … WHERE x {operator} y)."
    else:
        remedy = f"Write NOT EXISTS (SELECT … WHERE (x {operator} y) IS NOT TRUE)."
    raise text.unsupported(index, f"{operator} {several} (…)", remedy)


_VALUES = kinds("VAR STRING NUMBER R_PAREN R_BRACKET IDENTIFIER")
_PHRASES = {
    r"FOR (NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)\b|LOCK IN SHARE MODE\b": "Remove it: a view locks no source rows.",
    r"AT TIME ZONE(?= |$)": "Write from_utc_timestamp(…, 'zone') or to_utc_timestamp(…, 'zone').",
}
_PREFIXES = {
    "e": "Write '…': Spark SQL reads \\n and other escapes in any string.",
    "u": "Write '…': Spark SQL reads \\u0041 in any string.",
    "b": "Write the number, or its bytes in hexadecimal: X'1F'.",
}
_TYPED = names(
    "bool bytea citext float4 float8 inet int2 int4 int8 json jsonb money oid text timestamptz timetz uuid varchar xml"
)
_PATTERNS = {"~": "RLIKE 'pattern'", "~*": "RLIKE '(?i)pattern'", "~~": "LIKE 'pattern'", "~~*": "ILIKE 'pattern'"}
_JSON = kinds("DARROW HASH_ARROW DHASH_ARROW")
_CONTAINS = re.compile(r".?@>|<@")
_POSTFIX: dict[TokenType | None, str] = {TokenType.ISNULL: "IS NULL", TokenType.NOTNULL: "IS NOT NULL"}
_COMPARISONS = kinds("EQ NEQ LT LTE GT GTE")
_LISTS = kinds("SELECT WITH ARRAY VALUES")
