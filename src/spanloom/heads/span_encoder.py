"""What makes vectors of spans, and finds their boundary words: the network of `diffusion.py`, without its noise.

B sentences of N words, K spans each, seen G times at once (in training, under different noise), d wide. What depends on
the words alone is had from `read`, once however often spans are looked at.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from spanloom.layers.pointing import point

ATTENTIONS, FEED_FORWARD = 8, 1024  # heads of an attention, and width between the two layers that follow it
SLOWEST = 10_000  # the longest wave of an embedding of numbers
SPREAD = 0.02  # of weights at first


class NumberEmbedding(nn.Module):
    """A vector for any whole number: waves of many lengths, then two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, numbers: Tensor) -> Tensor:
        """[...] to [..., d]."""
        waves = sinusoids(numbers, self.hidden.in_features).to(self.hidden.weight.dtype)
        vectors: Tensor = self.out(functional.gelu(self.hidden(waves)))
        return vectors


def sinusoids(numbers: Tensor, width: int) -> Tensor:
    """Sines, then cosines, of numbers [...] in waves from short to long: [..., width]."""
    half = width // 2
    exponents = torch.arange(half, dtype=torch.float64, device=numbers.device) / max(1, half - 1)
    angles = numbers[..., None] * torch.exp(-math.log(SLOWEST) * exponents)
    return functional.pad(torch.cat((angles.sin(), angles.cos()), -1), (0, width - 2 * half))


class BoundaryFeatures(nn.Module):
    """A span by its first and its last word."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, width)
        self.joint = nn.Linear(2 * width, width)

    def read(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """What each word [B, N, d] gives to spans that begin, and to spans that end with it.

        The layers are linear: without dropout between them, all three are done with once a word.
        """
        first, last = self.first(vectors), self.last(vectors)
        if self.training:
            return first, last
        of_first, of_last = self.joint.weight.chunk(2, 1)
        return functional.linear(first, of_first), functional.linear(last, of_last, self.joint.bias)

    def forward(self, read: tuple[Tensor, ...], spans: Tensor) -> Tensor:
        """Spans [B, G, K, 2] to [B, G, K, d]."""
        first, last = rows(read[0], spans[..., 0]), rows(read[1], spans[..., 1] - 1)
        if not self.training:
            return first + last
        both = torch.cat((self.dropout(first), self.dropout(last)), -1)
        vectors: Tensor = self.dropout(self.joint(both))
        return vectors


class MeanFeatures(nn.Module):
    """A span by the mean of its words, as the difference of two sums from the first word on."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def read(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """The sums [B, N + 1, d]; in float32 a short span behind many words would lose digits."""
        return (functional.pad(vectors.double().cumsum(1), (0, 0, 1, 0)),)

    def forward(self, read: tuple[Tensor, ...], spans: Tensor) -> Tensor:
        (sums,), (start, end) = read, spans.unbind(-1)
        total = rows(sums, end) - rows(sums, start)
        mean = total / (end - start)[..., None]
        dropped: Tensor = self.dropout(mean)
        return dropped


def rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of tables [B, N, d] that are named in [B, ...]: [B, ..., d]."""
    sentence = torch.arange(len(table), device=table.device)
    return table[sentence.view(-1, *[1] * (index.dim() - 1)), index]


class Attention(nn.Module):
    """Scaled dot products in several heads. Queries, keys and values are had one by one, for they come from apart."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.heads = math.gcd(width, ATTENTIONS)  # a width that 8 does not divide has fewer
        self.dropout = dropout
        self.inward, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def queries(self, vectors: Tensor) -> Tensor:
        return self._projected(vectors, 0)

    def keys(self, vectors: Tensor) -> Tensor:
        return self._projected(vectors, 1)

    def values(self, vectors: Tensor) -> Tensor:
        return self._projected(vectors, 2)

    def _projected(self, vectors: Tensor, which: int) -> Tensor:
        """[R, L, d] to [R, heads, L, d / heads]."""
        weight, bias = self.inward.weight.chunk(3)[which], self.inward.bias.chunk(3)[which]
        projected = functional.linear(vectors, weight, bias)
        return projected.view(*projected.shape[:2], self.heads, len(bias) // self.heads).transpose(1, 2)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """What queries [R, heads, L, .] find: [R, L, d]."""
        dropout = self.dropout if self.training else 0.0
        found = functional.scaled_dot_product_attention(queries, keys, values, mask, dropout)
        out: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return out


class SpanLayer(nn.Module):
    """Spans look at each other, then at the words; then two layers for each alone."""

    def __init__(self, width: int, dropout: float, among: bool, across: bool) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.among = Attention(width, dropout) if among else None
        self.across = Attention(width, dropout) if across else None
        self.norm_among = nn.LayerNorm(width) if among else nn.Identity()
        self.norm_across = nn.LayerNorm(width) if across else nn.Identity()
        self.widen, self.narrow = nn.Linear(width, FEED_FORWARD), nn.Linear(FEED_FORWARD, width)
        self.norm = nn.LayerNorm(width)

    def read(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """The keys and values of the words [B, N, d]."""
        return (self.across.keys(vectors), self.across.values(vectors)) if self.across is not None else ()

    def forward(self, vectors: Tensor, places: Tensor, seen: tuple[Tensor, ...], mask: Tensor) -> Tensor:
        """Spans [B, G, K, d] to the same; `places` [K, d] tell them apart."""
        shape = vectors.shape
        if self.among is not None:
            flat = vectors.flatten(0, 1)  # the spans of one draw know nothing of those of another
            placed = flat + places
            found = self.among(self.among.queries(placed), self.among.keys(placed), self.among.values(flat))
            vectors = self.norm_among(vectors + self.dropout(found.view(shape)))
        if self.across is not None:
            queries = self.across.queries((vectors + places).flatten(1, 2))
            found = self.across(queries, *seen, mask[:, None, None])
            vectors = self.norm_across(vectors + self.dropout(found.view(shape)))
        alone = self.narrow(self.dropout(functional.relu(self.widen(vectors))))
        normed: Tensor = self.norm(vectors + self.dropout(alone))
        return normed


class Pointer(nn.Module):
    """How well each word would do as the first, or the last, of each span."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_word, self.of_span = nn.Linear(width, width), nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def read(self, vectors: Tensor) -> Tensor:
        words: Tensor = self.of_word(vectors)
        return wide(words)

    def forward(self, read: Tensor, vectors: Tensor, mask: Tensor) -> Tensor:
        """Spans [B, K, d] to logits [B, K, N], the least there is for what is no word."""
        logits = point(read, wide(self.of_span(vectors)), self.out.weight[0]) + self.out.bias
        return logits.masked_fill(~mask[:, None], torch.finfo(logits.dtype).min)


def wide(tensor: Tensor) -> Tensor:
    """Half precision as float32; float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def initialise(network: nn.Module) -> None:
    """Small normal weights and no biases; what comes into an attention as the framework has it."""
    for module in network.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=SPREAD)
            nn.init.zeros_(module.bias)
    for module in network.modules():
        if isinstance(module, Attention):
            nn.init.xavier_uniform_(module.inward.weight)
