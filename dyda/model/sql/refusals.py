"""What a view cannot have: each construct by its name, with what to write instead.

The operators of the bag algebra are maintained. The rest is refused when the view is created, never later and never
silently, because a view that is only nearly right is wrong.
"""

from __future__ import annotations

from typing import NoReturn

from dyda.model.sql.functions import AGGREGATES, CHANGING, GENERATORS, MAINTAINED, WINDOWS
from dyda.model.sql.postgresql_syntax import refuse_foreign
from dyda.model.sql.text import SqlText, TokenType

__all__ = ["CLAUSES", "JOINS", "refuse_beginning", "refuse_everywhere"]

_WHEN_READING = "Leave it out here and put it into the query that reads the view."

CLAUSES: dict[TokenType | None, tuple[str, str]] = {
    TokenType.ORDER_BY: (
        "ORDER BY",
        "A view is a bag without order. Order when reading: SELECT … FROM view ORDER BY …",
    ),
    TokenType.SORT_BY: ("SORT BY", "A view is a bag without order. Order when reading: SELECT … FROM view ORDER BY …"),
    TokenType.CLUSTER_BY: ("CLUSTER BY", "A view is a bag without order: leave it out."),
    TokenType.DISTRIBUTE_BY: ("DISTRIBUTE BY", "A view is a bag without order: leave it out."),
    TokenType.LIMIT: ("LIMIT", _WHEN_READING),
    TokenType.OFFSET: ("OFFSET", _WHEN_READING),
    TokenType.FETCH: ("FETCH", _WHEN_READING),
    TokenType.WINDOW: ("WINDOW", _WHEN_READING),
    TokenType.QUALIFY: ("QUALIFY", _WHEN_READING),
    TokenType.LATERAL: ("LATERAL", "Join relations of sources, and unfold arrays when reading the view."),
    TokenType.TABLE_SAMPLE: ("TABLESAMPLE", "A sample is not repeatable. Select with a condition in WHERE."),
    TokenType.PIVOT: ("PIVOT", _WHEN_READING),
    TokenType.UNPIVOT: ("UNPIVOT", _WHEN_READING),
    TokenType.PIPE_GT: ("the pipe |>", "Write SELECT … FROM … WHERE …"),
}

JOINS: dict[TokenType | None, tuple[str, str]] = {
    TokenType.NATURAL: (
        "NATURAL JOIN",
        "Name the columns: JOIN … USING (…) or JOIN … ON …; new columns cannot join in.",
    ),
    TokenType.ASOF: ("ASOF JOIN", "Write a JOIN with ON."),
    TokenType.STRAIGHT_JOIN: ("STRAIGHT_JOIN", "Write JOIN."),
}

_STATEMENTS = {
    TokenType.VALUES: ("VALUES", "A view reads relations of sources: SELECT … FROM source.table."),
    TokenType.TABLE: ("TABLE", "Write SELECT * FROM source.table."),
    TokenType.FROM: ("a query that begins with FROM", "Write SELECT … FROM …"),
}


def refuse_everywhere(text: SqlText) -> None:
    """Refuse what can stand at any place: other statements, functions, parameters."""
    _refuse_statement(text)
    text.refuse_unbalanced()
    for index in range(len(text.words)):
        quoted = text.shown(index).startswith("`")
        named = quoted or text.kind(index - 1) is TokenType.DOT
        if not quoted:
            refuse_foreign(text, index)
        if not named:
            _refuse_keyword(text, index)
        called = text.is_name(index) and text.kind(index + 1) is TokenType.L_PAREN
        if called or not named:
            _refuse_function(text, index, called)


def _refuse_statement(text: SqlText) -> None:
    text.comments  # noqa: B018 - hints and unclosed comments are refused on the way
    first = text.kind(0)
    if first is None:
        raise text.refusal(0, "the file holds no query", "Write SELECT … FROM source.table.")
    if first not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
        refuse_beginning(text, 0, len(text.words))
    for index in range(len(text.words) - 1):
        if text.kind(index) is TokenType.SEMICOLON:
            raise text.refusal(
                text.offset(index + 1), "a second statement", "A view file holds one SELECT; make a file per view."
            )


def refuse_beginning(text: SqlText, index: int, end: int) -> NoReturn:
    """Refuse what stands where a SELECT should begin."""
    kind = text.kind(index) if index < end else None
    if kind in _STATEMENTS:
        raise text.unsupported(text.offset(index), *_STATEMENTS[kind])
    if index:
        found = text.shown(index) if index < end else "the end"
        raise text.refusal(text.offset(index), f"SELECT is expected here, not {found!r}", "Write SELECT … FROM …")
    raise text.refusal(
        text.offset(0),
        f"{text.shown(0)!r} does not begin a query",
        "A view file holds one SELECT, without CREATE VIEW or anything before it.",
    )


def _refuse_keyword(text: SqlText, index: int) -> None:
    kind, before = text.kind(index), text.kind(index - 1)
    offset = text.offset(index)
    if kind is TokenType.HINT:
        raise text.unsupported(offset, "a hint (/*+ … */)", "Leave it out: it changes nothing.")
    if kind in (TokenType.VALUES, TokenType.TABLE) and before is TokenType.L_PAREN and _in_from(text, index - 1):
        raise text.unsupported(offset, *_STATEMENTS[kind])
    grouping = kind in (TokenType.ROLLUP, TokenType.CUBE) and (
        text.kind(index + 1) is TokenType.L_PAREN or before is TokenType.WITH
    )
    if grouping or (kind is TokenType.GROUPING_SETS):
        raise text.unsupported(
            offset, text.shown(index).upper(), "Write one GROUP BY per grouping and combine them with UNION ALL."
        )
    if kind is TokenType.OVER and before is TokenType.R_PAREN:
        raise text.unsupported(offset, "a window function (OVER)", _WHEN_READING)
    if kind is TokenType.EXCEPT and before is TokenType.STAR:
        raise text.unsupported(offset, "* EXCEPT", "List the columns.")
    if kind is TokenType.LATERAL and _is_lateral(text, index):
        raise text.unsupported(offset, *CLAUSES[kind])
    if kind in (TokenType.PIVOT, TokenType.UNPIVOT) and text.kind(index + 1) is TokenType.L_PAREN:
        raise text.unsupported(offset, *CLAUSES[kind])
    if kind in _PARAMETERS or (kind is TokenType.COLON and before is not TokenType.R_BRACKET):
        raise text.unsupported(
            offset, f"a parameter or path ({text.shown(index)})", "Write the value or the function itself."
        )


def _is_lateral(text: SqlText, index: int) -> bool:
    following = text.is_name(index + 1) or text.kind(index + 1) is TokenType.L_PAREN
    return text.kind(index + 1) is TokenType.VIEW or (following and _in_from(text, index))


def _in_from(text: SqlText, index: int) -> bool:
    return text.kind(index - 1) in (TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN)


def _refuse_function(text: SqlText, index: int, called: bool) -> None:
    name = text.words[index].text.lower()
    offset = text.offset(index)
    if not called:
        # Some need no parentheses: current_date. (`user` is a plain column name too; the columns decide there.)
        if text.kind(index) in _BARE_FUNCTIONS and text.kind(index + 1) is not TokenType.DOT:
            raise text.unsupported(offset, f"the function {name}", _CHANGES)
        return
    if name in CHANGING or (name == "unix_timestamp" and text.kind(index + 2) is TokenType.R_PAREN):
        raise text.unsupported(offset, f"the function {name}()", _CHANGES)
    if name in WINDOWS:
        raise text.unsupported(offset, f"the window function {name}()", _WHEN_READING)
    if name in AGGREGATES and text.kind(index - 1) not in (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE):
        if name not in MAINTAINED:
            raise text.unsupported(offset, f"the aggregate {name}()", _INSTEAD.get(name, _AGGREGATE_WHEN_READING))
        if text.kind(index - 1) is TokenType.DOT:
            raise text.unsupported(offset, "a qualified name of an aggregate", f"Write {name}(…).")
    if name in GENERATORS:
        raise text.unsupported(
            offset, f"the generator {name}()", "Keep the whole value in the view and unfold it when reading."
        )
    if name == "identifier":
        raise text.unsupported(offset, "IDENTIFIER()", "Write the name itself, in backticks if it is unusual.")
    if (name == "struct" and text.kind(index + 2) is not TokenType.STAR) or (
        name in _NAMING and text.kind(index + 2) is TokenType.L_PAREN
    ):
        # It takes the names of its fields from the columns, which are called otherwise where the view is evaluated.
        raise text.unsupported(offset, f"{name}() with fields that have no names", _NAME_FIELDS)


_NAMING = frozenset({"to_json", "to_csv", "to_xml"})
_NAME_FIELDS = "Name them: named_struct('age', c.age, 'name', c.name)."
_AGGREGATE_WHEN_READING = "Keep the rows in the view and aggregate when reading: … FROM view GROUP BY …"
_INSTEAD = {
    "approx_count_distinct": "Write count(DISTINCT …), which is exact.",
    **dict.fromkeys(
        ("first", "first_value", "last", "last_value", "any_value"),
        "Which row is first is not defined in a bag: write min(…) or max(…).",
    ),
    **dict.fromkeys(("try_sum", "try_avg"), "Write sum(…) or avg(…)."),
    **dict.fromkeys(("grouping", "grouping_id"), "Write one GROUP BY per grouping and combine them with UNION ALL."),
}
_CHANGES = "Its value changes without any change at a source: put it into the query that reads the view."
_PARAMETERS = frozenset({TokenType.PARAMETER, TokenType.PLACEHOLDER, TokenType.L_BRACE, TokenType.SESSION_PARAMETER})
_BARE_FUNCTIONS = frozenset(
    {
        *(TokenType.CURRENT_DATE, TokenType.CURRENT_DATETIME, TokenType.CURRENT_TIME, TokenType.CURRENT_TIMESTAMP),
        *(TokenType.CURRENT_USER, TokenType.CURRENT_SCHEMA, TokenType.CURRENT_CATALOG, TokenType.LOCALTIME),
        *(TokenType.LOCALTIMESTAMP, TokenType.SESSION_USER, TokenType.CURRENT_ROLE, TokenType.CURRENT_USER_ID),
    }
)
