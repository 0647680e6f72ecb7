"""JSON lines of text with fragments, one document a line; what `spanloom predict` writes:

    {"id": "a7", "text": "Pain in the left knee and hip.",
     "entities": [{"type": "Finding", "text": "Pain in the left hip", "fragments": [[0, 16], [26, 29]]}]}

`fragments` are half-open ranges of characters (not bytes) of `text`. A document that came as words
also has its `tokens`, the number of words of each of its `sentences` where there are several, its
`pos` tags, and each entity its `indices` in `tokens`. An entity's own `text` may be missing; where
it stands, it is compared with what its fragments cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import IO, Any

from spanloom.document import Document, Entity, Span
from spanloom.errors import InputError, Tally, shorten
from spanloom.formats.records import (
    encode,
    known_keys,
    list_of,
    name_of,
    records,
    score_of,
    text_of,
    type_of,
    words_of,
)

KEYS = frozenset({"id", "text", "entities", "tokens", "sentences", "offsets", "pos"})
ENTITY_KEYS = frozenset({"type", "text", "fragments", "indices", "score"})
MERGED = "entities whose fragments overlap, merged"


def read(path: Path, tally: Tally) -> Iterator[Document]:
    for number, (line, record) in enumerate(records(path), 1):
        known_keys(record, KEYS, tally)
        if "text" not in record:
            raise InputError('"text" is missing; a line of text with fragments holds "text"', path, line)
        text = text_of(record["text"], '"text"', path, line)
        entities = [_entity(entity, text, tally, path, line) for entity in list_of(record, "entities", path, line)]
        id = name_of(record["id"], '"id"', path, line) if record.get("id") is not None else str(number)
        words, pos = _words(record, text, path, line)
        if words is not None:
            _check_indices(record["entities"] if entities else [], entities, words, path, line)
        yield Document(id, text, tuple(entities), words, pos)


def _entity(value: object, text: str, tally: Tally, path: Path, line: int) -> Entity:
    entity, type = type_of(value, path, line)
    known_keys(entity, ENTITY_KEYS, tally)
    found = list_of(entity, "fragments", path, line)
    if not found:
        hint = "; --from words reads it by its indices" if "indices" in entity else ""
        raise InputError(f'an entity of type {type!r} has no "fragments"{hint}', path, line)
    spans = []
    for fragment in found:
        if not (isinstance(fragment, list) and len(fragment) == 2 and all(edge.__class__ is int for edge in fragment)):
            raise InputError(f"a fragment must be [start, end] in characters, not {encode(fragment)}", path, line)
        if not 0 <= fragment[0] < fragment[1] <= len(text):
            where = f"the text has {len(text)} characters, and start must be below end"
            raise InputError(f"fragment {fragment} of type {type!r} is not in the text: {where}", path, line)
        spans.append((fragment[0], fragment[1]))
    made = Entity(type, ordered(spans, tally), score_of(entity, path, line))
    if "text" in entity:
        check_text(made, text_of(entity["text"], '"text" of an entity', path, line), text, path, line)
    return made


def ordered(spans: list[Span], tally: Tally) -> tuple[Span, ...]:
    """Fragments in ascending order; those that share characters become one, and are counted."""
    spans.sort()
    if any(left[1] > right[0] for left, right in pairwise(spans)):
        tally.add(MERGED)
        merged = [spans[0]]
        for start, end in spans[1:]:
            if start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        spans = merged
    return tuple(spans)


def check_text(entity: Entity, claimed: str, text: str, path: Path, line: int) -> None:
    """Offsets that count bytes or belong to another text show at once in the words they cover."""
    covered = entity.covered(text)
    if claimed != covered and "".join(claimed.split()) != "".join(covered.split()):
        raise InputError(
            f"the entity says {shorten(claimed)!r}, but its offsets cover {shorten(covered)!r}; "
            "offsets count characters from 0, and the text must be the one that was annotated",
            path,
            line,
        )


def _check_indices(given: list[Any], entities: list[Entity], words: Words, path: Path, line: int) -> None:
    """Indices say again what fragments say; where they say something else, one of the two is wrong."""
    starts, ends = _word_edges(list(chain.from_iterable(words)))
    for record, entity in zip(given, entities, strict=True):
        said = record.get("indices")
        if said is not None and said != _indices(entity, starts, ends):
            raise InputError(
                f'"indices" {encode(said)} and "fragments" {encode(entity.fragments)} disagree', path, line
            )


Words = tuple[tuple[Span, ...], ...]
Tags = tuple[tuple[str, ...] | None, ...]


def _words(record: dict[str, Any], text: str, path: Path, line: int) -> tuple[Words | None, Tags | None]:
    """The words and tags of a document that came as words, sentence by sentence."""
    if record.get("tokens") is None:
        return None, None
    tokens = words_of(record, path, line)
    spans = _given(record, tokens, text, path, line) if "offsets" in record else locate(tokens, text)
    if len(spans) < len(tokens):
        missing = tokens[len(spans)]
        raise InputError(f'word {len(spans)} of "tokens" ({missing!r}) does not come next in "text"', path, line)
    sizes = list_of(record, "sentences", path, line) if "sentences" in record else [len(tokens)]
    if any(size.__class__ is not int or size < 0 for size in sizes) or sum(sizes) != len(tokens):
        raise InputError(f'"sentences" must be numbers of words that add up to {len(tokens)}', path, line)
    borders = list(pairwise(accumulate(sizes, initial=0)))
    words = tuple(tuple(spans[start:end]) for start, end in borders)
    if record.get("pos") is None:
        return words, None
    tags = list_of(record, "pos", path, line)
    if len(tags) != len(tokens):
        raise InputError(f'"pos" has {len(tags)} tags for {len(tokens)} words; give one a word', path, line)
    kept = [None if tag is None else text_of(tag, 'a tag of "pos"', path, line) for tag in tags]
    return words, tuple(_sentence_tags(kept[start:end], path, line) for start, end in borders)


def _sentence_tags(tags: list[str | None], path: Path, line: int) -> tuple[str, ...] | None:
    given = tuple(tag for tag in tags if tag is not None)
    if given and len(given) < len(tags):
        raise InputError('"pos" has null for some words of a sentence and tags for others', path, line)
    return given or None


def locate(tokens: list[str], text: str) -> list[Span]:
    """Where words stand that follow each other in a text with blanks at most between; stops at one that does not."""
    spans = []
    at = 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0 or (start > at and not text[at:start].isspace()):
            break
        at = start + len(token)
        spans.append((start, at))
    return spans


def _given(record: dict[str, Any], tokens: list[str], text: str, path: Path, line: int) -> list[Span]:
    """Word offsets that a writer spelt out because blanks alone do not lead to them."""
    offsets = list_of(record, "offsets", path, line)
    if len(offsets) != len(tokens):
        raise InputError(f'"offsets" has {len(offsets)} ranges for {len(tokens)} words', path, line)
    spans: list[Span] = []
    at = 0
    for token, offset in zip(tokens, offsets, strict=True):
        right = isinstance(offset, list) and len(offset) == 2 and all(edge.__class__ is int for edge in offset)
        if not right or not at <= offset[0] < offset[1] <= len(text) or text[offset[0] : offset[1]] != token:
            raise InputError(f'"offsets" {encode(offset)} do not give the word {token!r}, or do not ascend', path, line)
        at = offset[1]
        spans.append((offset[0], offset[1]))
    return spans


def write(documents: Iterable[Document], file: IO[str], tally: Tally) -> None:
    for document in documents:
        file.write(encode(record(document)) + "\n")


def record(document: Document) -> dict[str, Any]:
    """A document as the object of one line."""
    text = document.text
    made: dict[str, Any] = {"id": document.id, "text": text}
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    if document.words is not None:
        spans = list(chain.from_iterable(document.words))
        tokens = [text[start:end] for start, end in spans]
        made["tokens"] = tokens
        if len(document.words) != 1:
            made["sentences"] = [len(sentence) for sentence in document.words]
        if locate(tokens, text) != spans:
            made["offsets"] = spans
        if document.pos is not None:
            made["pos"] = list(
                chain.from_iterable(
                    tags if tags is not None else [None] * len(words)
                    for tags, words in zip(document.pos, document.words, strict=True)
                )
            )
        starts, ends = _word_edges(spans)
    made["entities"] = [_entity_record(entity, text, starts, ends) for entity in document.entities]
    return made


def _word_edges(spans: list[Span]) -> tuple[dict[int, int], dict[int, int]]:
    """The word that starts, and the word that ends, at each offset."""
    return {start: word for word, (start, _) in enumerate(spans)}, {end: word for word, (_, end) in enumerate(spans)}


def _indices(entity: Entity, starts: dict[int, int], ends: dict[int, int]) -> list[int] | None:
    """The words that an entity covers exactly; None where it is off their borders."""
    if not all(start in starts and end in ends for start, end in entity.fragments):
        return None
    return [i for start, end in entity.fragments for i in range(starts[start], ends[end] + 1)]


def _entity_record(entity: Entity, text: str, starts: dict[int, int], ends: dict[int, int]) -> dict[str, Any]:
    made: dict[str, Any] = {"type": entity.type, "text": entity.text, "fragments": entity.fragments}
    indices = _indices(entity, starts, ends)
    if indices is not None:
        made["indices"] = indices
    if entity.score is not None:
        made["score"] = entity.score
    return made
