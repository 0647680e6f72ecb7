"""Prediction: texts or words in, entities out, in the order they came.

Sentences wait for others of like length, so that a batch carries equal work and little padding; what
shares a batch with a sentence does not change what is found in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch

from spanloom import align
from spanloom.batching import cut
from spanloom.document import Document, Entity, Mention, Sentence
from spanloom.encoder.language_models import position_limit
from spanloom.encoder.pieces import Context, PieceBatch, Pieced, Pieces
from spanloom.errors import InputError, Tally, shorten
from spanloom.heads import family_of
from spanloom.heads.base import Scheme
from spanloom.model import SpanloomModel, load_model
from spanloom.options import check_prediction, decode_options, make
from spanloom.runs import output_folder
from spanloom.segment import Segmenter

BATCH_WORDS = 1024
"""Word pieces and head's work in one batch, padding included."""

LOOKAHEAD = 2048
"""Sentences that are held back to be sorted by length."""

TRIAL = Sentence(("This", "shows", "whether", "it", "runs"), (), pos=("DT", "VBZ", "IN", "PRP", "VBZ"))


def computes_in_bf16(device: torch.device) -> bool:
    """Whether bf16 is faster here, and not only possible."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if device.type == "cpu":
        able = torch.cpu.get_capabilities()
        return bool(able.get("avx512_bf16") or able.get("amx_bf16") or able.get("bf16"))
    return False


def resolve_precision(precision: str, device: torch.device) -> str:
    """`auto` as bf16 or fp32."""
    if precision == "auto":
        return "bf16" if computes_in_bf16(device) else "fp32"
    return precision


@dataclass(slots=True)
class Recogniser:
    """A trained model, ready to be called.

    ner = spanloom.load("runs/b")
    ner("Pain in the left knee.").entities
    for document in ner.pipe(texts): ...
    """

    model: SpanloomModel
    pieces: Pieces
    segmenter: Segmenter
    precision: str = "auto"
    batch_words: int = BATCH_WORDS
    threshold: float = 0.0
    lost: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self.precision = resolve_precision(self.precision, self.model.device)

    def __call__(self, text: str) -> Document:
        """The document of one text, with its entities."""
        return next(self.pipe([text]))

    def pipe(self, texts: Iterable[str]) -> Iterator[Document]:
        """The documents of a stream of texts, in their order."""
        return self.documents(Document(str(number), text) for number, text in enumerate(texts, 1))

    def documents(self, documents: Iterable[Document]) -> Iterator[Document]:
        """Each document with the entities that are found in it, instead of those it had."""
        waiting: deque[tuple[Document, list[Sentence]]] = deque()
        found: deque[list[Mention]] = deque()
        for mentions in self.sentences(self._segmented(documents, waiting)):
            found.append(mentions)
            yield from _finished(waiting, found)
        yield from _finished(waiting, found)

    def _segmented(
        self, documents: Iterable[Document], waiting: deque[tuple[Document, list[Sentence]]]
    ) -> Iterator[Sentence]:
        """The sentences of all documents, each document noted down as it goes by."""
        for number, document in enumerate(documents):
            sentences = align.sentences(replace(document, entities=()), Tally(), self.segmenter)
            waiting.append((document, sentences))
            # two documents may share a name; their sentences are no context for each other
            yield from (replace(sentence, document=str(number)) for sentence in sentences)

    def sentences(self, sentences: Iterable[Sentence]) -> Iterator[list[Mention]]:
        """The mentions of each sentence; neighbours of the same document are each other's context."""
        waiting = iter(sentences)
        while held := list(islice(waiting, LOOKAHEAD)):
            # a document is not cut in two, so that its sentences see each other
            while self.pieces.options.context and (further := next(waiting, None)) is not None:
                held.append(further)
                if further.document != held[-2].document:
                    waiting = chain([held.pop()], waiting)
                    break
            yield from self._mentions(held)

    @torch.inference_mode()
    def _mentions(self, sentences: Sequence[Sentence]) -> list[list[Mention]]:
        found: list[list[Mention]] = [[] for _ in sentences]
        for batch, rows in self.batches(sentences):
            with autocast(self.model.device, self.precision):
                scores = self.model.scores(rows)
            for i, mentions in zip(batch, self.model.scheme.decode(scores, self.lost), strict=True):
                found[i] = [mention for mention in mentions if (mention.score or 0.0) >= self.threshold]
        return found

    def batches(
        self, sentences: Sequence[Sentence], beside: Sequence[Recogniser] = ()
    ) -> Iterator[tuple[list[int], PieceBatch]]:
        """Batches of equal work, the longest sentences first: which sentences, and their pieces.

        A sentence without words is in none. `beside` are others that get to read them, too.
        """
        pieced = self.pieces.pieces([each.words for each in sentences], [each.pos for each in sentences])
        contexts = self.contexts(pieced, sentences)
        costs = [max(ner.cost(each) for ner in (self, *beside)) for each in pieced]
        order = sorted((i for i, each in enumerate(pieced) if len(each)), key=lambda i: -costs[i])
        for batch in cut(costs, order, self.batch_words):
            rows = self.pieces.batch([pieced[i] for i in batch], [contexts[i] for i in batch] if contexts else None)
            yield batch, rows.to(self.model.device)

    def contexts(self, pieced: Sequence[Pieced], sentences: Sequence[Sentence]) -> list[Context] | None:
        if not self.pieces.options.context:
            return None
        return self.pieces.neighbours(pieced, [sentence.document for sentence in sentences])

    def cost(self, pieced: Pieced) -> float:
        """The work of a sentence: the language model's, by pieces, and the head's, by words."""
        return pieced.work + self.model.scheme.cost(len(pieced))


def _finished(waiting: deque[tuple[Document, list[Sentence]]], found: deque[list[Mention]]) -> Iterator[Document]:
    """Documents all of whose sentences are done; they leave the queue."""
    while waiting and len(waiting[0][1]) <= len(found):
        document, sentences = waiting.popleft()
        entities: list[Entity] = []
        for sentence in sentences:
            entities.extend(align.entities(sentence, found.popleft()))
        yield replace(document, entities=tuple(entities))


def autocast(device: torch.device, precision: str) -> AbstractContextManager[object]:
    """bf16 where it is asked for; weights stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16" else nullcontext()


def scheme_with(model: SpanloomModel, options: Mapping[str, Any]) -> Scheme:
    """A model's scheme with other options of decoding; `SpanloomModel.use` puts it to work."""
    family = family_of(model.config.head)
    kept = make("head", family.options, model.config.head_options)
    scheme: Scheme = family.scheme(decode_options(kept, options), model.config.types, None)
    return scheme


def load(
    folder: str | Path,
    decode: str | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    threshold: float = 0.0,
    precision: str = "auto",
    batch_words: int = BATCH_WORDS,
    device: str | None = None,
) -> Recogniser:
    """A trained model from its folder.

    `decode` names the head to decode with, where the folder holds two that were trained together; else it is its own.
    `options` changes those of the head that take effect at decoding, such as {"legal": True}.
    """
    check_prediction(precision, batch_words, threshold)
    folder = output_folder(Path(folder), decode)
    model, tokenizer = load_model(folder)
    if options:
        model.use(scheme_with(model, options))
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    segmenter = Segmenter.from_dict(model.config.segmenter)
    model.to(place)  # type: ignore[arg-type]
    try:
        limit = position_limit(model.encoder.language_model, tokenizer)
        pieces = Pieces(tokenizer, model.encoder.options, limit, model.encoder.vocabularies)
        ner = Recogniser(model, pieces, segmenter, precision, batch_words, threshold)
        next(ner.sentences([TRIAL]))
    except Exception as error:  # whatever a config that fits its weights may still have wrong
        said = shorten(str(error) or type(error).__name__, 200)
        raise InputError(f"holds a model that does not run: {said}", folder) from None
    ner.lost = Tally()
    return ner
