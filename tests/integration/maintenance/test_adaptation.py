"""Adaptation as data: fixtures/va/*.sql say what a view was, what changed, which plan is chosen and what it asks.

The format is described at the head of fixtures/va/redefined.sql. Besides the rows that a case lists, every extent must
equal PostgreSQL's own recomputation of the view's current definition.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dyda.model.relation import Relation
from dyda.sources.reading.snapshot import SourceSnapshot
from tests.town import Town

pytestmark = pytest.mark.long

FOLDER = Path(__file__).parents[3] / "fixtures" / "va"
FILES = sorted(FOLDER.glob("*.sql"))


@dataclass
class Case:
    title: str
    view: str = ""
    transactions: list[tuple[str, str]] = field(default_factory=list)
    file: str = ""
    kind: str = ""
    reason: str = ""
    asked: Counter[str] | None = None
    rows: Counter[str] = field(default_factory=Counter)

    @classmethod
    def read(cls, text: str) -> Case:
        title, *lines = text.splitlines()
        case = cls(title.strip())
        for line in lines:
            mark, rest = line[:3], line[4:]
            match mark:
                case "--~":
                    source, _, statements = rest.partition(":")
                    case.transactions.append((source, statements))
                case "--=":
                    case.file += rest + "\n"
                case "-->":
                    case.kind, _, case.reason = (part.strip() for part in rest.partition(":"))
                case "--?":
                    case.asked = Counter([] if rest.strip() == "none" else rest.split())
                case "--|":
                    case.rows[rest.replace("|", "\t")] += 1
                case _:
                    case.view += line + "\n"
        return case


def read(path: Path) -> tuple[dict[str, str], list[Case]]:
    """How the sources begin, and the cases."""
    head, *cases = re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    sources = {}
    for part in re.split(r"^--@ ", head, flags=re.MULTILINE)[1:]:
        name, _, statements = part.partition("\n")
        sources[name.strip()] = statements
    return sources, [Case.read(case) for case in cases]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the sources are asked for, by relation: every lookup and every scan."""
    found: list[str] = []

    def note(verb: str) -> None:
        original = getattr(SourceSnapshot, verb)

        def noting(self: SourceSnapshot, relation: Relation, *arguments: Any, **named: Any) -> Any:
            before = self.queries
            answer = original(self, relation, *arguments, **named)
            if self.queries > before:
                found.append(f"{relation.name.source}.{relation.name.table}")
            return answer

        monkeypatch.setattr(SourceSnapshot, verb, noting)

    note("lookup")
    note("scan")
    return found


def reset(town: Town, sources: dict[str, str]) -> None:
    """Empty databases again, with nothing of an earlier case in them or in the warehouse."""
    for path in [*(town.folder / "views").glob("*.sql"), *town.folder.glob("knowledge.toml")]:
        path.unlink()
    if (town.folder / "dyda.toml").exists():
        town.apply()
    for name, statements in sources.items():
        if name == "knowledge.toml":
            (town.folder / name).write_text(statements)
            continue
        again = "DROP SCHEMA public CASCADE; CREATE SCHEMA public;" + statements
        if name in town.sources:
            town.execute(name, again)
        else:
            town.source(name, statements)


def play(town: Town, case: Case, asked: list[str]) -> list[str]:
    """What is not as the case says."""
    town.view("v", case.view)
    town.apply()
    before = town.state("v")["version"]
    asked.clear()
    for source, statements in case.transactions:
        town.execute(source, statements)
    if case.file:
        town.view("v", case.file)
        town.apply()
    else:
        town.settle()
    state, questions = town.state("v"), Counter(asked)
    with town.opened() as opened:
        versions = opened.warehouse.versions("v")
    details = versions[-1].details
    chosen = details.get("adaptation", {})
    wrong: list[str] = []
    if state["state"] not in ("fresh", "stale"):  # stale: on a busy machine the last poll is soon ten seconds ago
        return [f"the view is {state['state']}: {state['reason']}"]
    if case.kind and (versions[-1].version == before or chosen.get("kind") != case.kind):
        wrong.append(f"plan {chosen}, not {case.kind}")
    if case.reason not in chosen.get("reason", ""):
        wrong.append(f"reason {chosen.get('reason')!r} does not say {case.reason!r}")
    if case.asked is not None and questions != case.asked:
        wrong.append(f"asked {sorted(questions.elements())}, not {sorted(case.asked.elements())}")
    rows = town.extent("v")
    if rows != case.rows:
        wrong.append(f"rows: extra {rows - case.rows}, missing {case.rows - rows}")
    try:
        town.check_definitions("v")
    except AssertionError as error:
        wrong.append(f"the judge: {error}")
    return wrong


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_cases(path: Path, town: Town, asked: list[str]) -> None:
    sources, cases = read(path)
    assert cases
    wrong: dict[str, Sequence[str]] = {}
    for case in cases:
        reset(town, sources)
        found = play(town, case, asked)
        if found:
            wrong[case.title] = found
    assert not wrong, "\n".join(f"{title}: {'; '.join(found)}" for title, found in wrong.items())
