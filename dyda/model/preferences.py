"""What a view's author allows when a schema changes (E-SQL of the EVE project), read from comments in the view file.

    -- dyda: extent = any, new_columns = ignore          before SELECT: for the view
    -- dyda: key = (id), index = (name, age)             and how its rows are stored, in its output columns
    SELECT f.age /* dispensable, replaceable */          directly after a select item, a relation or a condition
    FROM booking.flight_res f /* replaceable */

A component without a preference takes the project's defaults. Any other comment is prose and ignored, but a near miss
(`/* dispensible */`) is an error: a preference must never be lost silently.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dyda.model.relation import quoted

if TYPE_CHECKING:
    from dyda.model.sql.text import Comment, SqlText

__all__ = ["Header", "Preference", "Preferences", "read_header", "read_preference", "render_header"]

LONGEST_LIST = 32
"""PostgreSQL's limit of columns in an index."""
HEADER_CHOICES = {"extent": ("equivalent", "superset", "subset", "any"), "new_columns": ("ignore", "append")}
_WORDS = ("dispensable", "replaceable")


@dataclass(frozen=True)
class Preference:
    """Whether one component may be dropped, and whether it may be replaced."""

    dispensable: bool = False
    replaceable: bool = False

    def __or__(self, other: Preference) -> Preference:
        return Preference(self.dispensable or other.dispensable, self.replaceable or other.replaceable)


@dataclass(frozen=True)
class Preferences:
    """The preferences written in the file.

    Select items are identified by their output name, those of a subquery in FROM by its alias and their name
    (`alias.name`); relations and subqueries by their alias in the tree, conditions by their normalised text. What
    follows EXISTS (…) or IN (…) is about the conditions of the semi join; for NOT IN one is called `x NOT IN y`. A
    component of a common table expression that is used twice is two components.
    """

    extent: str | None = None
    new_columns: str | None = None
    items: tuple[tuple[str, Preference], ...] = ()
    relations: tuple[tuple[str, Preference], ...] = ()
    conditions: tuple[tuple[str, Preference], ...] = ()
    key: tuple[str, ...] | None = None
    indexes: tuple[tuple[str, ...], ...] = ()

    def of_item(self, name: str) -> Preference | None:
        return dict(self.items).get(name)

    def of_relation(self, alias: str) -> Preference | None:
        return dict(self.relations).get(alias)

    def of_condition(self, sql: str) -> Preference | None:
        return dict(self.conditions).get(sql)


@dataclass(frozen=True)
class Header:
    """What a view's header sets; None and () where it is silent."""

    extent: str | None = None
    new_columns: str | None = None
    key: tuple[str, ...] | None = None
    indexes: tuple[tuple[str, ...], ...] = ()


def read_preference(comment: Comment, text: SqlText) -> Preference | None:
    """The preference that a comment states; None if it is prose."""
    words = [word for word in re.split(r"[\s,]+", comment.body.lower()) if word and word != "and"]
    if words and all(word in _WORDS for word in words):
        return Preference(dispensable="dispensable" in words, replaceable="replaceable" in words)
    near = [difflib.get_close_matches(word, _WORDS, n=1, cutoff=0.8) for word in words]
    if words and all(near):
        what = f"the comment {comment.body.strip()!r} is not a preference"
        raise text.refusal_at(comment.start, what, f"Did you mean {', '.join(match[0] for match in near)}?")
    return None


def read_header(text: SqlText, columns: Collection[str]) -> Header:
    """The settings in `-- dyda:` comments before the first word. `columns` are those of the view's output."""
    found: dict[str, str] = {}
    listed: dict[str, list[tuple[str, ...]]] = {"key": [], "index": []}
    for comment in text.comments:
        match = re.match(r"\s*dyda\s*:(.*)", comment.body, re.DOTALL | re.IGNORECASE)
        if match is None:
            continue
        if comment.after is not None:
            what = "a `dyda:` comment after the query has begun"
            raise text.refusal_at(comment.start, what, "Put it on a line before SELECT.")
        for setting in _between_commas(match[1]):
            name, value = _setting(setting, comment, text)
            if name in listed:
                listed[name].append(_columns(name, value, columns, comment, text))
            elif name in found:
                raise text.refusal_at(comment.start, f"the preference {name!r} is given twice", "Keep one of them.")
            else:
                found[name] = value
            if len(listed["key"]) > 1 or len(set(listed["index"])) < len(listed["index"]):
                raise text.refusal_at(comment.start, f"the preference {name!r} is given twice", "Keep one of them.")
    key = next(iter(listed["key"]), None)
    return Header(found.get("extent"), found.get("new_columns"), key, tuple(listed["index"]))


def _setting(setting: str, comment: Comment, text: SqlText) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in setting.partition("="))
    name = name.lower()
    if not equals or name not in _SETTING_NAMES:
        near = difflib.get_close_matches(name, _SETTING_NAMES - {name}, n=1)
        remedy = f"Did you mean {near[0]}?" if near else "Write: -- dyda: extent = …, new_columns = …"
        raise text.refusal_at(comment.start, f"{setting.strip()!r} is not a preference of a view", remedy)
    if name in HEADER_CHOICES and value.lower() not in HEADER_CHOICES[name]:
        remedy = f"Choose one of: {', '.join(HEADER_CHOICES[name])}."
        raise text.refusal_at(comment.start, f"the preference {name} cannot be {value.lower()!r}", remedy)
    return name, value.lower() if name in HEADER_CHOICES else value


def _columns(setting: str, value: str, columns: Collection[str], comment: Comment, text: SqlText) -> tuple[str, ...]:
    """`(order_id, `First Name`)`: columns of the output, each once."""
    inside = re.fullmatch(r"\((.*)\)", value, re.DOTALL)
    names = [_NAME.fullmatch(word.strip()) for word in _between_commas(inside[1])] if inside else []
    if not names or not all(names):
        what = f"the preference {setting} cannot be {value!r}"
        raise text.refusal_at(comment.start, what, f"Write: {setting} = (column, …), with unusual names in backticks.")
    found = []
    for match in names:
        assert match is not None
        name = match[1].replace("``", "`") if match[1] is not None else match[2].lower()
        if name not in columns:
            near = difflib.get_close_matches(name, columns, n=1)
            remedy = f"Did you mean {quoted(near[0])}?" if near else f"It has: {', '.join(columns)}."
            raise text.refusal_at(comment.start, f"{setting} names {name!r}, which is no column of the view", remedy)
        if name in found:
            raise text.refusal_at(comment.start, f"{setting} names {name!r} twice", "Keep one of them.")
        found.append(name)
    if len(found) > LONGEST_LIST:
        what = f"{setting} names {len(found)} columns"
        raise text.refusal_at(comment.start, what, f"An index has at most {LONGEST_LIST}.")
    return tuple(found)


def render_header(preferences: Preferences) -> str | None:
    """The comment that says the same; None if there is nothing to say."""
    said = [f"{name} = {value}" for name in HEADER_CHOICES if (value := getattr(preferences, name))]
    said += [f"key = {_listed(preferences.key)}"] if preferences.key is not None else []
    said += [f"index = {_listed(index)}" for index in preferences.indexes]
    text = f"dyda: {', '.join(said)}"
    if not said:
        return None
    return f"-- {text}" if len(text.splitlines()) == 1 else f"/* {text} */"  # a name may go on over a line


def _listed(columns: tuple[str, ...]) -> str:
    plain = re.compile(r"[a-z_][a-z0-9_]*")
    return f"({', '.join(name if plain.fullmatch(name) else quoted(name) for name in columns)})"


def _between_commas(text: str) -> list[str]:
    """The parts of a list; a comma in parentheses or backticks divides none."""
    parts, depth, in_backticks = [""], 0, False
    for letter in text:
        if letter == "`":
            in_backticks = not in_backticks
        elif not in_backticks:
            depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0 and not in_backticks:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_SETTING_NAMES = {*HEADER_CHOICES, "key", "index"}
_NAME = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
