"""Diffusion of spans: how noise comes over them in training, and is taken away again in prediction.

A span of a sentence of M words is a point: its first word, and how many words follow it, each brought from 0 ... M - 1
to -1 ... 1. So there is no point whose span ends before it begins. Time runs from 0, hardly any noise, to T - 1, noise
alone; `signal` is the share of a point's variance that is not noise yet. All of it is float64: at the end of time the
noise is what is left when numbers of nearly equal size are subtracted.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Schedule = Literal["cosine", "linear"]
Numbers = NDArray[np.float64]

SHIFT = 0.008  # keeps the first steps of the cosine schedule from being nothing
MOST_NOISE = 0.999  # of one step


def betas(schedule: Schedule, times: int) -> Numbers:
    """How much noise each time [T] adds to what the one before it has left."""
    if schedule == "linear":
        return np.linspace(0.1 / times, 20 / times, times).clip(0, MOST_NOISE)
    left = np.cos((np.arange(times + 1) / times + SHIFT) / (1 + SHIFT) * np.pi / 2) ** 2
    clipped: Numbers = np.clip(1 - left[1:] / left[:-1], 0, MOST_NOISE)
    return clipped


@lru_cache(maxsize=8)
def signal(schedule: Schedule, times: int) -> Numbers:
    """The share of signal at each time [T], alpha bar. It is shared: not to be changed."""
    shares: Numbers = np.cumprod(1 - betas(schedule, times), dtype=np.float64)
    shares.setflags(write=False)
    return shares


def time_pairs(times: int, steps: int) -> list[tuple[int, int]]:
    """The times that so many steps go through, from the last to the first: (now, next), the last pair's next is -1.

    By whole numbers; evenly spaced floats would miss some of them by one.
    """
    stops = [times * step // steps - 1 for step in range(steps, -1, -1)]
    return list(pairwise(stops))


def points_of(spans: Tensor, sizes: Tensor) -> Tensor:
    """Spans [..., 2] as (start, end) in sentences of these sizes [...] to points [..., 2].

    A span that ends before it begins counts as its first word.
    """
    start, end = spans.double().unbind(-1)
    following = (end - 1 - start).clamp(min=0)
    scaled = torch.stack((start, following), -1) / (sizes - 1).clamp(min=1)[..., None]
    return (2 * scaled - 1).clamp(-1, 1)


def spans_at(points: Tensor, sizes: Tensor) -> Tensor:
    """The spans [..., 2] as (start, end) that points [..., 2] come nearest to, each with a word at least."""
    first, following = ((points.clamp(-1, 1) + 1) / 2).unbind(-1)
    last = (first + following).clamp(max=1)
    longest = (sizes - 1).clamp(min=0)
    return torch.stack(((first * longest).round(), (last * longest).round() + 1), -1).long()


def noised(points: Tensor, noise: Tensor, share: Tensor) -> Tensor:
    """Points at the time whose share of signal is given, by equation (4)."""
    return share.sqrt() * points + (1 - share).sqrt() * noise


def step_back(points: Tensor, guess: Tensor, now: float, then: float, eta: float, noise: Tensor | None) -> Tensor:
    """Points of an earlier time, by what they are guessed to have been: equations (6) and (7).

    `now` and `then` are the shares of signal at both times. With `eta` 0 nothing is random, and no noise is needed;
    with 1 most of the noise is fresh.
    """
    found = (points - math.sqrt(now) * guess) / math.sqrt(1 - now)
    fresh = eta * math.sqrt((1 - now / then) * (1 - then) / (1 - now))
    kept = math.sqrt(max(0.0, 1 - then - fresh**2))
    earlier = math.sqrt(then) * guess + kept * found
    return earlier if noise is None else earlier + fresh * noise
