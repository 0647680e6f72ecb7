"""What a head could ever find: targets -> perfect scores -> decoding, compared with gold.

A ceiling below 100 is no fault of training. It says how much of this corpus's gold the head cannot
express at all, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch

from spanloom.batching import cut
from spanloom.document import Sentence
from spanloom.errors import Tally
from spanloom.evaluation.metric import Result, Scorer
from spanloom.heads import family_of
from spanloom.heads.base import Scheme

HELD = 256
BATCH_WORK = 8192
"""The work of sentences that are done together, as in prediction: a long one makes a large grid of all beside it."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The scores of a flawless model, and what keeps it from 100."""

    result: Result
    lost: Tally

    def as_dict(self) -> dict[str, Any]:
        micro = self.result.micro
        return {"precision": micro.precision, "recall": micro.recall, "lost": dict(self.lost.counts)}


def ceiling(scheme: Scheme, sentences: Iterable[Sentence]) -> Ceiling:
    """The ceiling of a scheme on sentences with gold mentions."""
    lost, scorer = Tally(), Scorer()
    draw = torch.Generator().manual_seed(0)
    left = (sentence for sentence in sentences if sentence.words)
    while held := list(islice(left, HELD)):
        for which in cut([scheme.cost(len(sentence)) for sentence in held], range(len(held)), BATCH_WORK):
            batch = [held[i] for i in which]
            targets = [scheme.targets(sentence, draw, lost) for sentence in batch]
            longest = max(map(len, batch))
            found = scheme.decode(scheme.perfect(scheme.collate(targets, longest)), lost)
            for sentence, mentions in zip(batch, found, strict=True):
                scorer.add(sentence.mentions, mentions)
    return Ceiling(scorer.result(), lost)


def scheme_of(head: str, types: Sequence[str], training: Iterable[Sentence]) -> Scheme:
    """The scheme of a head with its default options, fitted to the training sentences."""
    family = family_of(head)
    scheme: Scheme = family.scheme(family.options(), types, training)
    return scheme
