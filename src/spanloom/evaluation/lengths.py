"""Scores by the length of an entity in words: gold's by its own length, predictions by theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from spanloom.align import sentences
from spanloom.document import Document
from spanloom.errors import InputError, Tally
from spanloom.evaluation.metric import Score


def by_length(gold: Iterable[Document], predicted: Iterable[Document]) -> dict[int, Score]:
    """Strict scores of entities of each length that either side has, for documents with the same words."""
    counts: tuple[Counter[int], Counter[int], Counter[int]] = (Counter(), Counter(), Counter())
    for right, found in zip(gold, predicted, strict=True):
        for one, other in zip(sentences(right, Tally()), sentences(found, Tally()), strict=True):
            if one.words != other.words:
                raise InputError(f"document {right.id!r} has other words in gold than in what was predicted")
            wanted, said = frozenset(one.mentions), frozenset(other.mentions)
            for count, mentions in zip(counts, (wanted, said, wanted & said), strict=True):
                count.update(len(mention.words) for mention in mentions)
    lengths = sorted(counts[0].keys() | counts[1].keys())
    return {length: Score(*(count[length] for count in counts)) for length in lengths}


def grouped(scores: Mapping[int, Score], starts: Sequence[int]) -> dict[str, Score]:
    """Scores of groups of lengths, each from one of the ascending `starts` up to before the next: 1-4, 5-9, 10+."""
    groups = {}
    for start, following in zip_longest(starts, starts[1:]):
        inside = [
            score for length, score in scores.items() if start <= length and (following is None or length < following)
        ]
        name = f"{start}+" if following is None else f"{start}-{following - 1}" if following - start > 1 else str(start)
        sums = (sum(getattr(score, count) for score in inside) for count in ("gold", "predicted", "correct"))
        groups[name] = Score(*sums)
    return groups
