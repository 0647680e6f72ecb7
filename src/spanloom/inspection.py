"""What is in a corpus: counts of everything a person should know before training on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spanloom.align import sentences
from spanloom.document import Document, Entity, Mention, Sentence
from spanloom.errors import Tally
from spanloom.evaluation.shapes import SHAPES, Shape, shapes_of
from spanloom.segment import Segmenter

EXAMPLE_CHARACTERS = 320
"""Longer sentences are no examples: they fill the screen."""

Mixture = frozenset[tuple[str, Shape]]
Rank = tuple[int, ...]


@dataclass(slots=True)
class Split:
    """The figures of one split, filled sentence by sentence."""

    name: str
    documents: int = 0
    entities: int = 0
    types: Counter[str] = field(default_factory=Counter)
    shapes: Counter[Shape] = field(default_factory=Counter)
    sentence_lengths: Counter[int] = field(default_factory=Counter)
    entity_lengths: Counter[int] = field(default_factory=Counter)
    without_entities: int = 0
    repeated: int = 0
    contradicted: int = 0
    also_in: Counter[str] = field(default_factory=Counter)
    names: int = 0
    names_in_train: int = 0
    twice: int = 0
    lost: Tally = field(default_factory=Tally)
    heads: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def sentences(self) -> int:
        return self.sentence_lengths.total()

    @property
    def words(self) -> int:
        return sum(length * count for length, count in self.sentence_lengths.items())

    def as_dict(self) -> dict[str, Any]:
        """The object of one split in `spanloom inspect --json`."""
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "words": self.words,
            "entities": self.entities,
            "types": dict(sorted(self.types.items())),
            "shapes": {shape: self.shapes[shape] for shape in SHAPES},
            "sentence_lengths": lengths(self.sentence_lengths),
            "entity_lengths": lengths(self.entity_lengths),
            "sentences_without_entities": self.without_entities,
            "duplicates": {
                "within": self.repeated,
                "with_other_entities": self.contradicted,
                **{f"also_in_{split}": count for split, count in self.also_in.items()},
            },
            "entities_twice": self.twice,
            "names": {"distinct": self.names, "also_in_train": self.names_in_train},
            "lost": dict(self.lost.counts),
            "heads": self.heads,
        }


def lengths(counts: Counter[int]) -> dict[str, float]:
    """Mean, median, 99th percentile and maximum of lengths in words."""
    total = counts.total()
    if not total:
        return {"mean": 0.0, "median": 0, "p99": 0, "max": 0}
    mean = sum(length * count for length, count in counts.items()) / total
    return {
        "mean": round(mean, 2),
        "median": percentile(counts, 0.5),
        "p99": percentile(counts, 0.99),
        "max": max(counts),
    }


def percentile(counts: Counter[int], share: float) -> int:
    """The smallest length that at least this share does not exceed."""
    wanted = share * counts.total()
    reached = 0
    for length in sorted(counts):
        reached += counts[length]
        if reached >= wanted:
            return length
    return 0


class Inspector:
    """Reads splits one after the other, train first, and remembers what the later ones share with it.

    Of each sentence only a hash is kept, so that a corpus need not fit into memory.
    """

    def __init__(self, examples: int = 0, segmenter: Segmenter | None = None) -> None:
        self.splits: list[Split] = []
        self.examples: list[Document] = []
        self._wanted = examples
        self._segmenter = segmenter
        self._ranked: dict[Mixture, tuple[Rank, Document]] = {}
        self._seen: dict[str, set[int]] = {}
        self._train_names: set[int] = set()

    def add(self, name: str, documents: Iterable[Document], lost: Tally) -> Split:
        """Reads one split; `lost` is the tally that its reader fills."""
        split = Split(name, lost=lost)
        seen: dict[int, int] = {}
        names: set[int] = set()
        for document in documents:
            split.documents += 1
            split.entities += len(document.entities)
            split.twice += len(document.entities) - len(set(document.entities))
            for entity in document.entities:
                split.types[entity.type] += 1
                names.add(hash((entity.type, entity.text.lower())))
            for sentence in sentences(document, lost, self._segmenter):
                shapes = shapes_of(sentence.mentions)
                self._add_sentence(split, sentence, shapes, seen)
                if self._wanted:
                    self._consider(document, sentence, shapes)
        split.names = len(names)
        split.names_in_train = len(names & self._train_names)
        if name == "train":
            self._train_names = names
        self._seen[name] = set(seen)
        self.splits.append(split)
        self.examples = [document for _, (_, document) in self._best()]
        return split

    def _add_sentence(
        self, split: Split, sentence: Sentence, shapes: dict[Mention, Shape], seen: dict[int, int]
    ) -> None:
        split.sentence_lengths[len(sentence)] += 1
        split.without_entities += not sentence.mentions
        for mention, shape in shapes.items():
            split.shapes[shape] += 1
            split.entity_lengths[len(mention.words)] += 1
        key = hash(sentence.words)
        annotation = hash(frozenset(sentence.mentions))
        if key in seen:
            split.repeated += 1
            split.contradicted += seen[key] != annotation
        seen[key] = annotation
        for other, keys in self._seen.items():
            split.also_in[other] += key in keys

    def _consider(self, document: Document, sentence: Sentence, shapes: dict[Mention, Shape]) -> None:
        """Keeps the sentences that show the most shapes, one for each mixture of types and shapes."""
        if not sentence.mentions or sentence.spans[-1][1] - sentence.spans[0][0] > EXAMPLE_CHARACTERS:
            return
        mixture = frozenset((mention.type, shape) for mention, shape in shapes.items())
        kinds = set(shapes.values())
        rank = (len(kinds), "discontinuous" in kinds, len(mixture), -len(sentence))
        if mixture not in self._ranked or rank > self._ranked[mixture][0]:
            self._ranked[mixture] = (rank, excerpt(document, sentence))
        if len(self._ranked) > 8 * self._wanted:
            self._ranked = dict(self._best())

    def _best(self) -> list[tuple[Mixture, tuple[Rank, Document]]]:
        return sorted(self._ranked.items(), key=lambda ranked: ranked[1][0], reverse=True)[: self._wanted]


def excerpt(document: Document, sentence: Sentence) -> Document:
    """One sentence of a document as a document of its own, with the entities that lie in it."""
    start, end = sentence.spans[0][0], sentence.spans[-1][1]
    inside = [entity for entity in document.entities if start <= entity.start and entity.end <= end]
    moved = [
        Entity(entity.type, tuple((s - start, e - start) for s, e in entity.fragments), entity.score)
        for entity in inside
    ]
    return Document(document.id, document.text[start:end], tuple(moved))
