"""The linear-chain conditional random field: what a sequence of tags is worth, and which one is best.

    score(y) = start[y_1] + sum_i emissions[i, y_i] + sum_i transitions[y_i, y_i+1] + end[y_n]
    p(y)     = exp(score(y) - log Z),  log Z = log sum_y' exp(score(y'))

B sentences of up to N words, K tags. Emissions are [B, N, K]; a mask [B, N] is True for words, which come
first, and False for padding behind them. All sentences go side by side, only time is a loop. What is
computed is float32, under autocast too. A sentence without words has log Z = score = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4  # not -inf, whose gradient is NaN
FLOOR = 1e-30  # a sum of probabilities above it has lost nothing that float32 would show


class Moves(NamedTuple):
    """A value for each move of a chain: what it is worth (float), or whether it is legal (bool)."""

    transitions: Tensor
    """[K, K], from one tag (row) to the next (column)"""
    start: Tensor
    """[K], into the first tag"""
    end: Tensor
    """[K], out of the last tag"""


class LinearChain(nn.Module):
    """The worth of each move, learned."""

    def __init__(self, n_tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(n_tags, n_tags))
        self.start = nn.Parameter(torch.empty(n_tags))
        self.end = nn.Parameter(torch.empty(n_tags))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def moves(self) -> Moves:
        return Moves(self.transitions, self.start, self.end)

    def forward(self, emissions: Tensor, tags: Tensor, mask: Tensor, legal: Moves | None = None) -> Tensor:
        """The negative log-likelihood of the gold tags [B, N]: [B]."""
        moves = self.moves() if legal is None else restrict(self.moves(), legal)
        return nll(moves, emissions, tags, mask)


def restrict(moves: Moves, legal: Moves) -> Moves:
    """The moves with a penalty on what is not legal, so large that no path takes it if another is left."""
    return Moves(*(worth.float() + FORBIDDEN * ~allowed for worth, allowed in zip(moves, legal, strict=True)))


def nll(moves: Moves, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """-log p of each sentence's tags [B, N]: [B]."""
    return log_partition(moves, emissions, mask) - path_score(moves, emissions, tags, mask)


def path_score(moves: Moves, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
    """The score of each sentence's tags [B, N]: [B]. Tags of padding may hold anything."""
    moves, emissions = _full_precision(moves, emissions, mask)
    if emissions.shape[1] == 0:
        return emissions.sum((1, 2))
    tags = tags.masked_fill(~mask, 0)
    last = tags.gather(1, _last(mask).unsqueeze(1)).squeeze(1)
    emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
    moved = moves.transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0)
    score = moves.start[tags[:, 0]] + emitted.sum(1) + moved.sum(1) + moves.end[last]
    return score.masked_fill(~mask[:, 0], 0)


def log_partition(moves: Moves, emissions: Tensor, mask: Tensor) -> Tensor:
    """The log Z of each sentence: [B]."""
    moves, emissions = _full_precision(moves, emissions, mask)
    if emissions.shape[1] == 0:
        return emissions.sum((1, 2))
    sums, offsets = _forward(moves.start, moves.transitions, emissions.transpose(0, 1))
    at_last = _last(mask), torch.arange(len(mask), device=mask.device)
    log_z = (sums[at_last] + moves.end).logsumexp(-1) + offsets[at_last].squeeze(-1)
    return log_z.masked_fill(~mask[:, 0], 0)


def marginals(moves: Moves, emissions: Tensor, mask: Tensor) -> Tensor:
    """The probability of each tag at each word, over all paths: [B, N, K], 0 for padding."""
    moves, emissions = _full_precision(moves, emissions, mask)
    if emissions.shape[1] == 0:
        return emissions
    # The sums over all endings are the sums over all beginnings of the mirror image, in the same loop.
    mirror = _last(mask).unsqueeze(1) - torch.arange(mask.shape[1], device=mask.device)
    mirror = mirror.clamp_min(0).unsqueeze(2).expand_as(emissions)
    sums, _ = _forward(
        torch.stack((moves.start, moves.end)).unsqueeze(1),
        torch.stack((moves.transitions, moves.transitions.mT)),
        torch.stack((emissions, emissions.gather(1, mirror))).permute(2, 0, 1, 3),
    )
    beginnings, mirrored_endings = sums.permute(1, 2, 0, 3).unbind()
    endings = mirrored_endings.gather(1, mirror)
    # Both sums hold the word's own emission; what they leave out is the same for all of its tags.
    return (beginnings + endings - emissions).softmax(-1).masked_fill(~mask.unsqueeze(2), 0)


@torch.no_grad()
def viterbi(moves: Moves, emissions: Tensor, mask: Tensor) -> Tensor:
    """The best path of each sentence: tags [B, N], 0 for padding. Ties go to the lower tag, from the end backwards."""
    moves, emissions = _full_precision(moves, emissions, mask)
    if emissions.shape[1] == 0:
        return mask.long()
    best = [moves.start + emissions[:, 0]]
    for emission in emissions[:, 1:].unbind(1):
        best.append((best[-1].unsqueeze(2) + moves.transitions).amax(1) + emission)
    tag = (torch.stack(best)[_last(mask), torch.arange(len(mask), device=mask.device)] + moves.end).argmax(1)
    # Only the tag before each tag of the best path is wanted: finding it again is cheaper than noting all.
    into = moves.transitions.mT.contiguous()
    path = [tag]
    for before, is_word in zip(best[-2::-1], mask.flip(1).unbind(1), strict=False):
        tag = torch.where(is_word, (before + into[tag]).argmax(1), tag)
        path.append(tag)
    return torch.stack(path[::-1], 1) * mask


def _forward(start: Tensor, transitions: Tensor, emissions: Tensor, exact: bool = False) -> tuple[Tensor, Tensor]:
    """The log of the sum over all beginnings that lead to each tag.

    start        [..., 1, K] or [K]
    transitions  [..., K, K]
    emissions    [N, ..., B, K]

    Gives sums [N, ..., B, K] and offsets [N, ..., B, 1]: the log is their sum. Kept apart, the sums do not
    grow with the sentence and lose no digits. A step multiplies probabilities, scaled to at most 1, with
    the transitions; where that runs out of float32's range, log-sum-exp does it all again.
    """
    peak = transitions.detach().amax(-2, keepdim=True)
    log_weights = transitions - peak
    weights = log_weights.exp()
    sums = [start + emissions[0]]
    offsets = [torch.zeros_like(sums[0][..., :1])]
    products = []
    with torch.autocast(emissions.device.type, enabled=False):
        for emission in (emissions[1:] + peak).unbind():
            top = sums[-1].detach().amax(-1, keepdim=True)
            scaled = sums[-1] - top
            if exact:
                sums.append((scaled.unsqueeze(-1) + log_weights.unsqueeze(-3)).logsumexp(-2) + emission)
            else:
                products.append(scaled.exp() @ weights)
                sums.append(products[-1].clamp_min(FLOOR).log() + emission)
            offsets.append(offsets[-1] + top)
    if products and (torch.stack(products) < FLOOR).any():
        return _forward(start, transitions, emissions, exact=True)
    return torch.stack(sums), torch.stack(offsets)


def _full_precision(moves: Moves, emissions: Tensor, mask: Tensor) -> tuple[Moves, Tensor]:
    """Both in float32; emissions of padding are 0, whatever they were."""
    emissions = emissions.float().masked_fill(~mask.unsqueeze(2), 0)
    return Moves(*(worth.float() for worth in moves)), emissions


def _last(mask: Tensor) -> Tensor:
    """The position of each sentence's last word: [B]; 0 where there is none."""
    return (mask.sum(1) - 1).clamp_min(0)
