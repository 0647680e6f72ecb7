"""Diffusion of boundaries: spans that begin as noise become entities in a few steps.

The model of "DiffusionNER: Boundary Diffusion for Named Entity Recognition". B sentences, N words, d wide, K spans, in
training seen G times at once, T classes of which the first is no entity:

    noise [B, K, 2] -> spans [B, K, 2] -> vectors [B, K, d] -> pointers [B, K, N] -> less noisy spans -> ... -> mentions

In training gold is put beside random spans, noise of a random time is laid over all of them, and the network is to find
the gold again; which of its spans stands for which entity is matched. In prediction all is noise at first. A step reads
the words through the spans as they are, points to each one's first and last word, and so says where it was meant to be;
the last step also says its type. It expresses mentions without gaps, nested and overlapping ones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, cast, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import Shape
from spanloom.heads.base import Family, Head, Loss, Part, Scores, Targets
from spanloom.heads.gold import gold_spans
from spanloom.heads.overlap import OVERLAP_HELP, SHAPES, Overlap, check_overlap, keep, needed
from spanloom.heads.span_encoder import (
    BoundaryFeatures,
    MeanFeatures,
    NumberEmbedding,
    Pointer,
    SpanLayer,
    initialise,
    wide,
)
from spanloom.layers.diffusion import Schedule, noised, points_of, signal, spans_at, step_back, time_pairs
from spanloom.layers.matching import matched
from spanloom.layers.noise import key_of, normals
from spanloom.options import at_least

Expansion = Literal["random", "repeat"]
Pointers = Literal["softmax", "sigmoid"]
Features = Literal["boundary", "mean"]

NO_ENTITY = 0  # the class of a span that stands for no entity
BALANCED = -1.0  # the weight of no entity that makes all its spans together weigh as much as all the others
MIDDLE, SPREAD, SHORTEST = 0.5, 1 / 6, 1e-4  # of random spans: first word and length, as shares of the sentence
COVERED = 0.99  # the share of the training sentences whose gold has a span each in training
ANNEALED = 2 / 3  # the share of training after which the weight of the place falls to 0
SPAN = 0.4
"""The work of a span in units of a word."""
MOST = 10_000
"""No honest model has more spans, steps or times."""
THRESHOLDS = tuple(share / 40 for share in range(10, 39))
"""What the threshold is chosen from on dev."""


@dataclass(frozen=True, slots=True)
class Options:
    steps: int = field(default=5, metadata={"help": "steps from noise to entities", "decode": True})
    spans: int = field(
        default=60,
        metadata={"help": "spans that a sentence begins with; raised to what training needs", "decode": True},
    )
    train_spans: int = field(default=20, metadata={"help": "the same in training; raised to what training needs"})
    draws: int = field(default=3, metadata={"help": "times and noises that a sentence is seen with at each visit"})
    schedule: Schedule = field(default="cosine", metadata={"help": "how noise grows with time: cosine or linear"})
    noise_steps: int = field(default=1000, metadata={"help": "times from hardly any noise to noise alone"})
    eta: float = field(
        default=1.0, metadata={"help": "share of the noise that is fresh at each step; 0: none is", "decode": True}
    )
    seed: int = field(default=1, metadata={"help": "equal seeds, equal noise", "decode": True})
    expansion: Expansion = field(
        default="random", metadata={"help": "what stands beside gold in training: random spans, or gold, repeated"}
    )
    repeat: bool = field(
        default=False, metadata={"help": "every span of a sentence with gold is to find some, repeatedly if need be"}
    )
    pointers: Pointers = field(
        default="softmax", metadata={"help": "probabilities of boundary words: softmax over words, or sigmoid of each"}
    )
    nil_weight: float = field(
        default=0.1,
        metadata={"help": "weight in the loss of spans that stand for no entity; -1: as much as all others"},
    )
    place: float = field(
        default=2.0, metadata={"help": "weight in the matching of how far off a noisy span is; falls to 0 in the end"}
    )
    features: Features = field(
        default="boundary", metadata={"help": "a span's vector: by its boundary words, or the mean of its words"}
    )
    layers: int = field(default=2, metadata={"help": "layers of the span encoder"})
    self_attention: bool = field(default=True, metadata={"help": "spans look at each other"})
    cross_attention: bool = field(default=True, metadata={"help": "spans look at the words of the sentence"})
    dropout: float = field(default=0.1, metadata={"help": "dropout in the vectors of spans and their encoder"})
    threshold: float | None = field(
        default=None,
        metadata={
            "help": "the mean of first word's, last word's and type's probability from which on a span is an entity; "
            "none: chosen on dev",
            "decode": True,
        },
    )
    overlap: Overlap = field(default="auto", metadata={"help": OVERLAP_HELP, "decode": True})

    def __post_init__(self) -> None:
        for name, choices in (
            *(("schedule", Schedule), ("expansion", Expansion)),
            *(("pointers", Pointers), ("features", Features)),
        ):
            if getattr(self, name) not in get_args(choices):
                raise InputError(f"head.{name}: {getattr(self, name)!r} is not one of {', '.join(get_args(choices))}")
        check_overlap(self.overlap)
        at_least(self, "head", 0, "layers", "seed", "place")
        for name in ("steps", "spans", "train_spans", "draws", "noise_steps"):
            if not 1 <= getattr(self, name) <= MOST:
                raise InputError(f"head.{name} {getattr(self, name)}: a number from 1 to {MOST} is expected")
        if self.steps > self.noise_steps:
            raise InputError(f"head.steps {self.steps}: there are only {self.noise_steps} times (head.noise_steps)")
        if not 0 <= self.dropout < 1:
            raise InputError(f"head.dropout {self.dropout}: a share from 0 to below 1 is expected")
        for name in ("eta", "threshold"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InputError(f"head.{name} {value}: a share from 0 to 1 is expected")
        if not (self.nil_weight >= 0 or self.nil_weight == BALANCED):
            raise InputError(f"head.nil_weight {self.nil_weight}: a number from 0 on, or -1, is expected")


class DiffusionScheme:
    """Mentions to noisy spans and what they were, classified spans to mentions."""

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        self.types = tuple(types)
        self._class_of = {type: number for number, type in enumerate(self.types, 1)}
        if training is not None:
            options = self._fitted(options, training)
        self.options = replace(options, overlap="nested") if options.overlap == "auto" else options

    @property
    def shapes(self) -> frozenset[Shape]:
        return SHAPES[self.options.overlap]

    @property
    def threshold(self) -> float:
        chosen = self.options.threshold
        return THRESHOLDS[len(THRESHOLDS) // 2] if chosen is None else chosen

    def cost(self, n_words: int) -> float:
        return n_words + SPAN * max(self.options.spans, self.options.draws * self.options.train_spans)

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """Gold, and the spans that noise has made of it and of what it was expanded with.

        gold     [n, 2]      start and end of each entity
        classes  [n]
        spans    [G, K, 2]   start and end of the noisy spans, at G times
        times    [G]
        size     [1]         the number of words
        """
        options, size = self.options, torch.tensor([len(sentence)])
        gold = gold_spans(sentence, self._class_of, lost)
        spans = torch.tensor(list(gold), dtype=torch.int64).view(-1, 2)
        if len(gold) > options.spans:
            lost.add(f"entities beyond the first {options.spans} of a sentence", count=len(gold) - options.spans)
        times = torch.randint(options.noise_steps, (options.draws,), generator=draw)
        points = torch.stack([self._expanded(spans, size, draw) for _ in range(options.draws)])  # [G, K, 2]
        noise = torch.randn(points.shape, generator=draw, dtype=torch.float64)
        share = torch.from_numpy(signal(options.schedule, options.noise_steps)[times.numpy()])
        return {
            "gold": spans,
            "classes": torch.tensor(list(gold.values()), dtype=torch.int64),
            "spans": spans_at(noised(points, noise, share[:, None, None]), size),
            "times": times,
            "size": size,
        }

    def _expanded(self, gold: Tensor, size: Tensor, draw: torch.Generator) -> Tensor:
        """Gold [n, 2] and what stands beside it as K points [K, 2]; where there is no gold, the whole sentence does."""
        options, count = self.options, self.options.train_spans
        points = points_of(gold if len(gold) else torch.tensor([[0, int(size)]]), size)
        if len(points) > count:
            return points[torch.randperm(len(points), generator=draw)[:count]]
        if options.repeat and len(gold):  # round and round
            return points[torch.arange(count) % len(points)]
        if options.expansion == "repeat":  # each as often, those that come once more at random
            copies = torch.full((len(points),), count // len(points))
            copies[torch.randperm(len(points), generator=draw)[: count % len(points)]] += 1
            return points.repeat_interleave(copies, 0)
        shares = torch.randn(count - len(points), 2, generator=draw, dtype=torch.float64) * SPREAD + MIDDLE
        shares[:, 1] = shares[:, 1].clamp(min=SHORTEST)
        return torch.cat((points, 2 * shares - 1))

    def _fitted(self, options: Options, training: Iterable[Sentence]) -> Options:
        """Options with room for all entities of a training sentence, and with the overlap that training has.

        In training there is room for those of nearly all: of a sentence with more, each visit takes some at random.
        """
        counts = [1]
        overlap: Overlap = "flat"
        for sentence in training:
            gold = gold_spans(sentence, self._class_of, Tally())
            counts.append(len(gold))
            overlap = needed(gold, overlap)
        usual = int(np.quantile(counts, COVERED, method="inverted_cdf"))
        return replace(
            options,
            spans=max(options.spans, min(MOST, max(counts))),
            train_spans=max(options.train_spans, min(MOST, usual)),
            overlap=overlap if options.overlap == "auto" else options.overlap,
        )

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """The same with B in front; gold [B, n, 2] and classes [B, n] padded, and how many they are, counts [B]."""
        counts = torch.tensor([len(target["gold"]) for target in targets])
        batch = {name: torch.stack([target[name] for target in targets]) for name in ("spans", "times")}
        batch |= {
            name: nn.utils.rnn.pad_sequence([target[name] for target in targets], batch_first=True)
            for name in ("gold", "classes")
        }
        return batch | {"counts": counts, "size": torch.cat([target["size"] for target in targets])}

    def perfect(self, targets: Targets) -> Scores:
        """Gold as it is, as far as a sentence has spans for it."""
        spans, classes = (targets[name][:, : self.options.spans] for name in ("gold", "classes"))
        return {"spans": spans, "classes": classes, "probability": torch.ones(*classes.shape, 3)}

    @torch.no_grad()
    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """Of equal spans the surest of its type, if it is above the threshold, and may stand beside better ones.

        A mention's score is the mean of the probabilities of its first word, its last word and its type. Spans that
        end before they begin are no proposals, but spans that have not found their place yet.
        """
        spans, classes = scores["spans"].cpu().numpy(), scores["classes"].cpu().numpy()
        probability = scores["probability"].cpu().numpy().astype(np.float64)
        sentence, place = np.nonzero((classes != NO_ENTITY) & (spans[..., 0] < spans[..., 1]))
        (start, end), type = spans[sentence, place].T, classes[sentence, place]
        of_type, score = probability[sentence, place, 2], probability[sentence, place].sum(1) / 3
        # equal spans come to lie side by side, the one that is surest of its type first
        order = np.lexsort((place, -score, -of_type, end, start, sentence))
        same = np.stack((sentence, start, end))[:, order]
        first = np.ones(len(order), bool)
        first[1:] = (same[:, 1:] != same[:, :-1]).any(0)
        order = order[first]
        order = order[score[order] >= self.threshold]
        order = order[np.lexsort((place[order], -score[order], sentence[order]))]
        order = order[keep(sentence[order], start[order], (end - start)[order], self.options.overlap)]
        mentions: list[list[Mention]] = [[] for _ in range(len(classes))]
        for n in order[np.lexsort((-end[order], start[order], sentence[order]))].tolist():
            words = tuple(range(int(start[n]), int(end[n])))
            mentions[sentence[n]].append(Mention(self.types[type[n] - 1], words, float(score[n])))
        return mentions


class WordsRead(NamedTuple):
    """All that is made of the words, once however many steps are taken."""

    mask: Tensor
    """[B, N], True for words; where there are none, for the first place, so that attention finds something"""
    features: tuple[Tensor, ...]
    seen: list[tuple[Tensor, ...]]
    """Keys and values of each layer"""
    first: Tensor
    last: Tensor


class DiffusionHead(Head):
    """Spans to what they were before there was noise."""

    scheme: DiffusionScheme

    def __init__(self, options: Options, scheme: DiffusionScheme, width: Width) -> None:
        super().__init__()
        self.scheme, size = scheme, width.word
        kind = BoundaryFeatures if options.features == "boundary" else MeanFeatures
        self.features: BoundaryFeatures | MeanFeatures = kind(size, options.dropout)
        attends = options.layers and (options.self_attention or options.cross_attention)
        self.places = NumberEmbedding(size) if attends else None
        self.times = NumberEmbedding(size)
        self.layers = nn.ModuleList(
            SpanLayer(size, options.dropout, options.self_attention, options.cross_attention)
            for _ in range(options.layers)
        )
        self.first, self.last = Pointer(size), Pointer(size)
        self.types = nn.Sequential(nn.Linear(size, size), nn.GELU(), nn.Linear(size, len(scheme.types) + 1))
        initialise(self)

    def read(self, words: Words) -> WordsRead:
        vectors, mask = words.vectors, words.mask.clone()
        mask[:, :1] |= ~words.mask.any(1, keepdim=True)
        seen = [cast(SpanLayer, layer).read(vectors) for layer in self.layers]
        return WordsRead(mask, self.features.read(vectors), seen, self.first.read(vectors), self.last.read(vectors))

    def placed(self, spans: Tensor) -> Tensor:
        """What attentions tell spans [..., K, 2] apart by: [K, d]. Without attentions there is nothing of it."""
        numbers = torch.arange(spans.shape[-2], device=spans.device)
        return self.places(numbers) if self.places is not None else numbers[:, None]

    def vectors(self, read: WordsRead, spans: Tensor, places: Tensor, times: Tensor) -> Tensor:
        """Spans [B, G, K, 2] at times whose vectors are [..., d] to [B, G, K, d]."""
        vectors: Tensor = self.features(read.features, spans).to(read.first.dtype)
        for layer, seen in zip(self.layers, read.seen, strict=True):
            vectors = layer(vectors, places, seen, read.mask)
        return vectors + times

    def pointed(self, read: WordsRead, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Span vectors [B, K, d] to the logits of first and last words [B, K, N]."""
        return self.first(read.first, vectors, read.mask), self.last(read.last, vectors, read.mask)

    def probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid() if self.scheme.options.pointers == "sigmoid" else logits.softmax(-1)

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Types over all spans, boundaries over those that stand for an entity; both a mean over these.

        Where gold is repeated, types are a mean over all spans, and so they are in a batch without entities.
        """
        options, spans = self.scheme.options, targets["spans"]
        n_draws, n_spans = spans.shape[1:3]
        read = self.read(words)
        vectors = self.vectors(read, spans, self.placed(spans), self.times(targets["times"])[:, :, None]).flatten(1, 2)
        pointed, types = self.pointed(read, vectors), wide(self.types(vectors))
        row, span, gold = self.match(pointed, types, targets)
        sentence, at = row.div(n_draws, rounding_mode="floor"), row % n_draws * n_spans + span
        boundaries = [
            self._boundary_loss(logits[sentence, at], read.mask[sentence], wanted)
            for logits, wanted in zip(pointed, self._boundaries(targets["gold"][sentence, gold]), strict=True)
        ]
        classes = targets["classes"].new_full(types.shape[:2], NO_ENTITY)
        classes[sentence, at] = targets["classes"][sentence, gold]
        found, others = len(row), classes.numel() - len(row)
        nil = options.nil_weight
        if nil == BALANCED:
            nil = (found / others if others else 0.0) if found else 1.0
        losses = functional.cross_entropy(types.flatten(0, 1), classes.flatten(), reduction="none")
        total = losses.where(classes.flatten() != NO_ENTITY, nil * losses).sum()
        over = found if found and not options.repeat else classes.numel()
        return {
            "types": Part(total, classes.new_tensor(over)),
            "boundaries": Part(torch.stack(boundaries).sum(), classes.new_tensor(found)),
        }

    @staticmethod
    def _boundaries(spans: Tensor) -> tuple[Tensor, Tensor]:
        """First and last words of spans [..., 2]."""
        return spans[..., 0], spans[..., 1] - 1

    def _boundary_loss(self, logits: Tensor, mask: Tensor, wanted: Tensor) -> Tensor:
        """Over spans with logits [P, N] for words [P]."""
        if self.scheme.options.pointers == "softmax":
            return functional.cross_entropy(logits, wanted, reduction="sum")
        one_hot = functional.one_hot(wanted, logits.shape[1]).to(logits.dtype)
        return functional.binary_cross_entropy_with_logits(logits, one_hot, reduction="none")[mask].sum()

    @torch.no_grad()
    def match(self, pointed: tuple[Tensor, Tensor], types: Tensor, targets: Targets) -> tuple[Tensor, Tensor, Tensor]:
        """Which span stands for which entity, so that what is said of them is likeliest: (row, span, gold), each [P].

        Rows are sentence by sentence, draw by draw. The place of the noisy span counts too, until late in training:
        else a span could not know what is wanted of it.
        """
        options, spans, gold = self.scheme.options, targets["spans"], targets["gold"]
        n_draws, n_spans = spans.shape[1:3]

        def said(probability: Tensor, wanted: Tensor) -> Tensor:
            """Of [B, G * K, .] those at [B, n]: [B, G * K, n]."""
            return probability.gather(2, wanted[:, None].expand(-1, probability.shape[1], -1))

        costs = -said(types.softmax(-1), targets["classes"])
        for logits, wanted in zip(pointed, self._boundaries(gold), strict=True):
            costs = costs - said(self.probabilities(logits), wanted.clamp(min=0))  # padding has no last word
        weight = options.place * min(1.0, (1 - self.progress) / (1 - ANNEALED))
        if weight:
            apart = (spans.flatten(1, 2)[:, :, None] - gold[:, None]).abs().sum(-1)  # [B, G * K, n]
            costs = costs + weight * apart / targets["size"].clamp(min=1)[:, None, None]
        found = matched(
            costs.reshape(len(spans) * n_draws, n_spans, gold.shape[1]),
            targets["counts"].repeat_interleave(n_draws),
            options.repeat,
        )
        row, span, column = (each.to(spans.device) for each in found)
        return row, span, column

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """The spans that noise becomes; `draw` gives noise by chance, else it goes by the words and `head.seed`."""
        return self.denoised(words, self.noise(words, draw))

    def noise(self, words: Words, draw: torch.Generator | None = None) -> Tensor:
        """What prediction begins with, and what is added after each step but the last: [steps, B, K, 2] in float64."""
        options = self.scheme.options
        tables = options.steps if options.eta else 1
        if draw is not None:
            noise = torch.randn(tables, len(words.keys), options.spans, 2, generator=draw, dtype=torch.float64)
        else:
            contents = (key.to_bytes(8, "little", signed=True) for key in words.keys.tolist())
            keys = [key_of(options.seed, content) for content in contents]
            drawn = [normals(key, table, options.spans) for table in range(tables) for key in keys]
            noise = torch.from_numpy(np.array(drawn).reshape(tables, len(keys), options.spans, 2))
        return noise.to(words.mask.device)

    def denoised(self, words: Words, noise: Tensor) -> Scores:
        """Spans [B, K, 2] as (start, end), void where the end comes first, their classes [B, K], and the probabilities
        [B, K, 3] of first word, last word and class.
        """
        options, sizes = self.scheme.options, words.mask.sum(1, keepdim=True)
        share = signal(options.schedule, options.noise_steps)
        read = self.read(words)
        places = self.placed(noise)
        pairs = time_pairs(options.noise_steps, options.steps)
        times = self.times(torch.tensor([now for now, _ in pairs], device=noise.device))  # [steps, d]
        points = noise[0]
        for step, (now, then) in enumerate(pairs, 1):
            vectors = self.vectors(read, spans_at(points, sizes)[:, None], places, times[step - 1])[:, 0]
            pointed = self.pointed(read, vectors)
            first, last = (logits.argmax(-1) for logits in pointed)
            spans = torch.stack((first, last + 1), -1)
            if then >= 0:
                fresh = noise[step] if options.eta else None
                points = step_back(points, points_of(spans, sizes), share[now], share[then], options.eta, fresh)
        of_class, classes = wide(self.types(vectors)).softmax(-1).max(-1)
        boundaries = [self.probabilities(logits).amax(-1) for logits in pointed]
        return {
            "spans": spans,
            "classes": classes.masked_fill(sizes == 0, NO_ENTITY),
            "probability": torch.stack((*boundaries, of_class), -1),
        }


class Row(NamedTuple):
    """A column of the released configurations; what they have in common stands in `recipe`."""

    encoder: str
    epochs: int
    frozen: int
    rate: float
    batch: int = 8
    spans: int = 60
    expansion: Expansion = "random"
    schedule: Schedule = "cosine"
    features: Features = "boundary"
    pooling: str = "max"
    overlap: Overlap = "no-crossing"
    lstm: int = 1024


BERT = "bert-large-cased"

PRESETS = {
    "ace04": Row(BERT, 100, 10, 2e-5),
    "ace05": Row(BERT, 100, 10, 2e-5),
    "genia": Row(
        *("dmis-lab/biobert-large-cased-v1.1", 30, 5, 2e-5),
        batch=4,
        expansion="repeat",
        features="mean",
        pooling="mean",
    ),
    "conll03": Row(BERT, 30, 10, 3e-5, spans=150, expansion="repeat", schedule="linear", overlap="flat"),
    "ontonotes": Row(BERT, 30, 15, 3e-5, schedule="linear", overlap="flat"),
    "msra": Row("hfl/chinese-bert-wwm-ext", 100, 10, 5e-6, overlap="flat", lstm=768),
}


def recipe(row: Row) -> dict[str, Any]:
    """The options of a preset, as the authors' code has them where the paper says otherwise or nothing."""
    return {
        "encoder.name": row.encoder,
        "encoder.pooling": row.pooling,
        "encoder.lstm": row.lstm,
        "encoder.lstm_layers": 2,
        "encoder.context": 2,
        "encoder.freeze": row.frozen / row.epochs,
        "encoder.dropout": 0.0,
        "head.spans": row.spans,
        "head.train_spans": row.spans,
        "head.draws": 1,
        "head.schedule": row.schedule,
        "head.eta": 1.0,
        "head.expansion": row.expansion,
        "head.repeat": True,
        "head.pointers": "sigmoid",
        "head.nil_weight": BALANCED,
        "head.place": 0.0,
        "head.features": row.features,
        "head.dropout": 0.1,
        "head.threshold": 2.5 / 3,
        "head.overlap": row.overlap,
        "training.epochs": row.epochs,
        "training.batch": row.batch,
        "training.encoder_lr": row.rate,
        "training.head_lr": row.rate,
        "training.decay": 0.01,
        "training.clip": 1.0,
        "training.warmup": 0.1,
    }


FAMILY = Family(
    name="diffusion",
    summary="spans begin as noise and become entities in a few steps; flat, nested and overlapping mentions",
    options=Options,
    scheme=DiffusionScheme,
    head=DiffusionHead,
    presets={name: recipe(row) for name, row in PRESETS.items()},
    defaults={"encoder.lstm": 384, "encoder.lstm_layers": 2, "training.head_lr": 5e-4},
    tuned={"threshold": THRESHOLDS},
)
