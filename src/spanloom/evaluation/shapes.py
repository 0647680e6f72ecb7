"""The shape of a mention among its own side's: discontinuous, overlapping, nested or flat."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Literal, get_args

from spanloom.document import Mention, Span, runs

Shape = Literal["flat", "nested", "overlapping", "discontinuous"]

SHAPES: tuple[Shape, ...] = get_args(Shape)


def shapes_of(mentions: Collection[Mention]) -> dict[Mention, Shape]:
    """The shape of each distinct mention of one sentence, the first that holds:

    - discontinuous: its own words leave a gap;
    - overlapping: it shares words with another mention, and neither lies inside the other;
    - nested: it lies inside or around another mention (the same words under another type included);
    - flat: it shares no word with any other.

    Gold is meant to be shaped among gold and predictions among predictions. The work grows with
    n log n however much the mentions share, so a sentence may as well be a document of thousands,
    and positions may be of any size.
    """
    fragments = {mention: tuple(runs(mention.words)) for mention in mentions}
    continuous = {mention: spans[0] for mention, spans in fragments.items() if len(spans) == 1}
    touching = _touching(span for spans in fragments.values() for span in spans)
    asked = touching.intersection(continuous.values())
    overlapping = _cut_at_the_start(asked, fragments.values())
    # Seen in a mirror, an end is a start.
    mirrored = [tuple(map(_mirror, reversed(spans))) for spans in fragments.values()]
    overlapping.update(map(_mirror, _cut_at_the_start(map(_mirror, asked), mirrored)))

    def shape(mention: Mention) -> Shape:
        if mention not in continuous:
            return "discontinuous"
        span = continuous[mention]
        # Two that share words and do not overlap can only lie one inside the other.
        return "overlapping" if span in overlapping else "nested" if span in touching else "flat"

    return {mention: shape(mention) for mention in fragments}


def _touching(spans: Iterable[Span]) -> set[Span]:
    """The spans that share words with another one, be it their equal."""
    touching: set[Span] = set()
    furthest: Span | None = None
    for span in sorted(spans):
        if furthest and span[0] < furthest[1]:
            touching.update((span, furthest))
        if furthest is None or span[1] > furthest[1]:
            furthest = span
    return touching


def _cut_at_the_start(spans: Iterable[Span], mentions: Iterable[tuple[Span, ...]]) -> set[Span]:
    """The spans that share words with a mention that also has words before them, and do not lie inside it.

    Past its first word a mention is a chain of stretches, runs and gaps in turn. Say the span's
    start falls into a stretch. If the span reaches beyond that stretch, then it holds both words
    of the mention and words that are not. If not, it lies inside a run, or it lies in a gap and
    shares nothing. So all we ask is the nearest end among the stretches around the span's start.
    """
    stretches = sorted(stretch for fragments in mentions for stretch in _stretches(fragments))
    cut = set()
    ends: list[int] = []
    at = 0
    for start, end in sorted(spans):
        while at < len(stretches) and stretches[at][0] <= start:
            heappush(ends, stretches[at][1])
            at += 1
        while ends and ends[0] <= start:
            heappop(ends)
        if ends and ends[0] < end:
            cut.add((start, end))
    return cut


def _stretches(fragments: tuple[Span, ...]) -> Iterator[Span]:
    """Runs and gaps of one mention, its first word left out: ((2, 4), (5, 6)) gives (3, 4), (4, 5), (5, 6)."""
    at = fragments[0][0] + 1
    for start, end in fragments:
        if at < start:
            yield at, start
        yield max(at, start), end
        at = end


def _mirror(span: Span) -> Span:
    return -span[1], -span[0]
