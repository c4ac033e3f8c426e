"""Row images that lack a column: they stop nobody who does not compute from them, and nobody computes from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from dyda.errors import BrokenUnit
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.execute.deltas import Refresh
from dyda.model.bag import COUNT
from dyda.model.position import Position
from dyda.sources.adapter import LACKS, XID
from tests.town import Town
from tests.unit.vm.builders import relation, view
from vm import flatten

APPEND = "-- dyda: new_columns = append\n"
FROM = "FROM one.r r JOIN two.s s ON r.k = s.k"
VIEWS = {
    "alone": f"{APPEND}SELECT * FROM one.r r",
    "joined": f"{APPEND}SELECT r.k, r.a /* dispensable */, s.b {FROM}",
    "counted": f"SELECT r.k, count(*) AS n {FROM} GROUP BY r.k",
    "plain": "SELECT r.k FROM one.r r",
}

ADDED = [
    ("one", "INSERT INTO r VALUES (2, 5)"),
    ("one", "ALTER TABLE r ADD COLUMN c int DEFAULT 7"),
    ("one", "INSERT INTO r VALUES (1, 6, 8)"),
]
RENEWED = [
    ("one", "ALTER TABLE r DROP COLUMN a"),
    ("one", "INSERT INTO r (k) VALUES (2)"),
    ("one", "ALTER TABLE r ADD COLUMN a int DEFAULT 7"),
    ("one", "INSERT INTO r (k, a) VALUES (2, 8)"),
]
RETYPED = [(source, text.replace("a int DEFAULT 7", "a text DEFAULT 'new'")) for source, text in RENEWED]
TWO_TABLES = [
    *RETYPED[:2],
    ("two", "ALTER TABLE s DROP COLUMN b"),
    ("two", "INSERT INTO s VALUES (2)"),
    *RETYPED[2:],
    ("two", "ALTER TABLE s ADD COLUMN b int DEFAULT 3"),
    ("two", "INSERT INTO s VALUES (2, 4)"),
]


@pytest.mark.parametrize(
    ("consistency", "rounds"),
    [("strong", [ADDED, TWO_TABLES]), ("complete", [RENEWED, ADDED])],
    ids=["strong", "complete"],
)
def test_rows_that_are_older_than_a_column_stop_nothing(
    new_town: Callable[..., Town], consistency: str, rounds: list[list[tuple[str, str]]]
) -> None:
    """The unit ends behind them, so it needs no value that they do not have: it is never abandoned."""
    town = new_town(f'consistency = "{consistency}"')
    town.source("one", "CREATE TABLE r (k int, a int)", "INSERT INTO r VALUES (1, 2)")
    town.source("two", "CREATE TABLE s (k int, b text)", "INSERT INTO s VALUES (1, 'x'), (2, 'y')")
    for name, text in VIEWS.items():
        town.view(name, text)
    town.apply()
    with town.maintainer() as maintainer:
        for changes in rounds:
            for source, text in changes:
                town.execute(source, text)
            outcomes = Counter[Outcome]()
            while not outcomes[Outcome.IDLE]:
                outcomes[maintainer.cycle()] += 1
                assert not outcomes[Outcome.BROKEN]
            assert {town.state(name)["state"] for name in VIEWS} == {"fresh"}
            town.check_definitions()
    columns = {column["name"] for column in town.state("joined")["columns"]}
    assert columns == {"k", "a", "b", "c"}


def test_nothing_is_computed_from_a_value_that_an_image_does_not_have() -> None:
    r = relation("s.r", ["k", "a"])
    images = pa.table({"k": ["1", "2"], "a": [None, "8"], LACKS: ['["a"]', None], XID: [101, 102], COUNT: [1, 1]})
    refresh = Refresh(None, None).over({r: images})  # type: ignore[arg-type]
    needs, does_not = (
        flatten(view("v", {"r": r}, [], {"o": f"r.{column}"}), "decimal(38,18)") for column in ("a", "k")
    )
    before, between = Position(101, 101), Position(102, 102)
    assert refresh.beyond(needs, lambda one: between)["r"].table.column("a").to_pylist() == ["8"]
    assert len(refresh.beyond(does_not, lambda one: before)["r"]) == 2
    with pytest.raises(BrokenUnit, match=r"a logged row lacks a"):
        dict(refresh.beyond(needs, lambda one: before))
