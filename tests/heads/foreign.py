"""A head of somebody's own, all of it in one file: each word by itself is an entity, or none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import Tally
from spanloom.evaluation.shapes import Shape
from spanloom.heads.base import Family, Head, Loss, Part, Scores, Targets


@dataclass(frozen=True, slots=True)
class Options:
    hidden: int = field(default=16, metadata={"help": "width of the hidden layer"})
    bias: float = field(default=0.0, metadata={"help": "added to what no entity scores", "decode": True})


class WordScheme:
    """A class a word; 0 is none."""

    shapes: frozenset[Shape] = frozenset({"flat"})

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        self.options, self.types = options, tuple(types)

    def cost(self, n_words: int) -> float:
        return float(n_words)

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        classes = torch.zeros(len(sentence), dtype=torch.int64)
        for mention in sentence.mentions:
            if len(mention.words) > 1:
                lost.add("entities of several words", " ".join(sentence.words[word] for word in mention.words))
            elif mention.type in self.types:
                classes[mention.words[0]] = 1 + self.types.index(mention.type)
        return {"classes": classes}

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        padded = [functional.pad(each["classes"], (0, n_words - len(each["classes"])), value=-100) for each in targets]
        return {"classes": torch.stack(padded)}

    def perfect(self, targets: Targets) -> Scores:
        return {"logits": 9.0 * functional.one_hot(targets["classes"].clamp(min=0), 1 + len(self.types)).float()}

    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        bias = torch.tensor([self.options.bias] + [0.0] * len(self.types))
        probability, best = (scores["logits"] + bias).softmax(-1).max(-1)
        mentions: list[list[Mention]] = [[] for _ in best]
        for sentence, word in best.nonzero().tolist():
            found = Mention(self.types[best[sentence, word] - 1], (word,), probability[sentence, word].item())
            mentions[sentence].append(found)
        return mentions


class WordHead(Head):
    scheme: WordScheme

    def __init__(self, options: Options, scheme: WordScheme, width: Width) -> None:
        super().__init__()
        self.scheme = scheme
        self.layers = nn.Sequential(
            nn.Linear(width.word, options.hidden), nn.GELU(), nn.Linear(options.hidden, 1 + len(scheme.types))
        )

    def loss(self, words: Words, targets: Targets) -> Loss:
        logits: Tensor = self.layers(words.vectors).float()
        total = functional.cross_entropy(logits.flatten(0, 1), targets["classes"].flatten(), reduction="sum")
        return {"words": Part(total, words.mask.sum())}

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        logits: Tensor = self.layers(words.vectors).float()
        none = functional.one_hot(torch.zeros_like(words.mask, dtype=torch.int64), logits.shape[-1]) * 99.0
        return {"logits": torch.where(words.mask[..., None], logits, none)}


FAMILY = Family(
    name="word",
    summary="each word by itself",
    options=Options,
    scheme=WordScheme,
    head=WordHead,
    presets={"small": {"head.hidden": 4, "training.epochs": 2}},
)
"""All that Spanloom knows of it."""
