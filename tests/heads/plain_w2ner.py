"""The grid head written down plainly: every pair's vector is there, every sentence is padded to the longest.

It has the fast head's parameters, so that both can be asked the same. The tests compare them, and the benchmark tells
what the fast forms are worth.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from spanloom.encoder.words import Width, Words
from spanloom.heads.base import Loss, Part, Scores, Targets
from spanloom.heads.w2ner import NO_CELL, NONE, Grid, GridHead


class PlainHead(GridHead):
    """The same parameters, the obvious way."""

    def plain_logits(self, words: Words) -> Tensor:
        """[B, N, N, R] for all cells, those of padding too."""
        predictor, vectors = self.predictor, words.vectors
        batch, n, _ = vectors.shape
        logits = vectors.new_zeros(batch, n, n, self.scheme.n_labels)
        if predictor.pair is not None:
            drop = predictor.dropout
            one, other = (drop(functional.gelu(f(drop(vectors)))) for f in (predictor.row, predictor.column))
            one, other = (torch.cat([each, vectors.new_ones(batch, n, 1)], -1) for each in (one, other))
            logits = logits + torch.einsum("bih,rhk,bjk->bijr", one, predictor.pair.weight, other)
        if predictor.grid is not None:
            read = plain_grid(predictor.grid, vectors, words.mask)
            hidden = predictor.hidden(predictor.dropout(read))
            logits = logits + predictor.labels(predictor.dropout(functional.gelu(hidden)))
        return logits

    def loss(self, words: Words, targets: Targets) -> Loss:
        labels = targets["labels"]
        losses = functional.cross_entropy(
            self.plain_logits(words).flatten(0, 2), labels.flatten(), ignore_index=NO_CELL, reduction="none"
        )
        weights = torch.where(labels.flatten() > NONE, self.options.label_weight, 1.0)
        return {"cells": Part((weights * losses).sum(), (labels != NO_CELL).sum())}

    def scores(self, words: Words, draw: torch.Generator | None = None) -> Scores:
        best = self.plain_logits(words).softmax(-1).max(-1)
        inside = words.mask[:, :, None] & words.mask[:, None]
        return {"labels": best.indices.masked_fill(~inside, NONE), "probability": best.values}


def plain_class(ahead: int) -> int:
    """The class of a distance, by the table of the specification."""
    if ahead == 0:
        return 19
    size = min(abs(ahead).bit_length(), 9)
    return size if ahead > 0 else size + 9


def plain_grid(grid: Grid, vectors: Tensor, mask: Tensor) -> Tensor:
    """What the convolutions make of the grid, side by side: [B, N, N, c * layers]."""
    batch, n, _ = vectors.shape
    inside = (mask[:, :, None] & mask[:, None])[..., None]
    mean = vectors.mean(-1, keepdim=True)
    variance = ((vectors - mean) ** 2).mean(-1, keepdim=True)
    normal = (vectors - mean) / (variance + 1e-12).sqrt()
    gain, bias = grid.norm.gain(vectors), grid.norm.bias(vectors)
    parts = [normal[:, :, None] * gain[:, None] + bias[:, None]]
    classes = torch.tensor([[plain_class(i - j) for j in range(n)] for i in range(n)])
    if grid.distances is not None:
        parts.append(grid.distances(classes).expand(batch, n, n, -1))
    if grid.regions is not None:
        regions = torch.tensor([[1 if i < j else 2 for j in range(n)] for i in range(n)])
        parts.append(grid.regions(regions).expand(batch, n, n, -1))
    whole = torch.cat(parts, -1) * inside
    whole = (
        whole
        * functional.dropout(vectors.new_ones(batch, 1, whole.shape[-1]), grid.channel_dropout, grid.training)[:, None]
    )
    now = functional.gelu(grid.reduce(whole)) * inside
    read = []
    for convolution in grid.convolutions:
        now = functional.gelu(convolution(now.permute(0, 3, 1, 2))).permute(0, 2, 3, 1) * inside
        read.append(now)
    return torch.cat(read or [now], -1)


def plain_of(head: GridHead) -> PlainHead:
    """The plain head with the parameters of a fast one."""
    width = (head.predictor.grid.norm.gain if head.predictor.grid is not None else head.predictor.row).in_features
    plain = PlainHead(head.scheme.options, head.scheme, Width(width, width)).to(next(head.parameters()).dtype)
    plain.load_state_dict(head.state_dict())
    plain.train(head.training)
    return plain
