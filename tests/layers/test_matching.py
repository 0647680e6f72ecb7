"""Matching: the worked example, and the least sum among all ways there are."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spanloom.layers.matching import matched


def test_the_worked_example() -> None:
    likeness = torch.tensor([[[2.1, 0.4], [1.9, 1.0], [0.2, 0.3]]])
    problem, row, column = matched(-likeness, torch.tensor([2]))
    assert (problem.tolist(), row.tolist(), column.tolist()) == ([0, 0], [0, 1], [0, 1])
    assert likeness[problem, row, column].sum() == pytest.approx(3.1)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_the_least_sum_of_all(rows: int, counts: list[int], repeat: bool, seed: int) -> None:
    costs = torch.rand(len(counts), rows, max(counts), generator=torch.Generator().manual_seed(seed))
    problem, row, column = matched(costs, torch.tensor(counts), repeat)
    for at, count in enumerate(counts):
        here = problem == at
        pairs = list(zip(row[here].tolist(), column[here].tolist(), strict=True))
        columns = [n % count for n in range(max(rows, count) if repeat else count)] if count else []
        assert len(pairs) == min(rows, len(columns))
        assert len({pair[0] for pair in pairs}) == len(pairs)
        if len(columns) >= rows:
            ways = [[costs[at, r, c] for r, c in enumerate(way)] for way in permutations(columns, rows)]
        else:
            ways = [[costs[at, r, c] for c, r in enumerate(way)] for way in permutations(range(rows), len(columns))]
        found = sum(float(costs[at, r, c]) for r, c in pairs)
        assert found == pytest.approx(min(float(sum(way)) for way in ways), abs=1e-6)


def test_repeated_columns_go_round() -> None:
    _, row, column = matched(torch.zeros(1, 7, 3), torch.tensor([3]), repeat=True)
    assert sorted(row.tolist()) == list(range(7))
    assert sorted(column.tolist()) == [0, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("repeat", [False, True])
def test_nothing_to_match(repeat: bool) -> None:
    for shape in ((2, 3, 0), (2, 3, 4), (0, 3, 2)):
        found = matched(torch.zeros(shape), torch.zeros(shape[0], dtype=torch.int64), repeat)
        assert [each.tolist() for each in found] == [[], [], []]
        assert all(each.dtype == torch.int64 for each in found)


def test_what_is_not_a_number_does_not_stop_it() -> None:
    """The loss will tell."""
    problem, _, _ = matched(torch.full((1, 3, 2), torch.nan), torch.tensor([2]))
    assert len(problem) == 2
