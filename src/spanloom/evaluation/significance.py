"""Is one system better than another, or was it lucky? A paired bootstrap over the sentences both have read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from spanloom.errors import InputError
from spanloom.evaluation.metric import Counts

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]

BLOCK = 1 << 15
"""Sentences that are drawn at once: few enough to stay near the processor."""


@dataclass(frozen=True, slots=True)
class Significance:
    """Micro F1 of two systems in percent, `difference` = a - b, and how sure that difference is.

    `low` to `high` holds the difference in 95 % of the resampled test sets. `p_value` is two-sided:
    how often resampling alone moves the difference by at least as much as was seen.
    """

    f1_a: float
    f1_b: float
    difference: float
    p_value: float
    low: float
    high: float


def paired_bootstrap(a: Sequence[Counts], b: Sequence[Counts], samples: int = 10_000, seed: int = 0) -> Significance:
    """Compare two systems by their counts of the same sentences, in the same order (`Scorer.rows`).

    Each sample draws as many sentences as there are, with replacement, the same ones for both
    systems. The samples scatter around the difference that was seen as they would scatter around
    zero if there were none; so the share of samples that lie at least |difference| away from it is
    the p-value, with one added on both sides so that it is never 0. The same seed gives the same
    answer.
    """
    if samples < 1:
        raise InputError(f"samples is {samples}; give at least 1")
    if [row.gold for row in a] != [row.gold for row in b]:
        raise InputError("the two systems were not scored on the same sentences; their gold counts differ")
    columns = [column for rows in (a, b) for column in _columns(rows)]
    f1_a, f1_b = (f1.item() for f1 in _f1s([column.sum(keepdims=True) for column in columns]))
    difference = f1_a - f1_b
    drawn = np.subtract(*_f1s(_sums(columns, samples, seed)))
    extreme = int((np.abs(drawn - difference) >= abs(difference)).sum())
    drawn.sort()
    tail = samples // 40
    return Significance(
        *(f1_a, f1_b, difference),
        p_value=(extreme + 1) / (samples + 1),
        low=float(drawn[tail]),
        high=float(drawn[samples - 1 - tail]),
    )


def pooled(runs: Sequence[Sequence[Counts]]) -> list[Counts]:
    """The counts of each sentence, summed over runs with different seeds.

    Sentences are what is drawn in the bootstrap: one that three runs have read is still one sentence.
    """
    return [Counts(*map(sum, zip(*rows, strict=True))) for rows in zip(*runs, strict=True)]


def _columns(rows: Sequence[Counts]) -> tuple[Integers, Integers]:
    """What F1 is made of, a number a sentence: how many are correct, and how many gold and predicted together."""
    counts = np.array(rows or [Counts(0, 0, 0)], np.int64)
    return counts[:, 2], counts[:, 0] + counts[:, 1]


def _sums(columns: Sequence[Integers], samples: int, seed: int) -> list[Integers]:
    """Each column's sum in so many test sets, each of as many sentences, drawn with replacement."""
    n = len(columns[0])
    # columns lie side by side in one integer, as many as have room for their largest sum: one addition adds them all
    packed, places, end = [np.zeros(n, np.int64)], [], 0
    for column in columns:
        width = (n * int(column.max())).bit_length()
        if end + width > 63:
            packed.append(np.zeros(n, np.int64))
            end = 0
        packed[-1] |= column << end
        places.append((len(packed) - 1, end, (1 << width) - 1))
        end += width
    random = np.random.default_rng(seed)
    block = max(1, BLOCK // n)
    sums = np.empty((len(packed), samples), np.int64)
    for first in range(0, samples, block):
        drawn = random.integers(n, size=(min(block, samples - first), n), dtype=np.int32)
        for each, sum_of in zip(packed, sums, strict=True):
            sum_of[first : first + len(drawn)] = each.take(drawn).sum(1)
    return [sums[which] >> start & mask for which, start, mask in places]


def _f1s(sums: Sequence[Integers]) -> Iterator[Numbers]:
    """F1 of one system after the other, to the last bit what `Score` makes of the same counts."""
    for correct, both in zip(sums[::2], sums[1::2], strict=True):
        whole = correct * both
        yield 100 * (2 * correct * correct) / np.where(whole, whole, 1)
