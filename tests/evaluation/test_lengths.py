"""Scores by length, against counting by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spanloom.align import WordSentence, from_words
from spanloom.document import Document, Mention
from spanloom.evaluation.lengths import by_length, grouped
from spanloom.evaluation.metric import Score

words_of = st.sets(st.integers(0, 7), min_size=1).map(lambda words: tuple(sorted(words)))
mentions = st.sets(st.builds(Mention, st.sampled_from("XY"), words_of), max_size=6)


def document(*sentences: set[Mention]) -> Document:
    return from_words("1", [WordSentence([f"w{n}" for n in range(8)], sorted(each, key=repr)) for each in sentences])


@given(st.lists(st.tuples(mentions, mentions), max_size=4), st.sets(st.integers(1, 9), min_size=1))
def test_each_length_counts_its_own(pairs: list[tuple[set[Mention], set[Mention]]], starts: set[int]) -> None:
    scores = by_length([document(gold) for gold, _ in pairs], [document(found) for _, found in pairs])
    for length in range(1, 9):
        sides = [[{each for each in side if len(each.words) == length} for side in pair] for pair in pairs]
        expected = Score(
            sum(len(gold) for gold, _ in sides),
            sum(len(found) for _, found in sides),
            sum(len(gold & found) for gold, found in sides),
        )
        assert scores.get(length, Score(0, 0, 0)) == expected
    groups = grouped(scores, sorted(starts))
    inside = [score for length, score in scores.items() if length >= min(starts)]
    assert sum(group.gold for group in groups.values()) == sum(score.gold for score in inside)
    assert sum(group.predicted for group in groups.values()) == sum(score.predicted for score in inside)


def test_names_of_groups() -> None:
    assert list(grouped({}, [1, 5, 10])) == ["1-4", "5-9", "10+"]
    assert list(grouped({}, [1, 2, 4])) == ["1", "2-3", "4+"]
    assert grouped({}, []) == {}
