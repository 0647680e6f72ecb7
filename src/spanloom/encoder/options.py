"""What can be chosen about the encoder. No torch here: the command line reads this file to explain itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from spanloom.errors import InputError

Pooling = Literal["max", "mean", "first"]
Layers = Literal["last", "last4"]

LEARNED = "learned"
"""What stands before the colon where word vectors are learned."""


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """How words become vectors."""

    name: str = field(
        default="minilm", metadata={"help": "the language model: a local folder, a hub name, or a short name"}
    )
    pooling: Pooling = field(
        default="max", metadata={"help": "how the vectors of a word's pieces become one: max, mean or first"}
    )
    layers: Layers = field(
        default="last", metadata={"help": "which layers are read: last, or last4 for the mean of the last four"}
    )
    lstm: int = field(
        default=0, metadata={"help": "width of a BiLSTM on top, both directions together; 0 leaves it out"}
    )
    lstm_layers: int = field(default=1, metadata={"help": "layers of that BiLSTM"})
    context: int = field(
        default=0,
        metadata={"help": "neighbouring sentences read along on either side, as much of them as fits"},
    )
    word_vectors: str = field(
        default="",
        metadata={
            "help": "vectors of whole words beside the language model's: a GloVe or word2vec text file, "
            "or learned:100 for learned ones of that width"
        },
    )
    char_lstm: int = field(
        default=0,
        metadata={"help": "width of a BiLSTM over each word's characters, both directions together; 0 leaves it out"},
    )
    pos: int = field(
        default=0,
        metadata={"help": "width of learned vectors of part-of-speech tags, which every sentence must have; 0: none"},
    )
    freeze: float = field(
        default=0.0,
        metadata={"help": "share of the training steps, from the first on, that leaves the language model as it is"},
    )
    dropout: float = field(default=0.1, metadata={"help": "dropout on the vectors of words and sentences"})

    def __post_init__(self) -> None:
        _expect("name", self.name, bool(self.name), "a folder, a hub name or a short name")
        _expect("pooling", self.pooling, self.pooling in get_args(Pooling), "max, mean or first")
        _expect("layers", self.layers, self.layers in get_args(Layers), "last or last4")
        _expect("lstm", self.lstm, _count(self.lstm, 0) and self.lstm % 2 == 0, "an even number from 0 on")
        _expect("lstm_layers", self.lstm_layers, _count(self.lstm_layers, 1), "a number from 1 on")
        _expect("context", self.context, _count(self.context, 0), "a number from 0 on")
        _expect("word_vectors", self.word_vectors, self._names_vectors(), "a file, or learned:WIDTH as in learned:100")
        even = _count(self.char_lstm, 0) and self.char_lstm % 2 == 0
        _expect("char_lstm", self.char_lstm, even, "an even number from 0 on")
        _expect("pos", self.pos, _count(self.pos, 0), "a number from 0 on")
        _expect("freeze", self.freeze, 0 <= self.freeze <= 1, "a share from 0 to 1")
        _expect("dropout", self.dropout, 0 <= self.dropout < 1, "a share from 0 to below 1")

    def _names_vectors(self) -> bool:
        return self.word_vectors.partition(":")[0] != LEARNED or self.learned_width > 0

    @property
    def learned_width(self) -> int:
        """The width of learned vectors of words; 0 where there are none, or where a file has them."""
        kind, _, width = self.word_vectors.partition(":")
        return int(width) if kind == LEARNED and width.isascii() and width.isdecimal() and len(width) < 10 else 0

    @property
    def vectors_file(self) -> str:
        """The file of word vectors, if any."""
        return "" if self.learned_width else self.word_vectors

    @property
    def has_features(self) -> bool:
        """Whether a word's vector is made of more than its pieces."""
        return bool(self.word_vectors or self.char_lstm or self.pos)


def _count(value: int, least: int) -> bool:
    return isinstance(value, int) and value >= least


def _expect(option: str, value: object, holds: bool, expected: str) -> None:
    if not holds:
        raise InputError(f"encoder.{option} {value}: {expected} is expected")
