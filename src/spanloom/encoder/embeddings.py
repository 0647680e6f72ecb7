"""Vectors of words, characters and part-of-speech tags, which stand beside those of the language model."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from spanloom.encoder.features import Vocabularies
from spanloom.encoder.options import EncoderOptions
from spanloom.encoder.pieces import PieceBatch

CHARACTER_WIDTH = 25
UNKNOWN_SHARE = 0.01
"""In training this share of everything known counts as unknown, so that the unknown is learned in any corpus."""


class Table(nn.Module):
    """A learned vector for each number; 0 is the unknown."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(entries, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, numbers: Tensor) -> Tensor:
        """[...] to [..., width]."""
        return functional.embedding(some_unknown(numbers) if self.training else numbers, self.weight)


class FixedTable(nn.Module):
    """Vectors that a file gave stay as they are; what it has no vector for shares one, which is learned."""

    def __init__(self, entries: int, width: int) -> None:
        super().__init__()
        self.known = nn.Parameter(torch.zeros(entries - 1, width), requires_grad=False)
        self.unknown = nn.Parameter(torch.zeros(width))

    def fill(self, vectors: Tensor) -> None:
        """Takes the file's vectors [entries - 1, width]; the unknown starts from their mean."""
        with torch.no_grad():
            self.known.copy_(vectors)
            self.unknown.copy_(vectors.mean(0))

    def forward(self, numbers: Tensor) -> Tensor:
        """[...] to [..., width]."""
        numbers = some_unknown(numbers) if self.training else numbers
        known = functional.embedding((numbers - 1).clamp(min=0), self.known)
        return torch.where(numbers[..., None] > 0, known, self.unknown)


def some_unknown(numbers: Tensor) -> Tensor:
    """Numbers with some of them, drawn anew each time, replaced by that of the unknown."""
    return numbers.masked_fill(torch.rand(numbers.shape, device=numbers.device) < UNKNOWN_SHARE, 0)


class CharacterLSTM(nn.Module):
    """A BiLSTM over each word's characters: where it ends in either direction is the word's vector."""

    def __init__(self, characters: int, width: int, dropout: float) -> None:
        super().__init__()
        self.table = Table(characters, CHARACTER_WIDTH)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(CHARACTER_WIDTH, width // 2, bidirectional=True)

    def forward(self, characters: Tensor) -> Tensor:
        """Words [U, C], -1 behind their ends, to [U, width]."""
        lengths = (characters >= 0).sum(1).cpu()
        # packed before they become vectors: a long word among short ones costs no padding
        packed = pack_padded_sequence(characters, lengths, batch_first=True, enforce_sorted=False)
        vectors = as_autocast(self.dropout(self.table(packed.data)))
        _, (last, _) = self.lstm(PackedSequence(vectors, *packed[1:]))  # [2, U, width / 2]
        return torch.cat([*last], -1)


class WordEmbeddings(nn.Module):
    """All that stands beside the language model's word vectors, as far as the options ask for it."""

    def __init__(self, options: EncoderOptions, vocabularies: Vocabularies) -> None:
        super().__init__()
        self.pos: Table | None = None
        self.words: Table | FixedTable | None = None
        self.characters: CharacterLSTM | None = None
        if vocabularies.pos is not None:
            self.pos = Table(len(vocabularies.pos), options.pos)
        if vocabularies.words is not None:
            kind = Table if options.learned_width else FixedTable
            self.words = kind(len(vocabularies.words), vocabularies.word_width)
        if vocabularies.characters is not None:
            self.characters = CharacterLSTM(len(vocabularies.characters), options.char_lstm, options.dropout)
        self.width = options.pos + vocabularies.word_width + options.char_lstm
        # without a BiLSTM these are the words' vectors themselves, which have their dropout behind
        self.dropout = nn.Dropout(options.dropout if options.lstm else 0.0)

    def forward(self, batch: PieceBatch) -> Tensor:
        """The words of a batch as [B, N, width], the parts in the order tags, words, characters; padding is 0."""
        return torch.cat([*self._parts(batch)], -1).masked_fill(~batch.mask[..., None], 0)

    def _parts(self, batch: PieceBatch) -> Iterator[Tensor]:
        if self.pos is not None:
            yield self.dropout(self.pos(_given(batch.pos)))
        if self.words is not None:
            yield self.dropout(self.words(_given(batch.entries)))
        if self.characters is not None:
            yield self.characters(_given(batch.characters))[_given(batch.spelling)]


def _given(tensor: Tensor | None) -> Tensor:
    if tensor is None:
        raise ValueError("the batch was built without the vocabularies of this encoder")
    return tensor


def as_autocast(vectors: Tensor) -> Tensor:
    """What is about to be packed, in the precision of autocast, which does not reach into a packed sequence."""
    device = vectors.device.type
    return vectors.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else vectors
