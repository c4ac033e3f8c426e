"""What the fixtures promise of extents holds on random rows: the old text and the new one, evaluated by SQLite."""

from __future__ import annotations

import random
import re
import sqlite3
from pathlib import Path

import pytest

from dyda.model.relation import Relation
from tests.unit.vs.case import TRAVEL, Schemas, judge, view
from tests.unit.vs.test_fixtures import cases, sections
from vs import Rewritten

ROUNDS = 60


def promising() -> list[Path]:
    """Those whose promise rests on no constraint, about columns that stay, in texts that SQLite can read."""
    found = []
    for path in cases():
        case = sections(path)
        outcome = case.get("rewritten", ("unknown", ""))[0]
        foreign = re.search(r"EXCEPT \(|(EXCEPT|INTERSECT) ALL|concat", case["view"][1])
        moved = re.search(r"ADD COLUMN|RENAME|CREATE", case["change"][1])
        if outcome != "unknown" and not case.keys() & {"knowledge", "below", "defaults"} and not foreign and not moved:
            found.append(path)
    assert len(found) >= 30
    return found


@pytest.mark.parametrize("path", promising(), ids=lambda path: path.stem)
def test_promise(path: Path) -> None:
    case = sections(path)
    before = Schemas({}).execute(case["relations"][1]) if "relations" in case else TRAVEL
    judgement, _ = judge(case["view"][1], before, case["change"][1])
    assert isinstance(judgement, Rewritten)
    shared = [name for name in view(case["view"][1], before).names if name in judgement.definition.names]
    for seed in range(ROUNDS):
        database = sqlite3.connect(":memory:")
        choose = random.Random(seed)
        for relation in before.relations.values():
            _fill(database, relation, choose)
        old, new = (_rows(database, text, before, shared) for text in (case["view"][1], judgement.definition.sql))
        holds = {"equivalent": old == new, "superset": new >= old, "subset": new <= old}
        assert holds[judgement.extent], f"seed {seed}: {old ^ new}"


def _fill(database: sqlite3.Connection, relation: Relation, choose: random.Random) -> None:
    columns = ", ".join(f"`{column.name}`" for column in relation.columns)
    unique = "".join(f", UNIQUE ({', '.join(key)})" for key in relation.keys)
    database.execute(f"CREATE TABLE {_table(relation)} ({columns}{unique})")
    for _ in range(choose.randrange(6)):
        row = []
        for column in relation.columns:
            values: list[object] = ["a", "Asia", "1", "2"] if "text" in column.type.declared else [1, 2, 3, 4, 20]
            row.append(choose.choice(values if column.not_null else [*values, None]))
        marks = ", ".join("?" * len(row))
        database.execute(f"INSERT OR IGNORE INTO {_table(relation)} VALUES ({marks})", row)


def _table(relation: Relation) -> str:
    return f"{relation.name.source}_{relation.name.table}"


def _rows(database: sqlite3.Connection, text: str, schemas: Schemas, shared: list[str]) -> set[tuple[object, ...]]:
    for relation in schemas.relations.values():
        source, table = relation.name.source, relation.name.table
        text = text.replace(f"`{source}`.`public`.`{table}`", _table(relation))
        text = re.sub(rf"\b{source}\.{table}\b", _table(relation), text)
    cursor = database.execute(text)
    names = [description[0] for description in cursor.description]
    places = [names.index(name) for name in shared]
    return {tuple(row[place] for place in places) for row in cursor}
