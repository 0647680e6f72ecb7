"""Entities out of a grid of relations: every path of next words from a first word to a last one.

There can be exponentially many. What a trained model finds is far below the bounds here; where a grid goes beyond them
the rest is left out, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from spanloom.errors import Tally

MOST_PATHS = 100
"""Mentions with the same first and last word."""
MOST_MENTIONS = 1000
"""Mentions of several words in a sentence."""
TRUNCATED = "sentences with more paths through the grid than are followed"

Next = dict[int, list[tuple[int, float]]]
"""The words that come next after a word, ascending, each with its probability."""
Ends = list[tuple[int, int, int, float]]
"""(first word, last word, label, probability), the first word before the last."""


def paths(edges: Next, ends: Ends, lost: Tally) -> Iterator[tuple[tuple[int, ...], int, float]]:
    """The words of each path, its label, and the least probability in it; in the order of the words.

    A word is stepped on only if the last word can be reached from it, so that no step is in vain: a path takes no
    more steps than it has words.
    """
    reach = _reach(edges, {last for _, last, _, _ in ends})
    left, truncated = MOST_MENTIONS, False
    for first, last, label, probability in sorted(ends):
        for found, (words, least) in enumerate(_walk(edges, reach, first, last)):
            if found == MOST_PATHS or left == 0:
                truncated = True
                break
            left -= 1
            yield words, label, min(least, probability)
    if truncated:
        lost.add(TRUNCATED)


def _reach(edges: Next, lasts: set[int]) -> dict[int, int]:
    """For each word the last words that paths lead to from it, itself among them; bit w stands for word w."""
    reach = {last: 1 << last for last in lasts}
    for word in sorted(edges, reverse=True):  # paths lead to the right, so what comes later is known
        for following, _ in edges[word]:
            reach[word] = reach.get(word, 0) | reach.get(following, 0)
    return reach


def _walk(edges: Next, reach: dict[int, int], first: int, last: int) -> Iterator[tuple[tuple[int, ...], float]]:
    """All paths from one word to another in the order of their words, depth first, one path in memory."""
    goal = 1 << last
    if not reach.get(first, 0) & goal:
        return
    path, least = [first], [1.0]
    branches = [iter(edges.get(first, ()))]
    while branches:
        step = next(branches[-1], None)
        if step is None or step[0] > last:
            branches.pop()
            path.pop()
            least.pop()
            continue
        word, probability = step
        if word == last:
            yield (*path, word), min(least[-1], probability)
        elif reach.get(word, 0) & goal:
            path.append(word)
            least.append(min(least[-1], probability))
            branches.append(iter(edges[word]))
