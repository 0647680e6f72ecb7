"""A bundle: one encoder and the heads that are trained on it, their losses weighted and summed.

The wrapper of "Win-Win Cooperation: Bundling Sequence and Span Models for Named Entity Recognition", for any two
different heads. It lives in training alone; what is kept of it are plain models of one head each. A single head is a
bundle of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from spanloom.encoder.encoder import Encoder
from spanloom.encoder.pieces import PieceBatch
from spanloom.heads.base import Family, Head, Loss, Part, Targets


def weights_of(host: Family, partner: Family, alpha: float) -> tuple[float, float]:
    """The weights of host and partner: alpha is that of the sequence side, and of the partner where both are of one."""
    if host.side == "sequence" and partner.side != "sequence":
        return alpha, 1 - alpha
    return 1 - alpha, alpha


class Bundle(nn.Module):
    """The one or two heads of a run around their encoder, by name, the host first, each with its weight."""

    partner: Head | None

    def __init__(self, encoder: Encoder, heads: Mapping[str, Head], weights: Mapping[str, float]) -> None:
        super().__init__()
        self.encoder = encoder
        self.head, *others = heads.values()
        self.partner = others[0] if others else None
        self.weights = [weights[name] for name in heads]
        self.prefixes = [f"{name}." if others else "" for name in heads]

    @property
    def heads(self) -> list[Head]:
        """The host, and its partner if it has one."""
        return [self.head] if self.partner is None else [self.head, self.partner]

    def forward(self, batch: PieceBatch, targets: Sequence[Targets]) -> Loss:
        """The parts of all losses, each head's with its name before them, from one pass of the encoder.

        Training goes through here, and so through whatever wraps the bundle.
        """
        words = self.encoder(batch)
        parts: Loss = {}
        for head, prefix, weight, of_head in zip(self.heads, self.prefixes, self.weights, targets, strict=True):
            for name, part in head.loss(words, of_head).items():
                parts[prefix + name] = Part(part.sum, part.count, weight * part.weight)
        return parts

    def parameter_groups(self) -> tuple[list[tuple[str, Tensor]], list[tuple[str, Tensor]]]:
        """The language model's parameters, and all that was added to it and trains, by name."""
        language = {id(parameter) for parameter in self.encoder.language_parameters()}
        named = list(self.named_parameters())
        return [pair for pair in named if id(pair[1]) in language], [
            pair for pair in named if id(pair[1]) not in language and pair[1].requires_grad
        ]
