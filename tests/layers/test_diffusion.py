"""Schedules, times, and points: the vectors of the specification, whose spans have inclusive ends."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from spanloom.layers.diffusion import (
    Schedule,
    betas,
    noised,
    points_of,
    signal,
    spans_at,
    step_back,
    time_pairs,
)


def inclusive(spans: Tensor) -> list[tuple[int, int]]:
    return [(start, end - 1) for start, end in spans.tolist()]


def half_open(*spans: tuple[int, int]) -> Tensor:
    return torch.tensor([(first, last + 1) for first, last in spans])


ELEVEN = torch.tensor([11])
GOLD = half_open((2, 4), (10, 10))


@pytest.mark.parametrize(
    ("schedule", "table"),
    [
        (
            "cosine",
            {
                0: (4.1284225e-05, 0.99995872),
                199: (1.043895e-03, 0.89870592),
                499: (3.1458862e-03, 0.49384359),
                799: (9.6019596e-03, 0.094045613),
                999: (0.999, 2.4287669e-09),
            },
        ),
        (
            "linear",
            {
                0: (1e-4, 0.9999),
                199: (4.0640641e-03, 0.65903851),
                499: (1.004004e-02, 0.078587243),
                799: (1.6016016e-02, 1.5320895e-03),
                999: (0.02, 4.0358298e-05),
            },
        ),
    ],
)
def test_schedules_are_those_of_the_table(schedule: Schedule, table: dict[int, tuple[float, float]]) -> None:
    added, left = betas(schedule, 1000), signal(schedule, 1000)
    assert len(added) == len(left) == 1000
    for time, (beta, share) in table.items():
        assert added[time] == pytest.approx(beta, rel=1e-6)
        assert left[time] == pytest.approx(share, rel=1e-6)
    assert (added == 0.999).sum() == (schedule == "cosine")
    assert (np.diff(left) < 0).all()


def test_the_shared_schedule_cannot_be_changed() -> None:
    assert signal("cosine", 1000) is signal("cosine", 1000)
    with pytest.raises(ValueError, match="read-only"):
        signal("cosine", 1000)[0] = 1


@pytest.mark.parametrize(
    ("times", "steps", "stops"),
    [
        (1000, 1, [999, -1]),
        (1000, 3, [999, 665, 332, -1]),
        (1000, 5, [999, 799, 599, 399, 199, -1]),
        (1000, 10, [*range(999, 0, -100), -1]),
        (1500, 5, [1499, 1199, 899, 599, 299, -1]),
        (2000, 5, [1999, 1599, 1199, 799, 399, -1]),
    ],
)
def test_pairs_of_times(times: int, steps: int, stops: list[int]) -> None:
    assert time_pairs(times, steps) == list(pairwise(stops))


def test_pairs_of_times_are_exact_where_floats_miss() -> None:
    """At 13 of 400 places evenly spaced float32 are one off."""
    off = 0
    for times in (500, 1000, 1500, 2000):
        for steps in range(1, 101):
            pairs = time_pairs(times, steps)
            assert pairs[0][0] == times - 1
            assert pairs[-1][1] == -1
            assert all(now > then for now, then in pairs)
            floats = torch.linspace(-1, times - 1, steps + 1).int().flip(0).tolist()
            off += floats != [pairs[0][0], *(then for _, then in pairs)]
    assert off == 13


def test_noise_over_gold_is_that_of_the_vector() -> None:
    points, noise = points_of(GOLD, ELEVEN), torch.tensor([[0.5, -1.0], [0.25, 2.0]], dtype=torch.float64)
    expected = {0: [(2, 4), (10, 10)], 199: [(3, 4), (10, 10)], 499: [(5, 5), (9, 10)], 999: [(7, 7), (6, 10)]}
    for time, spans in expected.items():
        found = noised(points, noise, torch.tensor(signal("cosine", 1000)[time]))
        assert inclusive(spans_at(found, ELEVEN)) == spans
        if time == 0:
            assert found.flatten().tolist() == pytest.approx([-0.596775, -0.606413, 1.001586, -0.987129], abs=1e-6)


TRACES = {
    0.0: [
        ([0.101572, -0.850244, -1.025921, 0.550013], [(6, 6), (0, 8)]),
        ([-0.106678, -0.918583, -0.552919, 0.146966], [(4, 5), (2, 8)]),
        ([-0.304658, -0.898393, -0.026599, -0.270269], [(3, 4), (5, 9)]),
        ([-0.473311, -0.791578, 0.502411, -0.661545], [(3, 4), (8, 9)]),
    ],
    1.0: [
        ([0.291951, 0.291805, 0.782373, 0.169371], [(6, 10), (9, 10)]),
        ([0.194564, 0.194508, 1.128532, -0.038919], [(6, 10), (10, 10)]),
        ([-0.019766, -0.019787, 1.267654, -0.341617], [(5, 10), (10, 10)]),
        ([-0.314162, -0.314167, 1.20263, -0.693359], [(3, 7), (10, 10)]),
    ],
}


@pytest.mark.parametrize("eta", TRACES)
def test_steps_back_are_those_of_the_trace(eta: float) -> None:
    points = torch.tensor([[0.3, -0.7], [-1.4, 0.9]], dtype=torch.float64)
    guess, share = points_of(GOLD, ELEVEN), signal("cosine", 1000)
    for (now, then), (expected, spans) in zip(time_pairs(1000, 5), TRACES[eta], strict=False):
        fresh = torch.full_like(points, 0.5) if eta else None
        points = step_back(points, guess, share[now], share[then], eta, fresh)
        assert points.flatten().tolist() == pytest.approx(expected, abs=1e-6)
        assert inclusive(spans_at(points, ELEVEN)) == spans


def test_a_span_without_noise_comes_back() -> None:
    for size in [*range(1, 130), *range(131, 513, 10), 512]:
        start, end = torch.triu_indices(size, size)
        spans = torch.stack((start, end + 1), 1)
        assert torch.equal(spans_at(points_of(spans, torch.tensor(size)), torch.tensor(size)), spans)


def test_every_word_of_every_length_comes_back() -> None:
    """The rest of the lengths up to 512, with one random span a first word."""
    draw = torch.Generator().manual_seed(1)
    for size in range(1, 513):
        start = torch.arange(size)
        end = start + 1 + (torch.rand(size, generator=draw) * (size - start)).long()
        spans = torch.stack((start, end), 1)
        assert torch.equal(spans_at(points_of(spans, torch.tensor(size)), torch.tensor(size)), spans)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=20), st.integers(1, 60))
def test_every_point_is_a_span_of_the_sentence(points: list[tuple[float, float]], size: int) -> None:
    start, end = spans_at(torch.tensor(points, dtype=torch.float64), torch.tensor(size)).unbind(1)
    assert (start >= 0).all()
    assert (start < end).all()
    assert (end <= size).all()


def test_sentences_of_no_word_and_of_one() -> None:
    points = torch.tensor([[0.3, -0.7], [-5.0, 5.0]], dtype=torch.float64)
    for size in (0, 1):
        assert spans_at(points, torch.tensor(size)).tolist() == [[0, 1], [0, 1]]
    assert points_of(torch.tensor([[0, 1]]), torch.tensor(1)).tolist() == [[-1, -1]]


def test_a_span_that_ends_before_it_begins_counts_as_its_first_word() -> None:
    inverted = points_of(half_open((4, 2)), ELEVEN)
    assert inclusive(spans_at(inverted, ELEVEN)) == [(4, 4)]


def test_what_noise_looks_like() -> None:
    """For 25 words: where spans begin and end, how many have one word, and how many of 60 differ."""
    draw = torch.Generator().manual_seed(1)
    spans = spans_at(torch.randn(500, 60, 2, generator=draw, dtype=torch.float64), torch.tensor(25))
    start, end = spans.unbind(-1)
    for share, expected in (
        *(((start == 0), 0.169), ((start == 24), 0.169)),
        *(((end == 25), 0.54), ((end - start == 1), 0.31)),
    ):
        assert share.double().mean() == pytest.approx(expected, abs=0.01)
    assert (end - start).double().mean() == pytest.approx(8, abs=0.5)
    different = [len({tuple(span) for span in each}) for each in spans.tolist()]
    assert sum(different) / 500 == pytest.approx(40, abs=1.5)


@pytest.mark.parametrize("times", [1, 2, 10, 20])
@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_a_signal_is_a_share_however_few_the_times(schedule: Schedule, times: int) -> None:
    shares = signal(schedule, times)
    assert (shares > 0).all()
    assert (shares < 1).all()
