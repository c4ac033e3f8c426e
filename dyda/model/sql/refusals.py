"""What a view cannot have: each construct by name, with what to write instead.

The operators of the bag algebra are maintained. The rest is refused when the view is created, never later and never
silently, because a view that is nearly right is wrong.
"""

from __future__ import annotations

from typing import NoReturn

from dyda.model.sql.functions import AGGREGATES, CHANGING, GENERATORS, MAINTAINED, WINDOWS
from dyda.model.sql.postgresql_syntax import refuse_foreign
from dyda.model.sql.text import SqlText, TokenType, kinds

__all__ = ["CLAUSES", "JOINS", "refuse_beginning", "refuse_everywhere"]

_WHEN_READING = "Remove it here and use it in the query that reads the view."
_ORDER_WHEN_READING = "A view has no row order. Sort when reading: SELECT … FROM view ORDER BY …"
_NO_ORDER = "Remove it: a view has no row order."

CLAUSES: dict[TokenType | None, tuple[str, str]] = {
    TokenType.ORDER_BY: ("ORDER BY", _ORDER_WHEN_READING),
    TokenType.SORT_BY: ("SORT BY", _ORDER_WHEN_READING),
    TokenType.CLUSTER_BY: ("CLUSTER BY", _NO_ORDER),
    TokenType.DISTRIBUTE_BY: ("DISTRIBUTE BY", _NO_ORDER),
    TokenType.LIMIT: ("LIMIT", _WHEN_READING),
    TokenType.OFFSET: ("OFFSET", _WHEN_READING),
    TokenType.FETCH: ("FETCH", _WHEN_READING),
    TokenType.WINDOW: ("WINDOW", _WHEN_READING),
    TokenType.QUALIFY: ("QUALIFY", _WHEN_READING),
    TokenType.LATERAL: ("LATERAL", "Join relations in FROM, and unnest arrays in the query that reads the view."),
    TokenType.TABLE_SAMPLE: ("TABLESAMPLE", "A sample is not repeatable: select rows with a condition in WHERE."),
    TokenType.PIVOT: ("PIVOT", _WHEN_READING),
    TokenType.UNPIVOT: ("UNPIVOT", _WHEN_READING),
    TokenType.PIPE_GT: ("the pipe |>", "Write SELECT … FROM … WHERE …"),
}

JOINS: dict[TokenType | None, tuple[str, str]] = {
    TokenType.NATURAL: ("NATURAL JOIN", "Name the columns, so that new ones cannot change the join: JOIN … USING (…)."),
    TokenType.ASOF: ("ASOF JOIN", "Write a JOIN with ON."),
    TokenType.STRAIGHT_JOIN: ("STRAIGHT_JOIN", "Write JOIN."),
}

_STATEMENTS: dict[TokenType | None, tuple[str, str]] = {
    TokenType.VALUES: ("VALUES", "A view reads relations of sources: SELECT … FROM source.table."),
    TokenType.TABLE: ("TABLE", "Write SELECT * FROM source.table."),
    TokenType.FROM: ("a query that begins with FROM", "Write SELECT … FROM …"),
}


def refuse_everywhere(text: SqlText) -> None:
    """Refuse what can be at any place: other statements, functions, parameters."""
    _refuse_statement(text)
    text.refuse_unbalanced()
    for index in range(len(text.words)):
        quoted = text.shown(index).startswith("`")
        named = quoted or text.kind(index - 1) is TokenType.DOT
        if not quoted:
            refuse_foreign(text, index)
        if not named:
            _refuse_keyword(text, index)
        if text.is_name(index) and text.kind(index + 1) is TokenType.L_PAREN:
            _refuse_call(text, index)
        elif not named and text.kind(index) in _BARE_FUNCTIONS and text.kind(index + 1) is not TokenType.DOT:
            raise text.unsupported(index, f"the function {text.words[index].text.lower()}", _CHANGES)


def _refuse_statement(text: SqlText) -> None:
    text.comments  # noqa: B018 - hints and unclosed comments are refused on the way
    first = text.kind(0)
    if first is None:
        raise text.refusal(0, "the file has no query", "Write SELECT … FROM source.table.")
    if first not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
        refuse_beginning(text, 0, len(text.words))
    for index in range(len(text.words) - 1):
        if text.kind(index) is TokenType.SEMICOLON:
            remedy = "A view file holds one SELECT: create one file per view."
            raise text.refusal(index + 1, "a second statement", remedy)


def refuse_beginning(text: SqlText, index: int, end: int) -> NoReturn:
    """Refuse what is where a SELECT should begin."""
    kind = text.kind(index) if index < end else None
    if kind in _STATEMENTS:
        raise text.unsupported(index, *_STATEMENTS[kind])
    if index:
        found = text.shown(index) if index < end else "the end"
        raise text.refusal(index, f"SELECT is expected here, not {found!r}", "Write SELECT … FROM …")
    remedy = "A view file holds one SELECT, without CREATE VIEW or anything before it."
    raise text.refusal(0, f"{text.shown(0)!r} does not begin a query", remedy)


def _refuse_keyword(text: SqlText, index: int) -> None:
    kind, before, after = text.kind(index), text.kind(index - 1), text.kind(index + 1)
    match kind:
        case TokenType.HINT:
            raise text.unsupported(index, "a hint (/*+ … */)", "Remove it.")
        case TokenType.VALUES | TokenType.TABLE if before is TokenType.L_PAREN and _in_from(text, index - 1):
            raise text.unsupported(index, *_STATEMENTS[kind])
        case TokenType.ROLLUP | TokenType.CUBE if after is TokenType.L_PAREN or before is TokenType.WITH:
            raise text.unsupported(index, text.shown(index).upper(), _UNION)
        case TokenType.GROUPING_SETS:
            raise text.unsupported(index, text.shown(index).upper(), _UNION)
        case TokenType.OVER if before is TokenType.R_PAREN:
            raise text.unsupported(index, "a window function (OVER)", _WHEN_READING)
        case TokenType.EXCEPT if before is TokenType.STAR:
            raise text.unsupported(index, "* EXCEPT", "List the columns.")
        case TokenType.LATERAL if after is TokenType.VIEW or _is_lateral(text, index):
            raise text.unsupported(index, *CLAUSES[kind])
        case TokenType.PIVOT | TokenType.UNPIVOT if after is TokenType.L_PAREN:
            raise text.unsupported(index, *CLAUSES[kind])
    if kind in _PARAMETERS or (kind is TokenType.COLON and before is not TokenType.R_BRACKET):
        remedy = "Write the value or the function itself."
        raise text.unsupported(index, f"a parameter or path ({text.shown(index)})", remedy)


def _is_lateral(text: SqlText, index: int) -> bool:
    return _in_from(text, index) and (text.is_name(index + 1) or text.kind(index + 1) is TokenType.L_PAREN)


def _in_from(text: SqlText, index: int) -> bool:
    return text.kind(index - 1) in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN)


def _refuse_call(text: SqlText, index: int) -> None:
    """Refuse the call of a function that cannot be maintained."""
    name, before, argument = text.words[index].text.lower(), text.kind(index - 1), text.kind(index + 2)
    if name in CHANGING or (name == "unix_timestamp" and argument is TokenType.R_PAREN):
        raise text.unsupported(index, f"the function {name}()", _CHANGES)
    if name in WINDOWS:
        raise text.unsupported(index, f"the window function {name}()", _WHEN_READING)
    if name in AGGREGATES and before not in (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE):
        if name not in MAINTAINED:
            raise text.unsupported(index, f"the aggregate {name}()", _INSTEAD.get(name, _AGGREGATE_WHEN_READING))
        if before is TokenType.DOT:
            raise text.unsupported(index, "a qualified name of an aggregate", f"Write {name}(…).")
    if name in GENERATORS:
        remedy = "Keep the whole value in the view and unnest it in the query that reads the view."
        raise text.unsupported(index, f"the generator {name}()", remedy)
    if name == "identifier":
        raise text.unsupported(index, "IDENTIFIER()", "Write the name itself, in backticks if it is unusual.")
    if (name == "struct" and argument is not TokenType.STAR) or (name in _NAMING and argument is TokenType.L_PAREN):
        # It would name its fields after the columns, which have other names where the view is evaluated.
        remedy = "Name them: named_struct('age', c.age, 'name', c.name)."
        raise text.unsupported(index, f"{name}() with unnamed fields", remedy)


_NAMING = frozenset({"to_json", "to_csv", "to_xml"})
_AGGREGATE_WHEN_READING = "Keep the rows in the view and aggregate when reading: … FROM view GROUP BY …"
_UNION = "Write one GROUP BY per grouping and combine them with UNION ALL."
_INSTEAD = {
    "approx_count_distinct": "Write count(DISTINCT …), which is exact.",
    **dict.fromkeys(
        ("first", "first_value", "last", "last_value", "any_value"), "A view has no row order: write min(…) or max(…)."
    ),
    **dict.fromkeys(("try_sum", "try_avg"), "Write sum(…) or avg(…)."),
    **dict.fromkeys(("grouping", "grouping_id"), _UNION),
}
_CHANGES = "Its value changes without a change at a source: use it in the query that reads the view."
_PARAMETERS = kinds("PARAMETER PLACEHOLDER L_BRACE SESSION_PARAMETER")
_BARE_FUNCTIONS = kinds(
    """
    CURRENT_DATE CURRENT_DATETIME CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURRENT_SCHEMA CURRENT_CATALOG LOCALTIME
    LOCALTIMESTAMP SESSION_USER CURRENT_ROLE CURRENT_USER_ID
    """
)
"""Functions that need no parentheses. (`user` is a plain column name, too; the columns decide there.)"""
