"""What annotators write and what models see: documents, sentences, entities, mentions.

Everything here is frozen and free of PyTorch. Ranges are half-open everywhere. `Entity` speaks in
characters of a document's text, `Mention` in words of one sentence; `spanloom.align` is the only
bridge between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Span = tuple[int, int]
"""A half-open range: (start, end)."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A named entity as people annotate and read it.

    `fragments` are character ranges of `Document.text` in ascending order that share no character;
    more than one makes the entity discontinuous. `score` is a probability, or None for what a
    person annotated. `text` is what the fragments cover, joined by blanks; an entity of a document
    always has it. Neither takes part in equality.
    """

    type: str
    fragments: tuple[Span, ...]
    score: float | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)

    @property
    def start(self) -> int:
        return self.fragments[0][0]

    @property
    def end(self) -> int:
        return self.fragments[-1][1]

    def covered(self, text: str) -> str:
        """What the fragments cover in the text of a document."""
        return " ".join([text[start:end] for start, end in self.fragments])


@dataclass(frozen=True, slots=True)
class Mention:
    """An entity as heads and metrics see it: `words` are ascending word positions of one sentence."""

    type: str
    words: tuple[int, ...]
    score: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The words of one sentence with their mentions.

    `spans` are the words' character ranges in the text of the document, `document` its id:
    neighbours with the same id are each other's context.
    """

    words: tuple[str, ...]
    spans: tuple[Span, ...]
    mentions: tuple[Mention, ...] = ()
    pos: tuple[str, ...] | None = None
    document: str = ""

    def __len__(self) -> int:
        return len(self.words)

    def covered(self, words: Iterable[int]) -> str:
        """Some of the words as one text."""
        return " ".join(self.words[word] for word in words)


@dataclass(frozen=True, slots=True)
class Document:
    """A text with everything that was annotated in it, whether or not it falls on word borders.

    `words` holds the character ranges of the words, sentence by sentence, where the document came
    as words; it is None where it came as text, and a `Segmenter` finds them. `pos` holds a
    part-of-speech tag a word, in the same layout; None for a sentence without tags.

    A document that came without a name is named by its place in its file: "1", "2", ... Such a
    name is not written where a format can do without.
    """

    id: str
    text: str
    entities: tuple[Entity, ...] = ()
    words: tuple[tuple[Span, ...], ...] | None = None
    pos: tuple[tuple[str, ...] | None, ...] | None = None

    def __post_init__(self) -> None:
        if not all(entity.text for entity in self.entities):
            found = tuple(Entity(e.type, e.fragments, e.score, e.covered(self.text)) for e in self.entities)
            object.__setattr__(self, "entities", found)


def runs(positions: Sequence[int]) -> Iterator[Span]:
    """The maximal runs of neighbouring positions, half-open: 2, 3, 5 gives (2, 4), (5, 6)."""
    start = previous = positions[0]
    for position in positions[1:]:
        if position != previous + 1:
            yield start, previous + 1
            start = position
        previous = position
    yield start, previous + 1
