"""Precision, recall and F1 on sets of mentions.

Strict: a prediction is right when its type and every one of its words are those of a gold mention.
Duplicates collapse, order never matters, probabilities never matter. Whatever is in gold stays in
the denominators, whether or not anything could have found it. Where there is nothing to divide by,
the result is 0: no gold and no prediction makes 0.0 everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from spanloom.document import Mention
from spanloom.evaluation.shapes import SHAPES, Shape, shapes_of


class Counts(NamedTuple):
    """What one sentence held."""

    gold: int
    predicted: int
    correct: int


@dataclass(frozen=True, slots=True)
class Score:
    """Counts, and the percentages they make.

    A shape counts what is correct twice: a mention takes its shape among its own side's, so one
    that both sides hold may be flat in gold and nested among the predictions. `correct` is the
    count among gold and goes into recall; `correct_predicted`, the count among the predictions,
    goes into precision. It is None where the two are one.
    """

    gold: int
    predicted: int
    correct: int
    correct_predicted: int | None = None

    @property
    def precision(self) -> float:
        return _percent(self._correct_predicted, self.predicted)

    @property
    def recall(self) -> float:
        return _percent(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall, in one division so that equal scores are equal floats."""
        found, right = self.correct, self._correct_predicted
        return _percent(2 * found * right, right * self.gold + found * self.predicted)

    @property
    def _correct_predicted(self) -> int:
        return self.correct if self.correct_predicted is None else self.correct_predicted

    def as_dict(self) -> dict[str, float | int]:
        """Percentages as they are, not rounded, and counts."""
        numbers: dict[str, float | int] = {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "gold": self.gold,
            "predicted": self.predicted,
            "correct": self.correct,
        }
        if self.correct_predicted is not None:
            numbers["correct_predicted"] = self.correct_predicted
        return numbers


@dataclass(frozen=True, slots=True)
class Macro:
    """The plain mean over gold's types, rare ones weighing as much as frequent ones.

    A type that is only predicted has no say here; its mistakes show in the micro score.
    """

    precision: float
    recall: float
    f1: float
    types: int

    def as_dict(self) -> dict[str, float | int]:
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, "types": self.types}


@dataclass(frozen=True, slots=True)
class Result:
    """All scores of one evaluation: `types` in the order of their names, `shapes` always all four."""

    micro: Score
    macro: Macro
    types: dict[str, Score]
    shapes: dict[Shape, Score]
    sentences: int

    @property
    def types_only_in_gold(self) -> tuple[str, ...]:
        return tuple(name for name, score in self.types.items() if not score.predicted)

    @property
    def types_only_predicted(self) -> tuple[str, ...]:
        return tuple(name for name, score in self.types.items() if not score.gold)

    def as_dict(self, lost: Mapping[str, int], seconds: float) -> dict[str, Any]:
        """What `evaluate --json` prints; `lost` counts by reason what never reached the metric."""
        return {
            "micro": self.micro.as_dict(),
            "macro": self.macro.as_dict(),
            "types": {name: score.as_dict() for name, score in self.types.items()},
            "shapes": {shape: score.as_dict() for shape, score in self.shapes.items()},
            "lost": dict(lost),
            "sentences": self.sentences,
            "seconds": seconds,
        }


class Scorer:
    """Takes sentences one by one, keeps nothing but counts, and gives the `Result` at any time.

    With `keep_sentences`, `rows` holds the counts of every sentence too, in the order they came,
    for the comparison of two systems.
    """

    def __init__(self, keep_sentences: bool = False) -> None:
        self.rows: list[Counts] = []
        self._keep = keep_sentences
        self._sentences = 0
        self._gold: Counter[str] = Counter()
        self._predicted: Counter[str] = Counter()
        self._correct: Counter[str] = Counter()
        self._gold_shapes: Counter[Shape] = Counter()
        self._predicted_shapes: Counter[Shape] = Counter()
        self._correct_gold_shapes: Counter[Shape] = Counter()
        self._correct_predicted_shapes: Counter[Shape] = Counter()

    def add(self, gold: Iterable[Mention], predicted: Iterable[Mention], sentences: int = 1) -> None:
        """Count one sentence, or a longer text that stands for several."""
        gold, predicted = frozenset(gold), frozenset(predicted)
        correct = gold & predicted
        gold_shapes, predicted_shapes = shapes_of(gold), shapes_of(predicted)
        self._sentences += sentences
        self._gold.update(mention.type for mention in gold)
        self._predicted.update(mention.type for mention in predicted)
        self._correct.update(mention.type for mention in correct)
        self._gold_shapes.update(gold_shapes.values())
        self._predicted_shapes.update(predicted_shapes.values())
        self._correct_gold_shapes.update(gold_shapes[mention] for mention in correct)
        self._correct_predicted_shapes.update(predicted_shapes[mention] for mention in correct)
        if self._keep:
            self.rows.append(Counts(len(gold), len(predicted), len(correct)))

    def result(self) -> Result:
        types = {
            name: Score(self._gold[name], self._predicted[name], self._correct[name])
            for name in sorted(self._gold.keys() | self._predicted.keys())
        }
        shapes = {
            shape: Score(
                self._gold_shapes[shape],
                self._predicted_shapes[shape],
                self._correct_gold_shapes[shape],
                self._correct_predicted_shapes[shape],
            )
            for shape in SHAPES
        }
        micro = Score(self._gold.total(), self._predicted.total(), self._correct.total())
        return Result(micro, _macro(types.values()), types, shapes, self._sentences)


def _macro(types: Iterable[Score]) -> Macro:
    in_gold = [score for score in types if score.gold]
    count = len(in_gold)
    if not count:
        return Macro(0.0, 0.0, 0.0, 0)
    return Macro(
        sum(score.precision for score in in_gold) / count,
        sum(score.recall for score in in_gold) / count,
        sum(score.f1 for score in in_gold) / count,
        count,
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
