"""Views that follow their sources, as data: fixtures/synchronization/*.sql, on real databases and Spark.

A file begins with what it shows, in `--` lines. Then come

    --@ source NAME             a source and how it begins: the statements below
    --@ view NAME               a view file
    --@ knowledge               knowledge.toml; absent: nothing is known
    --# title                   a round: its transactions, and then what is true when nothing is left to do
    --~ source: statements      a transaction at a source
    --> view: broken            its state; default: fresh, and no reason
    --| view: a|b               its rows, all of them if there are any, \\N for NULL
    --= view …                  the views also are what their own files say
    --? nothing                 no message is pending

After each round a view that is not broken equals PostgreSQL's own recomputation of its current definition, and a broken
one has the rows that it had before.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dyda import commands
from tests.town import Town

FILES = sorted((Path(__file__).parents[3] / "fixtures" / "synchronization").glob("*.sql"))


@dataclass
class Round:
    title: str
    transactions: list[tuple[str, str]] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    rows: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    as_written: list[str] = field(default_factory=list)
    nothing_pending: bool = False

    @classmethod
    def read(cls, text: str) -> Round:
        title, *lines = text.strip().splitlines()
        told = cls(title)
        for line in lines:
            name, _, rest = line[4:].partition(": ")
            match line[:3]:
                case "--~":
                    told.transactions.append((name, rest))
                case "-->":
                    told.states[name] = rest
                case "--|":
                    told.rows[name][rest.replace("|", "\t")] += 1
                case "--=":
                    told.as_written = name.split()
                case "--?" if name == "nothing":
                    told.nothing_pending = True
                case _:
                    raise ValueError(f"no such line in a round: {line}")
        return told


def read(path: Path) -> tuple[list[tuple[str, str]], list[Round]]:
    """What there is at the beginning, by its heading; the rounds."""
    head, *rounds = re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    title, *parts = re.split(r"^--@ ", head, flags=re.MULTILINE)
    assert title.startswith("-- "), "a case begins with what it shows"
    assert rounds
    return [(heading, body) for heading, _, body in (part.partition("\n") for part in parts)], [
        *map(Round.read, rounds)
    ]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_case(path: Path, town: Town) -> None:
    beginning, rounds = read(path)
    views: list[str] = []
    for heading, body in beginning:
        match heading.split():
            case ["source", name]:
                town.source(name, body)
            case ["view", name]:
                town.view(name, body)
                views.append(name)
            case ["knowledge"]:
                (town.folder / "knowledge.toml").write_text(body)
            case _:
                raise ValueError(f"no such heading: {heading}")
    town.apply()
    for told in rounds:
        before = town.extents(views)
        for source, statements in told.transactions:
            town.execute(source, statements)
        town.settle()
        states = {view: town.state(view) for view in views}
        for view, state in states.items():
            assert state["state"] == told.states.get(view, "fresh"), (told.title, state["reason"])
            assert (state["reason"] is None) == (state["state"] == "fresh"), (told.title, state["reason"])
        after = town.extents(views)
        for view, rows in told.rows.items():
            assert after[view] == rows, f"{told.title}: {view}"
        for view in [view for view in views if states[view]["state"] == "broken"]:
            assert after[view] == before[view], f"{told.title}: {view} keeps its last rows"
        town.check_definitions(*(view for view in views if states[view]["state"] == "fresh"))
        if told.as_written:
            town.check(*told.as_written)
        if told.nothing_pending:
            assert commands.pending(town.folder) == []
