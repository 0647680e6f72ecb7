"""One trained model with many settings of its decoding: the encoder reads each sentence once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch

from spanloom import align
from spanloom.document import Document, Mention, Sentence
from spanloom.errors import Tally
from spanloom.evaluation.compare import mentions_by_rank
from spanloom.evaluation.metric import Result, Scorer
from spanloom.heads.base import Scheme
from spanloom.predictor import Recogniser, autocast, scheme_with

DOCUMENTS = 1024
"""Documents that are held at once."""


@dataclass(slots=True)
class Setting:
    """Options of decoding, and what they give.

    `seconds` are the head's and the decoding's, not the encoder's, and `lost` is what decoding had to leave out.
    """

    options: Mapping[str, Any]
    threshold: float
    scorer: Scorer = field(default_factory=Scorer)
    seconds: float = 0.0
    lost: Tally = field(default_factory=Tally)

    @property
    def result(self) -> Result:
        return self.scorer.result()


@dataclass(slots=True)
class Sweep:
    """All settings, those that differ in their threshold alone together: they share scores and decoding."""

    ner: Recogniser
    settings: list[Setting]
    encoder_seconds: float = 0.0
    groups: list[tuple[Scheme, list[Setting]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        by_options: dict[str, tuple[Scheme, list[Setting]]] = {}
        for setting in self.settings:
            scheme_and_settings = by_options.get(repr(setting.options))
            if scheme_and_settings is None:
                scheme_and_settings = scheme_with(self.ner.model, setting.options), []
                by_options[repr(setting.options)] = scheme_and_settings
            scheme_and_settings[1].append(setting)
        self.groups = list(by_options.values())

    def read(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Scores every setting on documents with gold; gives them back one by one as they are done."""
        waiting = iter(documents)
        while held := list(islice(waiting, DOCUMENTS)):
            self._read(held)
            yield from held

    @torch.inference_mode()
    def _read(self, documents: Sequence[Document]) -> None:
        """Some documents, whole: sentences see their neighbours in the same document."""
        cut = [align.sentences(document, Tally(), self.ner.segmenter) for document in documents]
        sentences = [
            Sentence(each.words, each.spans, (), each.pos, str(number))
            for number, each_document in enumerate(cut)
            for each in each_document
        ]
        found: list[list[list[Mention]]] = [[[] for _ in sentences] for _ in self.groups]
        model = self.ner.model
        for which, rows in self.ner.batches(sentences):
            began = time.perf_counter()
            with autocast(model.device, self.ner.precision):
                words = model.encoder(rows)
            self.encoder_seconds += time.perf_counter() - began
            for (scheme, settings), mentions in zip(self.groups, found, strict=True):
                began, lost = time.perf_counter(), Tally()
                model.use(scheme)
                with autocast(model.device, self.ner.precision):
                    scores = model.head.scores(words)
                for i, of_sentence in zip(which, scheme.decode(scores, lost), strict=True):
                    mentions[i] = of_sentence
                seconds = time.perf_counter() - began
                for setting in settings:
                    setting.seconds += seconds
                    setting.lost.update(lost)
        for (_, settings), mentions in zip(self.groups, found, strict=True):
            for setting in settings:
                self._score(setting, documents, cut, mentions)

    @staticmethod
    def _score(
        setting: Setting,
        documents: Sequence[Document],
        cut: Sequence[Sequence[Sentence]],
        mentions: Sequence[Sequence[Mention]],
    ) -> None:
        """One setting on whole documents; gold is compared as annotated, on word borders or not."""
        left = iter(mentions)
        for document, sentences in zip(documents, cut, strict=True):
            entities = [
                entity
                for sentence in sentences
                for entity in align.entities(sentence, next(left))
                if (entity.score or 0.0) >= setting.threshold
            ]
            predicted = Document(document.id, document.text, tuple(entities))
            size = len(document.words) if document.words is not None else 1
            setting.scorer.add(mentions_by_rank(document), mentions_by_rank(predicted), size)
