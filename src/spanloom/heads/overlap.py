"""Which spans may stand beside each other: none that share words, none that cross, or all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from spanloom.errors import InputError
from spanloom.evaluation.shapes import Shape

Overlap = Literal["auto", "flat", "no-crossing", "nested"]
Integers = NDArray[np.int64]

SHAPES: dict[Overlap, frozenset[Shape]] = {
    "flat": frozenset({"flat"}),
    "no-crossing": frozenset({"flat", "nested"}),
    "nested": frozenset({"flat", "nested", "overlapping"}),
}
"""Each allows what the one before it allows, and more."""

OVERLAP_HELP = (
    "which mentions may share words: none (flat), those inside others (no-crossing), all (nested); auto: as in training"
)


def check_overlap(overlap: Overlap) -> None:
    if overlap not in get_args(Overlap):
        raise InputError(f"head.overlap: {overlap!r} is not one of {', '.join(get_args(Overlap))}")


def needed(spans: Iterable[tuple[int, int]], so_far: Overlap = "flat") -> Overlap:
    """The least that allows these spans (start, end) of one sentence, and what was needed so far."""
    found = set(spans)
    shared = [(one, two) for one in found for two in found if one[0] < two[1] and two[0] < one[1] and one < two]
    if any(one[0] < two[0] < one[1] < two[1] for one, two in shared):
        return "nested"
    return "no-crossing" if shared and so_far == "flat" else so_far


def keep(sentence: Integers, start: Integers, length: Integers, overlap: Overlap) -> NDArray[np.bool_]:
    """Which spans are kept of those that come in order of preference, sentence by sentence."""
    kept = np.ones(len(sentence), bool)
    if overlap == "nested":
        return kept
    beside: list[tuple[int, int]] = []
    now = -1
    for n, (at, first, size) in enumerate(zip(sentence.tolist(), start.tolist(), length.tolist(), strict=True)):
        if at != now:
            beside, now = [], at
        end = first + size
        for one, other in beside:
            apart = end <= one or other <= first
            inside = (one <= first and end <= other) or (first <= one and other <= end)
            if not (apart or (inside and overlap == "no-crossing")):
                kept[n] = False
                break
        else:
            beside.append((first, end))
    return kept
