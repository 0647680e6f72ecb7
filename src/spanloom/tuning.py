"""Options of decoding that are chosen on dev: the encoder and the head run once, each choice is decoded and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch

from spanloom.document import Mention, Sentence
from spanloom.errors import Tally
from spanloom.evaluation.metric import Result, Scorer
from spanloom.heads import family_of
from spanloom.model import SpanloomModel
from spanloom.predictor import Recogniser, autocast, scheme_with

Grid = Mapping[str, Sequence[float]]
Choice = dict[str, float]


def open_options(head: str, options: Any) -> Grid:
    """The options that are to be chosen, with their values: those of the family that nobody has decided on."""
    return {name: values for name, values in family_of(head).tuned.items() if getattr(options, name) is None}


def settle(model: SpanloomModel, choice: Choice) -> None:
    """Puts a choice into a model, and into what is saved with it."""
    model.use(scheme_with(model, choice))
    model.config.head_options |= choice


def middle(grid: Grid) -> Choice:
    """What is taken where there is nothing to choose by."""
    return {name: values[len(values) // 2] for name, values in grid.items()}


@torch.inference_mode()
def tune(recogniser: Recogniser, sentences: Sequence[Sentence], grid: Grid) -> tuple[Choice, Result]:
    """Settles on what gives the best F1 on sentences with gold, of equals the middle one; and its scores."""
    model = recogniser.model
    model.train(False)
    choices: list[Choice] = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    schemes = [scheme_with(model, choice) for choice in choices]
    found: list[list[list[Mention]]] = [[[] for _ in sentences] for _ in choices]
    for which, rows in recogniser.batches(sentences):
        with autocast(model.device, recogniser.precision):
            scores = model.scores(rows)
        for scheme, mentions in zip(schemes, found, strict=True):
            for i, of_sentence in zip(which, scheme.decode(scores, Tally()), strict=True):
                mentions[i] = of_sentence
    results = [_result(sentences, mentions) for mentions in found]
    most = max(result.micro.f1 for result in results)
    best = [n for n, result in enumerate(results) if result.micro.f1 == most]
    chosen = best[len(best) // 2]
    settle(model, choices[chosen])
    return choices[chosen], results[chosen]


def _result(sentences: Sequence[Sentence], found: Sequence[Sequence[Mention]]) -> Result:
    scorer = Scorer()
    for sentence, mentions in zip(sentences, found, strict=True):
        scorer.add(sentence.mentions, mentions)
    return scorer.result()
