"""The two-stage head written down plainly: every seed goes through filter, regressor and classifier, word by word.

It has the fast head's parameters, so that both can be asked the same. The tests compare them, and the benchmark tells
what the staged form is worth. All tensors that the plain form has are built: spans by words by width, twice.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from spanloom.encoder.words import Width, Words
from spanloom.heads.base import Loss, Part, Scores, Targets
from spanloom.heads.locate_label import LocateHead, SpanLayers

Span = tuple[int, int]


class PlainHead(LocateHead):
    """The same parameters, the obvious way."""

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        """All that is kept in the end, equal spans as often as they come."""
        options, found, void = self.scheme.options, [], 0
        for at, (vectors, mask) in enumerate(zip(words.vectors, words.mask, strict=True)):
            vectors = vectors[: int(mask.sum())]
            seeds = plain_seeds(len(vectors), list(self.scheme.seed_lengths(len(vectors))))
            if not seeds:
                continue
            start, end = torch.tensor(seeds).T
            kept = torch.ones(len(seeds), dtype=torch.bool)
            if self.filter is not None:
                kept = plain_layers(self.filter, vectors, start, end)[:, 0].sigmoid() >= options.keep
            if self.regressor is not None:
                offsets = plain_layers(self.regressor, vectors, start, end)
                start = (start + (offsets[:, 0] + 0.5).floor().long()).clamp(min=0)
                end = (end + (offsets[:, 1] + 0.5).floor().long()).clamp(max=len(vectors))
            real = start < end
            void += int((kept & ~real).sum())
            # what is void has no vector; some other span stands for it and is thrown away
            start, end = start.where(real, 0), end.where(real, 1)
            best = plain_layers(self.classifier, vectors, start, end).softmax(-1).max(-1)
            columns = (start, end, best.indices, best.values)
            found += [(at, *(column[i] for column in columns)) for i in (kept & real).nonzero()[:, 0].tolist()]
        integers = torch.tensor([[int(value) for value in row[:4]] for row in found]).reshape(-1, 4)
        probability = [row[4] for row in found]
        return {
            "sentence": integers[:, 0],
            "spans": integers[:, 1:3],
            "classes": integers[:, 3],
            "probability": torch.stack(probability) if probability else torch.zeros(0),
            "void": torch.tensor(void),
            "size": words.mask.sum(1),
        }

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Example by example, as the equations are printed."""
        soft = self.scheme.options.soft_examples
        sums = {name: words.vectors.sum() * 0 for name in ("filter", "regressor", "classifier")}
        counts = dict.fromkeys(sums, 0)
        for n, sentence in enumerate(targets["sentence"].tolist()):
            size = int(targets["size"][sentence])
            vectors = words.vectors[sentence, :size]
            start, end = seed = _span(targets["seeds"][n])
            gold, positive = _span(targets["gold"][n]), bool(targets["positive"][n])
            near = plain_iou(seed, gold)
            assert positive == (near >= 0.7)
            if self.filter is not None:
                weight = (near if positive else 1 - near) if soft else 1
                p = plain_layers(self.filter, vectors, *_one(seed))[0, 0].sigmoid()
                sums["filter"] = sums["filter"] + weight * plain_focal(p, positive)
                counts["filter"] += 1
            if self.regressor is not None:
                left, right = plain_layers(self.regressor, vectors, *_one(seed))[0]
                if positive:
                    real = start + left, end + right
                    error = sum(functional.smooth_l1_loss(a, a.new_tensor(b)) for a, b in zip(real, gold, strict=True))
                    sums["regressor"] = sums["regressor"] + error + plain_apart(*real, *gold)
                    counts["regressor"] += 1
                start = max(0, start + math.floor(left.item() + 0.5))
                end = min(size, end + math.floor(right.item() + 0.5))
            if start < end:
                met = (start, end) == gold
                label = int(targets["classes"][n]) if met else 0
                weight = 1 - plain_iou((start, end), gold) if soft and not met else 1
                logits = plain_layers(self.classifier, vectors, *_one((start, end)))[0]
                sums["classifier"] = sums["classifier"] - weight * logits.log_softmax(-1)[label]
                counts["classifier"] += 1
        weights = {"filter": 1.0, "regressor": 0.1, "classifier": 1.0}
        used = {"filter": self.filter, "regressor": self.regressor, "classifier": self.classifier}
        return {
            name: Part(sums[name], torch.tensor(counts[name]), weights[name])
            for name, layers in used.items()
            if layers is not None
        }


def _span(row: Tensor) -> Span:
    start, end = row.tolist()
    return start, end


def _one(span: Span) -> tuple[Tensor, Tensor]:
    return torch.tensor([span[0]]), torch.tensor([span[1]])


def plain_layers(layers: SpanLayers, vectors: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Spans [K] of one sentence [n, d] to [K, outputs]."""
    words = torch.arange(len(vectors))
    inside = (start[:, None] <= words) & (words < end[:, None])
    whole = vectors.expand(len(start), -1, -1).masked_fill(~inside[..., None], -torch.inf)  # [K, n, d]
    left, right = (start - 1, end) if layers.outside else (start, end - 1)
    left, right = left.clamp(min=0), right.clamp(max=len(vectors) - 1)
    read = torch.cat((whole.amax(1), vectors[left], vectors[right]), 1)
    return layers.out(functional.gelu(layers.hidden(layers.dropout(read))))


def plain_seeds(n_words: int, lengths: list[int]) -> list[Span]:
    """All spans of these lengths, by length, then by start."""
    found = [(i, i + length) for length in sorted(lengths) for i in range(n_words) if i + length <= n_words]
    return found or [(0, n_words)][:n_words]


def plain_iou(one: Span, other: Span) -> float:
    words, others = set(range(*one)), set(range(*other))
    return len(words & others) / len(words | others)


def plain_focal(p: Tensor, positive: bool) -> Tensor:
    return -((1 - p) ** 2) * p.log() if positive else -(p**2) * (1 - p).log()


def plain_apart(start: Tensor, end: Tensor, gold_start: float, gold_end: float) -> Tensor:
    """Equation 15, with half-open ends."""
    gold = start.new_tensor([gold_start, gold_end])
    shared = torch.minimum(end, gold[1]) - torch.maximum(start, gold[0])
    return 1 - shared / (torch.maximum(end, gold[1]) - torch.minimum(start, gold[0]))


def plain_of(head: LocateHead) -> PlainHead:
    """The plain head with the parameters of a fast one."""
    width = head.classifier.hidden.in_features // 3
    plain = PlainHead(head.scheme.options, head.scheme, Width(width, width)).to(next(head.parameters()).dtype)
    plain.load_state_dict(head.state_dict())
    plain.train(head.training)
    return plain
