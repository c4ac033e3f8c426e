"""Table 1 of paper 003, counted: linear in the number of occurrences, whatever the shape of the join (rule W1)."""

from __future__ import annotations

import pytest

from benchmarks.scenarios.messages import SHAPES, Cost, costs

SIZES = range(2, 9)


@pytest.fixture(scope="module")
def table() -> list[Cost]:
    return costs(SIZES)


def test_every_size_and_shape_is_counted(table: list[Cost]) -> None:
    assert {(cost.shape, cost.n) for cost in table} == {(shape, n) for shape in SHAPES for n in SIZES}


def test_one_update_costs_n_minus_1_queries(table: list[Cost]) -> None:
    for cost in table:
        assert cost.sweep == (cost.n - 1,) * cost.n, cost


def test_a_batch_costs_twice_that_at_the_most_however_much_it_changes(table: list[Cost]) -> None:
    for cost in table:
        assert cost.batch == 2 * (cost.n - 1), cost


def test_nested_sweep_asks_for_interfering_updates_no_more_than_a_batch_does(table: list[Cost]) -> None:
    for cost in table:
        assert cost.n - 1 < cost.nested <= cost.batch, cost
