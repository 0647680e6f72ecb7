"""The one exception for input that people can mend, and the one place where losses are counted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path


class InputError(Exception):
    """Wrong input or a wrong command line: one clear line, exit code 2, no traceback."""

    def __init__(self, message: str, file: str | Path | None = None, line: int | None = None) -> None:
        self.message, self.file, self.line = message, file, line
        where = "" if file is None else f"{file}: " if line is None else f"{file}:{line}: "
        super().__init__(where + message)


class WorkFailed(Exception):  # noqa: N818 - named for what happened
    """The work itself failed, though the input was right: one line, exit code 1."""


MOST_REASONS = 12
"""More lines than that nobody reads."""


class Tally:
    """Counts what is lost or changed on the way, by reason, with the text of the first few cases."""

    def __init__(self, examples: int = 3) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        self._keep = examples

    def add(self, reason: str, example: str | None = None, count: int = 1) -> None:
        self.counts[reason] += count
        if example is not None:
            kept = self.examples.setdefault(reason, [])
            if len(kept) < self._keep:
                kept.append(example)

    def update(self, other: Tally) -> None:
        for reason, count in other.counts.items():
            self.counts[reason] += count
            kept = self.examples.setdefault(reason, [])
            kept.extend(other.examples.get(reason, [])[: self._keep - len(kept)])

    def total(self) -> int:
        return self.counts.total()

    def lines(self) -> list[str]:
        """One line a reason, the most frequent first: `12 nested: "left knee pain" ...`."""
        lines = []
        for reason, count in self.counts.most_common(MOST_REASONS):
            shown = "; ".join(shorten(example) for example in self.examples.get(reason, []))
            more = " ..." if shown and count > len(self.examples[reason]) else ""
            lines.append(f"{count:,} {reason}" + (f": {shown}{more}" if shown else ""))
        if len(self.counts) > MOST_REASONS:
            lines.append(f"{several(len(self.counts) - MOST_REASONS, 'further reason')}")
        return lines


def several(count: int, noun: str) -> str:
    """`1 sentence`, `1,200 sentences`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def shorten(text: str, width: int = 60) -> str:
    """One line of at most `width` characters, the middle left out."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    half = (width - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"
