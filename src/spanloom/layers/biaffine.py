"""The biaffine map: a score a label for every pair of words.

    score[i, j, r] = [s_i; 1]^T U_r [o_j; 1]

The 1s carry the linear terms and the bias. They are never appended: U falls into four parts, the large one of a size
that matrix units like.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Biaffine(nn.Module):
    """`weight` is U [R, h + 1, h + 1]; the last row and column belong to the 1s."""

    def __init__(self, width: int, n_labels: int) -> None:
        super().__init__()
        self.width = width
        self.weight = nn.Parameter(torch.empty(n_labels, width + 1, width + 1))
        nn.init.xavier_normal_(self.weight)

    @property
    def bias(self) -> Tensor:
        """What each label scores [R] whatever the two vectors are."""
        return self.weight[:, -1, -1]

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Vectors [B, N, h] and [B, M, h] to scores [B, N, M, R]."""
        h, labels = self.width, len(self.weight)
        batch, n, m = len(one), one.shape[1], other.shape[1]
        weight = self.weight.to(one.dtype)
        pairs = weight[:, :h, :h].permute(1, 0, 2).reshape(h, labels * h)
        left = (one @ pairs).view(batch, n * labels, h)
        scores = (left @ other.mT).view(batch, n, labels, m).transpose(2, 3)
        of_one = one @ weight[:, :h, h].T + weight[:, h, h]  # [B, N, R], with the bias
        of_other = other @ weight[:, h, :h].T
        return scores + of_one[:, :, None] + of_other[:, None]
