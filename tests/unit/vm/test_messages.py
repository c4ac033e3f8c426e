"""Table 1 of paper 003, counted: linear in the number of occurrences, whatever the shape of the join (rule W1)."""

from __future__ import annotations

import pytest

from benchmarks.messages import SHAPES, SIZES, Cost, costs, main


@pytest.fixture(scope="module")
def table() -> list[Cost]:
    return costs()


def test_every_size_and_shape_is_counted(table: list[Cost]) -> None:
    assert {(cost.shape, cost.n) for cost in table} == {(shape, n) for shape in SHAPES for n in range(2, 9)}
    assert list(SIZES) == list(range(2, 9))


def test_one_update_costs_n_minus_1_queries(table: list[Cost]) -> None:
    for cost in table:
        assert cost.one_update == (cost.n - 1,) * cost.n, cost


def test_a_batch_costs_twice_that_at_the_most_however_much_it_changes(table: list[Cost]) -> None:
    for cost in table:
        assert cost.batch == 2 * (cost.n - 1), cost


def test_the_table_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(SHAPES) * len(SIZES)
    assert lines[7].split() == ["chain", "8", "7", "7", "14", "14"]
