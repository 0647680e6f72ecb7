"""Soft-NMS: the vectors of the specification, and the fast form against the algorithm as it is printed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.layers.soft_nms import near_pairs, soft_nms

Item = tuple[int, int, str, float]
Typed = tuple[int, int, int, float]

ACE = (0.9, 0.6, 0.55)
VECTORS: dict[str, tuple[tuple[float, float, float], list[Item], list[Item]]] = {
    "nested, near": (ACE, [(0, 5, "P", 0.95), (0, 4, "P", 0.90)], [(0, 5, "P", 0.95), (0, 4, "P", 0.81)]),
    "nested, not near": (ACE, [(0, 7, "P", 0.95), (0, 2, "O", 0.90)], [(0, 7, "P", 0.95), (0, 2, "O", 0.90)]),
    "crossing": (ACE, [(0, 4, "P", 0.9), (2, 6, "O", 0.8)], [(0, 4, "P", 0.9), (2, 6, "O", 0.8)]),
    "two types, one stays": (ACE, [(2, 5, "P", 0.95), (2, 5, "O", 0.60)], [(2, 5, "P", 0.95)]),
    "two types, both stay": (ACE, [(2, 5, "P", 0.95), (2, 5, "O", 0.70)], [(2, 5, "P", 0.95), (2, 5, "O", 0.63)]),
    "IoU is exactly near": (ACE, [(0, 5, "A", 0.9), (0, 3, "A", 0.6)], [(0, 5, "A", 0.9)]),
    "sorted again": (
        (0.9, 0.71, 0.5),
        [(0, 10, "A", 0.90), (0, 9, "A", 0.85), (1, 8, "A", 0.80)],
        [(0, 10, "A", 0.90), (1, 8, "A", 0.80), (0, 9, "A", 0.6885)],
    ),
    "score is the threshold": ((0.5, 0.6, 0.25), [(0, 4, "A", 1.0), (0, 3, "A", 0.5)], [(0, 4, "A", 1.0)]),
    "ties": (
        ACE,
        [(0, 4, "A", 0.8), (0, 3, "A", 0.8), (5, 6, "B", 0.8)],
        [(0, 3, "A", 0.8), (5, 6, "B", 0.8), (0, 4, "A", 0.72)],
    ),
    "duplicates": (
        ACE,
        [(0, 4, "A", 0.9), (0, 4, "A", 0.9), (0, 4, "A", 0.9), (0, 3, "A", 0.75)],
        [(0, 4, "A", 0.9), (0, 3, "A", 0.675)],
    ),
    "ACE05": (
        (0.8, 0.7, 0.5),
        [(3, 4, "G", 0.99), (1, 4, "P", 0.9), (1, 5, "P", 0.66)],
        [(3, 4, "G", 0.99), (1, 4, "P", 0.9), (1, 5, "P", 0.528)],
    ),
    "all below": (ACE, [(0, 4, "A", 0.5), (0, 3, "A", 0.45)], []),
    "nothing": (ACE, [], []),
    "chain": (
        ACE,
        [(0, 8, "A", 0.9), (0, 7, "A", 0.8), (0, 6, "A", 0.75), (0, 5, "A", 0.7)],
        [(0, 8, "A", 0.9), (0, 7, "A", 0.72), (0, 6, "A", 0.6075)],
    ),
    "GENIA": ((0.9, 0.7, 0.45), [(0, 10, "p", 0.8), (0, 7, "p", 0.64)], [(0, 10, "p", 0.8), (0, 7, "p", 0.576)]),
    "mixed": (
        ACE,
        [
            *((0, 6, "P", 0.97), (0, 5, "P", 0.70), (0, 2, "O", 0.92)),
            *((4, 6, "P", 0.58), (4, 9, "L", 0.66), (0, 1, "O", 0.50)),
        ],
        [(0, 6, "P", 0.97), (0, 2, "O", 0.92), (4, 9, "L", 0.66), (0, 5, "P", 0.63), (4, 6, "P", 0.58)],
    ),
}


def fast(items: list[tuple[int, Typed]], damping: float, near: float, threshold: float) -> list[tuple[int, Typed]]:
    """Items with their sentence, through the arrays and back."""
    spans = np.array([(at, *item[:3]) for at, item in items], np.int64).reshape(-1, 4)
    scores = np.array([item[3] for _, item in items], np.float64)
    kept, damped = soft_nms(spans, scores, damping, near, threshold)
    rows = zip(spans[kept].tolist(), damped.tolist(), strict=True)
    return [(at, (start, end, type, score)) for (at, start, end, type), score in rows]


def plain(items: list[Typed], damping: float, near: float, threshold: float) -> list[Typed]:
    """Algorithm 1 as it is printed, on one sentence, duplicates put together."""
    best: dict[tuple[int, int, int], float] = {}
    for start, end, type, score in items:
        best[start, end, type] = max(score, best.get((start, end, type), 0))
    left = dict(best)
    emitted = []
    while left:
        one = min(left, key=lambda span: (-left[span], span))
        emitted.append((*one, left.pop(one)))
        for other in left:
            words, others = set(range(one[0], one[1])), set(range(other[0], other[1]))
            if len(words & others) / len(words | others) >= near:
                left[other] *= damping
    return [item for item in emitted if item[3] > threshold]


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name: str) -> None:
    setting, given_items, expected = VECTORS[name]
    types = {type: number for number, type in enumerate(dict.fromkeys(item[2] for item in given_items))}
    items = [(start, end, types[type], score) for start, end, type, score in given_items]
    wanted = [(start, end, types[type], pytest.approx(score)) for start, end, type, score in expected]
    assert [item for _, item in fast([(0, item) for item in items], *setting)] == wanted
    assert plain(items, *setting) == wanted


SPANS = st.tuples(st.integers(0, 8), st.integers(1, 6), st.integers(0, 1), st.sampled_from([0.2, 0.5, 0.6, 0.7, 1.0]))
ITEMS = st.lists(SPANS | st.tuples(st.integers(0, 8), st.integers(1, 6), st.just(0), st.floats(0, 1)), max_size=14)
SETTING = st.tuples(
    st.sampled_from([0.5, 0.8, 0.9, 1.0]), st.sampled_from([0.2, 0.5, 0.6, 0.7, 1.0]), st.sampled_from([0, 0.3, 0.5])
)


@given(st.lists(ITEMS, max_size=3), SETTING)
def test_the_fast_form_equals_the_printed_one(
    sentences: list[list[Typed]], setting: tuple[float, float, float]
) -> None:
    """Order and scores too, bit for bit."""
    typed = [[(start, start + size, type, score) for start, size, type, score in items] for items in sentences]
    expected = [(at, item) for at, items in enumerate(typed) for item in plain(items, *setting)]
    mixed = [(at, item) for at, items in enumerate(typed) for item in items][::-1]
    assert fast(mixed, *setting) == expected


@given(st.lists(ITEMS, max_size=3), st.sampled_from([0.1, 0.5, 0.6, 0.7, 1.0]))
def test_pairs_are_those_that_a_look_at_all_finds(sentences: list[list[Typed]], near: float) -> None:
    rows = sorted((at, start, start + size, 0) for at, items in enumerate(sentences) for start, size, _, _ in items)
    found = near_pairs(np.array(rows, np.int64).reshape(-1, 4), near)
    expected = []
    for i, one in enumerate(rows):
        for j, other in enumerate(rows[i + 1 :], i + 1):
            words, others = set(range(one[1], one[2])), set(range(other[1], other[2]))
            if one[0] == other[0] and len(words & others) / len(words | others) >= near:
                expected.append([i, j])
    assert found.tolist() == expected
