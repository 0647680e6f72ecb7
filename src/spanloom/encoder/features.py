"""What is known of a word beside its pieces: the word itself, its characters, its part of speech.

Vocabularies turn these into numbers. They are made from the corpus once, and kept with the model: a
word, character or tag that is not among them is unknown, which is number 0 of each. No model here:
this runs beside one, as the cutting into pieces does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spanloom.document import Sentence
from spanloom.encoder.options import EncoderOptions
from spanloom.encoder.word_vectors import Vectors, read_vectors
from spanloom.errors import InputError, shorten

Integers = NDArray[np.int64]

MOST_CHARACTERS = 100
"""Of a word with more, which is no word of a language, the first and the last of these are read."""


@dataclass(frozen=True, slots=True, eq=False)
class WordFeatures:
    """A sentence's words as numbers, where the options ask for them.

    words             the words themselves
    entries  [words]  each word's number in the vocabulary
    pos      [words]  each tag's number
    """

    words: tuple[str, ...]
    entries: Sequence[int] | None = None
    pos: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Entries by number, from 1 on; 0 is whatever is not among them."""

    entries: tuple[str, ...]
    number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", {entry: number for number, entry in enumerate(self.entries, 1)})

    def __len__(self) -> int:
        """The unknown included."""
        return len(self.entries) + 1

    def word(self, word: str) -> int:
        """The number of a word as it is written, or else in lower case."""
        return self.number.get(word) or self.number.get(word.lower(), 0)


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """Those that the options ask for, None for the others; `word_width` is the length of a word's vector."""

    words: Vocabulary | None = None
    word_width: int = 0
    characters: Vocabulary | None = None
    pos: Vocabulary | None = None

    def features(self, words: Sequence[str], tags: Sequence[str] | None) -> WordFeatures:
        """A sentence as numbers."""
        entries = pos = None
        if self.words is not None:
            entries = [self.words.word(word) for word in words]
        if self.pos is not None:
            if len(tags or ()) != len(words):
                said = "has no part-of-speech tags" if not tags else f"has {len(tags)} part-of-speech tags"
                raise InputError(
                    f'"{shorten(" ".join(words), 40)}" {said}, and the model was trained with them (encoder.pos); '
                    'give words with "pos", a tag a word'
                )
            pos = [self.pos.number.get(tag, 0) for tag in tags or ()]
        return WordFeatures(tuple(words), entries, pos)

    def tensors(self, sentences: Sequence[WordFeatures], n_words: int) -> dict[str, Tensor]:
        """A batch of sentences padded to `n_words`, by the names that `PieceBatch` has for it."""
        mask = np.arange(n_words) < np.array([len(sentence.words) for sentence in sentences])[:, None]
        made: dict[str, Integers] = {}
        if self.words is not None:
            made["entries"] = _padded(chain.from_iterable(each.entries or () for each in sentences), mask)
        if self.pos is not None:
            made["pos"] = _padded(chain.from_iterable(each.pos or () for each in sentences), mask)
        if self.characters is not None:
            words = list(chain.from_iterable(sentence.words for sentence in sentences))
            row = {word: at for at, word in enumerate(dict.fromkeys(words))}
            made["spelling"] = _padded(map(row.__getitem__, words), mask)
            made["characters"] = self._spelt(row)
        return {name: torch.from_numpy(array) for name, array in made.items()}

    def _spelt(self, words: Iterable[str]) -> Integers:
        """Words as their characters' numbers [U, C], -1 behind their ends."""
        assert self.characters is not None
        half, number = MOST_CHARACTERS // 2, self.characters.number
        cut = [word if len(word) <= MOST_CHARACTERS else word[:half] + word[-half:] for word in words]
        texts = [word or "\0" for word in cut]  # a word without a character has one, so that it can be read
        lengths = np.array([len(text) for text in texts], np.int64)
        spelt = np.full((len(texts), lengths.max(initial=0)), -1, np.int64)
        spelt[np.arange(spelt.shape[1]) < lengths[:, None]] = [number.get(char, 0) for char in "".join(texts)]
        return spelt

    def covered(self, sentences: Iterable[Sentence]) -> float:
        """The share of the words that are in the vocabulary, each as often as it comes."""
        assert self.words is not None
        known = [self.words.word(word) > 0 for sentence in sentences for word in sentence.words]
        return sum(known) / len(known)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        kept = {"words": self.words, "characters": self.characters, "pos": self.pos}
        found: dict[str, Any] = {name: list(kind.entries) for name, kind in kept.items() if kind is not None}
        return found | ({"word_width": self.word_width} if self.words is not None else {})

    @classmethod
    def from_dict(cls, found: object, options: EncoderOptions) -> Vocabularies | None:
        """What `to_dict` gave, None where the options ask for nothing of it; whatever else it is, is told."""
        if not options.has_features:
            return None
        if not isinstance(found, dict):
            raise InputError("is not the vocabulary of a model")
        width = options.learned_width or (found.get("word_width") if options.word_vectors else 0)
        if not isinstance(width, int) or isinstance(width, bool) or width < bool(options.word_vectors):
            raise InputError('"word_width" must be a whole number')
        return cls(
            _vocabulary(found, "words") if options.word_vectors else None,
            width,
            _vocabulary(found, "characters") if options.char_lstm else None,
            _vocabulary(found, "pos") if options.pos else None,
        )


def _padded(values: Iterable[int], mask: NDArray[np.bool_]) -> Integers:
    """Values of the words in their order as [B, N], 0 for padding."""
    out = np.zeros(mask.shape, np.int64)
    out[mask] = np.fromiter(values, np.int64)
    return out


def _vocabulary(found: Mapping[str, Any], name: str) -> Vocabulary:
    entries = found.get(name)
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputError(f'"{name}" is missing or damaged')
    if not entries or len(set(entries)) < len(entries):
        raise InputError(f'"{name}" must be a list of texts, each once')
    return Vocabulary(tuple(entries))


def fit(
    options: EncoderOptions, training: Sequence[Sentence], words: Iterable[str] = ()
) -> tuple[Vocabularies | None, Vectors | None]:
    """The vocabularies that fit the training sentences, and the vectors of words that came from a file [words, d].

    Of a file the words of the corpus are kept: those of training, and `words`, the other splits'. Learned are
    the vectors of words that training has twice or more, in lower case; those that it has once stand for the
    unknown, so that this has a vector that was learned too.
    """
    if not options.has_features:
        return None, None
    counts = Counter(chain.from_iterable(sentence.words for sentence in training))
    known, width, vectors = None, 0, None
    if options.vectors_file:
        corpus = counts.keys() | set(words)
        found, vectors = read_vectors(options.vectors_file, corpus | {word.lower() for word in corpus})
        known, width = Vocabulary(tuple(found)), vectors.shape[1]
    elif options.learned_width:
        lower: Counter[str] = Counter()
        for word, count in counts.items():
            lower[word.lower()] += count
        known, width = Vocabulary(tuple(sorted(word for word in lower if lower[word] > 1))), options.learned_width
        if not known.entries:
            raise InputError("encoder.word_vectors: no word comes twice in training; there are none to be learned")
    characters = pos = None
    if options.char_lstm:
        characters = Vocabulary(tuple(sorted(set(chain.from_iterable(counts)))))
    if options.pos:
        expect_tags(training, "train")
        pos = Vocabulary(tuple(sorted({tag for sentence in training for tag in sentence.pos or ()})))
    return Vocabularies(known, width, characters, pos), vectors


def expect_tags(sentences: Iterable[Sentence], split: str) -> None:
    """Refuses a split of which a sentence has no part-of-speech tags."""
    for sentence in sentences:
        if len(sentence.pos or ()) != len(sentence.words):
            raise InputError(
                f'{split}: "{shorten(" ".join(sentence.words), 40)}" has no part-of-speech tags, which encoder.pos '
                'needs; give each sentence its "pos" (or the column pos), or leave encoder.pos at 0'
            )
