"""Scores on dev, and the options of decoding that are chosen by them.

The encoder and the heads run once; each choice is decoded and scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import torch

from spanloom.document import Sentence
from spanloom.errors import Tally
from spanloom.evaluation.metric import Result, Scorer
from spanloom.heads import family_of
from spanloom.heads.base import Scheme
from spanloom.model import SpanloomModel
from spanloom.predictor import Recogniser, autocast, scheme_with

Grid = Mapping[str, Sequence[float]]
Choice = dict[str, float]


def open_options(head: str, options: Mapping[str, Any]) -> Grid:
    """The options that are to be chosen, with their values: those of the family that nobody has decided on."""
    return {name: values for name, values in family_of(head).tuned.items() if options[name] is None}


def settle(model: SpanloomModel, choice: Choice) -> None:
    """Puts a choice into a model, and into what is saved with it."""
    model.use(scheme_with(model, choice))
    model.config.head_options |= choice


def middle(grid: Grid) -> Choice:
    """What is taken where there is nothing to choose by."""
    return {name: values[len(values) // 2] for name, values in grid.items()}


@dataclass(slots=True)
class Trial:
    """A choice, the scheme that decodes with it, and how it does."""

    choice: Choice
    scheme: Scheme
    scorer: Scorer = field(default_factory=Scorer)


@torch.inference_mode()
def score_all(
    recognisers: Sequence[Recogniser], grids: Sequence[Grid], sentences: Sequence[Sentence]
) -> list[tuple[Choice, Result]]:
    """The scores of each of several models with one encoder on sentences with gold; the encoder reads each once.

    Where a model's grid is not empty, it settles on the choice that gives the best F1, of equals on the middle one.
    """
    trials = [
        [Trial(choice, scheme_with(ner.model, choice) if choice else ner.model.scheme) for choice in _choices(grid)]
        for ner, grid in zip(recognisers, grids, strict=True)
    ]
    for ner in recognisers:
        ner.model.train(False)
    first, *others = recognisers
    unread = set(range(len(sentences)))
    for which, rows in first.batches(sentences, others):
        unread -= set(which)
        with autocast(first.model.device, first.precision):
            words = first.model.encoder(rows)
            scores = [ner.model.head.scores(words) for ner in recognisers]
        for of_head, of_model in zip(scores, trials, strict=True):
            for trial in of_model:
                for i, mentions in zip(which, trial.scheme.decode(of_head, Tally()), strict=True):
                    trial.scorer.add(sentences[i].mentions, mentions)
    found = []
    for ner, of_model in zip(recognisers, trials, strict=True):
        for trial in of_model:
            for i in unread:  # sentences without words
                trial.scorer.add(sentences[i].mentions, ())
        results = [trial.scorer.result() for trial in of_model]
        most = max(result.micro.f1 for result in results)
        best = [n for n, result in enumerate(results) if result.micro.f1 == most]
        chosen = best[len(best) // 2]
        if of_model[chosen].choice:
            settle(ner.model, of_model[chosen].choice)
        found.append((of_model[chosen].choice, results[chosen]))
    return found


def _choices(grid: Grid) -> list[Choice]:
    """Every point of a grid; of an empty one the one in which nothing is chosen."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def spelt_out(choice: Choice) -> str:
    return ", ".join(f"head.{name}={value:g}" for name, value in choice.items())
