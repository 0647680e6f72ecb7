"""What the words of a span have at most.

A maximum may count a word twice, so that of a long span is that of two shorter ones that cover it. B sentences of N
words, or W words one after the other, d wide. A span is a start and a length, or a start and an end.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def running_maxima(vectors: Tensor, longest: int) -> Iterator[Tensor]:
    """The maximum over the words of each span, length by length: [B, N, d], [B, N - 1, d], ... [B, N - longest + 1, d].

    A span's maximum is that of the span one word shorter and of its last word, so each length costs one pass
    over the words, and no more than one length need be kept.
    """
    maxima = vectors
    for length in range(1, longest + 1):
        if length > 1:
            maxima = torch.maximum(maxima[:, :-1], vectors[:, length - 1 :])
        yield maxima


class Maxima:
    """The maximum over the words of any span up to a length.

    Window by window of 1, 2, 4, ... words stands in one table: [W, d], then [W - 1, d], [W - 3, d] and so on. A span
    is covered by two windows, one from its start on and one up to its end.
    """

    def __init__(self, vectors: Tensor, longest: int) -> None:
        """Words [W, d]; no span has more words than `longest`."""
        levels = [vectors]
        half = 1
        while 2 * half <= min(longest, len(vectors)):
            levels.append(torch.maximum(levels[-1][:-half], levels[-1][half:]))
            half *= 2
        self.words = len(vectors)
        self.table = torch.cat(levels)
        self.sizes = 2 ** torch.arange(len(levels), device=vectors.device)

    def of(self, start: Tensor, end: Tensor) -> Tensor:
        """The maxima [K, d] over the words of spans, from their starts [K] up to before their ends [K]."""
        level = torch.bucketize(end - start, self.sizes, right=True) - 1
        size = self.sizes[level]
        before = level * (self.words + 1) - (size - 1)  # rows of the levels below
        return torch.maximum(self.table[before + start], self.table[before + end - size])
