"""Synchronization as data: fixtures/vs/*.sql, one case a file.

A file begins with what it shows, in `--` lines, and goes on in sections that begin with `--#`:

    --# relations              CREATE TABLE source.table (…) [ROWS n]; absent: those of Figure 1 of paper 001
    --# view                   the view file
    --# below NAME             the file of a view that it reads
    --# knowledge              knowledge.toml; absent: nothing is known
    --# defaults               [preferences] of dyda.toml; absent: DyDa's own
    --# change                 the DDL of one unit, all at once
    --# holds                  the view is the same, and this is its text over the relations as they are now; or
    --# rewritten EXTENT       this is the best legal rewriting, with this extent; or
    --# broken                 there is none: the whole reason
    --# reason                 of a rewriting: why it is the best, the whole text
    --# changes                of a rewriting: what became of the components, line by line
    --# runners-up             all other legal rewritings, best first: their reasons, line by line
    --# followed               renames and types that were followed, line by line
    --# component              of a broken view: what is in the way
    --# remedy                 of a broken view: what would have saved it, the whole text

Texts are compared by what they say: the tree, select items in order with their names and preferences, relations in
order with their aliases and preferences, conditions in any order with their preferences, and the header. Aliases of new
occurrences are the table's name. DDL is read by tests/unit/vs/case.py.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from dyda.model.algebra.nodes import ViewDefinition, conjuncts, expressions, scans
from dyda.model.preferences import Preference
from dyda.model.sql.render import render_view
from tests.unit.vs.case import TRAVEL, Schemas, judge, view
from tests.unit.vs.shape import shape, spelling
from vs import Broken, Defaults, Holds, Rewritten

FOLDER = Path(__file__).parents[3] / "fixtures" / "vs"
SECTIONS = {"relations", "below", "view", "knowledge", "defaults", "change", "holds", "rewritten", "broken"}
SECTIONS |= {"reason", "changes", "runners-up", "followed", "component", "remedy"}
OUTCOMES = {"holds": Holds, "rewritten": Rewritten, "broken": Broken}


def cases() -> list[Path]:
    found = sorted(FOLDER.glob("*.sql"))
    assert len(found) >= 80
    return found


def sections(path: Path) -> dict[str, tuple[str, str]]:
    """By name: the words after it, the lines below it."""
    title, *parts = re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert title.startswith("-- "), "a case begins with what it shows"
    found = {}
    for part in parts:
        heading, _, body = part.partition("\n")
        name, _, words = heading.partition(" ")
        assert name in SECTIONS, name
        assert name not in found, name
        found[name] = (words.strip(), body.strip())
    return found


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    case = sections(path)

    def body(name: str) -> str:
        return case[name][1] if name in case else ""

    before = Schemas({}).execute(body("relations")) if "relations" in case else TRAVEL
    below = case.get("below")
    asked = (body("view"), before, body("change"), body("knowledge"), _defaults(body("defaults")), below)
    judgement, after = judge(*asked)
    again, _ = judge(*asked)
    assert judgement == again, "the same answer every time"
    (outcome,) = case.keys() & OUTCOMES.keys()
    assert isinstance(judgement, OUTCOMES[outcome]), judgement
    if isinstance(judgement, Broken):
        assert judgement.reason == body("broken").replace("\n", " ")
        _compare("component", judgement.component, case)
        _compare("remedy", judgement.remedy, case)
        return
    expected = view(body(outcome), after)
    assert said(judgement.definition) == said(expected)
    written = render_view(judgement.definition.tree, judgement.definition.preferences)
    assert said(view(written, after)) == said(expected), "written down and read again it is the same view"
    assert not judgement.definition.star, "a version's text never says *"
    if "followed" in case:
        assert list(judgement.followed) == body("followed").splitlines()
    if isinstance(judgement, Rewritten):
        assert judgement.extent == case["rewritten"][0]
        assert judgement.cost == len(list(scans(judgement.definition.tree))) - 1
        _compare("reason", judgement.reason, case)
        if "changes" in case:
            assert list(judgement.changes) == body("changes").splitlines()
        if "runners-up" in case:
            assert [other.reason for other in judgement.runners_up] == body("runners-up").splitlines()
        for other in judgement.runners_up:
            view(other.sql, after)


def _compare(name: str, found: str, case: dict[str, tuple[str, str]]) -> None:
    if name in case:
        assert found == case[name][1].replace("\n", " ")


def _defaults(text: str) -> Defaults:
    settings = tomllib.loads(text)
    component = Preference(settings.pop("dispensable", False), settings.pop("replaceable", False))
    return Defaults(component, **settings)


def said(definition: ViewDefinition) -> dict[str, object]:
    """What a definition says, spelling aside."""
    preferences = definition.preferences
    spelt = {expression.sql: spelling(expression) for expression in expressions(definition.tree)}
    found: dict[str, object] = {
        "extent": preferences.extent,
        "new_columns": preferences.new_columns,
        "key": preferences.key,
        "indexes": preferences.indexes,
        "names": definition.names,
        "tree": shape(definition.tree),
        "items": dict(preferences.items),
        "relations": [
            (scan.alias, str(scan.relation.name), preferences.of_relation(scan.alias))
            for scan in scans(definition.tree)
        ],
        "conditions": {(spelt.get(sql, sql), preference) for sql, preference in preferences.conditions},
    }
    if definition.plain:
        found["conditions"] = {
            (spelling(condition), preferences.of_condition(condition.sql)) for condition in conjuncts(definition.tree)
        }
    return found
