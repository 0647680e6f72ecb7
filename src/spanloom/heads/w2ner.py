"""Relations between words: one grid of labels a sentence, from which entities of every shape are read.

The model of "Unified Named Entity Recognition as Word-Word Relation Classification" (W2NER). B sentences, N words,
d wide, a grid of c channels, R labels:

    vectors [B, N, d] -> grid [B, N, N, c] -> logits [B, N, N, R] -> labels [B, N, N] -> mentions

Label NEXT at (i, j), above the diagonal: in some entity, j is the word after i. A type at (t, h), on or below it: an
entity of this type begins with word h and ends with word t. An entity is a path of NEXT from h to t.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from spanloom.document import Mention, Sentence
from spanloom.encoder.words import Width, Words
from spanloom.errors import InputError, Tally
from spanloom.evaluation.shapes import Shape
from spanloom.heads.base import Family, Head, Loss, Part, Scores, Targets
from spanloom.heads.grid import Ends, Next, paths
from spanloom.layers.biaffine import Biaffine
from spanloom.layers.conditional_layer_norm import ConditionalLayerNorm, pair_products
from spanloom.options import at_least

NONE, NEXT = 0, 1
NO_CELL = -100  # the label of padding

RARE = 6.0  # how much likelier than any label NONE is at first, as it will be for most pairs of words

N_DISTANCES, N_REGIONS, PLACE_SIZE = 20, 3, 20
DIAGONAL, BEFORE, FARTHEST = 19, 9, 9

CELL = 1 / 40
"""The work of a cell in units of a word; more than its arithmetic, for cells are what fills the memory."""
RAGGED = 0.75
"""Sentences shorter than this share of the longest beside them get a grid of their own size."""


@dataclass(frozen=True, slots=True)
class Options:
    channels: int = field(default=64, metadata={"help": "channels of the grid"})
    dilations: tuple[int, ...] = field(
        default=(1, 2, 3), metadata={"help": "the convolutions over the grid, one after the other, by their dilation"}
    )
    hidden: int = field(default=128, metadata={"help": "hidden width of the scores that read the grid"})
    biaffine: int = field(default=128, metadata={"help": "width of the words in the biaffine scores"})
    dropout: float = field(default=0.2, metadata={"help": "dropout before and after each layer of the scores"})
    channel_dropout: float = field(
        default=0.2, metadata={"help": "share of the channels that a sentence's pairs of words are without"}
    )
    label_weight: float = field(
        default=1.5, metadata={"help": "weight of a pair of words with a label in the loss; of one without it is 1"}
    )
    use_distance: bool = field(default=True, metadata={"help": "tell the grid how far apart two words are"})
    use_region: bool = field(default=True, metadata={"help": "tell the grid which of two words comes first"})
    use_biaffine: bool = field(default=True, metadata={"help": "score pairs of words without the grid too"})
    use_mlp: bool = field(default=True, metadata={"help": "score pairs of words by the grid; without it there is none"})
    use_nnw: bool = field(
        default=True, metadata={"help": "label which word is next in an entity; without it none has a gap"}
    )

    def __post_init__(self) -> None:
        at_least(self, "head", 1, "channels", "hidden", "biaffine")
        if not self.label_weight > 0:
            raise InputError(f"head.label_weight {self.label_weight}: a number above 0 is expected")
        for name in ("dropout", "channel_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"head.{name} {getattr(self, name)}: a share from 0 to below 1 is expected")
        if not all(dilation >= 1 for dilation in self.dilations):
            raise InputError(f"head.dilations {','.join(map(str, self.dilations))}: numbers from 1 on are expected")
        if not (self.use_biaffine or self.use_mlp):
            raise InputError("head.use_biaffine and head.use_mlp cannot both be off; nothing is left to score with")


class GridScheme:
    """Mentions to cells of the grid, labels of cells to mentions."""

    def __init__(self, options: Options, types: Sequence[str], training: Iterable[Sentence] | None = None) -> None:
        self.options = options
        self.types = tuple(types)
        self.first_type = 2 if options.use_nnw else 1
        self._label_of = {type: label for label, type in enumerate(self.types, self.first_type)}

    @property
    def shapes(self) -> frozenset[Shape]:
        continuous: frozenset[Shape] = frozenset({"flat", "nested", "overlapping"})
        return continuous | {"discontinuous"} if self.options.use_nnw else continuous

    @property
    def n_labels(self) -> int:
        return self.first_type + len(self.types)

    def cost(self, n_words: int) -> float:
        return n_words + CELL * n_words * n_words

    def targets(self, sentence: Sentence, draw: torch.Generator, lost: Tally) -> Targets:
        """The cells that have a label, [cells, 3] as (row, column, label), and the number of words [1]."""
        gold = []
        for mention in dict.fromkeys(sentence.mentions):
            gap = mention.words[-1] - mention.words[0] >= len(mention.words)
            if mention.type not in self._label_of:
                lost.add("entities of unknown types", sentence.covered(mention.words))
            elif gap and not self.options.use_nnw:
                lost.add("discontinuous entities", sentence.covered(mention.words))
            else:
                gold.append(mention)
        cells = {(mention.words[-1], mention.words[0]): self._label_of[mention.type] for mention in gold}
        for mention in gold:
            if cells[mention.words[-1], mention.words[0]] != self._label_of[mention.type]:  # the last type has won
                lost.add("second types of the same first and last word", sentence.covered(mention.words))
            if self.options.use_nnw:
                cells |= dict.fromkeys(pairwise(mention.words), NEXT)
        found = torch.tensor([(*place, label) for place, label in cells.items()], dtype=torch.int64)
        return {"cells": found.view(-1, 3), "size": torch.tensor([len(sentence)])}

    def collate(self, targets: Sequence[Targets], n_words: int) -> Targets:
        """The labels [B, N, N], NO_CELL where there is no such pair of words, and the sizes of the sentences [B]."""
        sizes = torch.cat([target["size"] for target in targets])
        labels = torch.where(pairs(sizes, n_words), NONE, NO_CELL)
        counts = torch.tensor([len(target["cells"]) for target in targets])
        sentence = torch.arange(len(targets)).repeat_interleave(counts)
        row, column, label = torch.cat([target["cells"] for target in targets]).unbind(1)
        labels[sentence, row, column] = label
        return {"labels": labels, "size": sizes}

    def perfect(self, targets: Targets) -> Scores:
        labels = targets["labels"].clamp(min=NONE)
        return {"labels": labels, "probability": torch.ones(labels.shape)}

    def decode(self, scores: Scores, lost: Tally) -> list[list[Mention]]:
        """What the labels spell, from the cells that have one alone; a mention's score is the least of its cells'.

        NEXT is read above the diagonal, types on and below it; elsewhere they mean nothing.
        """
        labels = scores["labels"]
        above = torch.ones(labels.shape[1:], dtype=torch.bool, device=labels.device).triu(1)
        found = ((labels != NONE) & ((labels < self.first_type) == above)).nonzero()  # [cells, 3]
        at = found.unbind(1)
        columns = (*at, labels[at], scores["probability"][at])
        mentions: list[list[Mention]] = [[] for _ in labels]
        edges: list[Next] = [{} for _ in labels]
        ends: list[Ends] = [[] for _ in labels]
        for sentence, row, column, label, probability in zip(*(each.tolist() for each in columns), strict=True):
            if label < self.first_type:
                edges[sentence].setdefault(row, []).append((column, probability))
            elif row == column or not self.options.use_nnw:
                words = tuple(range(column, row + 1))
                mentions[sentence].append(Mention(self.types[label - self.first_type], words, probability))
            else:
                ends[sentence].append((column, row, label, probability))
        for of_sentence, its_edges, its_ends in zip(mentions, edges, ends, strict=True):
            if its_ends and its_edges:
                for words, label, score in paths(its_edges, its_ends, lost):
                    of_sentence.append(Mention(self.types[label - self.first_type], words, score))
        return [sorted(each, key=lambda mention: (mention.words[0], -len(mention.words))) for each in mentions]


def pairs(sizes: Tensor, n_words: int) -> Tensor:
    """Which cells [B, N, N] are pairs of words of sentences of these sizes [B]."""
    mask = torch.arange(n_words, device=sizes.device) < sizes[:, None]
    return mask[:, :, None] & mask[:, None]


def distances(n_words: int, device: torch.device) -> Tensor:
    """The class [N, N] of how far apart two words are: by powers of two, and by which of them comes first.

    Farther than 256 words is one class. Class 0 is never used.
    """
    words = torch.arange(n_words, device=device)
    ahead = words[:, None] - words
    powers = 2 ** torch.arange(1, FARTHEST, device=device)
    classes = 1 + torch.bucketize(ahead.abs(), powers, right=True) + BEFORE * (ahead < 0)
    return classes.masked_fill(ahead == 0, DIAGONAL)


class Group(NamedTuple):
    """Sentences of like length in a batch: which, the number of words of the longest, and whether some have fewer."""

    which: list[int]
    n_words: int
    ragged: bool


def of_like_length(sizes: Sequence[int]) -> list[Group]:
    """A batch in groups whose grids are of like size, the longest first; a sentence without words is in none."""
    groups: list[Group] = []
    members: list[int] = []
    order = sorted((each for each, size in enumerate(sizes) if size), key=lambda each: -sizes[each])
    for at, each in enumerate(order):
        members.append(each)
        following = sizes[order[at + 1]] if at + 1 < len(order) else 0
        if following < RAGGED * sizes[members[0]]:
            groups.append(Group(members, sizes[members[0]], sizes[each] < sizes[members[0]]))
            members = []
    return groups


class Predictor(nn.Module):
    """The logits of all pairs of words, a sum of two: by the words themselves, and by the grid."""

    def __init__(self, options: Options, n_labels: int, width: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(options.dropout)
        self.pair: Biaffine | None = None
        self.grid: Grid | None = None
        if options.use_biaffine:
            self.row, self.column = nn.Linear(width, options.biaffine), nn.Linear(width, options.biaffine)
            self.pair = Biaffine(options.biaffine, n_labels)
            bias = self.pair.bias
        if options.use_mlp:
            self.grid = Grid(options, width)
            self.hidden = nn.Linear(options.channels * max(1, len(options.dilations)), options.hidden)
            self.labels = nn.Linear(options.hidden, n_labels)
            bias = self.labels.bias
        # else the first epoch of a small corpus goes by in learning that most pairs have no label
        with torch.no_grad():
            bias[NONE] += RARE

    def forward(self, vectors: Tensor, cells: Tensor | None) -> Tensor:
        """Words [B, N, d], and which cells are pairs of words if not all are, to logits [B, N, N, R]."""
        logits: list[Tensor] = []
        if self.pair is not None:
            row, column = (
                self.dropout(functional.gelu(layer(self.dropout(vectors)))) for layer in (self.row, self.column)
            )
            logits.append(_wide(self.pair(row, column)))
        if self.grid is not None:
            weights = torch.split(self.hidden.weight, self.grid.channels, 1)
            hidden: Tensor | None = None
            for read, weight in zip(self.grid(vectors, cells), weights, strict=True):
                flat = self.dropout(read).flatten(0, 2)
                if hidden is None:
                    hidden = functional.linear(flat, weight, self.hidden.bias)
                else:  # what reads all layers side by side is the sum of what reads each
                    hidden = hidden.addmm_(flat, weight.T.to(flat.dtype))
            assert hidden is not None
            scored: Tensor = self.labels(self.dropout(functional.gelu(hidden)))
            logits.append(_wide(scored).view(*read.shape[:3], -1))
        return logits[0] if len(logits) == 1 else logits[0] + logits[1]


class Grid(nn.Module):
    """Pairs of words: what is made of the two, how far apart they are, then convolutions over neighbouring pairs."""

    def __init__(self, options: Options, width: int) -> None:
        super().__init__()
        self.channels, self.channel_dropout = options.channels, options.channel_dropout
        self.norm = ConditionalLayerNorm(width)
        self.distances = nn.Embedding(N_DISTANCES, PLACE_SIZE) if options.use_distance else None
        self.regions = nn.Embedding(N_REGIONS, PLACE_SIZE) if options.use_region else None
        self.sizes = [width] + [PLACE_SIZE for used in (self.distances, self.regions) if used is not None]
        self.reduce = nn.Linear(sum(self.sizes), options.channels)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(
                options.channels, options.channels, 3, padding=dilation, dilation=dilation, groups=options.channels
            )
            for dilation in options.dilations
        )

    def forward(self, vectors: Tensor, cells: Tensor | None) -> list[Tensor]:
        """Words [B, N, d] to what each convolution makes of the grid, [B, N, N, c] each; without one, to the grid.

        What is no pair of words stays 0 before each convolution, so that no sentence sees what it is padded with.
        """
        grid = functional.gelu(self._pairs(vectors))
        read = [grid if cells is None else grid * cells[..., None]]
        for convolution in self.convolutions:
            grid = functional.gelu(_convolved(read[-1], convolution))
            read.append(grid if cells is None else grid * cells[..., None])
        return read[1:] or read

    def _pairs(self, vectors: Tensor) -> Tensor:
        """[B, N, N, c]: one linear layer over a pair's vector, whose parts are never put together.

        Dropout takes whole channels of a sentence, and so falls on what the parts are made of.
        """
        batch, n_words = len(vectors), vectors.shape[1]
        whole = vectors.new_ones(batch if self.training and self.channel_dropout else 1, 1, sum(self.sizes))
        kept = torch.split(functional.dropout(whole, self.channel_dropout, self.training), self.sizes, 2)
        weights = torch.split(self.reduce.weight, self.sizes, 1)
        normal, gain, bias = self.norm(vectors)
        products = pair_products(*_alike(normal * kept[0], gain, weights[0]))  # [B, N, N, c]
        by_column = functional.linear(bias * kept[0], weights[0], self.reduce.bias)  # [B, N, c]
        places = self._places(kept[1:], weights[1:])
        if places is not None:
            # a product with 0s and 1s is a look-up whose gradient is a product too
            classes = functional.one_hot(distances(n_words, vectors.device).flatten(), N_DISTANCES).to(products.dtype)
            products = torch.baddbmm(
                products.flatten(1, 2), classes.expand(batch, -1, -1), places.to(products.dtype).expand(batch, -1, -1)
            ).view_as(products)
        return products + by_column[:, None]

    def _places(self, kept: Sequence[Tensor], weights: Sequence[Tensor]) -> Tensor | None:
        """What each class of distance adds to a cell: [B or 1, 20, c]. The region follows from the distance."""
        tables = []
        if self.distances is not None:
            tables.append(self.distances.weight)
        if self.regions is not None:
            classes = torch.arange(N_DISTANCES, device=self.regions.weight.device)
            below = (classes <= BEFORE) | (classes == DIAGONAL)
            tables.append(self.regions(1 + below.long()))
        added = [
            functional.linear(table * mask, weight) for table, mask, weight in zip(tables, kept, weights, strict=True)
        ]
        return torch.stack(added).sum(0) if added else None


def _convolved(grid: Tensor, convolution: nn.Module) -> Tensor:
    """[B, N, N, c] to the same, where there are gradients to come in full precision.

    On processors the gradient of a depthwise, dilated kernel in bf16 holds whatever was in memory before (torch 2.13).
    """
    channels_first = grid.permute(0, 3, 1, 2)
    if not torch.is_grad_enabled():
        out: Tensor = convolution(channels_first)
        return out.permute(0, 2, 3, 1)
    with torch.autocast(grid.device.type, enabled=False):
        out = convolution(channels_first.to(torch.promote_types(grid.dtype, torch.float32)))
    return out.permute(0, 2, 3, 1).to(grid.dtype)


def _wide(logits: Tensor) -> Tensor:
    """Half precision as float32; float64 stays."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _alike(*tensors: Tensor) -> Iterable[Tensor]:
    """Under autocast the operands of a product in its precision, else as they are."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return (tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)


class GridHead(Head):
    """The predictor on groups of sentences of like length: cells grow with the square of the longest."""

    scheme: GridScheme

    def __init__(self, options: Options, scheme: GridScheme, width: Width) -> None:
        super().__init__()
        self.scheme = scheme
        self.options = options
        self.predictor = Predictor(options, scheme.n_labels, width.word)

    def logits(self, words: Words, groups: Iterable[Group]) -> Iterable[tuple[Tensor, Tensor]]:
        """Group by group its sentences [G] and their logits [G, n, n, R]."""
        sizes = words.mask.sum(1)
        for which, n_words, ragged in groups:
            chosen = torch.tensor(which, device=sizes.device)
            whole = which == list(range(len(sizes)))
            vectors = words.vectors if whole else words.vectors[chosen]
            cells = pairs(sizes[chosen], n_words) if ragged else None
            yield chosen, self.predictor(vectors[:, :n_words], cells)

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Cross-entropy, a mean over all pairs of words, of which those with a label weigh more."""
        labels = targets["labels"]
        total = words.vectors.new_zeros(())
        weight = total.new_full((self.scheme.n_labels,), self.options.label_weight)
        weight[NONE] = 1
        for chosen, logits in self.logits(words, of_like_length(words.mask.sum(1).tolist())):
            n = logits.shape[1]
            wanted = labels[chosen, :n, :n].flatten()
            total = total + functional.cross_entropy(
                logits.flatten(0, 2), wanted, weight.to(logits.dtype), ignore_index=NO_CELL, reduction="sum"
            )
        return {"cells": Part(total, (labels != NO_CELL).sum())}

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """The best label of each pair of words [B, N, N], the lower of two, and its probability [B, N, N]."""
        batch, n_words = words.mask.shape
        labels = torch.full((batch, n_words, n_words), NONE, device=words.mask.device)
        probability = torch.ones((batch, n_words, n_words), device=words.mask.device)
        for chosen, logits in self.logits(words, of_like_length(words.mask.sum(1).tolist())):
            n = logits.shape[1]
            best = logits.log_softmax(-1).max(-1)
            labels[chosen, :n, :n] = best.indices
            probability[chosen, :n, :n] = best.values.exp().float()
        inside = words.mask[:, :, None] & words.mask[:, None]
        return {"labels": labels.masked_fill(~inside, NONE), "probability": probability}


class Row(NamedTuple):
    """A column of the published configurations."""

    encoder: str
    layers: str
    lstm: int
    channels: int
    dilations: tuple[int, ...]
    biaffine: int
    hidden: int
    epochs: int
    batch: int
    encoder_lr: float
    clip: float
    warmup: float


ENGLISH = Row("bert-large-cased", "last4", 768, 96, (1, 2, 3), 768, 128, 10, 12, 1e-5, 1.0, 0.1)
ACE = Row("bert-large-uncased", "last4", 1024, 160, (1, 2, 3), 1024, 240, 20, 8, 1e-5, 5.0, 0.1)
GENIA = Row("dmis-lab/biobert-v1.1", "last", 512, 128, (1, 2, 3, 4), 512, 384, 10, 8, 5e-6, 5.0, 0.1)
CADEC = Row("dmis-lab/biobert-base-cased-v1.2", "last4", 512, 80, (1, 2, 3), 512, 120, 10, 16, 5e-6, 5.0, 0.0)
CHINESE = Row("bert-base-chinese", "last4", 512, 96, (1, 2, 3), 512, 288, 10, 12, 5e-6, 5.0, 0.1)

PRESETS = {
    "conll03": ENGLISH,
    "ace05": ACE,
    "genia": GENIA,
    "cadec": CADEC,
    "resume-zh": CHINESE,
    # the paper tells no values for these; they are those of the nearest corpus
    "ontonotes": ENGLISH,
    "ace04": ACE,
    "msra": CHINESE,
    "weibo-zh": CHINESE,
}


def recipe(row: Row) -> Mapping[str, Any]:
    """The options of a preset."""
    return {
        "encoder.name": row.encoder,
        "encoder.pooling": "max",
        "encoder.layers": row.layers,
        "encoder.lstm": row.lstm,
        "encoder.dropout": 0.5,
        "head.channels": row.channels,
        "head.dilations": row.dilations,
        "head.biaffine": row.biaffine,
        "head.hidden": row.hidden,
        "head.label_weight": 1.0,
        "head.dropout": 0.33,
        "head.channel_dropout": 0.5,
        "training.epochs": row.epochs,
        "training.batch": row.batch,
        "training.encoder_lr": row.encoder_lr,
        "training.head_lr": 1e-3,
        "training.decay": 0.0,
        "training.clip": row.clip,
        "training.warmup": row.warmup,
    }


FAMILY = Family(
    name="w2ner",
    summary="relations between all pairs of words; flat, nested, overlapping and discontinuous mentions",
    options=Options,
    scheme=GridScheme,
    head=GridHead,
    presets={name: recipe(row) for name, row in PRESETS.items()},
)
