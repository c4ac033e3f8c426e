"""What PostgreSQL writes and Spark SQL does not: each refused by its name, with what to write instead.

Spark would refuse all of it, too, but late, without the line, and about words that the author does not recognise.
Nothing is refused here that Spark accepts: views that are maintained are read by the same rules.
"""

from __future__ import annotations

import re

from dyda.model.sql.text import SqlText, TokenType
from dyda.model.sql.types import refuse_type, type_instead

__all__ = ["refuse_foreign"]


def refuse_foreign(text: SqlText, index: int) -> None:
    """Refuse the word if Spark SQL has no place for it. Names in backticks do not come here."""
    kind = text.kind(index)
    _refuse_quotes(text, index)
    if text.kind(index - 1) is TokenType.DOT:
        return
    _refuse_literal(text, index)
    _refuse_lock(text, index)
    _refuse_operator(text, index)
    _refuse_comparison(text, index)
    if (kind is TokenType.DCOLON and text.shown(index) == "::") or (kind is TokenType.ALIAS and _is_cast(text, index)):
        refuse_type(text, index + 1)


def _is_cast(text: SqlText, index: int) -> bool:
    """Whether the AS at `index` is the one of CAST(… AS type)."""
    depth = 0
    for before in range(index - 1, 0, -1):
        kind = text.kind(before)
        if kind is TokenType.R_PAREN:
            depth += 1
        elif kind is TokenType.L_PAREN:
            if depth == 0:
                return text.shown(before - 1).lower() in ("cast", "try_cast")
            depth -= 1
        elif depth == 0 and kind in _NEVER_IN_CAST:
            return False
    return False


def _refuse_quotes(text: SqlText, index: int) -> None:
    written, offset = text.shown(index), text.offset(index)
    quoted = re.match(r"\$(\w*)\$", text.text[offset : offset + 80])
    if quoted and not quoted[1][:1].isdigit():
        raise text.unsupported(offset, f"a dollar-quoted text ({quoted[0]})", "Write it in single quotes: '…'.")
    beside = (text.kind(index - 1), text.kind(index + 1))
    if text.kind(index) is not TokenType.STRING:
        return
    if not written.startswith('"'):
        return
    what = f"{written} is a text in Spark SQL, not a name"
    if beside[0] is TokenType.COLLATE:
        raise text.refusal(offset, what, "Leave COLLATE out: texts are compared by their bytes.")
    if TokenType.DOT in beside:
        raise text.refusal(offset, what, f"Write it in backticks: `{written[1:-1]}`.")


def _refuse_literal(text: SqlText, index: int) -> None:
    """E'…', B'…', TEXT '…': words that say how a text is to be read."""
    kind, offset = text.kind(index), text.offset(index)
    if kind is TokenType.NATIONAL_STRING:
        raise text.unsupported(offset, "N'…'", "Write '…'.")
    if kind is TokenType.ARRAY and text.kind(index + 1) is TokenType.L_BRACKET and _lists_several(text, index + 1):
        raise text.unsupported(offset, "ARRAY[…]", "Write array(…).")
    following = index + 1
    if text.kind(following) is TokenType.AMP and text.shown(index).lower() == "u":
        following += 1
    if text.kind(following) is not TokenType.STRING or not text.is_name(index):
        return
    name = text.shown(index).lower()
    if text.offset(following) == offset + following - index and name in _PREFIXES:
        raise text.unsupported(offset, f"{text.text[offset : text.offset(following)]}'…'", _PREFIXES[name])
    instead = type_instead(name)
    if instead is not None and name in _TYPED:
        value = text.shown(following)
        shown = value if len(value) <= 40 else "'…'"
        raise text.refusal(
            offset,
            f"Spark SQL has no literals of type {name}",
            f"Write CAST({shown} AS {instead.split(',')[0] if instead.startswith('STRING') else instead}).",
        )


def _lists_several(text: SqlText, opening: int) -> bool:
    """Whether there is a comma, or nothing, between the brackets. One value may be the place in a column `array`."""
    depth = 0
    for index in range(opening, len(text.words)):
        kind = text.kind(index)
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        if depth == 0:
            return index == opening + 1
        if depth == 1 and kind is TokenType.COMMA:
            return True
    return False


def _refuse_lock(text: SqlText, index: int) -> None:
    following = " ".join(text.shown(place).upper() for place in range(index, min(index + 4, len(text.words))))
    lock = _LOCK.match(following)
    if lock is not None:
        raise text.unsupported(text.offset(index), lock[0], "Leave it out: a view locks nothing at its sources.")


def _refuse_operator(text: SqlText, index: int) -> None:
    kind, before, after = text.kind(index), text.kind(index - 1), text.kind(index + 1)
    offset, written = text.offset(index), text.shown(index)
    if written in _PATTERNS and (kind is not TokenType.TILDE or before in _VALUES or _is_negation(text, index - 1)):
        negated = _is_negation(text, index - 1)
        remedy = _PATTERNS[written].format(negation="NOT " if negated else "")
        raise text.unsupported(
            text.offset(index - 1) if negated else offset, f"the operator {'!' * negated}{written}", remedy
        )
    if kind in _JSON or (kind is TokenType.ARROW and not _is_lambda(text, index)):
        raise text.unsupported(
            offset, f"the operator {written}", "Read the text: get_json_object(CAST(… AS STRING), '$.key')."
        )
    if kind is TokenType.PARAMETER and _CONTAINS.match(text.text[max(offset - 1, 0) : offset + 2]):
        raise text.unsupported(
            offset, "an operator of arrays, ranges or json (@>, <@)", "Pass the column on and compare when reading."
        )
    if kind is TokenType.SIMILAR_TO:
        raise text.unsupported(offset, "SIMILAR TO", "Write a regular expression: … RLIKE '^(…)$'.")
    if kind is TokenType.OVERLAPS and before is TokenType.R_PAREN:
        raise text.unsupported(offset, "OVERLAPS", "Compare the ends: a.start < b.stop AND b.start < a.stop.")
    if kind in _POSTFIX and after is not TokenType.L_PAREN and before in _VALUES:
        raise text.unsupported(offset, written.upper(), f"Write {_POSTFIX[kind]}.")
    if written.upper() == "SYMMETRIC" and before is TokenType.BETWEEN and after is not TokenType.AND:
        raise text.unsupported(offset, "BETWEEN SYMMETRIC", "Write: BETWEEN least(a, b) AND greatest(a, b).")
    following = [text.shown(place).upper() for place in range(index, min(index + 3, len(text.words)))]
    if following == ["AT", "TIME", "ZONE"]:
        raise text.unsupported(
            offset, "AT TIME ZONE", "Write from_utc_timestamp(…, 'zone') or to_utc_timestamp(…, 'zone')."
        )


def _is_lambda(text: SqlText, index: int) -> bool:
    """`transform(a, x -> …)`, `aggregate(a, 0, (x, y) -> …)`: Spark's own arrow."""
    begins = (TokenType.COMMA, TokenType.L_PAREN)
    return text.kind(index - 1) is TokenType.R_PAREN or text.kind(index - 2) in begins


def _is_negation(text: SqlText, index: int) -> bool:
    return text.kind(index) is TokenType.NOT and text.shown(index) == "!"


def _refuse_comparison(text: SqlText, index: int) -> None:
    """`= ANY (…)` over a list or a subquery; over a column it is Spark's aggregate."""
    kind = text.kind(index)
    if kind not in (TokenType.ANY, TokenType.SOME, TokenType.ALL) or text.kind(index + 1) is not TokenType.L_PAREN:
        return
    operator = text.shown(index - 1) if text.kind(index - 1) in _COMPARISONS else None
    if operator is None or not (text.kind(index + 2) in _LISTS or text.shown(index + 2).startswith("'{")):
        return
    several = text.shown(index).upper()
    if several == "SOME":
        several = "ANY"
    member = {("=", "ANY"): "IN", ("<>", "ALL"): "NOT IN", ("!=", "ALL"): "NOT IN"}.get((operator, several))
    if member is not None:
        remedy = f"Write {member} (…)."
    elif several == "ANY":
        remedy = f"Write EXISTS (SELECT … WHERE x {operator} y)."
    else:
        remedy = f"Write NOT EXISTS (SELECT … WHERE (x {operator} y) IS NOT TRUE)."
    raise text.unsupported(text.offset(index), f"{operator} {several} (…)", remedy)


_NEVER_IN_CAST = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.COMMA})
_VALUES = frozenset(
    {TokenType.VAR, TokenType.STRING, TokenType.NUMBER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.IDENTIFIER}
)
_LOCK = re.compile(r"FOR (NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)\b|LOCK IN SHARE MODE\b")
_PREFIXES = {
    "e": "Write '…': Spark SQL reads \\n and other escapes in any text.",
    "u": "Write '…': Spark SQL reads \\u0041 in any text.",
    "b": "Write the number, or its bytes in hexadecimal: X'1F'.",
}
_TYPED = frozenset(
    [
        "bool",
        "bytea",
        "citext",
        "float4",
        "float8",
        "inet",
        "int2",
        "int4",
        "int8",
        "json",
        "jsonb",
        "money",
        "oid",
        "text",
        "timestamptz",
        "timetz",
        "uuid",
        "varchar",
        "xml",
    ]
)
_PATTERNS = {
    "~": "Write: … {negation}RLIKE 'pattern'.",
    "~*": "Write: … {negation}RLIKE '(?i)pattern'.",
    "~~": "Write: … {negation}LIKE 'pattern'.",
    "~~*": "Write: … {negation}ILIKE 'pattern'.",
}
_JSON = frozenset({TokenType.DARROW, TokenType.HASH_ARROW, TokenType.DHASH_ARROW})
_CONTAINS = re.compile(r".?@>|<@")
_POSTFIX = {TokenType.ISNULL: "IS NULL", TokenType.NOTNULL: "IS NOT NULL"}
_COMPARISONS = frozenset({TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE})
_LISTS = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.ARRAY, TokenType.VALUES})
