"""What `impact` foretells is the plan that is executed when that DDL happens.

Random DDL over the sources of tests/properties/test_evolution.py: foretold from the text alone, then committed, and the
plan that the maintainer executes is told in the same words; with lanes, too, which build whatever is computed again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dyda import commands
from dyda.engine import Engine
from dyda.errors import DydaError
from dyda.maintenance.execute.unit import execute
from dyda.maintenance.plan.impact import impacts
from dyda.maintenance.plan.unit_plan import UnitPlan
from dyda.settings import SparkSettings
from tests.properties.test_evolution import COLUMNS, KNOWLEDGE, PLACES, TABLES, VIEWS, Source, settle, with_lanes
from tests.town import Town

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "3"))
NUMERIC = SparkSettings().numeric

DDL = st.tuples(
    st.sampled_from(
        [
            "rename column",
            "exchange columns",
            "drop column",
            "drop column",
            "add column",
            "rename table",
            "drop table",
            "create table",
            "retype",
            "rewrite",
            "truncate",
        ]
    ),
    PLACES,
    st.integers(0, 3),
)
MIGRATIONS = st.lists(
    st.tuples(st.sampled_from(sorted(TABLES)), st.lists(DDL, min_size=1, max_size=3)), min_size=2, max_size=5
)


class Recorder:
    """A cursor that remembers the statements it was given."""

    def __init__(self, cursor: Any) -> None:
        self.cursor = cursor
        self.said: list[str] = []

    def execute(self, statement: str) -> None:
        if not statement.startswith("SELECT"):
            self.said.append(statement)
        self.cursor.execute(statement)

    def fetchall(self) -> list[Any]:
        rows: list[Any] = self.cursor.fetchall()
        return rows


def written(source: Source, actions: list[tuple[str, Any, int]]) -> str:
    """The statements that these actions are at this moment; nothing is committed."""
    with closing(source.town.connect(source.name)) as connection, connection.cursor() as cursor:
        recorder = Recorder(cursor)
        for kind, (_, table, column), value in actions:
            source._act(recorder, kind, table, column, value)
        connection.rollback()
    return "; ".join(recorder.said)


@contextmanager
def plans_executed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[UnitPlan, Any]]]:
    """The plans of units that change a schema, as they are carried out, each with the catalog at that time."""
    found: list[tuple[UnitPlan, Any]] = []

    def noted(execution: Any, plan: UnitPlan, *more: Any) -> Any:
        if plan.unit is not None and any(queued.message.kind != "data" for queued in plan.unit.messages):
            found.append((plan, execution.catalog))
        return execute(execution, plan, *more)

    with monkeypatch.context() as patched:
        patched.setattr("dyda.maintenance.units.execute", noted)
        yield found


@pytest.mark.parametrize("lanes", [False, True], ids=["in turn", "lanes"])
def test_what_impact_foretells_is_the_plan_that_is_executed(
    tmp_path: Path, database: Callable[[str], str], engine: Engine, monkeypatch: pytest.MonkeyPatch, lanes: bool
) -> None:
    numbers = iter(range(10_000))
    compared: list[tuple[str, str]] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @example([("two", [("drop table", ("one", 3, 1), 1), ("create table", ("three", 0, 5), 3)])])
    @given(MIGRATIONS)
    def run(migrations: list[tuple[str, list[Any]]]) -> None:
        small = "lane_size = 1" if lanes else "lanes = 0"
        town = Town(tmp_path / f"town{next(numbers)}", database, engine, small)
        try:
            play(town, migrations, compared, monkeypatch, lanes=lanes)
        finally:
            town.close()

    run()
    assert {effect for effect, _ in compared} >= {"renamed", "broken"}, "the migrations do too little to compare"
    plans = {plan for _, plan in compared}
    assert ("leave_behind" if lanes else "rebuild") in plans
    assert not lanes or "rebuild" not in plans, "what lanes build is in no unit's way"


def play(
    town: Town,
    migrations: list[tuple[str, list[Any]]],
    compared: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    lanes: bool,
) -> None:
    for source, tables in TABLES.items():
        town.source(source, *(f"CREATE TABLE {table} ({COLUMNS})" for table in tables))
        town.execute(source, *(f"INSERT INTO {table} VALUES (1, 1, 2), (2, 1, 3)" for table in tables))
    for name, text in VIEWS.items():
        town.view(name, text.strip())
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.apply()
    sources = {name: Source(town, name) for name in TABLES}
    for name, actions in migrations:
        ddl = written(sources[name], actions)
        if not ddl:
            continue
        try:
            foretold = commands.impact(town.folder, ddl, name, engine=town.engine)["views"]
        except DydaError:
            foretold = None  # it says that it cannot tell
        town.execute(name, ddl)
        with plans_executed(monkeypatch) as plans, (with_lanes if lanes else Town.maintainer)(town) as maintainer:
            settle(maintainer)
        if foretold is None or not plans:
            continue
        plan, catalog = plans[-1]
        assert plan.captures == ()
        made = [view.as_dict() for view in impacts(plan, catalog, NUMERIC)]
        created = {f"{name}.{table}" for table in re.findall(r"CREATE TABLE (\w+)", ddl)}
        assert _compared(made, created) == _compared(foretold, created), ddl
        compared += [(view["effect"], view["plan"]) for view in made]


def _compared(views: list[dict[str, Any]], created: set[str]) -> list[dict[str, Any]]:
    """All but the sentence, which is made from the cause. Nobody can foretell how large a table will be that is only
    `created`: whether its readers are read again in the unit or in a lane."""
    found = []
    for view in views:
        kept = {**view, "reason": None, "cause": _parts(view["cause"])}
        if view["plan"] in ("rebuild", "leave_behind") and any(table in view["definition"] for table in created):
            kept |= {"plan": "read again", "cause": None}
        found.append(kept)
    return found


def _parts(cause: Any) -> Any:
    """A cause without its `detail`, which quotes the steps: a log has them by statement and in its own order, the text
    has them by relation. What else names changes does so in any order."""
    match cause:
        case dict():
            return {part: _parts(value) for part, value in cause.items() if part != "detail"}
        case list():
            return sorted(map(_parts, cause), key=repr)
    return cause
