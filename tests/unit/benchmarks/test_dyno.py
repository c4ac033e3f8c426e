"""What the benchmark of Dyno asks for and derives: names that are always right, the same changes for both, costs."""

from __future__ import annotations

import re

import pytest

from benchmarks.scenarios.dyno_figures import Found, Mixed, report_on
from benchmarks.scenarios.mixture import Landscape, mixture
from benchmarks.scenarios.relations import SOURCES, TABLES
from benchmarks.scenarios.strategies import Cost, Costs
from dyda.warehouse import UnitRecord


def test_every_change_names_what_there_is_when_its_turn_comes() -> None:
    landscape = Landscape(100)
    tables = {source: set(of) for source, of in SOURCES.items()}
    columns = {table: {"id", "a", "b", "c"} for table in TABLES}
    for seed in range(20):
        for event in mixture(landscape, 12, 30, seed):
            (table,) = re.findall(r"^(?:UPDATE|ALTER TABLE) (\w+)", event.statement)
            assert table in tables[event.source], event
            if renamed := re.search(r"RENAME TO (\w+)", event.statement):
                tables[event.source] ^= {table, renamed[1]}
                columns[renamed[1]] = columns.pop(table)
            elif renamed := re.search(r"RENAME COLUMN (\w+) TO (\w+)", event.statement):
                assert renamed[1] in columns[table], event
                columns[table] ^= {renamed[1], renamed[2]}
            else:
                (column,) = re.findall(r"(?:ALTER COLUMN|SET) (\w+)", event.statement)
                assert column in columns[table], event


def test_a_seed_asks_for_the_same_changes_wherever_they_are_made() -> None:
    here, there = Landscape(100), Landscape(100)
    for seed in (3, 1, 3):
        assert mixture(here, 7, 20, seed) == mixture(there, 7, 20, seed)


def test_schema_changes_come_by_the_interval_right_behind_their_data_updates() -> None:
    events = mixture(Landscape(100), 4, 10, 1)
    assert [event.due for event in events] == sorted(event.due for event in events)
    told = "".join("S" if event.statement.startswith("ALTER") else "d" for event in events)
    assert told == "dddSdddSddSddS"
    assert [event.due for event in events if event.statement.startswith("ALTER")] == [0, 1, 2, 3]


def unit(plan: float, rest: float) -> UnitRecord:
    return UnitRecord("strong", phases={"plan": plan, "install": rest})


def test_a_share_is_of_all_units_and_a_ratio_is_of_the_same_round() -> None:
    cost = Cost(1.0, 0, 0.0, (unit(0.1, 0.9), unit(0.0, 4.0)))
    assert cost.share("plan") == pytest.approx(0.02)
    assert cost.share("check") == 0
    mine = Costs((Cost(1.0, 0, 0.0), Cost(10.0, 0, 0.0), Cost(3.0, 0, 0.0)))
    others = Costs((Cost(2.0, 0, 0.0), Cost(20.0, 0, 0.0), Cost(3.0, 0, 0.0)))
    assert mine.against(others) == 0.5


def costs(seconds: float, aborts: int) -> Costs:
    return Costs((Cost(seconds, aborts, aborts / 10, (unit(0.001, seconds),), 0.001),))


def test_the_bars_are_of_the_worst_mixture_and_of_those_in_which_optimistic_aborts() -> None:
    calm, busy = Mixed(2, 5, 100), Mixed(0.5, 5, 100)
    found = Found(
        {(10, "pessimistic"): costs(1, 0)},
        {(workload, "spaced out"): costs(1, 0) for workload in ("DU/SC", "SC/SC")},
        {
            (calm, "pessimistic"): costs(1.2, 0),
            (calm, "optimistic"): costs(1.0, 0),
            (busy, "pessimistic"): costs(1.5, 1),
            (busy, "optimistic"): costs(2.0, 3),
        },
        1.0,
    )
    detection, aborts, oftener, cost = report_on(found, []).bars
    assert detection.value == pytest.approx(0.001, rel=0.01)
    assert aborts.value == 0
    assert (oftener.value, cost.value) == (0.75, 0.75)
    assert all(bar.met for bar in (detection, aborts, oftener, cost))
