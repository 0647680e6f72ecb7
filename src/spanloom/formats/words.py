"""JSON lines of words, one sentence a line:

    {"doc": "a7", "tokens": ["Left", "knee", "pain", "."], "pos": ["JJ", "NN", "NN", "."],
     "entities": [{"type": "Finding", "indices": [0, 1, 2]}]}

`indices` are positions of words in ascending order, counted from 0; a gap makes the entity
discontinuous. `doc`, `pos`, `entities` and an entity's `score` may be missing. Neighbouring lines
with the same `doc` are one document; a line without is a document of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from spanloom.align import WordSentence, from_words, sentences
from spanloom.document import Document, Mention, Sentence
from spanloom.errors import InputError, Tally
from spanloom.formats.records import (
    encode,
    kind,
    known_keys,
    list_of,
    name_of,
    records,
    score_of,
    text_of,
    type_of,
    words_of,
)

KEYS = frozenset({"doc", "tokens", "pos", "entities"})
ENTITY_KEYS = frozenset({"type", "indices", "score"})


def read(path: Path, tally: Tally) -> Iterator[Document]:
    for number, ((doc, _), lines) in enumerate(groupby(_lines(path, tally), key=lambda line: line[0]), 1):
        yield from_words(doc if doc is not None else str(number), [sentence for _, sentence in lines])


def _lines(path: Path, tally: Tally) -> Iterator[tuple[tuple[str | None, int], WordSentence]]:
    """Each line as a sentence, keyed by its document: a line without a name has a key of its own."""
    for line, record in records(path):
        known_keys(record, KEYS, tally)
        if "tokens" not in record:
            found = ", ".join(f'"{key}"' for key in list(record)[:5]) or "nothing"
            raise InputError(f'"tokens" is missing (found {found}); a line of words holds "tokens"', path, line)
        words = words_of(record, path, line)
        entities = list_of(record, "entities", path, line)
        mentions = [_mention(entity, len(words), tally, path, line) for entity in entities]
        doc = record.get("doc")
        key = (None, line) if doc is None else (name_of(doc, '"doc"', path, line), 0)
        yield key, WordSentence(words, mentions, _tags(record, len(words), path, line))


def _mention(value: object, n: int, tally: Tally, path: Path, line: int) -> Mention:
    entity, type = type_of(value, path, line)
    known_keys(entity, ENTITY_KEYS, tally)
    indices = list_of(entity, "indices", path, line)
    if not indices:
        raise InputError(f'an entity of type {type!r} has no "indices"', path, line)
    previous = -1
    for index in indices:
        if index.__class__ is not int:
            raise InputError(f'"indices" must hold whole numbers, not {kind(index)}: {encode(index)}', path, line)
        if not 0 <= index < n:
            valid = f"the sentence has {n} word{'s' * (n != 1)}, counted from 0"
            raise InputError(f'"indices" {indices} of type {type!r} leave the sentence: {valid}', path, line)
        if index <= previous:
            raise InputError(f'"indices" {indices} of type {type!r} must ascend, each position once', path, line)
        previous = index
    return Mention(type, tuple(indices), score_of(entity, path, line))


def _tags(record: dict[str, Any], n: int, path: Path, line: int) -> list[str] | None:
    if record.get("pos") is None:
        return None
    tags = list_of(record, "pos", path, line)
    if len(tags) != n:
        raise InputError(f'"pos" has {len(tags)} tags for {n} words; give one a word', path, line)
    return [text_of(tag, 'a tag of "pos"', path, line) for tag in tags]


def write(documents: Iterable[Document], file: IO[str], tally: Tally) -> None:
    before: str | None = None
    for number, document in enumerate(documents, 1):
        found = sentences(document, tally)
        # a document of no sentence still keeps its place
        named = len(found) > 1 or document.id != str(number)
        if named and document.id == before:
            tally.add("documents of the same name as the one before, read back as one with it", document.id)
        before = document.id if named else None
        for sentence in found or [Sentence((), ())]:
            file.write(encode(_record(sentence, document.id if named else None)) + "\n")


def _record(sentence: Sentence, doc: str | None) -> dict[str, Any]:
    record: dict[str, Any] = {} if doc is None else {"doc": doc}
    record["tokens"] = sentence.words
    if sentence.pos is not None:
        record["pos"] = sentence.pos
    record["entities"] = [
        {"type": mention.type, "indices": mention.words} | ({} if mention.score is None else {"score": mention.score})
        for mention in sentence.mentions
    ]
    return record
