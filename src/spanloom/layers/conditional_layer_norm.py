"""Conditional layer norm over pairs of words, and the linear map that reads it, without the pairs' vectors.

The vector of a pair (i, j) is word i, normalised, with a gain and a bias that word j makes:

    v_ij = gain_j * normal_i + bias_j        gain_j = g + A h_j,   bias_j = b + C h_j

Gains and biases depend on j alone, the normalised words on i alone, so a linear map W of all v_ij is

    W v_ij = sum_k W_k gain_jk normal_ik + W bias_j

whose operands are words. `pair_products` makes the sum a few words at a time: N x N x d never exists. Its backward
pass makes the products anew instead of keeping them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

EPSILON = 1e-12
BLOCK = 1 << 19
"""Numbers that are made at once: what fits into a core's cache."""


class ConditionalLayerNorm(nn.Module):
    """The parts of v_ij. At first the gain is 1 and the bias 0, whatever the condition."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Linear(width, width), nn.Linear(width, width)
        for layer, start in ((self.gain, 1.0), (self.bias, 0.0)):
            nn.init.zeros_(layer.weight)
            nn.init.constant_(layer.bias, start)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Words [B, N, d] as normalised words, gains and biases, each [B, N, d]."""
        normal = functional.layer_norm(vectors, vectors.shape[-1:], eps=EPSILON)
        return normal, self.gain(vectors), self.bias(vectors)


def pair_products(one: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """sum_k weight[o, k] one[b, i, k] other[b, j, k]: words [B, N, d] and [B, M, d], weight [c, d] to [B, N, M, c]."""
    return _PairProducts.apply(one, other, weight)  # type: ignore[no-any-return, no-untyped-call]


class _PairProducts(torch.autograd.Function):
    """Some rows of products at a time, through the matrix, and gone."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(one, other, weight)
        batch, n, m = len(one), one.shape[1], other.shape[1]
        out = one.new_empty(batch, n, m, len(weight))
        for b, i in _blocks(batch, n, m * one.shape[2]):
            products = (one[b, i, None] * other[b, None]).flatten(0, 2)
            torch.mm(products, weight.T, out=out[b, i].view(-1, len(weight)))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        one, other, weight = ctx.saved_tensors
        (gradient,) = gradients
        of_one, of_other, of_weight = torch.empty_like(one), torch.zeros_like(other), torch.zeros_like(weight)
        for b, i in _blocks(len(one), one.shape[1], other.shape[1] * one.shape[2]):
            left, right, given = one[b, i, None], other[b, None], gradient[b, i]
            products = (left * right).flatten(0, 2)
            of_weight.addmm_(given.flatten(0, 2).T, products)
            back = given @ weight  # [b, i, M, d]
            of_one[b, i] = (back * right).sum(2)
            of_other[b] += back.mul_(left).sum(1)
        return of_one, of_other, of_weight


def _blocks(batch: int, rows: int, size: int) -> Iterator[tuple[slice, slice]]:
    """Cuts B x N rows of a size into blocks: whole sentences where several fit, else rows of one sentence."""
    at_once = max(1, BLOCK // max(1, size * rows))
    of_rows = rows if size * rows <= BLOCK else max(1, BLOCK // size)
    for b in range(0, batch, at_once):
        for i in range(0, rows, of_rows):
            yield slice(b, b + at_once), slice(i, i + of_rows)
