"""Locate and label: spans near an entity are found first, their borders moved, and what comes of it classified.

The two-stage model of "Locate and Label: A Two-stage Identifier for Nested Named Entity Recognition". B sentences with
W words in all, d wide, K seed spans, M proposals, T classes of which the first is no entity:

    vectors [B, N, d] -> words [W, d] -> seeds [K] -filter-> proposals [M] -regressor-> spans [M] -classifier-> [M, T]

A seed is a span of one of a few lengths. The filter keeps those that overlap an entity well, the regressor moves their
borders, by any number of words, the classifier names what they are now, and Soft-NMS damps those that nearly coincide
with a better one. It expresses mentions without gaps, nested and overlapping ones too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import Shape
from spanloom.heads.base import Family, Head, Loss, Part, Scores, Targets
from spanloom.heads.gold import gold_spans
from spanloom.heads.seeds import Integers, moved, overlap_of, paired, seeds_of
from spanloom.layers.soft_nms import soft_nms
from spanloom.layers.span_pooling import Maxima
from spanloom.options import at_least

EvalLengths = Literal["all", "same"]

NEAR_ENOUGH = 0.7  # the IoU with an entity from which on a seed is a positive example (alpha 1)
FOCUS = 2  # how much less the filter's loss cares for what is easy (gamma)
WEIGHTS = {"filter": 1.0, "regressor": 0.1, "classifier": 1.0}  # of the parts of the loss (lambda)
FREE_NEGATIVES = 2  # negatives that are drawn whether or not a sentence has positives

COVERED = 0.99  # the share of the training mentions that automatic lengths cover
LONGEST = 10  # the most that they go up to; the regressor reaches beyond
NO_ENTITY = 0  # the class of most spans
NO_SPAN = (0, 0)  # what a seed is paired with that overlaps no entity
BLOCK = 4096  # spans whose vectors are in memory at once
THRESHOLDS = tuple(share / 20 for share in range(6, 20))  # what the threshold is chosen from on dev
LENGTH = 0.02  # the work of a word's seeds of one length, in units of a word


@dataclass(frozen=True, slots=True)
class Options:
    lengths: tuple[int, ...] = field(
        default=(),
        metadata={"help": f"lengths of seeds in training; none: from 1 to what covers 99 % of it, {LONGEST} at most"},
    )
    eval_lengths: EvalLengths = field(
        default="all",
        metadata={"help": "seeds at prediction: all lengths up to the longest, or the same as in training"}
        | {"decode": True},
    )
    filter: bool = field(default=True, metadata={"help": "drop seeds that are near no entity; else classify them all"})
    regressor: bool = field(default=True, metadata={"help": "move the borders of what is near an entity"})
    soft_examples: bool = field(default=True, metadata={"help": "weigh examples by how clear a case they are"})
    soft_nms: bool = field(
        default=True, metadata={"help": "damp the scores of what nearly coincides with a better span", "decode": True}
    )
    negatives: int = field(default=5, metadata={"help": "seeds far from entities that are drawn for one that is near"})
    hidden: int = field(default=0, metadata={"help": "hidden width of filter, regressor, classifier; 0: the encoder's"})
    dropout: float = field(default=0.2, metadata={"help": "dropout before filter, regressor and classifier"})
    keep: float = field(
        default=1 / 6, metadata={"help": "probability from which on the filter keeps a seed", "decode": True}
    )
    damping: float = field(
        default=0.9, metadata={"help": "Soft-NMS: what the score of a damped span is multiplied by", "decode": True}
    )
    near: float = field(
        default=0.6, metadata={"help": "Soft-NMS: the IoU from which on two spans nearly coincide", "decode": True}
    )
    threshold: float | None = field(
        default=None,
        metadata={"help": "the damped score above which a span is an entity; none: chosen on dev", "decode": True},
    )

    def __post_init__(self) -> None:
        if not all(length >= 1 for length in self.lengths):
            raise InputError(f"head.lengths {','.join(map(str, self.lengths))}: numbers from 1 on are expected")
        object.__setattr__(self, "lengths", tuple(sorted(set(self.lengths))))
        if self.eval_lengths not in get_args(EvalLengths):
            raise InputError(f"head.eval_lengths: {self.eval_lengths!r} is not one of all, same")
        at_least(self, "head", 0, "negatives", "hidden")
        for name in ("dropout", "keep", "threshold"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"head.{name} {value}: a share from 0 to below 1 is expected")
        for name in ("damping", "near"):
            if not 0 < getattr(self, name) <= 1:
                raise InputError(f"head.{name} {getattr(self, name)}: a share above 0, up to 1, is expected")


class LocateScheme:
    """Mentions to examples of seeds, classified spans to mentions."""

    shapes: frozenset[Shape] = frozenset({"flat", "nested", "overlapping"})

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        if training is not None and not options.lengths:
            options = fitted(options, training)
        self.options = options
        self.lengths = options.lengths or tuple(range(1, LONGEST + 1))
        self.types = tuple(types)
        self._class_of = {type: number for number, type in enumerate(self.types, 1)}

    def cost(self, n_words: int) -> float:
        return n_words * (1 + LENGTH * len(self.seed_lengths(n_words)))

    @property
    def threshold(self) -> float:
        chosen = self.options.threshold
        return THRESHOLDS[len(THRESHOLDS) // 2] if chosen is None else chosen

    @property
    def shortest(self) -> int:
        """The least length of a seed at prediction."""
        return 1 if self.options.eval_lengths == "all" else self.lengths[0]

    def seed_lengths(self, n_words: int) -> Sequence[int]:
        """The lengths of the seeds that a sentence has at prediction."""
        if self.options.eval_lengths == "all":
            return range(1, min(self.lengths[-1], n_words) + 1)
        return [length for length in self.lengths if length <= n_words]

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """The seeds of a sentence that are examples, each with the entity that it overlaps best.

        seeds     [k, 2]  first word, and the word behind the last
        gold      [k, 2]  the entity's, NO_SPAN where there is none
        classes   [k]     the entity's class
        positive  [k]     whether the two are near enough
        weights   [k]     how clear a case it is
        found     [f, 3]  first word, end and class of all gold that some seed at prediction leads to
        size      [1]     the number of words

        All positive seeds are there, gold that is none as one more, and negatives as many as are drawn at this visit.
        """
        n_words, options = len(sentence), self.options
        gold = gold_spans(sentence, self._class_of, lost)
        spans, classes = np.array(list(gold), np.int64).reshape(-1, 2), np.array(list(gold.values()), np.int64)
        seeds = seeds_of(n_words, self.lengths)
        pair, overlap = paired(seeds, spans)
        positive = np.flatnonzero(overlap >= NEAR_ENOUGH)
        others = np.flatnonzero(overlap < NEAR_ENOUGH)
        added = np.flatnonzero(~(seeds[positive] == spans[:, None]).all(2).any(1))
        drawn = options.negatives * (len(positive) + len(added)) + FREE_NEGATIVES
        if len(others) > drawn:
            others = others[torch.randperm(len(others), generator=draw)[:drawn].numpy()]
        # the last row is for what overlaps nothing
        spans, classes = np.append(spans, [NO_SPAN], 0), np.append(classes, NO_ENTITY)
        pair = np.where(overlap > 0, pair, len(gold))
        which = np.concatenate((pair[positive], added, pair[others]))
        overlap = np.concatenate((overlap[positive], np.ones(len(added)), overlap[others]))
        near = overlap >= NEAR_ENOUGH
        clear = np.where(near, overlap, 1 - overlap) if options.soft_examples else np.ones(len(which))
        found = self._found(sentence, spans[:-1], lost)
        return {
            "seeds": torch.from_numpy(np.concatenate((seeds[positive], spans[added], seeds[others]))),
            "gold": torch.from_numpy(spans[which]),
            "classes": torch.from_numpy(classes[which]),
            "positive": torch.from_numpy(near),
            "weights": torch.from_numpy(clear).float(),
            "found": torch.from_numpy(np.column_stack((spans, classes))[:-1][found]),
            "size": torch.tensor([n_words]),
        }

    def _found(self, sentence: Sentence, spans: Integers, lost: Tally) -> NDArray[np.bool_]:
        """Which entities are near a seed at prediction, nearer than all others; without a regressor, are one.

        Those that are not are examples all the same: the classifier learns from them what long entities look like.
        """
        seeds = seeds_of(len(sentence), self.seed_lengths(len(sentence)))
        pair, overlap = paired(seeds, spans)
        found = np.zeros(len(spans), bool)
        found[pair[overlap >= (NEAR_ENOUGH if self.options.regressor else 1)]] = True
        longest = self.lengths[-1]
        within = int(longest / NEAR_ENOUGH + 1e-9) if self.options.regressor else longest
        for start, end in spans[~found].tolist():
            long = f"entities of more than {within} words"
            lost.add(long if end - start > within else "entities near no seed", sentence.covered(range(start, end)))
        return found

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """The examples of all sentences, one after the other, and the sentence [K] of each; the same for `found`."""
        batch = {name: torch.cat([target[name] for target in targets]) for name in targets[0]}
        which = torch.arange(len(targets))
        for name, rows in (("sentence", "seeds"), ("found_in", "found")):
            batch[name] = which.repeat_interleave(torch.tensor([len(target[rows]) for target in targets]))
        return batch

    def perfect(self, targets: Targets) -> Scores:
        found = targets["found"]
        return {
            "sentence": targets["found_in"],
            "spans": found[:, :2],
            "classes": found[:, 2],
            "probability": torch.ones(len(found)),
            "void": torch.tensor(0),
            "size": targets["size"],
        }

    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """What Soft-NMS leaves of the spans that have a type. A mention's score is that of its class, not damped."""
        columns = (scores[name].detach().cpu().numpy() for name in ("sentence", "spans", "classes", "probability"))
        sentence, spans, classes, probability = columns
        rows = np.column_stack((sentence, spans, classes))[classes != NO_ENTITY]
        probability = probability[classes != NO_ENTITY].astype(np.float64)
        damping = self.options.damping if self.options.soft_nms else 1.0
        kept, _ = soft_nms(rows, probability, damping, self.options.near, self.threshold)
        mentions: list[list[Mention]] = [[] for _ in range(len(scores["size"]))]
        for (at, start, end, type), score in zip(rows[kept].tolist(), probability[kept].tolist(), strict=True):
            mentions[at].append(Mention(self.types[type - 1], tuple(range(start, end)), score))
        if void := int(scores["void"]):
            lost.add("void proposals", count=void)
        return [sorted(each, key=lambda mention: (mention.words[0], -len(mention.words))) for each in mentions]


def fitted(options: Options, training: Iterable[Sentence]) -> Options:
    """Options with lengths that cover the training mentions."""
    found = [mention.words[-1] - mention.words[0] + 1 for sentence in training for mention in sentence.mentions]
    longest = int(np.quantile(found, COVERED, method="inverted_cdf")) if found else 1
    return replace(options, lengths=tuple(range(1, min(longest, LONGEST) + 1)))


def focal(logits: Tensor, positive: Tensor) -> Tensor:
    """Binary cross-entropy [K], the less of it the clearer the case (equation 12)."""
    right = torch.where(positive, logits, -logits)
    return -functional.logsigmoid(right) * (-right).sigmoid() ** FOCUS


def apart(borders: Tensor, gold: Tensor) -> Tensor:
    """What real spans [P, 2] and whole ones [P, 2] together lack of overlapping: [P] (equation 15).

    It is 0 where they are one, 1 where they touch, and more the farther they are from each other.
    """
    (start, end), (gold_start, gold_end) = borders.unbind(1), gold.unbind(1)
    shared = torch.minimum(end, gold_end) - torch.maximum(start, gold_start)
    return 1 - shared / (torch.maximum(end, gold_end) - torch.minimum(start, gold_start))


class FlatWords(NamedTuple):
    """The words of all sentences one after the other, so that there is no padding. A span is a range of them."""

    vectors: Tensor
    """[W, d]"""
    maxima: Maxima
    sentence: Tensor
    """[W]"""
    first: Tensor
    """[B], the first word of each sentence"""
    end: Tensor
    """[B], behind its last"""


def flattened(words: Words) -> FlatWords:
    vectors, end = words.vectors[words.mask], words.mask.sum(1).cumsum(0)
    first = torch.cat((end.new_zeros(1), end))[:-1]
    return FlatWords(vectors, Maxima(vectors, words.mask.shape[1]), words.mask.nonzero()[:, 0], first, end)


class SpanLayers(nn.Module):
    """Two layers over the vector of a span: what its words have at most, and its boundary words, or those outside."""

    def __init__(self, width: int, hidden: int, outputs: int, dropout: float, outside: bool = False) -> None:
        super().__init__()
        self.outside = outside
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(3 * width, hidden)
        self.out = nn.Linear(hidden, outputs)

    def forward(self, words: FlatWords, start: Tensor, end: Tensor) -> Tensor:
        """Spans [K], none of which crosses the end of a sentence, to [K, outputs] in full precision.

        Where there are more spans than words, what the first layer makes of a boundary word is made once a word; in
        training each span has a dropout of its own.
        """
        vectors, left, right = words.vectors, start, end - 1
        if self.outside:  # at the end of a sentence the word inside stands for the missing one
            sentence = words.sentence[start]
            left, right = torch.maximum(start - 1, words.first[sentence]), torch.minimum(end, words.end[sentence] - 1)
        if self.training or len(start) <= len(vectors):
            whole = torch.cat((words.maxima.of(start, end), vectors[left], vectors[right]), 1)
            return _wide(self.out(functional.gelu(self.hidden(self.dropout(whole)))))
        of_most, of_left, of_right = torch.split(self.hidden.weight, vectors.shape[1], 1)
        by_left, by_right = functional.linear(vectors, of_left, self.hidden.bias), functional.linear(vectors, of_right)
        scored = []
        for at in range(0, len(start), BLOCK):
            here = slice(at, at + BLOCK)
            hidden = functional.linear(words.maxima.of(start[here], end[here]), of_most)
            hidden = hidden + by_left[left[here]] + by_right[right[here]]
            scored.append(self.out(functional.gelu(hidden)))
        return _wide(torch.cat(scored))


def _wide(tensor: Tensor) -> Tensor:
    """Half precision as float32; float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


class LocateHead(Head):
    """Filter, regressor and classifier, each on what the one before has left."""

    scheme: LocateScheme

    def __init__(self, options: Options, scheme: LocateScheme, width: Width) -> None:
        super().__init__()
        if not scheme.options.lengths:
            raise InputError("head.lengths: a model needs at least one")
        self.scheme = scheme
        sizes = width.word, options.hidden or width.word
        self.filter = SpanLayers(*sizes, 1, options.dropout) if options.filter else None
        self.regressor = SpanLayers(*sizes, 2, options.dropout, outside=True) if options.regressor else None
        self.classifier = SpanLayers(*sizes, len(scheme.types) + 1, options.dropout)

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Each a mean over its spans: the filter's over all examples, the regressor's over the positive ones.

        The classifier's is over all that are spans still when the regressor has moved them, wherever that is; they
        are of their entity's type if they have met it, else of none.
        """
        flat, sentence = flattened(words), targets["sentence"]
        (start, end), first = targets["seeds"].unbind(1), flat.first[sentence]
        gold, positive = targets["gold"], targets["positive"]
        parts = {}
        if self.filter is not None:
            losses = targets["weights"] * focal(self.filter(flat, first + start, first + end)[:, 0], positive)
            parts["filter"] = Part(losses.sum(), positive.new_tensor(len(start), dtype=torch.int64), WEIGHTS["filter"])
        if self.regressor is not None:
            offsets = self.regressor(flat, first + start, first + end)
            borders, wanted = (targets["seeds"] + offsets)[positive], gold[positive].to(offsets.dtype)
            total = functional.smooth_l1_loss(borders, wanted, reduction="sum") + apart(borders, wanted).sum()
            parts["regressor"] = Part(total, positive.sum(), WEIGHTS["regressor"])
            start, end = moved(start, end, offsets, 0, targets["size"][sentence])
        spans = (start < end).nonzero()[:, 0]  # the others are void
        start, end, gold, first = start[spans], end[spans], gold[spans], first[spans]
        met = (start == gold[:, 0]) & (end == gold[:, 1])
        classes = targets["classes"][spans].where(met, NO_ENTITY)
        losses = functional.cross_entropy(self.classifier(flat, first + start, first + end), classes, reduction="none")
        if self.scheme.options.soft_examples:  # a near miss is hardly an example of no entity
            losses = losses * (1 - overlap_of(start, end, gold)).where(~met, 1)
        parts["classifier"] = Part(losses.sum(), met.new_tensor(len(spans), dtype=torch.int64), WEIGHTS["classifier"])
        return parts

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """What was found in the whole batch, each span once, best class [M] and its probability [M].

        sentence [M], spans [M, 2] as (start, end), and the number of proposals that the regressor made void.
        """
        flat, options = flattened(words), self.scheme.options
        start, end = self.seeds(flat, words.mask.shape[1])
        if self.filter is not None:
            kept = self.filter(flat, start, end)[:, 0].sigmoid() >= options.keep
            start, end = start[kept], end[kept]
        proposals = len(start)
        if self.regressor is not None:
            sentence = flat.sentence[start]
            offsets = self.regressor(flat, start, end)
            start, end = moved(start, end, offsets, flat.first[sentence], flat.end[sentence])
        spans = start < end
        start, end = start[spans], end[spans]
        void = end.new_tensor(proposals - len(start))
        rows = len(flat.vectors) + 1
        once = torch.unique(start * rows + end)  # equal spans have equal scores
        start, end = once // rows, once % rows
        best = self.classifier(flat, start, end).softmax(1).max(1)
        sentence = flat.sentence[start]
        return {
            "sentence": sentence,
            "spans": torch.stack((start, end), 1) - flat.first[sentence, None],
            "classes": best.indices,
            "probability": best.values,
            "void": void,
            "size": flat.end - flat.first,
        }

    def seeds(self, words: FlatWords, longest: int) -> tuple[Tensor, Tensor]:
        """Starts and ends [K] of all seeds of the batch; a sentence that no length fits is one as a whole."""
        device, scheme = words.first.device, self.scheme
        lengths = torch.tensor(list(scheme.seed_lengths(longest)), dtype=torch.int64, device=device)
        room = words.end[words.sentence] - torch.arange(len(words.vectors), device=device)
        which, start = (lengths[:, None] <= room).nonzero().unbind(1)
        size = words.end - words.first
        whole = (size > 0) & (size < scheme.shortest)
        return torch.cat((start, words.first[whole])), torch.cat((start + lengths[which], words.end[whole]))


class Row(NamedTuple):
    """A column of table 6; what it leaves open is told in the specification."""

    encoder: str
    lengths: tuple[int, ...]
    rate: float
    batch: int
    damping: float
    near: float
    threshold: float
    keep: float = 1 / 6
    lstm: int = 1024
    pos: int = 50


BERT = "bert-large-cased"
UP_TO_15 = (1, 2, 3, 4, 5, 7, 9, 11, 13, 15)
UP_TO_10 = tuple(range(1, 11))

PRESETS = {
    "ace04": Row(BERT, UP_TO_15, 3e-5, 8, 0.9, 0.6, 0.55),
    "ace05": Row(BERT, UP_TO_15, 3e-5, 8, 0.8, 0.7, 0.5),
    "kbp17": Row(BERT, UP_TO_15, 5e-5, 4, 0.9, 0.6, 0.5, keep=1 / 2),
    "genia": Row("dmis-lab/biobert-large-cased-v1.1", UP_TO_10, 5e-6, 6, 0.9, 0.7, 0.45),
    # the paper tells no values for these
    "conll03": Row(BERT, UP_TO_10[:7], 3e-5, 8, 0.9, 0.6, 0.5),
    "weibo-zh": Row("bert-base-chinese", UP_TO_10, 3e-5, 8, 0.9, 0.6, 0.5, lstm=768, pos=0),
}


def recipe(row: Row) -> dict[str, Any]:
    """The options of a preset; the file of word vectors, GloVe's say, is for the user to name."""
    return {
        "encoder.name": row.encoder,
        "encoder.pooling": "max",
        "encoder.layers": "last4",
        "encoder.context": 1,
        "encoder.char_lstm": 50,
        "encoder.pos": row.pos,
        "encoder.lstm": row.lstm,
        "encoder.dropout": 0.0,
        "head.lengths": row.lengths,
        "head.negatives": 5,
        "head.dropout": 0.5,
        "head.keep": row.keep,
        "head.damping": row.damping,
        "head.near": row.near,
        "head.threshold": row.threshold,
        "training.epochs": 35,
        "training.batch": row.batch,
        "training.encoder_lr": row.rate,
        "training.head_lr": row.rate,
        "training.decay": 0.01,
        "training.clip": 1.0,
        "training.warmup": 0.1,
    }


FAMILY = Family(
    name="locate-label",
    summary="spans near an entity are found, moved, then classified; flat, nested and overlapping mentions",
    options=Options,
    scheme=LocateScheme,
    head=LocateHead,
    presets={name: recipe(row) for name, row in PRESETS.items()},
    tuned={"threshold": THRESHOLDS},
)
