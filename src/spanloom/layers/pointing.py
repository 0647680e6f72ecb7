"""Scores of words for spans, by a layer over the sum of both: v . relu(word + span).

The sum of every span and every word is B x K x M x d numbers, which no cache holds; here it is there for a few spans at
a time, in the gradient once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

AT_ONCE = {"cpu": 1 << 18}
"""Numbers at once, by device; what a core has near at hand."""
ELSEWHERE = 1 << 26


def point(words: Tensor, spans: Tensor, weight: Tensor) -> Tensor:
    """Words [B, M, d], spans [B, K, d] and v [d] to scores [B, K, M], in the precision that they are given in."""
    with torch.autocast(words.device.type, enabled=False):
        if torch.is_grad_enabled() and any(each.requires_grad for each in (words, spans, weight)):
            scores: Tensor = Pointing.apply(words, spans, weight)  # type: ignore[no-untyped-call]
            return scores
        return _scores(words, spans, weight)


class Pointing(torch.autograd.Function):
    """`point` with its gradient, which makes the sums anew instead of keeping them."""

    @staticmethod
    def forward(ctx: Any, words: Tensor, spans: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(words, spans, weight)
        return _scores(words, spans, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        words, spans, weight = ctx.saved_tensors
        to_words, to_weight = torch.zeros_like(words), torch.zeros_like(weight)
        to_spans = torch.empty_like(spans)
        for some in _pieces(words, spans):
            hidden = (words[:, None] + spans[:, some, None]).relu_()  # [B, k, M, d]
            here = wanted[:, some]  # [B, k, M]
            to_weight += here.reshape(-1) @ hidden.flatten(0, 2)
            slope = (hidden > 0) * here[..., None]
            to_spans[:, some] = slope.sum(2)
            to_words += slope.sum(1)
        return to_words * weight, to_spans * weight, to_weight


def _scores(words: Tensor, spans: Tensor, weight: Tensor) -> Tensor:
    scores = words.new_empty(*spans.shape[:2], words.shape[1])
    for some in _pieces(words, spans):
        scores[:, some] = (words[:, None] + spans[:, some, None]).relu_() @ weight
    return scores


def _pieces(words: Tensor, spans: Tensor) -> Iterator[slice]:
    """The spans, as many at a time as fit."""
    size = max(1, AT_ONCE.get(words.device.type, ELSEWHERE) // max(1, words.numel()))
    return (slice(at, at + size) for at in range(0, spans.shape[1], size))
