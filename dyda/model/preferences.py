"""What a view's author allows when a schema changes (E-SQL of the EVE project), read from comments in the view file.

    -- dyda: extent = any, new_columns = ignore          before SELECT: for the view
    SELECT f.age /* dispensable, replaceable */          directly after a select item, a relation or a condition
    FROM booking.flight_res f /* replaceable */

A component without a preference takes the project's defaults. Any other comment is prose and ignored, but a near miss
(`/* dispensible */`) is an error: a preference must never be lost silently.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dyda.model.sql.text import Comment, SqlText

__all__ = ["Preference", "Preferences", "read_header", "read_preference"]

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

    def of_item(self, name: str) -> Preference | None:
        return dict(self.items).get(name)

    def of_relation(self, alias: str) -> Preference | None:
        return dict(self.relations).get(alias)

    def of_condition(self, sql: str) -> Preference | None:
        return dict(self.conditions).get(sql)


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


def read_header(text: SqlText) -> tuple[str | None, str | None]:
    """(extent, new_columns) from `-- dyda:` comments before the first word; None where they are not set."""
    found: dict[str, str] = {}
    for comment in text.comments:
        match = re.match(r"\s*dyda\s*:(.*)", comment.body, re.DOTALL | re.IGNORECASE)
        if match is None:
            continue
        if comment.after is not None:
            what = "a `dyda:` comment after the query has begun"
            raise text.refusal_at(comment.start, what, "Put it on a line before SELECT.")
        for setting in match[1].split(","):
            name, value = _setting(setting, comment, text)
            if name in found:
                raise text.refusal_at(comment.start, f"the preference {name!r} is given twice", "Keep one of them.")
            found[name] = value
    return found.get("extent"), found.get("new_columns")


def _setting(setting: str, comment: Comment, text: SqlText) -> tuple[str, str]:
    name, equals, value = (part.strip().lower() for part in setting.partition("="))
    if not equals or name not in HEADER_CHOICES:
        near = difflib.get_close_matches(name, set(HEADER_CHOICES) - {name}, n=1)
        remedy = f"Did you mean {near[0]}?" if near else "Write: -- dyda: extent = …, new_columns = …"
        raise text.refusal_at(comment.start, f"{setting.strip()!r} is not a preference of a view", remedy)
    if value not in HEADER_CHOICES[name]:
        remedy = f"Choose one of: {', '.join(HEADER_CHOICES[name])}."
        raise text.refusal_at(comment.start, f"the preference {name} cannot be {value!r}", remedy)
    return name, value
