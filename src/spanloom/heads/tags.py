"""A tag a word: what the tags mean, and the way from mentions to tags and back.

    words   severe pain in   the   left   knee
    BIO     B-x    I-x  O    O     B-y    I-y
    BILOU   B-x    L-x  O    O     B-y    L-y      (I in the middle, U alone)

Tag 0 is O. Each type has one tag a letter, in the order of its scheme: the types' first letters are tags
1, 1 + letters, 1 + 2 * letters, ... Tags are numbers throughout: a type may have any name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from spanloom.document import Mention, Sentence
from spanloom.errors import Tally
from spanloom.layers.crf import Moves

TagScheme = Literal["bio", "bilou"]

LETTERS: dict[TagScheme, str] = {"bio": "BI", "bilou": "BILU"}

Array = NDArray[np.int64]


class Spans(NamedTuple):
    """The entities of a batch, one a row, sentence by sentence from left to right; ends are half-open."""

    sentence: Array
    start: Array
    end: Array
    type: Array


class Tags:
    """The tags of a scheme over types."""

    def __init__(self, scheme: TagScheme, types: Sequence[str]) -> None:
        self.types = tuple(types)
        self.letters = LETTERS[scheme]
        self.names = ("O", *(f"{letter}-{type}" for type in self.types for letter in self.letters))
        letters = np.array(["O", *self.letters * len(self.types)])
        self._type_of = np.array([-1, *np.repeat(np.arange(len(self.types)), len(self.letters))])
        self._inside = np.isin(letters, ["I", "L"])
        self._open = np.isin(letters, ["B", "I"])
        same_type = self._type_of[:, None] == self._type_of
        self._goes_on = self._open[:, None] & self._inside & same_type

    def __len__(self) -> int:
        return len(self.names)

    def legal(self) -> Moves:
        """The moves that well-formed tags are made of. In BILOU an entity that is open must be closed."""
        may_stop = ~self._open if "L" in self.letters else np.ones_like(self._open)
        transitions = np.where(self._inside, self._goes_on, may_stop[:, None])
        return Moves(*map(torch.from_numpy, (transitions, ~self._inside, may_stop)))

    def encode(self, sentence: Sentence, lost: Tally) -> list[int]:
        """The tags of a sentence. Of mentions that share words the outermost is kept: the longest first, of
        equally long ones the leftmost, of two types on the same words the first type. The rest is counted.
        """
        tags = [0] * len(sentence)
        kept: dict[int, Mention] = {}  # by each of its words
        for mention in sorted(dict.fromkeys(sentence.mentions), key=self._outermost_first):
            reason = self._unfit(mention, kept)
            if reason:
                lost.add(reason, sentence.covered(mention.words))
                continue
            kept.update(dict.fromkeys(mention.words, mention))
            first_tag = 1 + self.types.index(mention.type) * len(self.letters)
            for word, letter in zip(mention.words, self._spell(len(mention.words)), strict=True):
                tags[word] = first_tag + self.letters.index(letter)
        return tags

    def _outermost_first(self, mention: Mention) -> tuple[int, int, int]:
        type = self.types.index(mention.type) if mention.type in self.types else len(self.types)
        return -len(mention.words), mention.words[0], type

    def _unfit(self, mention: Mention, kept: dict[int, Mention]) -> str | None:
        """Why a mention cannot stand beside those that are kept, if so."""
        words = mention.words
        if mention.type not in self.types:
            return "entities of unknown types"
        if words[-1] - words[0] >= len(words):
            return "discontinuous entities"
        others = [kept.get(word) for word in words]
        if not any(others):
            return None
        if any(other != others[0] for other in others):
            return "overlapping entities"
        return "second types of the same words" if others[0] and others[0].words == words else "nested entities"

    def _spell(self, length: int) -> str:
        if "L" not in self.letters:
            return "B" + "I" * (length - 1)
        return "U" if length == 1 else "B" + "I" * (length - 2) + "L"

    def decode(self, tags: Array, mask: NDArray[np.bool_]) -> Spans:
        """The entities that tags [B, N] spell; never fails on an ill-formed sequence.

        B opens an entity, U is one, L closes one; I and L go on with an open entity of their type, and
        open one where there is none. So whether a tag goes on depends on itself and the one before it.
        """
        width = tags.shape[1] + 1
        rows = np.zeros((len(tags), width), np.int64)  # an O behind each sentence keeps it from the next one
        rows[:, :-1] = np.where(mask, tags, 0)
        flat = rows.ravel()
        goes_on = np.zeros(len(flat) + 1, bool)
        goes_on[1:-1] = self._goes_on[flat[:-1], flat[1:]]
        first = np.flatnonzero((flat > 0) & ~goes_on[:-1])
        last = np.flatnonzero((flat > 0) & ~goes_on[1:])
        sentence, start = np.divmod(first, width)
        return Spans(sentence, start, start + last - first + 1, self._type_of[flat[first]])
