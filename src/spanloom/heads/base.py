"""What a family of heads is: options, a scheme without weights, and a module with them.

A family is one file that reads top to bottom like its paper. Its `Scheme` turns mentions into
targets and scores into mentions, its `Head` turns word vectors into losses and scores. Nothing
outside `heads/` knows which head it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Words
from spanloom.errors import Tally
from spanloom.evaluation.shapes import Shape

Targets = dict[str, Tensor]
"""Tensors by name: those of one sentence, or, after `collate`, those of a batch with B in front."""

Scores = dict[str, Tensor]
"""Tensors by name with B in front, all that decoding needs; a scalar or a table may have no B."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a loss: `weight * sum / count` over whatever the part counts (words, spans, cells).

    Sum and count come apart so that a head need not care for batches without any of these.
    """

    sum: Tensor
    count: Tensor
    weight: float = 1.0


Loss = dict[str, Part]


class Scheme(Protocol):
    """The bridge between mentions and tensors. It holds no weights; data loader workers use it."""

    types: tuple[str, ...]

    @property
    def shapes(self) -> frozenset[Shape]:
        """Which shapes of mentions it can express."""

    def cost(self, n_words: int) -> float:
        """The work of a sentence in units of one word, so that batches carry equal work."""

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """What to learn from one sentence. Gold that cannot be expressed is counted in `lost`."""

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """The targets of a batch, padded to `n_words`."""

    def perfect(self, targets: Targets) -> Scores:
        """What a flawless model would say of a batch of targets: it gives ceilings."""

    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """The mentions of each sentence of a batch, scored."""


class Head(nn.Module, ABC):
    """The module of a family. `loss` is for training, `scores` for prediction; neither loops over the batch, but where
    sentences have nothing in common that could be done at once (a matching, noise by content).

    `progress` is the share of the training steps that lie behind, for losses that change on the way; the trainer sets
    it before each step.
    """

    scheme: Any
    progress: float = 0.0

    @abstractmethod
    def loss(self, words: Words, targets: Targets) -> Loss:
        """The parts of the loss, by name."""

    @abstractmethod
    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """Tensors only: what is exported and what `Scheme.decode` reads."""


@dataclass(frozen=True, slots=True)
class Family:
    """A family of heads by name, with what is needed to build one.

    options        a frozen dataclass of plain values with defaults; each field's metadata has "help",
                   and "decode": True for what may still be changed on a trained model
    scheme(options, types, training) -> Scheme; `training` are sentences, to be gone through once, that options may be
                   fitted to (the scheme's own `options` are what is kept with the model), or None for a trained model
    head(options, scheme, width) -> Head
    presets        the papers' values, {preset: {"head.option": value, "encoder.option": ..., "training.option": ...}}
    defaults       what this family learns better with than with the general defaults, spelt as in a preset
    side           whether it labels the words of a sequence, or spans, pairs or sets of them: in a bundle, alpha is the
                   weight of the sequence
    tuned          options of decoding that, where they are None, are chosen on dev after each epoch, and their values;
                   where there is no dev, the middle one is taken. Only decoding may read them: scores are made once
    """

    name: str
    summary: str
    options: type[Any]
    scheme: Any
    head: Any
    presets: Mapping[str, Mapping[str, Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    side: Literal["sequence", "span"] = "span"
    tuned: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
