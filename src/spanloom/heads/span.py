"""Span classification: every span up to a length is an entity of some type, or none.

The span model of "Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity Recognition" (SpanNER).
B sentences, N words, d wide, spans of L lengths, T classes of which the first is no entity:

    vectors [B, N, d] -> logits [B, L, N, T] -> mentions

A span is named by its length, from 1, and its first word; what reaches beyond its sentence is masked. It expresses
mentions without gaps, on request only those that do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

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
from spanloom.heads.gold import gold_spans
from spanloom.heads.overlap import OVERLAP_HELP, SHAPES, Overlap, check_overlap, keep, needed
from spanloom.layers.span_pooling import running_maxima
from spanloom.options import at_least

Representation = Literal["boundary", "pooling", "hybrid"]

COVERED = 0.99  # the share of the training mentions that an automatic length limit covers
OTHERS = 30  # spans without an entity that are drawn automatically for each with one: of more they learn late
NO_ENTITY = 0  # the class of most spans
NOT_DRAWN = -100  # the label of a span that takes no part in the loss
SURE = 100.0  # the logit of a class beyond doubt

PARTS: dict[Representation, tuple[str, ...]] = {
    "boundary": ("first", "last", "length"),
    "pooling": ("maximum", "sentence", "length"),
    "hybrid": ("first", "last", "maximum", "sentence", "length"),
}
"""What a span's vector is made of: its first and last word, the maximum over all, the sentence, its length."""


@dataclass(frozen=True, slots=True)
class Options:
    representation: Representation = field(
        default="hybrid",
        metadata={"help": "a span by its boundary words, by pooling over all of its words, or hybrid, by both"},
    )
    max_length: int = field(
        default=0, metadata={"help": "the longest span in words; 0: what covers 99 % of the training mentions"}
    )
    negatives: int | None = field(
        default=0,
        metadata={
            "help": "spans without an entity that a sentence draws at each visit; none: all of them; "
            f"0: {OTHERS} for each entity that a training sentence has on average"
        },
    )
    length_size: int = field(default=25, metadata={"help": "width of the embedding of a span's length"})
    overlap: Overlap = field(default="auto", metadata={"help": OVERLAP_HELP, "decode": True})

    def __post_init__(self) -> None:
        if self.representation not in PARTS:
            raise InputError(f"head.representation: {self.representation!r} is not one of {', '.join(PARTS)}")
        check_overlap(self.overlap)
        at_least(self, "head", 0, "max_length")
        at_least(self, "head", 1, "length_size")
        if self.negatives is not None:
            at_least(self, "head", 0, "negatives")


class SpanScheme:
    """Mentions to classes of spans, logits to mentions."""

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        automatic = options.max_length == 0 or options.overlap == "auto" or options.negatives == 0
        if training is not None and automatic:
            options = fitted(options, training)
        self.options = replace(options, overlap="nested") if options.overlap == "auto" else options
        self.types = tuple(types)
        self._class_of = {type: number for number, type in enumerate(self.types, 1)}

    @property
    def shapes(self) -> frozenset[Shape]:
        return SHAPES[self.options.overlap]

    def cost(self, n_words: int) -> float:
        return float(n_words)

    def lengths(self, n_words: int) -> int:
        """How many lengths of spans there are in a sentence."""
        return min(n_words, self.options.max_length or n_words)

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """The spans that take part [s, 2] as (length - 1, first word), and their classes [s].

        All gold is there, and as many others as are to be drawn, fresh at every visit.
        """
        n_words = len(sentence)
        gold = self._gold(sentence, lost)
        fits = np.arange(n_words) < n_words - np.arange(self.lengths(n_words))[:, None]  # [L, n]
        for length, first in gold:
            fits[length, first] = False
        others = np.argwhere(fits)
        if self.options.negatives is not None and len(others) > self.options.negatives:
            others = others[torch.randperm(len(others), generator=draw)[: self.options.negatives].numpy()]
        spans = np.concatenate([np.array(list(gold), np.int64).reshape(-1, 2), others])
        classes = [*gold.values(), *[NO_ENTITY] * len(others)]
        size = torch.tensor([n_words])
        return {"spans": torch.from_numpy(spans), "classes": torch.tensor(classes, dtype=torch.int64), "size": size}

    def _gold(self, sentence: Sentence, lost: Tally) -> dict[tuple[int, int], int]:
        """(length - 1, first word) of each mention that is a span of its own and not too long, and its class."""
        longest = self.lengths(len(sentence))
        gold: dict[tuple[int, int], int] = {}
        for (start, end), of_type in gold_spans(sentence, self._class_of, lost).items():
            if end - start > longest:
                lost.add(f"entities of more than {longest} words", sentence.covered(range(start, end)))
            else:
                gold[end - start - 1, start] = of_type
        return gold

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """Labels [B, L, N]: a class where a span takes part, else NOT_DRAWN; and the sizes of the sentences [B]."""
        labels = torch.full((len(targets), self.lengths(n_words), n_words), NOT_DRAWN)
        counts = torch.tensor([len(target["classes"]) for target in targets])
        sentence = torch.arange(len(targets)).repeat_interleave(counts)
        length, first = torch.cat([target["spans"] for target in targets]).unbind(1)
        labels[sentence, length, first] = torch.cat([target["classes"] for target in targets])
        return {"labels": labels, "size": torch.cat([target["size"] for target in targets])}

    def perfect(self, targets: Targets) -> Scores:
        classes = targets["labels"].clamp(min=NO_ENTITY)
        logits = SURE * functional.one_hot(classes, len(self.types) + 1).float()
        return {"logits": logits, "mask": spans_inside(targets["size"], *classes.shape[1:])}

    @torch.no_grad()
    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """The spans that are an entity, best first, each kept if it may stand beside those that are kept.

        A mention's score is the probability of its class.
        """
        log_probability, type = scores["logits"].float().log_softmax(-1).max(-1)  # [B, L, N]
        found = ((type != NO_ENTITY) & scores["mask"]).nonzero()  # [spans, 3]
        at = found.unbind(1)
        sentence, length, start = found.cpu().numpy().T
        score, label = log_probability[at].exp().cpu().numpy(), type[at].cpu().numpy()
        mentions: list[list[Mention]] = [[] for _ in range(len(type))]
        order = np.lexsort((start + length, start, -score, sentence))
        for n in order[keep(sentence[order], start[order], length[order] + 1, self.options.overlap)]:
            words = tuple(range(int(start[n]), int(start[n] + length[n]) + 1))
            mentions[sentence[n]].append(Mention(self.types[label[n] - 1], words, float(score[n])))
        return [sorted(each, key=lambda mention: (mention.words[0], -len(mention.words))) for each in mentions]


def fitted(options: Options, training: Iterable[Sentence]) -> Options:
    """Options with what is automatic in them read off the training mentions."""
    lengths: list[int] = []
    overlap: Overlap = "flat"
    sentences = 0
    for sentence in training:
        sentences += 1
        spans = {(words[0], words[-1] + 1) for mention in sentence.mentions if (words := mention.words)}
        lengths += [end - start for start, end in spans]
        overlap = needed(spans, overlap)
    longest = int(np.quantile(lengths, COVERED, method="inverted_cdf")) if lengths else 1
    negatives = max(1, round(OTHERS * len(lengths) / max(1, sentences)))
    return replace(
        options,
        max_length=options.max_length or longest,
        negatives=negatives if options.negatives == 0 else options.negatives,
        overlap=overlap if options.overlap == "auto" else options.overlap,
    )


def spans_inside(sizes: Tensor, lengths: int, n_words: int) -> Tensor:
    """Which spans [B, L, N] lie inside sentences of these sizes [B]."""
    end = torch.arange(1, lengths + 1)[:, None] + torch.arange(n_words)
    return end.to(sizes.device) <= sizes[:, None, None]


class SpanHead(Head):
    """One linear layer over the parts of a span's vector, whose parts are never put together.

    The layer is linear, so what it makes of a span is the sum of what it makes of each part: two tables by word, one
    by sentence, one by length, and the pooled words, one length after the other.
    """

    scheme: SpanScheme

    def __init__(self, options: Options, scheme: SpanScheme, width: Width) -> None:
        super().__init__()
        longest, size = scheme.options.max_length, scheme.options.length_size
        if longest < 1:
            raise InputError(f"head.max_length {longest}: a model needs a number from 1 on")
        self.scheme = scheme
        wide = {"first": width.word, "last": width.word, "maximum": width.word, "sentence": width.sentence}
        self.sizes = {part: wide.get(part, size) for part in PARTS[options.representation]}
        self.lengths = nn.Embedding(longest, size)
        self.classes = nn.Linear(sum(self.sizes.values()), len(scheme.types) + 1)

    def logits(self, words: Words) -> Tensor:
        """[B, L, N, T], for spans that reach beyond their sentence too."""
        vectors, n_words = words.vectors, words.mask.shape[1]
        longest = self.scheme.lengths(n_words)
        weights = dict(zip(self.sizes, torch.split(self.classes.weight, list(self.sizes.values()), 1), strict=True))
        by_length = functional.linear(self.lengths.weight[:longest], weights["length"], self.classes.bias).float()
        logits = by_length[:, None]  # [L, 1, T]
        if "sentence" in weights:
            logits = logits + functional.linear(words.sentence, weights["sentence"]).float()[:, None, None]
        if "first" in weights:
            first, last = (functional.linear(vectors, weights[part]).float() for part in ("first", "last"))
            later = functional.pad(last, (0, 0, 0, longest - 1))
            # window number i begins with the last word of the span of one word at i
            logits = logits + first[:, None] + later.unfold(1, longest, 1).permute(0, 3, 1, 2)
        if "maximum" in weights:
            pooled = [functional.linear(each, weights["maximum"]) for each in running_maxima(vectors, longest)]
            padded = [functional.pad(each, (0, 0, 0, n_words - each.shape[1])) for each in pooled]
            logits = logits + torch.stack(padded, 1).float()
        return logits

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Cross-entropy, a mean over the spans that were drawn: to score all and mask costs less than to gather."""
        labels = targets["labels"]
        total = functional.cross_entropy(
            self.logits(words).flatten(0, 2), labels.flatten(), ignore_index=NOT_DRAWN, reduction="sum"
        )
        return {"spans": Part(total, (labels != NOT_DRAWN).sum())}

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """The logits [B, L, N, T], and which spans lie inside their sentence [B, L, N]."""
        logits = self.logits(words)
        return {"logits": logits, "mask": spans_inside(words.mask.sum(1), *logits.shape[1:3])}


FAMILY = Family(
    name="span",
    summary="every span up to a length is classified; flat, nested and overlapping mentions",
    options=Options,
    scheme=SpanScheme,
    head=SpanHead,
    presets={
        name: recipe(row)
        | {
            "head.representation": "hybrid",
            "head.max_length": row.longest,
            "head.negatives": 100,
            "head.overlap": "flat",
        }
        for name, row in TABLE_2.items()
    },
)
