"""What looking names up achieves: the figure that shows whether a corpus asks for more than memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from spanloom.align import sentences
from spanloom.document import Document, Mention, Sentence
from spanloom.errors import Tally

Words = tuple[str, ...]


def longest_match_f1(train: Iterable[Document], test: Iterable[Document]) -> float:
    """Strict micro F1, in percent, of marking the longest entity texts of train from left to right."""
    names = _names(train)
    longest = max(map(len, names), default=0)
    gold = found = correct = 0
    for sentence in _sentences(test):
        wanted = set(sentence.mentions)
        marked = set(_matches([word.lower() for word in sentence.words], names, longest))
        gold, found, correct = gold + len(wanted), found + len(marked), correct + len(wanted & marked)
    return 200 * correct / (gold + found) if gold + found else 0.0


def _names(documents: Iterable[Document]) -> dict[Words, str]:
    """Each entity without a gap, lower-cased, with its most frequent type; the first in the alphabet in a tie."""
    types: dict[Words, Counter[str]] = {}
    for sentence in _sentences(documents):
        for mention in sentence.mentions:
            first, last = mention.words[0], mention.words[-1]
            if last - first + 1 == len(mention.words):
                name = tuple(word.lower() for word in sentence.words[first : last + 1])
                types.setdefault(name, Counter())[mention.type] += 1
    return {name: min(counts, key=lambda kind: (-counts[kind], kind)) for name, counts in types.items()}


def _matches(words: Sequence[str], names: Mapping[Words, str], longest: int) -> Iterator[Mention]:
    at = 0
    while at < len(words):
        for end in range(min(len(words), at + longest), at, -1):
            if (type := names.get(tuple(words[at:end]))) is not None:
                yield Mention(type, tuple(range(at, end)))
                at = end
                break
        else:
            at += 1


def _sentences(documents: Iterable[Document]) -> Iterator[Sentence]:
    for document in documents:
        yield from sentences(document, Tally())
