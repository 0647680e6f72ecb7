"""Soft non-maximum suppression: of typed, scored spans that nearly coincide, the best damps the others.

    take the span with the highest score, emit it, multiply by `damping` each one left with IoU >= near; again

What ends above a threshold is kept. A type makes no difference. The same span of the same type counts once, at its
best. Scores only fall, so what is not above the threshold at first need not take part, and what falls below it will
not be emitted before anything that is kept. Only spans that overlap touch each other: M spans of which Q pairs are
near take M log M + Q log M steps.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]


def soft_nms(
    spans: Integers, scores: Numbers, damping: float, near: float, threshold: float
) -> tuple[Integers, Numbers]:
    """Which spans are kept [k], and their damped scores [k]; sentence by sentence, in the order they are emitted.

    Spans are rows [M, 4] of sentence, start, end and type, those of different sentences never touch each other. Equal
    scores go by start, end and type.
    """
    order = np.flatnonzero(scores > threshold)
    order = order[np.lexsort((-scores[order], *spans[order].T[::-1]))]
    spans = spans[order]
    first = np.ones(len(order), bool)
    first[1:] = (spans[1:] != spans[:-1]).any(1)
    order, spans = order[first], spans[first]
    damped = _damped(scores[order], near_pairs(spans, near), damping, threshold)
    emitted = np.lexsort((-damped, spans[:, 0]))
    emitted = emitted[damped[emitted] > threshold]
    return order[emitted], damped[emitted]


def near_pairs(spans: Integers, near: float) -> Integers:
    """The pairs [Q, 2] of spans of one sentence with IoU >= near, for spans in the order of sentence and start."""
    sentence, start, end = spans.T[:3]
    width = end.max(initial=0) + 1
    behind = np.searchsorted(sentence * width + start, sentence * width + end)  # the first that begins at the end
    number = np.arange(len(spans))
    counts = behind - number - 1
    one = np.repeat(number, counts)
    other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    shared = np.minimum(end[one], end[other]) - start[other]
    close = shared / (np.maximum(end[one], end[other]) - start[one]) >= near
    return np.stack((one[close], other[close]), 1)


def _damped(scores: Numbers, pairs: Integers, damping: float, threshold: float) -> Numbers:
    """The scores once each span has been damped by those emitted before it, as far as they are above the threshold."""
    if not len(pairs) or damping == 1:
        return scores
    beside: dict[int, list[int]] = {}
    for one, other in pairs.tolist():
        beside.setdefault(one, []).append(other)
        beside.setdefault(other, []).append(one)
    now = scores.tolist()
    waiting = [(-now[each], each) for each in beside]
    heapify(waiting)
    emitted: set[int] = set()
    while waiting:
        score, best = heappop(waiting)
        if best in emitted or -score != now[best]:  # it was damped meanwhile and waits farther behind
            continue
        emitted.add(best)
        for each in beside[best]:
            if each not in emitted:
                now[each] *= damping
                if now[each] > threshold:
                    heappush(waiting, (-now[each], each))
    return np.array(now)
