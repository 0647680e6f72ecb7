"""Sequence tagging: one tag a word, by a softmax or a linear-chain CRF over one linear layer.

The sequence model of "Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity
Recognition" (SeqNER). B sentences, N words, d wide, K tags:

    vectors [B, N, d] -> logits [B, N, K] -> tags [B, N] -> mentions

It expresses flat mentions. Of gold that shares words it learns the outermost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import Shape
from spanloom.heads.base import Family, Head, Loss, Part, Scores, Targets
from spanloom.heads.bundling import TABLE_2, recipe
from spanloom.heads.tags import Tags, TagScheme
from spanloom.layers import crf

PADDING = -100  # the tag of no word
SURE = 100.0  # the logit of a tag beyond doubt


@dataclass(frozen=True, slots=True)
class Options:
    crf: bool = field(
        default=False,
        metadata={"help": "weigh whole sequences of tags with a linear-chain CRF instead of each word by itself"},
    )
    tags: TagScheme = field(
        default="bio",
        metadata={"help": "bio, or bilou, which also marks last words and entities of one word"},
    )
    legal: bool = field(
        default=False,
        metadata={"help": "forbid ill-formed sequences of tags instead of mending them", "decode": True},
    )

    def __post_init__(self) -> None:
        if self.tags not in get_args(TagScheme):
            raise InputError(f"head.tags: {self.tags!r} is not one of {', '.join(get_args(TagScheme))}")


class TaggerScheme:
    """Mentions to tags, logits to mentions."""

    shapes: frozenset[Shape] = frozenset({"flat"})

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        self.options = options
        self.types = tuple(types)
        self.tags = Tags(options.tags, types)

    def cost(self, n_words: int) -> float:
        return float(n_words)

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """The tags [n]."""
        return {"tags": torch.tensor(self.tags.encode(sentence, lost), dtype=torch.int64)}

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """The tags [B, N]."""
        tags = torch.full((len(targets), n_words), PADDING)
        for row, target in zip(tags, targets, strict=True):
            row[: len(target["tags"])] = target["tags"]
        return {"tags": tags}

    def perfect(self, targets: Targets) -> Scores:
        tags, n_tags = targets["tags"], len(self.tags)
        mask = tags != PADDING
        scores = {"logits": SURE * functional.one_hot(tags.masked_fill(~mask, 0), n_tags).float(), "mask": mask}
        if self.options.crf:
            shapes = {"transitions": (n_tags, n_tags), "start": (n_tags,), "end": (n_tags,)}
            scores |= {name: torch.zeros(shape) for name, shape in shapes.items()}
        return scores

    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """The label combiner. A mention's score is the least probability among its words' tags."""
        best, probability = (tensor.cpu().numpy() for tensor in self._best(scores))
        spans = self.tags.decode(best, scores["mask"].cpu().numpy())
        # Each span's least is that between its start and its end in one long row; what lies between spans is dropped.
        n_words = best.shape[1]
        borders = np.stack((spans.start, spans.end), 1) + n_words * spans.sentence[:, None]
        least = np.minimum.reduceat(np.append(probability, 1.0), borders.ravel())[::2]
        mentions: list[list[Mention]] = [[] for _ in best]
        for sentence, start, end, type, score in zip(*(column.tolist() for column in (*spans, least)), strict=True):
            mentions[sentence].append(Mention(self.types[type], tuple(range(start, end)), score))
        return mentions

    @torch.no_grad()
    def _best(self, scores: Scores) -> tuple[Tensor, Tensor]:
        """The best tags [B, N], ties to the lower one, and the probability of each [B, N]."""
        logits, mask = scores["logits"].float(), scores["mask"]
        legal = crf.Moves(*(table.to(logits.device) for table in self.tags.legal()))
        if self.options.crf:
            moves = crf.Moves(scores["transitions"], scores["start"], scores["end"])
            moves = crf.restrict(moves, legal) if self.options.legal else moves
            best, probabilities = crf.viterbi(moves, logits, mask), crf.marginals(moves, logits, mask)
        elif self.options.legal:
            free = crf.Moves(*(torch.zeros_like(table, dtype=torch.float32) for table in legal))
            best = crf.viterbi(crf.restrict(free, legal), logits.log_softmax(-1), mask)
            probabilities = logits.softmax(-1)
        else:
            best, probabilities = logits.argmax(-1), logits.softmax(-1)
        return best, probabilities.gather(2, best.unsqueeze(2)).squeeze(2)


class TaggerHead(Head):
    """One linear layer, and the CRF's moves."""

    scheme: TaggerScheme

    def __init__(self, options: Options, scheme: TaggerScheme, width: Width) -> None:
        super().__init__()
        self.options, self.scheme = options, scheme
        self.logits = nn.Linear(width.word, len(scheme.tags))
        self.chain = crf.LinearChain(len(scheme.tags)) if options.crf else None

    def loss(self, words: Words, targets: Targets) -> Loss:
        """A mean over words either way: a mean over sentences would make the CRF's loss some n times as large."""
        logits, mask, tags = self.logits(words.vectors).float(), words.mask, targets["tags"]
        if self.chain is None:
            tags = tags.masked_fill(~mask, PADDING)
            total = functional.cross_entropy(
                logits.flatten(0, 1), tags.flatten(), ignore_index=PADDING, reduction="sum"
            )
        else:
            legal = crf.Moves(*(table.to(mask.device) for table in self.scheme.tags.legal()))
            total = self.chain(logits, tags, mask, legal if self.options.legal else None).sum()
        return {"tags": Part(total, mask.sum())}

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """The logits [B, N, K] and mask [B, N]; with a CRF also its transitions [K, K], start [K] and end [K]."""
        scores = {"logits": self.logits(words.vectors).float(), "mask": words.mask}
        return scores if self.chain is None else scores | self.chain.moves()._asdict()


FAMILY = Family(
    name="tagger",
    summary="one tag a word, by a softmax or a CRF; flat mentions",
    options=Options,
    scheme=TaggerScheme,
    head=TaggerHead,
    presets={name: recipe(row) | {"head.crf": False, "head.tags": "bio"} for name, row in TABLE_2.items()},
    side="sequence",
)
