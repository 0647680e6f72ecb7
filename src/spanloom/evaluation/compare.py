"""One file scored against another, whatever the formats, as long as both hold the same text.

How the text is cut into documents, sentences or words may differ, and so may blanks. What the two
sides share is the order of the characters that are not blank: an entity becomes a mention of their
ranks, counted from the start of the file. Where annotations fall on word borders, sameness and
shape come out as they do on words.

A fragment that ends with a blank equals the one that does not, and two fragments with nothing but
blanks between them equal one. An entity of nothing but blanks stands between two characters, where
only its like can match it: it stays in the denominators and touches nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

from spanloom.document import Document, Mention
from spanloom.errors import InputError, shorten
from spanloom.evaluation.metric import Result, Scorer

_BLANK = re.compile(r"\s")
_ADVICE = "evaluate files made from the same text"


def compare(
    gold: Iterable[Document],
    predicted: Iterable[Document],
    gold_name: str,
    predicted_name: str,
    scorer: Scorer | None = None,
) -> Result:
    """Score the predicted documents' entities against gold's; the names are for messages.

    Both sides are read once, side by side, and each is held only until the other has caught up.
    `Result.sentences` counts gold's sentences where gold came as words, its documents otherwise.
    A `scorer` of the caller's own can keep the counts of every stretch of text that was compared.
    Raises `InputError` where the texts differ.
    """
    scorer = Scorer() if scorer is None else scorer
    left, right = _Side(gold, gold_name), _Side(predicted, predicted_name)
    while _read_both(left, right):
        _match(left, right)
        while left.ahead or right.ahead:
            behind, other = (right, left) if left.ahead else (left, right)
            if not behind.read():
                raise InputError(f"{behind.name} ends within document {other.id!r} of {other.name}; {_ADVICE}")
            _match(left, right)
        scorer.add(left.mentions, right.mentions, left.sentences)
        left.clear()
        right.clear()
    # Documents without a visible character may follow the last that has some.
    scorer.add(left.mentions, right.mentions, left.sentences)
    return scorer.result()


class _Side:
    """One of the two streams: its latest document, and what it has annotated since both were last even."""

    def __init__(self, documents: Iterable[Document], name: str) -> None:
        self.name = name
        self.id = ""
        self.text = ""
        self.visible = ""  # the text without its blanks
        self.matched = 0  # how many of these characters the other side holds, too
        self.mentions: list[Mention] = []
        self.sentences = 0
        self._documents = iter(documents)
        self._rank = 0

    @property
    def ahead(self) -> int:
        """How many visible characters the other side has yet to read."""
        return len(self.visible) - self.matched

    def read(self) -> bool:
        """Take in documents up to the next that has visible text; False if there is none."""
        for document in self._documents:
            self.id, self.text, self.matched = document.id, document.text, 0
            self.visible = "".join(document.text.split())
            self.mentions.extend(mentions_by_rank(document, self._rank))
            self.sentences += 1 if document.words is None else len(document.words)
            self._rank += len(self.visible)
            if self.visible:
                return True
        return False

    def clear(self) -> None:
        self.mentions.clear()
        self.sentences = 0

    def around(self, rank: int) -> str:
        """The text near the visible character of that rank in the latest document."""
        at = [place for place, character in enumerate(self.text) if not character.isspace()][rank]
        return shorten(self.text[max(0, at - 20) : at + 20])


def mentions_by_rank(document: Document, first: int = 0) -> list[Mention]:
    """The document's entities as mentions of visible characters; its first visible character has rank `first`."""
    blanks = [blank.start() for blank in _BLANK.finditer(document.text)]

    def rank(offset: int) -> int:
        return first + offset - bisect_left(blanks, offset)

    mentions = []
    for entity in document.entities:
        ranks = tuple(at for start, end in entity.fragments for at in range(rank(start), rank(end)))
        # Positions below zero are the places between characters, which no visible entity can hold.
        mentions.append(Mention(entity.type, ranks or (-1 - rank(entity.start),)))
    return mentions


def _read_both(left: _Side, right: _Side) -> bool:
    """Read on where both sides are even; False at the end of both."""
    more_left, more_right = left.read(), right.read()
    if more_left != more_right:
        short, long = (right, left) if more_left else (left, right)
        raise InputError(f"{short.name} ends early: document {long.id!r} of {long.name} has no partner; {_ADVICE}")
    return more_left


def _match(left: _Side, right: _Side) -> None:
    """Move both sides on by the text they share, or name the first place where they differ."""
    step = min(left.ahead, right.ahead)
    ours = left.visible[left.matched : left.matched + step]
    theirs = right.visible[right.matched : right.matched + step]
    if ours != theirs:
        same = next(place for place, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
        partner = "" if left.id == right.id else f" (document {right.id!r} of {right.name})"
        seen_left, seen_right = left.around(left.matched + same), right.around(right.matched + same)
        raise InputError(
            f"{left.name} and {right.name} differ in document {left.id!r}{partner}: "
            f"gold has {seen_left!r}, predicted has {seen_right!r}; {_ADVICE}"
        )
    left.matched += step
    right.matched += step
