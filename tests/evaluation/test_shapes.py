"""Shapes against the obvious all-pairs version, on sentences of every shape."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanloom.document import Mention
from spanloom.evaluation.shapes import SHAPES, Shape, shapes_of


def mentions(longest: int = 12) -> st.SearchStrategy[Mention]:
    """Few words and few types, so that mentions meet often; half of them are runs."""
    run = st.tuples(st.integers(0, longest - 1), st.integers(1, longest)).map(
        lambda at: tuple(range(at[0], min(longest, at[0] + at[1])))
    )
    scattered = st.sets(st.integers(0, longest - 1), min_size=1, max_size=5).map(lambda words: tuple(sorted(words)))
    return st.builds(Mention, st.sampled_from("AB"), st.one_of(run, scattered))


def all_pairs(mentions: list[Mention]) -> dict[Mention, Shape]:
    shapes: dict[Mention, Shape] = {}
    for mention in set(mentions):
        words = set(mention.words)
        touching = [set(other.words) for other in set(mentions) if other != mention and words & set(other.words)]
        if max(words) - min(words) >= len(words):
            shapes[mention] = "discontinuous"
        elif any(not words <= other and not other <= words for other in touching):
            shapes[mention] = "overlapping"
        else:
            shapes[mention] = "nested" if touching else "flat"
    return shapes


@given(st.lists(mentions(), max_size=12))
def test_shapes_are_those_of_all_pairs(sentence: list[Mention]) -> None:
    assert shapes_of(sentence) == all_pairs(sentence)


@given(st.lists(mentions(40), max_size=80))
def test_shapes_are_those_of_all_pairs_in_crowded_sentences(sentence: list[Mention]) -> None:
    assert shapes_of(sentence) == all_pairs(sentence)


@given(st.lists(mentions(), max_size=8), st.integers(-(10**12), 10**12))
def test_only_distances_matter(sentence: list[Mention], shift: int) -> None:
    moved = [Mention(mention.type, tuple(word + shift for word in mention.words)) for mention in sentence]
    assert list(shapes_of(moved).values()) == list(shapes_of(sentence).values())


@pytest.mark.parametrize(
    ("one", "other", "shapes"),
    [
        ((0, 1), (2, 3), ("flat", "flat")),
        ((0, 1, 2), (1,), ("nested", "nested")),
        ((0, 1, 2), (0, 1), ("nested", "nested")),
        ((0, 1), (1, 2), ("overlapping", "overlapping")),
        ((1, 2), (0, 2), ("overlapping", "discontinuous")),
        ((1, 2), (2, 4), ("overlapping", "discontinuous")),
        ((2, 3), (0, 2, 3), ("nested", "discontinuous")),
        ((0, 1, 2), (0, 2), ("nested", "discontinuous")),
        ((1,), (0, 2), ("flat", "discontinuous")),
        ((0, 2), (0, 2, 4), ("discontinuous", "discontinuous")),
    ],
)
def test_two_mentions(one: tuple[int, ...], other: tuple[int, ...], shapes: tuple[Shape, Shape]) -> None:
    first, second = Mention("A", one), Mention("A", other)
    assert shapes_of([first, second]) == {first: shapes[0], second: shapes[1]}


def test_equal_words_of_another_type_are_nested() -> None:
    assert set(shapes_of([Mention("A", (1, 2)), Mention("B", (1, 2))]).values()) == {"nested"}


def test_equal_mentions_are_one() -> None:
    assert shapes_of([Mention("A", (1,), 0.3), Mention("A", (1,), 0.9)]) == {Mention("A", (1,)): "flat"}


def test_no_mentions_and_the_order_of_names() -> None:
    assert shapes_of([]) == {}
    assert SHAPES == ("flat", "nested", "overlapping", "discontinuous")


def test_ten_thousand_mentions_inside_one_another_take_moments() -> None:
    draw = random.Random(0)
    crowd = [Mention("A", tuple(range(10_000 - reach, 10_000 + reach))) for reach in range(1, 1001)]
    crowd += [Mention("B", tuple(sorted(draw.sample(range(20_000), 4)))) for _ in range(9_000)]
    start = time.process_time()
    shapes_of(crowd)
    assert time.process_time() - start < 10  # a fraction of a second; all pairs would take many minutes
