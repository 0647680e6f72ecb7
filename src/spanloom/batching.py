"""Batches of equal work: sentences of like length together, cut by cost and not by count."""

from __future__ import annotations

import random
from collections.abc import Sequence

CHUNK = 50
"""Batches within whose sentences lengths are sorted; beyond it the order stays random."""


def padded_cost(costs: Sequence[float], batch: Sequence[int]) -> float:
    """The work of a batch: each sentence costs as much as its longest."""
    return len(batch) * max(costs[i] for i in batch)


def cut(costs: Sequence[float], order: Sequence[int], budget: float) -> list[list[int]]:
    """Cuts an order into batches whose padded cost stays within a budget; what is above it goes alone."""
    batches: list[list[int]] = []
    batch: list[int] = []
    most = 0.0
    for i in order:
        most = max(most, costs[i])
        if batch and most * (len(batch) + 1) > budget:
            batches.append(batch)
            batch, most = [], costs[i]
        batch.append(i)
    if batch:
        batches.append(batch)
    return batches


def plan_epoch(costs: Sequence[float], batch: int, seed: str, multiple: int = 1) -> list[list[int]]:
    """One epoch of batches: every sentence once, in an order that depends on the seed alone.

    `batch` sentences of mean cost are a batch's budget. The number of batches is made a multiple of
    `multiple` (processes times accumulated batches) by halving the dearest; where each holds but
    one sentence, some are seen twice.
    """
    draw = random.Random(seed)
    order = list(range(len(costs)))
    draw.shuffle(order)
    budget = batch * sum(costs) / max(1, len(costs))
    batches: list[list[int]] = []
    for start in range(0, len(order), CHUNK * batch):
        chunk = sorted(order[start : start + CHUNK * batch], key=lambda i: costs[i])
        batches.extend(cut(costs, chunk, budget))
    while len(batches) % multiple:
        dearest = max(range(len(batches)), key=lambda b: (len(batches[b]) > 1, padded_cost(costs, batches[b])))
        whole = batches[dearest]
        half = (len(whole) + 1) // 2
        batches[dearest] = whole[:half]
        batches.append(whole[half:] or whole)
    draw.shuffle(batches)
    return batches
