"""The diffusion head written down plainly: sentence by sentence, step by step, span by span, as the paper has it.

It has the fast head's parameters, so that both can be asked the same. The tests compare them, and the benchmark tells
what the fast form is worth. Everything is made anew in each step, and every span meets every word in one large tensor.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import cast

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn import functional

from spanloom.encoder.words import Width, Words
from spanloom.heads.base import Loss, Part, Targets
from spanloom.heads.diffusion import DiffusionHead
from spanloom.heads.span_encoder import (
    Attention,
    BoundaryFeatures,
    NumberEmbedding,
    Pointer,
    SpanLayer,
)
from spanloom.layers.diffusion import signal

Span = tuple[int, int]
Said = tuple[Tensor, Tensor, Tensor]


class PlainHead(DiffusionHead):
    """The same parameters, the obvious way."""

    def denoised(self, words: Words, noise: Tensor) -> dict[str, Tensor]:
        """Each sentence on its own; one without words has spans of no type."""
        options, share = self.scheme.options, signal(self.scheme.options.schedule, self.scheme.options.noise_steps)
        times = [options.noise_steps * step // options.steps - 1 for step in range(options.steps, -1, -1)]
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for at, (vectors, mask) in enumerate(zip(words.vectors, words.mask, strict=True)):
            vectors = vectors[: int(mask.sum())]
            if not len(vectors):
                nothing = torch.zeros(options.spans, dtype=torch.int64)
                found.append((torch.stack((nothing, nothing + 1), 1), nothing, torch.zeros(options.spans, 3)))
                continue
            points = noise[0, at].tolist()
            for step, (now, then) in enumerate(pairwise(times), 1):
                first, last, types = plain_network(self, vectors, [plain_span(p, len(vectors)) for p in points], now)
                spans = [(int(one.argmax()), int(other.argmax()) + 1) for one, other in zip(first, last, strict=True)]
                if then < 0:
                    break
                for k, (point, span) in enumerate(zip(points, spans, strict=True)):
                    fresh = noise[step, at, k].tolist() if options.eta else [0.0, 0.0]
                    guess = plain_point(span, len(vectors))
                    points[k] = [
                        plain_step(*pair, share[now], share[then], options.eta)
                        for pair in zip(point, guess, fresh, strict=True)
                    ]
            likeliest = types.softmax(-1).max(-1)
            most = [self.probabilities(logits).max(-1).values for logits in (first, last)]
            found.append((torch.tensor(spans), likeliest.indices, torch.stack((*most, likeliest.values), -1)))
        columns = [torch.stack([each[n] for each in found]) for n in range(3)]
        return dict(zip(("spans", "classes", "probability"), columns, strict=True))

    def loss(self, words: Words, targets: Targets) -> Loss:
        """Span by span, as section 3.2 of the specification has it."""
        options, progress = self.scheme.options, self.progress
        place = options.place * (1.0 if progress < 2 / 3 else (1 - progress) * 3)
        types, boundaries = words.vectors.sum() * 0.0, words.vectors.sum() * 0.0
        negative, found, all_spans = types, 0, 0
        for at in range(len(words.vectors)):
            size, count = int(words.mask[at].sum()), int(targets["counts"][at])
            gold = [(start, end) for start, end in targets["gold"][at, :count].tolist()]
            classes = targets["classes"][at, :count].tolist()
            for spans, time in zip(targets["spans"][at].tolist(), targets["times"][at].tolist(), strict=True):
                said = plain_network(self, words.vectors[at, :size], spans, time)
                pairs = plain_match(self, said, spans, gold, classes, place)
                all_spans, found = all_spans + len(spans), found + len(pairs)
                for k in range(len(spans)):
                    loss = -said[2][k].log_softmax(-1)
                    if k not in pairs:
                        negative = negative + loss[0]
                        continue
                    types = types + loss[classes[pairs[k]]]
                    (start, end), (first, last, _) = gold[pairs[k]], said
                    for logits, wanted in ((first[k], start), (last[k], end - 1)):
                        if options.pointers == "softmax":
                            boundaries = boundaries - logits.log_softmax(-1)[wanted]
                        else:
                            right = torch.where(torch.arange(size) == wanted, logits, -logits)
                            boundaries = boundaries - functional.logsigmoid(right).sum()
        others, nil = all_spans - found, options.nil_weight
        if nil == -1:
            nil = 1.0 if not found else found / others if others else 0.0
        over = found if found and not options.repeat else all_spans
        return {
            "types": Part(types + nil * negative, torch.tensor(over)),
            "boundaries": Part(boundaries, torch.tensor(found)),
        }


def plain_span(point: list[float], size: int) -> Span:
    """The span that a point comes nearest to."""
    first, following = ((min(1.0, max(-1.0, each)) + 1) / 2 for each in point)
    return round(first * (size - 1)), round(min(1.0, first + following) * (size - 1)) + 1


def plain_point(span: Span, size: int) -> list[float]:
    start, end = span
    return [2 * each / max(1, size - 1) - 1 for each in (start, max(0, end - 1 - start))]


def plain_step(point: float, guess: float, fresh: float, now: float, then: float, eta: float) -> float:
    found = (point - math.sqrt(now) * guess) / math.sqrt(1 - now)
    sigma = eta * math.sqrt((1 - now / then) * (1 - then) / (1 - now))
    return math.sqrt(then) * guess + math.sqrt(1 - then - sigma**2) * found + sigma * fresh


def plain_match(
    head: PlainHead, said: Said, spans: list[list[int]], gold: list[Span], classes: list[int], place: float
) -> dict[int, int]:
    """For spans that stand for an entity, which one it is; with repetition, gold goes round first."""
    n_words = said[0].shape[1]
    first, last = (head.probabilities(logits).tolist() for logits in said[:2])
    types = said[2].softmax(-1).tolist()
    which = [n % len(gold) for n in range(len(spans))] if head.scheme.options.repeat and gold else range(len(gold))
    costs = torch.zeros(len(spans), len(which), dtype=torch.float64)
    for k, (start, end) in enumerate(spans):
        for column, n in enumerate(which):
            (gold_start, gold_end), apart = gold[n], 0.0
            apart = abs(start - gold_start) + abs(end - gold_end)
            costs[k, column] = -(first[k][gold_start] + last[k][gold_end - 1] + types[k][classes[n]])
            costs[k, column] += place * apart / n_words
    rows, columns = linear_sum_assignment(costs)
    return {int(k): which[column] for k, column in zip(rows, columns, strict=True)}


def plain_network(head: DiffusionHead, vectors: Tensor, spans: list[Span] | list[list[int]], time: int) -> Said:
    """Words [n, d] of one sentence, K spans, to logits of first and last words [K, n] and of types [K, T]."""
    features = head.features
    made = []
    for start, end in spans:
        if isinstance(features, BoundaryFeatures):
            first, last = features.first(vectors[start]), features.last(vectors[end - 1])
            made.append(features.joint(torch.cat((features.dropout(first), features.dropout(last)))))
        else:
            made.append(vectors[start:end].mean(0))
    x = features.dropout(torch.stack(made))  # [K, d]
    places = x
    if head.places is not None:
        places = torch.stack([plain_number(head.places, k) for k in range(len(spans))])
    for module in head.layers:
        layer = cast(SpanLayer, module)
        if layer.among is not None:
            x = layer.norm_among(x + layer.dropout(plain_attention(layer.among, x + places, x + places, x)))
        if layer.across is not None:
            x = layer.norm_across(x + layer.dropout(plain_attention(layer.across, x + places, vectors, vectors)))
        x = layer.norm(x + layer.dropout(layer.narrow(layer.dropout(layer.widen(x).relu()))))
    x = x + plain_number(head.times, time)
    return plain_pointer(head.first, vectors, x), plain_pointer(head.last, vectors, x), head.types(x)


def plain_number(embedding: NumberEmbedding, number: int) -> Tensor:
    width = embedding.hidden.in_features
    half = width // 2
    angles = [number * math.exp(-i * math.log(10000) / max(1, half - 1)) for i in range(half)]
    waves = [*map(math.sin, angles), *map(math.cos, angles), *[0.0] * (width % 2)]
    hidden = embedding.hidden(torch.tensor(waves, dtype=embedding.hidden.weight.dtype))
    out: Tensor = embedding.out(functional.gelu(hidden))
    return out


def plain_attention(attention: Attention, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """The framework's own, for one sentence."""
    found, _ = functional.multi_head_attention_forward(
        *(queries[:, None], keys[:, None], values[:, None], queries.shape[1], attention.heads),
        *(attention.inward.weight, attention.inward.bias, None, None, False, attention.dropout),
        *(attention.out.weight, attention.out.bias, attention.training),
        need_weights=False,
    )
    return found[:, 0]


def plain_pointer(pointer: Pointer, vectors: Tensor, spans: Tensor) -> Tensor:
    both = pointer.of_word(vectors) + pointer.of_span(spans)[:, None]  # [K, n, d]
    logits: Tensor = pointer.out(both.relu())[..., 0]
    return logits


def plain_of(head: DiffusionHead) -> PlainHead:
    """The plain head with the parameters of a fast one."""
    width = head.first.of_word.in_features
    plain = PlainHead(head.scheme.options, head.scheme, Width(width, width)).to(next(head.parameters()).dtype)
    plain.load_state_dict(head.state_dict())
    plain.train(head.training)
    plain.progress = head.progress
    return plain
