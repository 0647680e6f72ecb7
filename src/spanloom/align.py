"""The only bridge between characters and words, both ways.

`sentences` takes a document down to words: its entities become mentions, and what cannot cross is
counted by reason with its text, and stays in the document. `entities` takes mentions back up to
character fragments; `from_words` makes a document of what came as words. Nothing is ever moved to
the nearest border: an annotation crosses exactly, or it does not cross.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from spanloom.document import Document, Entity, Mention, Sentence, Span, runs
from spanloom.errors import Tally
from spanloom.segment import Segmenter

OFF_WORD = "entities off the word borders"
ACROSS = "entities across sentences"
EDGE_BLANK = "entities with blanks at their edges, taken without them"


class WordSentence(NamedTuple):
    """One sentence of a document that comes as words, before it has a text."""

    words: Sequence[str]
    mentions: Sequence[Mention] = ()
    pos: Sequence[str] | None = None


def from_words(id: str, sentences: Iterable[WordSentence]) -> Document:
    """A document from sentences of words: words joined by a blank, sentences by a line break."""
    texts: list[str] = []
    layout: list[tuple[Span, ...]] = []
    entities: list[Entity] = []
    tags: list[tuple[str, ...] | None] = []
    at = 0
    for words, mentions, pos in sentences:
        spans = []
        start = at
        for word in words:
            end = start + len(word)
            spans.append((start, end))
            start = end + 1
        text = " ".join(words)
        at += len(text) + 1
        texts.append(text)
        layout.append(tuple(spans))
        for mention in mentions:
            entities.append(Entity(mention.type, fragments(mention.words, spans), mention.score))
        tags.append(tuple(pos) if pos else None)
    tagged = any(tag is not None for tag in tags)
    return Document(id, "\n".join(texts), tuple(entities), tuple(layout), tuple(tags) if tagged else None)


def fragments(words: Sequence[int], spans: Sequence[Span]) -> tuple[Span, ...]:
    """Word positions to character fragments; neighbouring words share one, blanks included."""
    return tuple((spans[first][0], spans[last - 1][1]) for first, last in runs(words))


def sentences(document: Document, lost: Tally, segmenter: Segmenter | None = None) -> list[Sentence]:
    """A document as sentences of words with their mentions.

    The words are the document's own where it came as words, else the segmenter's. An entity that
    is off the word borders or crosses a sentence border is counted in `lost`.
    """
    text = document.text
    layout = document.words if document.words is not None else (segmenter or Segmenter()).segment(text)
    mentions: list[list[Mention]] = [[] for _ in layout]
    if document.entities:
        starts = {span[0]: (s, w) for s, spans in enumerate(layout) for w, span in enumerate(spans)}
        ends = {span[1]: (s, w) for s, spans in enumerate(layout) for w, span in enumerate(spans)}
        for entity in document.entities:
            placed = _place(entity, text, starts, ends, lost)
            if placed is not None:
                mentions[placed[0]].append(Mention(entity.type, placed[1], entity.score))
    pos = document.pos or [None] * len(layout)
    return [
        Sentence(tuple([text[start:end] for start, end in spans]), spans, tuple(found), tags, document.id)
        for spans, found, tags in zip(layout, mentions, pos, strict=True)
    ]


def _place(
    entity: Entity, text: str, starts: dict[int, tuple[int, int]], ends: dict[int, tuple[int, int]], lost: Tally
) -> tuple[int, tuple[int, ...]] | None:
    """The sentence and the words that an entity covers exactly, or None with the reason counted."""
    words: list[int] = []
    sentence = -1
    trimmed = False
    for start, end in entity.fragments:
        if start not in starts or end not in ends:
            inner = text[start:end]
            start, end = end - len(inner.lstrip()), start + len(inner.rstrip())
            trimmed = True
        first, last = starts.get(start), ends.get(end)
        if first is None or last is None or start >= end:
            lost.add(OFF_WORD, _in_context(entity, text))
            return None
        if first[0] != last[0] or sentence not in (-1, first[0]):
            lost.add(ACROSS, entity.text)
            return None
        sentence = first[0]
        words.extend(range(first[1], last[1] + 1))
    if trimmed:
        lost.add(EDGE_BLANK, entity.text)
    return sentence, tuple(words)


def _in_context(entity: Entity, text: str) -> str:
    """The entity in brackets inside the words that it cuts: `un[happy]`."""
    shown = []
    for start, end in entity.fragments:
        left = text[max(0, start - 20) : start].rsplit(None, 1)[-1:] if start and not text[start - 1].isspace() else []
        right = text[end : end + 20].split(None, 1)[:1] if end < len(text) and not text[end].isspace() else []
        shown.append("".join(left) + f"[{text[start:end]}]" + "".join(right))
    return " ".join(shown)


def entities(sentence: Sentence, mentions: Iterable[Mention]) -> list[Entity]:
    """Mentions of one sentence as entities in its document's text."""
    return [Entity(mention.type, fragments(mention.words, sentence.spans), mention.score) for mention in mentions]
