"""The paired bootstrap: worked extremes, a plain twin, and its own calibration."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest

from spanloom.errors import InputError
from spanloom.evaluation import significance
from spanloom.evaluation.metric import Counts, Score
from spanloom.evaluation.significance import paired_bootstrap


def system(seed: int, skill: float, sentences: int = 300) -> list[Counts]:
    """Counts of a system that finds each of gold's mentions with probability `skill`; gold is always the same."""
    corpus, luck = random.Random(0), random.Random(seed)
    rows = []
    for _ in range(sentences):
        gold = corpus.randint(0, 4)
        correct = sum(luck.random() < skill for _ in range(gold))
        rows.append(Counts(gold, correct + (luck.random() < 0.2), correct))
    return rows


def test_a_system_does_not_beat_itself() -> None:
    rows = system(1, 0.8)
    found = paired_bootstrap(rows, rows, samples=200)
    assert (found.difference, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_a_much_better_system_wins_and_the_sides_mirror() -> None:
    strong, weak = system(1, 0.9), system(2, 0.5)
    forth, back = paired_bootstrap(strong, weak, 1000), paired_bootstrap(weak, strong, 1000)
    assert forth.difference > 0
    assert forth.p_value == 1 / 1001
    assert 0 < forth.low < forth.difference < forth.high
    assert (back.f1_a, back.f1_b, back.difference) == (forth.f1_b, forth.f1_a, -forth.difference)
    assert (back.low, back.high, back.p_value) == (-forth.high, -forth.low, forth.p_value)


def test_f1_is_the_metrics() -> None:
    rows_a, rows_b = system(1, 0.9), system(2, 0.8)
    found = paired_bootstrap(rows_a, rows_b, samples=1)
    assert found.f1_a == Score(*(sum(column) for column in zip(*rows_a, strict=True))).f1
    assert found.f1_b == Score(*(sum(column) for column in zip(*rows_b, strict=True))).f1


@pytest.mark.parametrize("block", [1, 1000, 1 << 15])
@pytest.mark.parametrize("times", [1, 1000])  # of which the sums fit into one integer, or do not
def test_samples_are_those_of_plain_sums(block: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(significance, "BLOCK", block)
    rows_a, rows_b = (
        [Counts(*(count * times for count in row)) for row in system(seed, skill, 41)]
        for seed, skill in ((1, 0.8), (2, 0.75))
    )
    found = paired_bootstrap(rows_a, rows_b, samples=400, seed=7)
    draw = np.random.default_rng(7)
    differences = []
    for _ in range(400):
        drawn = draw.integers(41, size=41, dtype=np.int32).tolist()
        f1s = [
            Score(
                sum(rows[k].gold for k in drawn),
                sum(rows[k].predicted for k in drawn),
                sum(rows[k].correct for k in drawn),
            ).f1
            for rows in (rows_a, rows_b)
        ]
        differences.append(f1s[0] - f1s[1])
    differences.sort()
    assert (found.low, found.high) == (differences[10], differences[389])
    extreme = sum(abs(one - found.difference) >= abs(found.difference) for one in differences)
    assert found.p_value == (extreme + 1) / 401


def test_the_seed_decides() -> None:
    rows_a, rows_b = system(1, 0.8), system(2, 0.75)
    assert paired_bootstrap(rows_a, rows_b, 200, seed=3) == paired_bootstrap(rows_a, rows_b, 200, seed=3)
    assert paired_bootstrap(rows_a, rows_b, 200, seed=3) != paired_bootstrap(rows_a, rows_b, 200, seed=4)


def test_equally_good_systems_differ_about_as_rarely_as_promised() -> None:
    low = sum(paired_bootstrap(system(2 * k, 0.7), system(2 * k + 1, 0.7), 200).p_value < 0.05 for k in range(1, 101))
    assert low <= 14  # 5 are expected


def test_nothing_to_compare_is_no_difference() -> None:
    for rows in ([], [Counts(0, 0, 0)]):
        found = paired_bootstrap(rows, rows, samples=10)
        assert (found.f1_a, found.difference, found.p_value) == (0.0, 0.0, 1.0)


def test_other_sentences_are_refused() -> None:
    with pytest.raises(InputError, match="same sentences"):
        paired_bootstrap([Counts(1, 1, 1)], [Counts(2, 1, 1)])
    with pytest.raises(InputError, match="same sentences"):
        paired_bootstrap([Counts(1, 1, 1)], [])
    with pytest.raises(InputError, match="samples"):
        paired_bootstrap([], [], samples=0)


def test_two_thousand_sentences_take_seconds() -> None:
    rows_a, rows_b = system(1, 0.8, 2000), system(2, 0.78, 2000)
    start = time.process_time()
    paired_bootstrap(rows_a, rows_b, samples=1000)
    assert time.process_time() - start < 3
