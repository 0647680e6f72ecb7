"""Seed spans: which there are, which entity each overlaps best, and where its borders are moved to.

A span is (start, end), the first word and the word behind the last. Two spans overlap by their IoU: the words that
both have over the words that either has.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FARTHEST = 1 << 20  # words that a border may be moved by, so that any offset is a whole number

Integers = NDArray[np.int64]


def seeds_of(n_words: int, lengths: Iterable[int]) -> Integers:
    """The seeds [K, 2] of a sentence, by length, then by start; the whole sentence where no length fits."""
    fitting = [length for length in lengths if length <= n_words] or [n_words][:n_words]
    counts = [n_words - length + 1 for length in fitting]
    start = np.arange(sum(counts)) - np.repeat(np.cumsum([0, *counts])[:-1], counts)
    return np.stack((start, start + np.repeat(np.array(fitting, np.int64), counts)), 1)


def paired(seeds: Integers, gold: Integers) -> tuple[Integers, NDArray[np.float64]]:
    """For each seed [K, 2] the gold span [E, 2] with the largest IoU, the first of equals, and that IoU."""
    if not len(gold):
        return np.zeros(len(seeds), np.int64), np.zeros(len(seeds))
    start, end = seeds.T[:, :, None]
    shared = np.clip(np.minimum(end, gold[:, 1]) - np.maximum(start, gold[:, 0]), 0, None)
    overlap = shared / (end - start + gold[:, 1] - gold[:, 0] - shared)  # of whole numbers, so 7/10 is .7
    best = overlap.argmax(1)
    return best, overlap[np.arange(len(seeds)), best]


def moved(start: Tensor, end: Tensor, offsets: Tensor, low: Tensor | int, high: Tensor) -> tuple[Tensor, Tensor]:
    """Spans whose borders [K] are moved by offsets [K, 2], rounded half up, as far as from `low` to `high`."""
    left, right = (offsets.detach() + 0.5).floor().clamp(-FARTHEST, FARTHEST).long().unbind(1)
    return (start + left).clamp(min=low), torch.minimum(end + right, high)


def overlap_of(start: Tensor, end: Tensor, gold: Tensor) -> Tensor:
    """The IoU [K] of spans [K] with those of gold [K, 2]."""
    shared = (torch.minimum(end, gold[:, 1]) - torch.maximum(start, gold[:, 0])).clamp(min=0)
    return shared / (end - start + gold[:, 1] - gold[:, 0] - shared)
