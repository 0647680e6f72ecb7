"""What every encoder gives and every head takes: the words of a batch of sentences as vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor


class Width(NamedTuple):
    """The sizes that an encoder gives to a head: of a word's vector, and of the sentence's."""

    word: int
    sentence: int


@dataclass(frozen=True, slots=True)
class Words:
    """A batch of B sentences, padded to N words.

    vectors   [B, N, d]   one vector a word; rows behind a sentence's end are 0
    mask      [B, N]      True for words, False for padding
    sentence  [B, dg]     one vector a sentence, from the language model's first special token
    keys      [B]         a number that depends on the sentence's words alone, int64
    extra                 word-level inputs that only few heads need
    """

    vectors: Tensor
    mask: Tensor
    sentence: Tensor
    keys: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)
